//! The interval of a quantile of one case: the round-corrected order statistic of method.md 3.3.

use msgpath_core::SparseHistogram;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::units::{Glyphs, three_digits};

use crate::pooled::Pooled;
use crate::stats::{binomial_inverse, deviation, independent, mean, t_quantile};
use crate::summary::Quantile;

/// Where the dependence of queued messages is seen.
const QUEUED_LEVEL: f64 = 0.9;

/// A quantile with what its claim rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// The quantile as it is printed.
    pub quantile: Quantile,
    /// How many independent messages the messages are worth here; `None` below
    /// [`MIN_ROUNDS_FOR_CLAIMS`] rounds.
    pub effective: Option<f64>,
    /// How many a two-sided 95 % upper bound needs: ln 0.025 / ln p (step 4).
    pub needed: f64,
}

/// How many independent messages the p-quantile needs (method.md 3.3, step 4).
pub fn needed(p: f64) -> f64 {
    0.025_f64.ln() / p.ln()
}

/// Name of a quantile: `p50`, `p99.9`.
pub fn name(p: f64) -> String {
    let text = format!("{:.6}", p * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The p-quantile (0 < p < 1) of `rounds` and its 95 % interval. `pooled` is [`Pooled::new`] of the same rounds.
/// `None` without a message.
pub fn estimate(rounds: &[&SparseHistogram], pooled: &Pooled, p: f64) -> Option<Estimated> {
    of_level(rounds, pooled, p, None)
}

/// [`estimate`] for messages that queue behind each other, so that a tail is made of few episodes. Where chance made
/// them alike the rounds look independent, and just those runs would print a p99, which is then too low: of intervals
/// of p99 over M/M/1 at utilisation 0.8 (20 rounds of 1,000) 85 % held the truth, of those that were claimed. An episode
/// that is slow at p99 is slow at `QUEUED_LEVEL` as well, where ten times as many messages tell how dependent they are:
/// beyond that level they are worth no more than at it. Then it is 96 %.
pub fn estimate_queued(rounds: &[&SparseHistogram], pooled: &Pooled, p: f64) -> Option<Estimated> {
    of_level(rounds, pooled, p, (p > QUEUED_LEVEL).then_some(QUEUED_LEVEL))
}

fn of_level(rounds: &[&SparseHistogram], pooled: &Pooled, p: f64, worth_at: Option<f64>) -> Option<Estimated> {
    let value = pooled.quantile(p)?;
    let filled: Vec<_> = rounds.iter().copied().filter(|round| round.total() > 0).collect();
    // Messages up to the quantile, round by round. A lost quantile has all that arrived below it.
    let within: Vec<u64> = filled.iter().map(|round| round.count_at_most(value.unwrap_or(u64::MAX >> 1))).collect();
    let most = worth_at.and_then(|level| of_level(rounds, pooled, level, None)?.effective);
    Some(judge(&filled, &within, pooled, (value, p), most))
}

/// [`estimate`], or with `queued` [`estimate_queued`], at many places (0 < p < 1): each round is unpacked once. Empty
/// without a message.
pub fn curve(rounds: &[&SparseHistogram], pooled: &Pooled, places: &[f64], queued: bool) -> Vec<Quantile> {
    let worth = match queued {
        true => of_level(rounds, pooled, QUEUED_LEVEL, None).and_then(|level| level.effective),
        false => None,
    };
    let filled: Vec<_> = rounds.iter().copied().filter(|round| round.total() > 0).collect();
    let unpacked: Vec<Vec<(u64, u64)>> = filled
        .iter()
        .map(|round| {
            let sums = round.ranges().scan(0, |sum, (from, _, count)| {
                *sum += count;
                Some((from, *sum))
            });
            sums.collect()
        })
        .collect();
    let at = |p: f64| {
        let value = pooled.quantile(p)?;
        let last = value.unwrap_or(u64::MAX);
        let up_to = |bins: &Vec<(u64, u64)>| match bins.partition_point(|(from, _)| *from <= last) {
            0 => 0,
            bin => bins[bin - 1].1,
        };
        let within: Vec<u64> = unpacked.iter().map(up_to).collect();
        Some(judge(&filled, &within, pooled, (value, p), worth.filter(|_| p > QUEUED_LEVEL)).quantile)
    };
    places.iter().filter_map(|p| at(*p)).collect()
}

/// What the p-quantile `value` can claim. `within`: messages of each round up to it. `most`: they are worth at most so
/// many independent ones.
fn judge(
    filled: &[&SparseHistogram],
    within: &[u64],
    pooled: &Pooled,
    (value, p): (Option<u64>, f64),
    most: Option<f64>,
) -> Estimated {
    let beyond: u64 = filled.iter().zip(within).map(|(round, within)| round.total() - within).sum();
    let bursts = filled.iter().zip(within).filter(|(round, within)| round.total() > **within).count() as u64;
    let quantile = Quantile { p, ns: value, lo_ns: None, hi_ns: None, beyond, bursts, claim: false, why: None };
    let mut out = Estimated { quantile, effective: None, needed: needed(p) };
    if filled.len() < MIN_ROUNDS_FOR_CLAIMS as usize {
        out.quantile.why =
            Some(format!("an interval needs at least {MIN_ROUNDS_FOR_CLAIMS} rounds, have {}", filled.len()));
        return out;
    }
    let shares: Vec<f64> =
        filled.iter().zip(within).map(|(round, within)| *within as f64 / round.total() as f64).collect();
    let (units, drifting) = independent(&shares);
    // Harmonic, because rounds are weighted equally: a round of few messages is the less certain one.
    let per_unit = filled.len() as f64 / filled.iter().map(|round| 1.0 / round.total() as f64).sum::<f64>()
        * filled.len() as f64
        / units.len() as f64;
    let effective = effective_messages(&units, per_unit, p).min(most.unwrap_or(f64::INFINITY));
    out.effective = Some(effective);
    out.quantile.why = if effective < out.needed {
        Some(format!(
            "needs ≥ {} independent messages, has about {}",
            Glyphs::Unicode.thousands(out.needed.ceil() as u64),
            count(effective)
        ))
    } else if bursts < u64::from(MIN_ROUNDS_FOR_CLAIMS) {
        Some(match bursts {
            0 => "no message lies beyond it".into(),
            1 => "tail is one episode: all slower messages lie in 1 round".into(),
            _ => format!("all slower messages lie in {bursts} rounds, at least {MIN_ROUNDS_FOR_CLAIMS} are needed"),
        })
    } else if drifting {
        Some(drift(filled, p))
    } else {
        None
    };
    if out.quantile.why.is_some() {
        return out;
    }
    let n = (effective.floor() as u64).max(1);
    let low = binomial_inverse(0.025, n, p) as f64 / n as f64;
    let high = (binomial_inverse(0.975, n, p) + 1) as f64 / n as f64;
    out.quantile.claim = true;
    out.quantile.lo_ns = pooled.quantile(low).flatten();
    out.quantile.hi_ns = (high <= 1.0).then(|| pooled.quantile(high).flatten()).flatten();
    out
}

/// Step 2: `B n / VIF (1.96 / t)^2` with VIF = max(1, n s^2 / (p (1 - p))).
fn effective_messages(units: &[f64], per_unit: f64, p: f64) -> f64 {
    let inflation = (per_unit * deviation(units).powi(2) / (p * (1.0 - p))).max(1.0);
    let t = t_quantile(0.975, units.len() as f64 - 1.0);
    units.len() as f64 * per_unit / inflation * (1.96 / t).powi(2)
}

fn drift(rounds: &[&SparseHistogram], p: f64) -> String {
    // The slowest end is a lost message where one of the rounds has it so.
    let own: Vec<u64> = rounds.iter().map(|round| round.quantile(p).flatten().unwrap_or(u64::MAX)).collect();
    let time = |ns: Option<u64>| match ns {
        Some(ns) if ns < u64::MAX => Glyphs::Unicode.time(ns as f64),
        _ => "lost".into(),
    };
    let (low, high) = (time(own.iter().min().copied()), time(own.iter().max().copied()));
    format!("drifting: the rounds ranged from {low} to {high}")
}

/// A count with three significant digits at most, thousands apart.
pub(crate) fn count(value: f64) -> String {
    if value < 99.5 {
        return three_digits(value.max(0.0).round()).split('.').next().unwrap_or("0").into();
    }
    let scale = 10_f64.powi(value.max(100.0).log10().floor() as i32 - 2);
    Glyphs::Unicode.thousands(((value / scale).round() * scale) as u64)
}

/// The median of every round, ns; a round whose median is lost has none.
pub(crate) fn medians(rounds: &[&SparseHistogram]) -> Vec<f64> {
    rounds.iter().filter_map(|round| round.quantile(0.5).flatten()).map(|ns| ns as f64).collect()
}

/// Mean of the messages that arrived, ns, over all rounds.
pub(crate) fn mean_ns(rounds: &[&SparseHistogram]) -> Option<f64> {
    let sums: Vec<(f64, f64)> = rounds
        .iter()
        .filter_map(|round| round.mean().map(|mean| (mean, (round.total() - round.lost()) as f64)))
        .collect();
    let arrived: f64 = sums.iter().map(|(_, n)| n).sum();
    (arrived > 0.0)
        .then(|| mean(&sums.iter().map(|(mean, n)| mean * n).collect::<Vec<_>>()) * sums.len() as f64 / arrived)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lognormal_rounds;
    use msgpath_core::Histogram;
    use proptest::prelude::*;

    fn of(rounds: &[SparseHistogram], p: f64) -> Estimated {
        let rounds: Vec<&SparseHistogram> = rounds.iter().collect();
        estimate(&rounds, &Pooled::new(&rounds), p).unwrap()
    }

    /// 200 seeded runs of 20 rounds: nominal 95 % intervals of p50 and p99 must hold the truth in at least 88 %.
    fn covers(messages: usize, effect: f64) {
        let sigma = 0.3_f64;
        let mut counts = [(0.5, 0.0, 0, 0), (0.99, 2.326_35, 0, 0)];
        for seed in 0..200 {
            let rounds = lognormal_rounds(seed, 20, messages, 20_000.0, sigma, effect);
            for (p, z, covered, claimed) in &mut counts {
                // Over rounds and messages together the log is normal with both variances.
                let truth = 20_000.0 * (*z * (sigma * sigma + effect * effect).sqrt()).exp();
                let q = of(&rounds, *p).quantile;
                if q.claim {
                    *claimed += 1;
                    *covered +=
                        u32::from(q.lo_ns.unwrap() as f64 <= truth && q.hi_ns.is_none_or(|high| truth <= high as f64));
                }
            }
        }
        for (p, _, covered, claimed) in counts {
            assert!(claimed >= 170 && f64::from(covered) >= 0.88 * f64::from(claimed), "{p}: {covered} of {claimed}");
        }
    }

    #[test]
    fn intervals_cover_independent_messages() {
        covers(100, 0.0);
    }

    #[test]
    fn intervals_cover_messages_that_share_the_fate_of_their_round() {
        covers(120, 0.1);
    }

    #[test]
    fn dependent_messages_are_worth_fewer() {
        let free = of(&lognormal_rounds(1, 40, 200, 20_000.0, 0.3, 0.0), 0.5).effective.unwrap();
        let bound = of(&lognormal_rounds(1, 40, 200, 20_000.0, 0.3, 0.3), 0.5).effective.unwrap();
        assert!(free > 4_000.0 && free <= 8_000.0 && bound < 400.0, "{free} {bound}");
    }

    #[test]
    fn thresholds_are_those_of_the_method() {
        let table =
            [(0.9, 36.0), (0.95, 72.0), (0.99, 368.0), (0.999, 3_688.0), (0.9999, 36_887.0), (0.99999, 368_887.0)];
        for (p, expected) in table {
            assert!((needed(p) - expected).abs() <= 1.0, "{p}: {}", needed(p));
        }
    }

    #[test]
    fn what_is_withheld_says_why() {
        let few = of(&lognormal_rounds(1, 4, 100, 1_000.0, 0.1, 0.0), 0.5).quantile;
        assert_eq!(
            (few.claim, few.lo_ns, few.why.as_deref()),
            (false, None, Some("an interval needs at least 5 rounds, have 4"))
        );
        let tail = of(&lognormal_rounds(1, 40, 100, 1_000.0, 0.1, 0.0), 0.9999).quantile;
        assert!(tail.why.unwrap().starts_with("needs ≥ 36\u{2009}887 independent messages, has about 3"));
        // One burst in one of 40 rounds: p99.4 rests on it alone.
        let mut rounds = vec![1_000; 40];
        rounds[7] = 50_000;
        let slow = |ns| {
            let mut histogram = Histogram::new();
            histogram.record_n(1_000, 160);
            histogram.record_n(ns, 40);
            histogram.to_sparse()
        };
        let q = of(&rounds.into_iter().map(slow).collect::<Vec<_>>(), 0.994).quantile;
        assert!(!q.claim && q.why.is_some(), "{q:?}");
        assert_eq!((q.bursts, q.hi_ns), (1, None));
    }

    #[test]
    fn rounds_that_drift_get_no_interval() {
        let rounds: Vec<SparseHistogram> = (0..40)
            .flat_map(|at| lognormal_rounds(at, 1, 100, 10_000.0 * (1.0 + at as f64 / 20.0), 0.05, 0.0))
            .collect();
        let q = of(&rounds, 0.5).quantile;
        let why = q.why.unwrap();
        assert!(
            !q.claim && why.starts_with("drifting: the rounds ranged from 9.")
                || why.starts_with("drifting: the rounds ranged from 10."),
            "{why}"
        );
    }

    #[test]
    fn a_drift_into_loss_ends_at_lost() {
        let rounds: Vec<SparseHistogram> = (0..40)
            .map(|at| {
                let mut histogram = Histogram::new();
                histogram.record_n(1_000, 100 - 2 * at);
                histogram.record_n(2_000, at);
                histogram.record_lost(at);
                histogram.to_sparse()
            })
            .collect();
        let q = of(&rounds, 0.7).quantile;
        assert_eq!((q.claim, q.why.as_deref()), (false, Some("drifting: the rounds ranged from 1.00 µs to lost")));
    }

    #[test]
    fn lost_messages_are_infinitely_slow() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000, 950);
        histogram.record_lost(50);
        let rounds = vec![histogram.to_sparse(); 20];
        let p99 = of(&rounds, 0.99).quantile;
        assert_eq!((p99.ns, p99.claim, p99.beyond, p99.bursts), (None, true, 1_000, 20));
        assert_eq!(of(&rounds, 0.5).quantile.ns, Some(1_000));
        // p95 is the last that arrived; its upper end is lost.
        let p95 = of(&rounds, 0.95).quantile;
        assert_eq!((p95.ns, p95.lo_ns, p95.hi_ns, p95.claim), (Some(1_000), Some(1_000), None, true));
    }

    #[test]
    fn names() {
        assert_eq!([0.5, 0.99, 0.999, 0.9999].map(name), ["p50", "p99", "p99.9", "p99.99"]);
        assert_eq!([4.2, 1_234.0, 99.6].map(count), ["4", "1\u{2009}230", "100"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn an_interval_holds_its_value(seed in 0_u64..1_000, p in 0.05_f64..0.95, effect in 0.0_f64..0.3) {
            let q = of(&lognormal_rounds(seed, 12, 60, 5_000.0, 0.2, effect), p).quantile;
            if q.claim {
                prop_assert!(q.lo_ns.unwrap() <= q.ns.unwrap() && q.hi_ns.is_none_or(|high| high >= q.ns.unwrap()));
            }
        }
    }
}
