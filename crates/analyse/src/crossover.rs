//! From which size a path beats the baseline, with an interval (method.md 3.10).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::plan::{CaseRole, Plan, Workload};
use msgpath_core::{Case, PathName};

use crate::series::{Series, log_ratios};
use crate::stats::{mean, percentile};
use crate::summary::{Crossover, CrossoverKind, Ratio, Verdict};

/// Resamples of the passes.
const RESAMPLES: usize = 2_000;

/// The log-ratios of one size: positive is slower than the baseline, whatever the metric.
#[derive(Clone, Debug)]
pub(crate) struct AtSize {
    /// log2 of the size in bytes.
    pub(crate) log_size: f64,
    /// By pass.
    pub(crate) slower: BTreeMap<u32, f64>,
    /// What the ratio at this size means.
    pub(crate) verdict: Verdict,
}

/// One entry per path and thread count with at least two sizes. Where messages of several piece counts were measured
/// there is no one line of sizes, and no crossover.
pub(crate) fn crossovers(plan: &Plan, series: &[Series], ratios: &[Ratio]) -> Vec<Crossover> {
    let sign = if plan.workload == Workload::Stream { -1.0 } else { 1.0 };
    let mut lines: BTreeMap<(u32, &PathName), Vec<(&Case, AtSize)>> = BTreeMap::new();
    for ratio in ratios {
        let Some(case) = plan.cases.get(ratio.case as usize).filter(|case| case.role == CaseRole::Measured) else {
            continue;
        };
        let d = log_ratios(&series[ratio.case as usize], &series[ratio.baseline as usize]);
        let slower = d.into_iter().map(|(pass, d)| (pass, sign * d)).collect();
        let at = AtSize { log_size: (case.size as f64).log2(), slower, verdict: ratio.verdict };
        lines.entry((case.threads, &case.path)).or_default().push((case, at));
    }
    // In the order of the plan, as the other tables.
    let mut order: Vec<_> = lines.keys().copied().collect();
    order.sort_by_key(|(threads, path)| (*threads, plan.cases.iter().position(|case| case.path == **path)));
    order
        .into_iter()
        .filter_map(|key| {
            let mut line = lines.remove(&key)?;
            let cuts: BTreeSet<u32> = line.iter().map(|(case, _)| case.pieces.count).collect();
            line.sort_by(|a, b| a.1.log_size.total_cmp(&b.1.log_size));
            line.dedup_by_key(|(case, _)| case.size);
            if cuts.len() > 1 || line.len() < 2 {
                return None;
            }
            let seed = plan.seed ^ u64::from(line[0].0.id);
            let line: Vec<AtSize> = line.into_iter().map(|(_, at)| at).collect();
            let (kind, [size, low, high]) = crossover(&line, RESAMPLES, seed);
            Some(Crossover { path: key.1.clone(), threads: key.0, kind, size, low, high })
        })
        .collect()
}

/// The shape of one line of sizes and its crossing: size and interval ends in bytes.
pub(crate) fn crossover(line: &[AtSize], resamples: usize, seed: u64) -> (CrossoverKind, [Option<f64>; 3]) {
    let none = [None; 3];
    let all = |verdict: Verdict| line.iter().all(|at| at.verdict == verdict);
    match () {
        () if all(Verdict::Better) => return (CrossoverKind::AlwaysFaster, none),
        () if all(Verdict::Worse) => return (CrossoverKind::NeverFaster, none),
        () if all(Verdict::Equivalent) => return (CrossoverKind::Equivalent, none),
        () => {}
    }
    let means: Vec<f64> = line.iter().map(|at| mean(&at.slower.values().copied().collect::<Vec<_>>())).collect();
    let mut shown: Vec<Verdict> =
        line.iter().map(|at| at.verdict).filter(|v| matches!(v, Verdict::Better | Verdict::Worse)).collect();
    shown.dedup();
    // A crossing is a claim only where both sides were shown: noise around 0 crosses it as well.
    let kind = match shown.as_slice() {
        [] | [_] => return (CrossoverKind::Undecided, none),
        [Verdict::Worse, _] => CrossoverKind::At,
        [_, _] => CrossoverKind::FasterBelow,
        _ => CrossoverKind::Several,
    };
    let sizes: Vec<f64> = line.iter().map(|at| at.log_size).collect();
    let crossing = |means: &[f64]| match kind {
        CrossoverKind::At => falling_zero(&sizes, &monotone(means, false)),
        CrossoverKind::FasterBelow => {
            falling_zero(&sizes, &monotone(means, true).iter().map(|mean| -mean).collect::<Vec<_>>())
        }
        _ => last_zero(&sizes, means),
    };
    let mut places = resampled(line, &means, resamples, seed, crossing);
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    // All but a few resamples cross beyond the largest size: then that size is the lower end, and the other way round.
    let low = percentile(&mut places, 0.025).min(last);
    let high = percentile(&mut places, 0.975).max(first);
    let ends = [crossing(&means), low, high].map(|log_size| log_size.is_finite().then(|| log_size.exp2()));
    (kind, ends)
}

/// Pool adjacent violators: the monotone sequence nearest to `values` in squares.
pub(crate) fn monotone(values: &[f64], rising: bool) -> Vec<f64> {
    let mut blocks: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for value in values {
        let (mut sum, mut n) = (*value, 1);
        while let Some((before, m)) = blocks.last().copied() {
            let (mean_before, mean_here) = (before / m as f64, sum / n as f64);
            if if rising { mean_before <= mean_here } else { mean_before >= mean_here } {
                break;
            }
            blocks.pop();
            (sum, n) = (sum + before, n + m);
        }
        blocks.push((sum, n));
    }
    blocks.into_iter().flat_map(|(sum, n)| std::iter::repeat_n(sum / n as f64, n)).collect()
}

/// Where a falling curve reaches 0, by linear interpolation; -inf where it begins below, +inf where it stays above.
fn falling_zero(sizes: &[f64], curve: &[f64]) -> f64 {
    match curve.iter().position(|value| *value < 0.0) {
        None => f64::INFINITY,
        Some(0) => f64::NEG_INFINITY,
        Some(at) => between(sizes, curve, at),
    }
}

/// The last place where the curve changes its sign; -inf where it never does.
fn last_zero(sizes: &[f64], curve: &[f64]) -> f64 {
    (1..curve.len())
        .rev()
        .find(|at| (curve[*at] < 0.0) != (curve[at - 1] < 0.0))
        .map_or(f64::NEG_INFINITY, |at| between(sizes, curve, at))
}

fn between(sizes: &[f64], curve: &[f64], at: usize) -> f64 {
    let share = curve[at - 1] / (curve[at - 1] - curve[at]);
    sizes[at - 1] + share * (sizes[at] - sizes[at - 1])
}

/// The crossing in resamples of whole passes, the same passes for every size. A size that a resample misses (a run
/// that was interrupted) keeps its mean.
fn resampled(
    line: &[AtSize],
    means: &[f64],
    resamples: usize,
    seed: u64,
    crossing: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let passes: Vec<u32> =
        line.iter().flat_map(|at| at.slower.keys()).copied().collect::<BTreeSet<_>>().into_iter().collect();
    // One row per pass, one column per size; NaN where the pair is missing.
    let rows: Vec<Vec<f64>> = passes
        .iter()
        .map(|pass| line.iter().map(|at| at.slower.get(pass).copied().unwrap_or(f64::NAN)).collect())
        .collect();
    let mut random = fastrand::Rng::with_seed(seed);
    (0..resamples)
        .map(|_| {
            let (mut sums, mut counts) = (vec![0.0; line.len()], vec![0_u32; line.len()]);
            for _ in &rows {
                for (at, value) in
                    rows[random.usize(..rows.len())].iter().enumerate().filter(|(_, value)| !value.is_nan())
                {
                    sums[at] += value;
                    counts[at] += 1;
                }
            }
            let curve: Vec<f64> = (0..line.len())
                .map(|at| if counts[at] > 0 { sums[at] / f64::from(counts[at]) } else { means[at] })
                .collect();
            crossing(&curve)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{holm, paired, verdict};
    use crate::testing::normal;
    use proptest::prelude::*;

    /// A line whose true log-ratio is `slope * (log2 size - truth)`, with noise per round.
    fn line(slope: f64, truth: f64, noise: f64, seed: u64) -> Vec<AtSize> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut at = |log_size: f64| {
            let d: Vec<f64> = (0..30).map(|_| slope * (log_size - truth) + noise * normal(&mut random)).collect();
            let judged = paired(&d, 8, seed).unwrap();
            let slower = d.iter().enumerate().map(|(pass, d)| (pass as u32, *d)).collect();
            (AtSize { log_size, slower, verdict: Verdict::Undecided }, judged)
        };
        let mut all: Vec<_> = (0..8).map(|step| at(6.0 + 2.0 * f64::from(step))).collect();
        let stands = holm(&all.iter().map(|(_, judged)| judged.p).collect::<Vec<_>>());
        for ((at, judged), stands) in all.iter_mut().zip(stands) {
            at.verdict = verdict(judged, stands, 0.02, false);
        }
        all.into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn the_interval_holds_the_true_crossing() {
        let truth = 14.7;
        let mut covered = 0;
        for seed in 0..100 {
            let (kind, [size, low, high]) = crossover(&line(-0.05, truth, 0.05, seed), 200, seed);
            assert_eq!(kind, CrossoverKind::At);
            let (size, low, high) = (size.unwrap().log2(), low.unwrap().log2(), high.unwrap().log2());
            assert!((size - truth).abs() < 1.0);
            covered += u32::from(low <= truth && truth <= high);
        }
        assert!(covered >= 85, "{covered}");
    }

    #[test]
    fn every_kind_is_told() {
        let kind = |slope, truth| crossover(&line(slope, truth, 0.02, 5), 200, 5).0;
        assert_eq!(kind(-0.05, 12.0), CrossoverKind::At);
        assert_eq!(kind(0.05, 12.0), CrossoverKind::FasterBelow);
        assert_eq!(kind(-0.05, 2.0), CrossoverKind::AlwaysFaster);
        assert_eq!(kind(-0.05, 40.0), CrossoverKind::NeverFaster);
        assert_eq!(kind(0.0, 0.0), CrossoverKind::Equivalent);
        assert_eq!(crossover(&line(0.0, 0.0, 0.3, 6), 200, 6).0, CrossoverKind::Undecided);
        // Slower, faster, slower again.
        let mut bent = line(-0.05, 12.0, 0.02, 7);
        let again = line(0.05, 16.0, 0.02, 8);
        bent[6..].clone_from_slice(&again[6..]);
        let (kind, [size, ..]) = crossover(&bent, 200, 7);
        assert_eq!(kind, CrossoverKind::Several);
        assert!((size.unwrap().log2() - 17.0).abs() < 1.1, "{size:?}");
    }

    #[test]
    fn one_side_alone_is_no_crossing() {
        // Slower everywhere but at the last size, where nothing is shown.
        assert_eq!(crossover(&line(-0.05, 20.1, 0.05, 2), 100, 2), (CrossoverKind::Undecided, [None; 3]));
    }

    #[test]
    fn zeros_are_interpolated_in_log_size() {
        assert_eq!(falling_zero(&[6.0, 8.0], &[1.0, -1.0]), 7.0);
        assert_eq!(falling_zero(&[6.0, 8.0], &[1.0, 1.0]), f64::INFINITY);
        assert_eq!(falling_zero(&[6.0, 8.0], &[-1.0, -1.0]), f64::NEG_INFINITY);
        assert_eq!(last_zero(&[0.0, 1.0, 2.0], &[1.0, -1.0, 3.0]), 1.25);
    }

    proptest! {
        #[test]
        fn pava_is_monotone_keeps_the_mean_and_leaves_monotone_alone(values in prop::collection::vec(-1.0_f64..1.0, 1..20)) {
            for rising in [false, true] {
                let fit = monotone(&values, rising);
                prop_assert_eq!(fit.len(), values.len());
                let ordered = |pair: &[f64]| if rising { pair[0] <= pair[1] + 1e-12 } else { pair[0] >= pair[1] - 1e-12 };
                prop_assert!(fit.windows(2).all(ordered));
                prop_assert!((mean(&fit) - mean(&values)).abs() < 1e-9);
                let again = monotone(&fit, rising);
                prop_assert!(again.iter().zip(&fit).all(|(a, b)| (a - b).abs() < 1e-9));
                // No other monotone sequence is nearer: not the sorted values, not the constant mean.
                let misfit = |other: &[f64]| other.iter().zip(&values).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                if !rising { sorted.reverse(); }
                prop_assert!(misfit(&fit) <= misfit(&sorted) + 1e-9);
                prop_assert!(misfit(&fit) <= misfit(&vec![mean(&values); values.len()]) + 1e-9);
            }
        }
    }
}
