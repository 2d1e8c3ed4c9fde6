//! Tails against each other: the ratio of two p99, from passes drawn again (docs/method/comparison.md#tails). A round
//! has too few messages for a p99 of its own, so there is no number per round to pair.

use std::collections::BTreeMap;

use msgpath_core::SparseHistogram;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;

use crate::dependence::joined;
use crate::resample::{RESAMPLES, Redraw, level_of, outside_each, unit_count};
use crate::verdict::Evidence;

/// The quantile that tails are compared at.
pub const TAIL: f64 = 0.99;
/// Resamples for each ratio of the family, so that a p-value can be small enough to stand after Holm ...
const PER_TEST: usize = 200;
/// ... up to this many: families beyond 100 tails can hardly show a difference.
const MOST: usize = 20_000;
/// What sums of shares may lack by rounding.
const ROUNDING: f64 = 1e-11;

/// The pass of a round and its latencies.
pub type Pass<'a> = (u32, &'a SparseHistogram);

/// The ratio of two cases' quantiles: bootstrap over passes, the same passes for both sides, each pass with the same
/// weight. The interval is the expanded percentile interval, the p-value its inverse ([`level_of`]): p <= 0.05 exactly
/// where the 95 % interval leaves out 1.
#[derive(Clone, Debug)]
pub struct Tail {
    center: f64,
    passes: usize,
    units: usize,
    /// The first [`RESAMPLES`] log-ratios, as they were drawn.
    first: Vec<f64>,
    /// All of them by size, without those of which nothing is known.
    sorted: Vec<f64>,
    /// Resamples in which both quantiles are lost messages: they count on both sides.
    unknown: usize,
}

impl Tail {
    /// `case` against `base` at the p-quantile, over the passes in which both have messages. `None` without such a pass,
    /// or where a quantile is a lost message. `family`: how many such tests are made together. Tails of the same passes
    /// and `seed` are drawn alike.
    pub fn new(case: &[Pass<'_>], base: &[Pass<'_>], p: f64, family: usize, seed: u64) -> Option<Self> {
        let filled = |rounds: &[Pass<'_>]| -> BTreeMap<u32, usize> {
            let rounds = rounds.iter().enumerate().filter(|(_, (_, latency))| latency.total() > 0);
            rounds.map(|(at, (pass, _))| (*pass, at)).collect()
        };
        let of_base = filled(base);
        let both: Vec<(usize, usize)> =
            filled(case).into_iter().filter_map(|(pass, at)| Some((at, *of_base.get(&pass)?))).collect();
        let side = |rounds: Vec<&SparseHistogram>| Side::new(&rounds, p);
        let case = side(both.iter().map(|(at, _)| case[*at].1).collect());
        let base = side(both.iter().map(|(_, at)| base[*at].1).collect());
        let once = vec![1.0; both.len()];
        let (at_case, at_base) = (case.position(&once, p)?, base.position(&once, p)?);
        // Passes that resemble their neighbours, by the share of slow messages of the one against the other.
        let against: Vec<f64> =
            (0..both.len()).map(|pass| case.share(at_case, pass) - base.share(at_base, pass)).collect();
        let units = unit_count(&against);
        let (case, base) = (case.in_units(units), base.in_units(units));
        let mut tail = Tail {
            center: (case.values[at_case] / base.values[at_base]).ln(),
            passes: both.len(),
            units,
            first: Vec::new(),
            sorted: Vec::new(),
            unknown: 0,
        };
        let wanted = (PER_TEST * family).clamp(RESAMPLES, MOST);
        let mut redraw = Redraw::new(units, seed);
        // More than the first resamples are needed only where hardly any lies on the other side of 1.
        while tail.drawn() < RESAMPLES || (tail.drawn() < wanted && tail.beyond() <= 2) {
            let more: Vec<f64> = (0..RESAMPLES)
                .map(|_| {
                    let times = redraw.draw();
                    let value = |side: &Side| side.position(times, p).map_or(f64::INFINITY, |at| side.values[at]);
                    (value(&case) / value(&base)).ln()
                })
                .collect();
            tail.sorted.extend(more.iter().filter(|value| !value.is_nan()));
            tail.unknown += more.iter().filter(|value| value.is_nan()).count();
            if tail.first.is_empty() {
                tail.first = more;
            }
        }
        tail.sorted.sort_unstable_by(f64::total_cmp);
        Some(tail)
    }

    fn drawn(&self) -> usize {
        self.sorted.len() + self.unknown
    }

    /// Resamples on the other side of 1 than most.
    fn beyond(&self) -> usize {
        let (below, above) = (
            self.sorted.iter().filter(|value| **value <= 0.0).count(),
            self.sorted.iter().filter(|value| **value >= 0.0).count(),
        );
        below.min(above) + self.unknown
    }
}

impl Evidence for Tail {
    fn center(&self) -> f64 {
        self.center
    }

    fn p(&self) -> Option<f64> {
        let share = (1 + self.beyond()) as f64 / (1 + self.drawn()) as f64;
        (self.passes >= MIN_ROUNDS_FOR_CLAIMS as usize).then(|| level_of(share, self.units))
    }

    fn interval(&self, level: f64) -> Option<(f64, f64)> {
        if self.passes < MIN_ROUNDS_FOR_CLAIMS as usize {
            return None;
        }
        let rank = ((outside_each(level, self.units) * self.drawn() as f64).ceil() as usize).max(1);
        let Some(rank) = rank.checked_sub(self.unknown + 1).filter(|rank| 2 * rank < self.sorted.len()) else {
            return Some((f64::NEG_INFINITY, f64::INFINITY));
        };
        Some((self.sorted[rank], self.sorted[self.sorted.len() - 1 - rank]))
    }

    fn passes(&self) -> usize {
        self.passes
    }

    fn units(&self) -> usize {
        self.units
    }

    /// They were drawn when the tail was made, from its seed.
    fn redrawn(&self, count: usize, _seed: u64) -> Vec<f64> {
        self.first.iter().copied().take(count).collect()
    }
}

/// The distribution functions of one case's passes, on the bins between which the quantile of every mixture of them
/// lies: from the smallest to the largest of the passes' own quantiles.
struct Side {
    /// Middles of the bins, ns.
    values: Vec<f64>,
    /// Bin by bin: the share of every column's messages up to this bin.
    shares: Vec<f64>,
    /// Passes, or units of several.
    columns: usize,
}

impl Side {
    fn new(rounds: &[&SparseHistogram], p: f64) -> Self {
        // Lowest and next value and cumulative share of every bin of every pass.
        let passes: Vec<Vec<(u64, u64, f64)>> = rounds
            .iter()
            .map(|round| {
                let mut seen = 0;
                let total = round.total() as f64;
                let bin = |(from, to, count): (u64, u64, u64)| {
                    seen += count;
                    (from, to, seen as f64 / total)
                };
                round.ranges().map(bin).collect()
            })
            .collect();
        // Where a pass has lost its quantile the bins reach up to the slowest message.
        let own: Vec<u64> = passes
            .iter()
            .map(|pass| pass.iter().find(|bin| bin.2 >= p - ROUNDING).map_or(u64::MAX, |bin| bin.0))
            .collect();
        let (low, high) = (own.iter().copied().min().unwrap_or(0), own.iter().copied().max().unwrap_or(0));
        let mut bins: Vec<(u64, u64)> = passes.iter().flatten().map(|bin| (bin.0, bin.1)).collect();
        bins.retain(|(from, _)| (low..=high).contains(from));
        bins.sort_unstable();
        bins.dedup();
        let mut shares = vec![0.0; bins.len() * passes.len()];
        for (column, pass) in passes.iter().enumerate() {
            let mut rest = pass.iter().peekable();
            let mut share = 0.0;
            for (row, (from, _)) in bins.iter().enumerate() {
                while let Some(bin) = rest.next_if(|bin| bin.0 <= *from) {
                    share = bin.2;
                }
                shares[row * passes.len() + column] = share;
            }
        }
        let values = bins.iter().map(|(from, to)| (from + (to - from) / 2) as f64).collect();
        Side { values, shares, columns: passes.len() }
    }

    fn share(&self, row: usize, column: usize) -> f64 {
        self.shares[row * self.columns + column]
    }

    /// The bin of the p-quantile where every column counts so many times; `None`: it is a lost message.
    fn position(&self, times: &[f64], p: f64) -> Option<usize> {
        let needed = (p - 2.0 * ROUNDING) * times.iter().sum::<f64>();
        let reached = |row: usize| dot(&self.shares[row * self.columns..(row + 1) * self.columns], times) >= needed;
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let middle = (low + high) / 2;
            if reached(middle) { high = middle } else { low = middle + 1 }
        }
        (low < self.values.len()).then_some(low)
    }

    /// The same with neighbouring columns joined.
    fn in_units(self, units: usize) -> Self {
        if units == self.columns {
            return self;
        }
        let shares = self.shares.chunks_exact(self.columns).flat_map(|row| joined(row, units)).collect();
        Side { shares, columns: units, ..self }
    }
}

/// Sum of products, in four sums so that they need not wait for each other.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a, b) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooled::Pooled;
    use crate::simulate::lognormal_rounds;
    use msgpath_core::Histogram;
    use proptest::prelude::*;

    fn records(latency: Vec<SparseHistogram>) -> Vec<(u32, SparseHistogram)> {
        (0..).zip(latency).collect()
    }

    fn tail(a: &[(u32, SparseHistogram)], b: &[(u32, SparseHistogram)], family: usize) -> Option<Tail> {
        fn passes(of: &[(u32, SparseHistogram)]) -> Vec<Pass<'_>> {
            of.iter().map(|(pass, latency)| (*pass, latency)).collect()
        }
        Tail::new(&passes(a), &passes(b), TAIL, family, 1)
    }

    #[test]
    fn a_true_ratio_of_tails_is_found() {
        let base = records(lognormal_rounds(1, 40, 500, 20_000.0, 0.3, 0.05));
        let slow = records(lognormal_rounds(2, 40, 500, 26_000.0, 0.3, 0.05));
        let tail = tail(&slow, &base, 10).unwrap();
        let (low, high) = tail.interval(0.05).unwrap();
        assert!(low < 1.3_f64.ln() && 1.3_f64.ln() < high && high - low < 0.15, "{low} {high}");
        assert!(tail.p().unwrap() < 0.005);
        assert_eq!((tail.passes(), tail.redrawn(2_000, 0).len()), (40, 2_000));
        // A stricter level gives a wider interval.
        let wider = tail.interval(0.005).unwrap();
        assert!(wider.0 < low && wider.1 > high);
    }

    #[test]
    fn the_p_value_and_the_interval_agree() {
        for seed in 0..20 {
            let base = records(lognormal_rounds(2 * seed, 20, 100, 20_000.0, 0.3, 0.1));
            let case = records(lognormal_rounds(2 * seed + 1, 20, 100, 21_500.0, 0.3, 0.1));
            let tail = tail(&case, &base, 1).unwrap();
            let (p, (low, high)) = (tail.p().unwrap(), tail.interval(0.05).unwrap());
            if (p - 0.05).abs() > 0.005 {
                assert_eq!(p < 0.05, low > 0.0 || high < 0.0, "{p}: {low} {high}");
            }
        }
    }

    #[test]
    fn equal_tails_are_rarely_told_apart() {
        let alarms = (0..40).filter(|seed| {
            let rounds = |side: u64| records(lognormal_rounds(2 * seed + side, 20, 100, 20_000.0, 0.3, 0.1));
            tail(&rounds(0), &rounds(1), 1).unwrap().p().unwrap() <= 0.05
        });
        let alarms = alarms.count();
        assert!(alarms <= 6, "{alarms} of 40");
    }

    #[test]
    fn only_passes_that_both_have_are_drawn_together() {
        let mut a = records(lognormal_rounds(1, 20, 100, 20_000.0, 0.3, 0.05));
        let mut b = records(lognormal_rounds(2, 20, 100, 20_000.0, 0.3, 0.05));
        a.remove(3);
        b.truncate(15);
        assert_eq!(tail(&a, &b, 1).unwrap().passes(), 14);
        b.truncate(4);
        let few = tail(&a, &b, 1).unwrap();
        assert_eq!((few.p(), few.interval(0.05)), (None, None));
        assert!(tail(&a, &[], 1).is_none());
    }

    #[test]
    fn lost_quantiles_are_not_divided() {
        let with_loss = |lost: u64| {
            let mut histogram = Histogram::new();
            histogram.record_n(1_000, 100 - lost);
            histogram.record_lost(lost);
            histogram.to_sparse()
        };
        let whole = records(vec![with_loss(0); 20]);
        assert!(tail(&records(vec![with_loss(5); 20]), &whole, 1).is_none());
        // A fifth of the passes lost 4 %: the quantile is there, its upper end is a lost message.
        let some: Vec<_> = (0..20).map(|pass| with_loss(if pass % 5 == 0 { 4 } else { 0 })).collect();
        let some = records(some);
        let (low, high) = tail(&some, &whole, 1).unwrap().interval(0.05).unwrap();
        assert_eq!((low, high), (0.0, f64::INFINITY));
        // Both lost in the same resamples: nothing is known there.
        let (low, high) = tail(&some, &some, 1).unwrap().interval(0.05).unwrap();
        assert_eq!((low, high), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn passes_that_drift_are_drawn_in_blocks() {
        let drift = |at: u64| 20_000.0 * (1.0 + 0.5 * (at as f64 / 6.0).sin());
        let a: Vec<_> = (0..40).flat_map(|at| lognormal_rounds(at, 1, 200, drift(at), 0.3, 0.0)).collect();
        let b = lognormal_rounds(99, 40, 200, 20_000.0, 0.3, 0.0);
        assert_eq!(tail(&records(a), &records(b), 1).unwrap().units(), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn a_side_has_the_quantiles_of_the_merged_histograms(
            seed in 0_u64..1_000, times in prop::collection::vec(0_usize..4, 8..9), p in 0.5_f64..0.999,
        ) {
            prop_assume!(times.iter().sum::<usize>() > 0);
            let rounds = lognormal_rounds(seed, 8, 50, 5_000.0, 0.4, 0.3);
            let drawn: Vec<&SparseHistogram> =
                rounds.iter().zip(&times).flat_map(|(round, times)| std::iter::repeat_n(round, *times)).collect();
            let side = Side::new(&rounds.iter().collect::<Vec<_>>(), p);
            let weights: Vec<f64> = times.iter().map(|times| *times as f64).collect();
            let value = side.values[side.position(&weights, p).unwrap()];
            let merged = Pooled::new(&drawn).quantile(p).flatten().unwrap() as f64;
            // The pool clamps to its slowest message; a side does not.
            prop_assert!((value / merged - 1.0).abs() < 1e-3, "{value} {merged}");
        }
    }
}
