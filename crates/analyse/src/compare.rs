//! Cases against the baseline, paired by pass (method.md 3.4).

use msgpath_core::plan::{CaseRole, MIN_ROUNDS_FOR_CLAIMS, Plan, Workload};
use msgpath_core::{Case, PathName};

use crate::control;
use crate::crossover;
use crate::series::{Series, cell, log_ratios, same_cell};
use crate::stats::{deviation, joined, lag1, lag1_limit, mean, t_quantile};
use crate::summary::{Comparison, Ratio, Verdict, Winner};

/// Two-sided level of every test.
pub(crate) const LEVEL: f64 = 0.05;
/// The smallest margin of a verdict: a difference of 2 % is not worth a sentence.
pub const LEAST_MARGIN: f64 = 0.02;
/// Random sign flips where all of them would be too many.
const FLIPS: usize = 9_999;
/// Up to this many units all sign flips are tried.
const EXACT: usize = 14;
/// Autocorrelated pairs are judged in blocks of this many.
const BLOCK: usize = 4;

/// A paired comparison of log-ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Pairs.
    pub pairs: usize,
    /// Independent units they were judged as: the pairs, or blocks of four.
    pub units: usize,
    /// Mean of ln(case / baseline).
    pub mean: f64,
    /// Standard deviation of the units.
    pub deviation: f64,
    /// Half width of the 95 % t interval of the mean; `None` below 5 pairs or 2 units.
    pub half: Option<f64>,
    /// p-value of the sign-flip test; `None` where there is no interval.
    pub p: Option<f64>,
}

impl Paired {
    /// Half width of the t interval of two-sided level `level`.
    fn half_at(&self, level: f64) -> f64 {
        t_quantile(1.0 - level / 2.0, self.units as f64 - 1.0) * self.deviation / (self.units as f64).sqrt()
    }
}

/// Judges log-ratios in the order of their passes. Pairs that resemble their neighbours (r1 > 1.96/sqrt(B)) are
/// joined in blocks of four for the interval and the test alike; alternating ones are not, since that only widens.
/// `family`: how many tests are made together; it sets the number of random flips.
/// `None` without a pair.
pub fn paired(d: &[f64], family: usize, seed: u64) -> Option<Paired> {
    if d.is_empty() {
        return None;
    }
    let blocks = d.len() / BLOCK;
    let alike = blocks >= 2 && lag1(d) > lag1_limit(d.len());
    let units = if alike { joined(d, blocks) } else { d.to_vec() };
    let mut out = Paired {
        pairs: d.len(),
        units: units.len(),
        mean: mean(&units),
        deviation: deviation(&units),
        half: None,
        p: None,
    };
    if d.len() >= MIN_ROUNDS_FOR_CLAIMS as usize {
        out.half = Some(out.half_at(LEVEL));
        out.p = Some(sign_flip(&units, FLIPS.max(20 * family), seed));
    }
    Some(out)
}

/// p-value of the mean under random signs: all 2^B where that is at most 2^14, else `flips` random ones with
/// p = (1 + hits) / (1 + flips).
fn sign_flip(d: &[f64], flips: usize, seed: u64) -> f64 {
    let sizes: f64 = d.iter().map(|value| value.abs()).sum();
    let observed = d.iter().sum::<f64>().abs() - 1e-12 * sizes;
    // Eight values at a time: their sum for each of the 256 patterns of signs (a set bit is a plus).
    let tables: Vec<Vec<f64>> = d.chunks(8).map(signed_sums).collect();
    let extreme = |pattern: &mut dyn FnMut(usize) -> usize| {
        let sums = tables.iter().enumerate().map(|(at, table)| table[pattern(at) & (table.len() - 1)]);
        sums.sum::<f64>().abs() >= observed
    };
    if d.len() <= EXACT {
        let all = 1_usize << d.len();
        return (0..all).filter(|signs| extreme(&mut |at| signs >> (8 * at))).count() as f64 / all as f64;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let hits = (0..flips).filter(|_| extreme(&mut |_| random.usize(..))).count();
    (1 + hits) as f64 / (1 + flips) as f64
}

fn signed_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![-values.iter().sum::<f64>()];
    for value in values {
        for at in 0..sums.len() {
            sums.push(sums[at] + 2.0 * value);
        }
    }
    sums
}

/// Holm over a family: which of the p-values stand at 0.05. What was not tested does not count.
pub fn holm(p: &[Option<f64>]) -> Vec<bool> {
    let mut order: Vec<(f64, usize)> = p.iter().enumerate().filter_map(|(at, p)| Some(((*p)?, at))).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut stands = vec![false; p.len()];
    for (rank, (p, at)) in order.iter().enumerate() {
        if *p > LEVEL / (order.len() - rank) as f64 {
            break;
        }
        stands[*at] = true;
    }
    stands
}

/// What the interval says against the margin; better and worse must stand after Holm as well.
pub(crate) fn verdict(paired: &Paired, holm: bool, margin: f64, larger_is_better: bool) -> Verdict {
    let Some(half) = paired.half else { return Verdict::Undecided };
    let bound = (1.0 + margin).ln();
    let (low, high) = (paired.mean - half, paired.mean + half);
    if low >= -bound && high <= bound {
        Verdict::Equivalent
    } else if holm && (low > bound || high < -bound) {
        if (low > bound) == larger_is_better { Verdict::Better } else { Verdict::Worse }
    } else {
        Verdict::Undecided
    }
}

/// Rounds that would decide an undecided pair: ceil((t s / h)^2), h = distance of the mean to the nearest of
/// +-ln(1 + margin), not below what this machine resolves; and enough for the sign-flip test to pass Holm in a
/// family of `family`. `None`: the distance is below the resolution, more rounds do not decide it.
pub(crate) fn rounds_needed(paired: &Paired, margin: f64, resolution: Option<f64>, family: usize) -> Option<u64> {
    paired.half?;
    let bound = (1.0 + margin).ln();
    let distance = (paired.mean.abs() - bound).abs().max((1.0 + resolution.unwrap_or(0.0)).ln());
    if distance <= 0.0 {
        return None;
    }
    let rounds_per_unit = paired.pairs as f64 / paired.units as f64;
    let for_level = |level: f64, distance: f64| (paired.half_at(level) / distance).powi(2) * paired.units as f64;
    let mut units = for_level(LEVEL, distance);
    if paired.mean.abs() > bound {
        // It will have to stand after Holm: the first rank's level, and 2^(1 - units) below that level.
        let level = LEVEL / family.max(1) as f64;
        units = units.max(for_level(level, paired.mean.abs())).max(1.0 - level.log2());
    }
    let rounds = (units * rounds_per_unit).ceil() as u64;
    (rounds > paired.pairs as u64).then_some(rounds)
}

/// Everything about the paths of one plan against each other. `None` with a single path.
/// `series[i]` is the metric of `plan.cases[i]`.
pub fn compare(plan: &Plan, series: &[Series]) -> Option<Comparison> {
    let measured: Vec<&Case> = plan.cases.iter().filter(|case| case.role == CaseRole::Measured).collect();
    let paths: std::collections::BTreeSet<&PathName> = measured.iter().map(|case| &case.path).collect();
    if paths.len() < 2 {
        return None;
    }
    let larger_is_better = plan.workload == Workload::Stream;
    let control = control::control(plan, series);
    let margin = control.resolution.unwrap_or(0.0).max(LEAST_MARGIN);
    let pairs: Vec<(&Case, &Case)> = measured
        .iter()
        .filter(|case| case.path != plan.baseline)
        .filter_map(|case| {
            measured.iter().find(|base| base.path == plan.baseline && same_cell(case, base)).map(|base| (*case, *base))
        })
        .collect();
    let judged: Vec<(&Case, &Case, Paired)> = pairs
        .iter()
        .filter_map(|(case, base)| Some((*case, *base, judge(plan, series, case, base, pairs.len())?)))
        .collect();
    let stands = holm(&judged.iter().map(|(_, _, paired)| paired.p).collect::<Vec<_>>());
    let ratios: Vec<Ratio> = judged
        .iter()
        .zip(&stands)
        .map(|((case, base, paired), holm)| {
            let verdict = verdict(paired, *holm, margin, larger_is_better);
            Ratio {
                case: case.id,
                baseline: base.id,
                ratio: paired.mean.exp(),
                low: paired.half.map(|half| (paired.mean - half).exp()),
                high: paired.half.map(|half| (paired.mean + half).exp()),
                p: paired.p,
                holm: *holm,
                verdict,
                rounds_needed: (verdict == Verdict::Undecided)
                    .then(|| rounds_needed(paired, margin, control.resolution, judged.len()))
                    .flatten(),
            }
        })
        .collect();
    Some(Comparison {
        baseline: plan.baseline.clone(),
        metric: if larger_is_better { "throughput" } else { "p50" }.into(),
        winners: winners(plan, series, &measured, margin),
        crossovers: crossover::crossovers(plan, series, &ratios),
        ratios,
        resolution: control.resolution,
        control_failed: control.failed,
        margin,
    })
}

fn judge(plan: &Plan, series: &[Series], case: &Case, base: &Case, family: usize) -> Option<Paired> {
    let d = log_ratios(series.get(case.id as usize)?, series.get(base.id as usize)?);
    paired(&d.iter().map(|(_, d)| *d).collect::<Vec<_>>(), family, seed(plan, case, base))
}

/// A seed for one pair of cases.
pub(crate) fn seed(plan: &Plan, case: &Case, base: &Case) -> u64 {
    plan.seed ^ (u64::from(case.id) << 32 | u64::from(base.id)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The best path of every cell. It wins where it is better than every other path of the cell, after Holm over all
/// these tests of the run.
fn winners(plan: &Plan, series: &[Series], measured: &[&Case], margin: f64) -> Vec<Winner> {
    let larger_is_better = plan.workload == Workload::Stream;
    let level = |case: &Case| {
        let logs: Vec<f64> = series.get(case.id as usize)?.values().map(|value| value.ln()).collect();
        (!logs.is_empty()).then(|| if larger_is_better { -mean(&logs) } else { mean(&logs) })
    };
    let mut cells: Vec<_> = measured.iter().map(|case| cell(case)).collect();
    cells.sort_unstable();
    cells.dedup();
    // Per cell: the cases from best to worst, with their levels (log of the time; for rates its negative).
    let ranked: Vec<Vec<(f64, &Case)>> = cells
        .iter()
        .map(|of| {
            let own = measured.iter().filter(|case| cell(case) == *of);
            let mut own: Vec<(f64, &Case)> = own.filter_map(|case| Some((level(case)?, *case))).collect();
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            own
        })
        .filter(|own| own.len() > 1)
        .collect();
    let family: usize = ranked.iter().map(|own| own.len() - 1).sum();
    let tests: Vec<Option<Paired>> = ranked
        .iter()
        .flat_map(|own| own[1..].iter().map(|(_, other)| judge(plan, series, own[0].1, other, family)))
        .collect();
    let stands = holm(&tests.iter().map(|test| test.as_ref().and_then(|test| test.p)).collect::<Vec<_>>());
    let mut won = tests.iter().zip(&stands).map(|(test, holm)| {
        test.as_ref().is_some_and(|test| verdict(test, *holm, margin, larger_is_better) == Verdict::Better)
    });
    ranked
        .iter()
        .map(|own| {
            let best = own[0].1;
            let tests: Vec<bool> = won.by_ref().take(own.len() - 1).collect();
            let wins = tests.into_iter().all(|better| better);
            Winner {
                size: best.size,
                pieces: best.pieces.to_string(),
                threads: best.threads,
                path: wins.then(|| best.path.clone()),
                best: best.path.clone(),
                margin: Some((own[1].0 - own[0].0).exp()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;
    use proptest::prelude::*;

    fn noise(random: &mut fastrand::Rng, n: usize, center: f64, spread: f64) -> Vec<f64> {
        (0..n).map(|_| center + spread * normal(random)).collect()
    }

    #[test]
    fn exact_flips_are_those_of_the_definition() {
        // |1+2+3| is reached by 2 of 8 sign patterns.
        assert_eq!(sign_flip(&[1.0, 2.0, 3.0], 0, 0), 0.25);
        // Equal values with mixed signs: every pattern reaches |0|.
        assert_eq!(sign_flip(&[1.0, -1.0], 0, 0), 1.0);
        assert_eq!(sign_flip(&[0.1; 14], 0, 0), 2.0_f64.powi(-13));
    }

    #[test]
    fn random_flips_agree_with_exact_ones() {
        let d = noise(&mut fastrand::Rng::with_seed(3), 14, 0.02, 0.05);
        let exact = sign_flip(&d, 0, 0);
        let total: f64 = d.iter().sum();
        let mut random = fastrand::Rng::with_seed(4);
        let hits = (0..20_000)
            .filter(|_| {
                d.iter().map(|value| if random.bool() { *value } else { -value }).sum::<f64>().abs() >= total.abs()
            })
            .count();
        assert!((exact - hits as f64 / 20_000.0).abs() < 0.01);
    }

    #[test]
    fn holm_stops_at_the_first_that_fails() {
        assert_eq!(holm(&[Some(0.01), Some(0.04), Some(0.03), None]), [true, false, false, false]);
        assert_eq!(holm(&[Some(0.01), Some(0.025), Some(0.05)]), [true, true, true]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn verdicts_follow_the_interval_and_the_metric() {
        let at = |mean: f64, half: f64| Paired {
            pairs: 40,
            units: 40,
            mean,
            deviation: half * 3.0,
            half: Some(half),
            p: Some(1e-4),
        };
        assert_eq!(verdict(&at(0.05, 0.01), true, 0.02, false), Verdict::Worse);
        assert_eq!(verdict(&at(0.05, 0.01), true, 0.02, true), Verdict::Better);
        assert_eq!(verdict(&at(-0.05, 0.01), true, 0.02, false), Verdict::Better);
        assert_eq!(verdict(&at(-0.05, 0.01), false, 0.02, false), Verdict::Undecided);
        assert_eq!(verdict(&at(0.005, 0.01), true, 0.02, false), Verdict::Equivalent);
        assert_eq!(verdict(&at(0.02, 0.01), true, 0.02, false), Verdict::Undecided);
    }

    #[test]
    fn rounds_needed_are_those_of_the_method() {
        // method.md 3.4: margin 2 %, deviation 10 %, mean 0: about 110 rounds (h = ln 1.02).
        let mut d: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 0.1 } else { -0.1 }).collect();
        d.rotate_left(1);
        let paired = paired(&d, 1, 1).unwrap();
        let rounds = rounds_needed(&paired, 0.02, None, 1).unwrap();
        assert!((100..130).contains(&rounds), "{rounds}");
        // On the margin itself no number of rounds decides; the resolution of the machine bounds the search.
        let on_margin = Paired { mean: 1.02_f64.ln(), ..paired.clone() };
        assert_eq!(rounds_needed(&on_margin, 0.02, None, 1), None);
        assert!(rounds_needed(&on_margin, 0.02, Some(0.01), 1).unwrap() > 400);
    }

    #[test]
    fn fewer_than_five_pairs_decide_nothing() {
        let few = paired(&[0.5, 0.5, 0.5, 0.5], 1, 1).unwrap();
        assert_eq!((few.half, few.p), (None, None));
        assert_eq!(verdict(&few, true, 0.02, false), Verdict::Undecided);
        assert_eq!(paired(&[], 1, 1), None);
    }

    #[test]
    fn equal_cases_are_rarely_told_apart() {
        let alarms = (0..200).filter(|seed| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let d = noise(&mut random, 20, 0.0, 0.05);
            paired(&d, 1, *seed).unwrap().p.unwrap() <= LEVEL
        });
        let alarms = alarms.count();
        assert!(alarms <= 16, "{alarms} of 200");
    }

    #[test]
    fn a_true_difference_of_five_percent_is_found() {
        let found = (0..50).filter(|seed| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let paired = paired(&noise(&mut random, 40, 1.05_f64.ln(), 0.04), 1, *seed).unwrap();
            verdict(&paired, paired.p.unwrap() <= LEVEL, 0.02, false) == Verdict::Worse
        });
        let found = found.count();
        assert!(found >= 45, "{found} of 50");
    }

    #[test]
    fn pairs_that_drift_are_judged_in_blocks() {
        let drifting: Vec<f64> = (0..40).map(|at| (f64::from(at) / 6.0).sin() * 0.05).collect();
        assert_eq!(paired(&drifting, 1, 1).unwrap().units, 10);
        assert_eq!(paired(&noise(&mut fastrand::Rng::with_seed(1), 40, 0.0, 0.05), 1, 1).unwrap().units, 40);
    }

    proptest! {
        #[test]
        fn swapping_the_two_sides_mirrors_everything(d in prop::collection::vec(-0.2_f64..0.2, 5..15)) {
            let (a, b) = (paired(&d, 1, 1).unwrap(), paired(&d.iter().map(|d| -d).collect::<Vec<_>>(), 1, 1).unwrap());
            prop_assert!((a.mean + b.mean).abs() < 1e-12 && (a.half.unwrap() - b.half.unwrap()).abs() < 1e-12);
            prop_assert!((a.p.unwrap() - b.p.unwrap()).abs() < 1e-9);
            prop_assert_eq!(verdict(&a, true, 0.02, false), verdict(&b, true, 0.02, true));
        }

        #[test]
        fn holm_keeps_at_most_what_plain_testing_keeps(p in prop::collection::vec(0.0_f64..1.0, 0..30)) {
            let kept = holm(&p.iter().copied().map(Some).collect::<Vec<_>>());
            for (kept, p) in kept.iter().zip(&p) {
                prop_assert!(!kept || *p <= LEVEL);
            }
        }
    }
}
