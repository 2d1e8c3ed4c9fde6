//! Log-ratios of two cases, one per pass: their mean, its interval and its test (docs/method/comparison.md#pairs).

use std::collections::BTreeMap;

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;

use crate::dependence::joined;
use crate::describe::{deviation, mean};
use crate::distributions::t_quantile;
use crate::estimate::Estimate;
use crate::resample::{Redraw, unit_count};
use crate::verdict::{Evidence, LEVEL};

/// Metric of a case by pass number. Only finite, positive values.
pub type Series = BTreeMap<u32, f64>;

/// Random sign flips where all of them would be too many.
const FLIPS: usize = 9_999;
/// Up to this many units all sign flips are tried.
const EXACT: usize = 14;

/// A paired comparison of log-ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
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
    /// The units in the order of their passes.
    values: Vec<f64>,
}

impl Paired {
    /// The ratio case / baseline: the geometric mean of the pairs with its 95 % interval.
    pub fn ratio(&self) -> Estimate {
        let end = |sign: f64| self.half.map(|half| (self.mean + sign * half).exp());
        Estimate { value: self.mean.exp(), low: end(-1.0), high: end(1.0) }
    }

    /// Half width of the t interval of two-sided level `level`.
    fn half_at(&self, level: f64) -> f64 {
        t_quantile(1.0 - level / 2.0, self.units as f64 - 1.0) * self.deviation / (self.units as f64).sqrt()
    }
}

impl Evidence for Paired {
    fn center(&self) -> f64 {
        self.mean
    }

    fn p(&self) -> Option<f64> {
        self.p
    }

    fn interval(&self, level: f64) -> Option<(f64, f64)> {
        self.half.map(|_| (self.mean - self.half_at(level), self.mean + self.half_at(level)))
    }

    fn passes(&self) -> usize {
        self.pairs
    }

    fn units(&self) -> usize {
        self.units
    }

    fn redrawn(&self, count: usize, seed: u64) -> Vec<f64> {
        let mut redraw = Redraw::new(self.units, seed);
        let mut once = || {
            let times = redraw.draw();
            times.iter().zip(&self.values).map(|(times, value)| times * value).sum::<f64>() / self.units as f64
        };
        (0..count).map(|_| once()).collect()
    }
}

/// Logarithms of `case / baseline` for the passes that both have, by pass: the pairs (docs/method/comparison.md#pairs).
pub fn log_ratios(case: &Series, baseline: &Series) -> Vec<(u32, f64)> {
    case.iter().filter_map(|(pass, value)| Some((*pass, (value / baseline.get(pass)?).ln()))).collect()
}

/// Log-ratios of several cells (each by pass) as one value a pass, in the order of the passes. Their mean is M, the mean
/// over the cells of each cell's mean; with m the mean of a cell, C cells and P passes the value of pass p is
///
/// ```text
/// u(p) = M + sum over the cells that have p of (P / (C P(c))) (d(c,p) - m(c))
/// ```
///
/// so that a pass which lacks some cells counts with those that it has, and no cell weighs more than another
/// (docs/method/comparison.md#over-all-sizes). Where every cell has every pass it is the mean over the cells.
pub fn over_cells(cells: &[Vec<(u32, f64)>]) -> Vec<f64> {
    let means: Vec<f64> = cells.iter().map(|cell| mean(&cell.iter().map(|(_, d)| *d).collect::<Vec<_>>())).collect();
    let mut passes: BTreeMap<u32, f64> = BTreeMap::new();
    for (cell, m) in cells.iter().zip(&means) {
        for (pass, d) in cell {
            *passes.entry(*pass).or_default() += (d - m) / cell.len() as f64;
        }
    }
    let (center, scale) = (mean(&means), passes.len() as f64 / cells.len().max(1) as f64);
    passes.into_values().map(|sum| center + scale * sum).collect()
}

/// Judges log-ratios in the order of their passes. Pairs that resemble their neighbours (r1 > 1.96/sqrt(B)) are
/// joined in blocks of four for the interval and the test alike; alternating ones are not, since that only widens.
/// `family`: how many tests are made together; it sets the number of random flips.
/// `None` without a pair.
pub fn paired(d: &[f64], family: usize, seed: u64) -> Option<Paired> {
    if d.is_empty() {
        return None;
    }
    let units = joined(d, unit_count(d));
    let mut out = Paired {
        pairs: d.len(),
        units: units.len(),
        mean: mean(&units),
        deviation: deviation(&units),
        half: None,
        p: None,
        values: units,
    };
    if d.len() >= MIN_ROUNDS_FOR_CLAIMS as usize {
        out.half = Some(out.half_at(LEVEL));
        out.p = Some(sign_flip(&out.values, FLIPS.max(20 * family), seed));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;
    use proptest::prelude::*;

    fn noise(random: &mut fastrand::Rng, n: usize, center: f64, spread: f64) -> Vec<f64> {
        (0..n).map(|_| center + spread * normal(random)).collect()
    }

    #[test]
    fn cells_of_equal_passes_are_averaged() {
        let cells = [vec![(0, 0.1), (1, 0.3)], vec![(0, 0.2), (1, 0.6)]];
        let units = over_cells(&cells);
        assert!(units.iter().zip([0.15, 0.45]).all(|(u, expected)| (u - expected).abs() < 1e-12), "{units:?}");
    }

    #[test]
    fn missing_passes_do_not_shift_the_mean_over_cells() {
        // The second cell lies 0.5 higher and lacks every other pass.
        let noise = |at: u32| (f64::from(at) * 2.4).sin() * 0.01;
        let first = (0..20).map(|pass| (pass, noise(pass))).collect();
        let second = (0..20).step_by(2).map(|pass| (pass, 0.5 + noise(pass + 7))).collect();
        let units = over_cells(&[first, second]);
        assert_eq!(units.len(), 20);
        assert!((mean(&units) - 0.25).abs() < 0.005 && deviation(&units) < 0.02, "{units:?}");
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
    fn pairs_that_drift_are_judged_in_blocks() {
        let drifting: Vec<f64> = (0..40).map(|at| (f64::from(at) / 6.0).sin() * 0.05).collect();
        assert_eq!(paired(&drifting, 1, 1).unwrap().units, 10);
        assert_eq!(paired(&noise(&mut fastrand::Rng::with_seed(1), 40, 0.0, 0.05), 1, 1).unwrap().units, 40);
    }

    #[test]
    fn fewer_than_five_pairs_decide_nothing() {
        let few = paired(&[0.5, 0.5, 0.5, 0.5], 1, 1).unwrap();
        assert_eq!((few.half, few.p, few.interval(0.05)), (None, None, None));
        assert_eq!(paired(&[], 1, 1), None);
    }

    #[test]
    fn passes_drawn_again_spread_as_the_mean_does() {
        let paired = paired(&noise(&mut fastrand::Rng::with_seed(9), 40, 0.1, 0.05), 1, 1).unwrap();
        let again = paired.redrawn(2_000, 5);
        assert!((mean(&again) - paired.mean).abs() < 0.001);
        let expected = paired.deviation * (39.0_f64 / 40.0 / 40.0).sqrt();
        assert!((deviation(&again) / expected - 1.0).abs() < 0.08, "{} {expected}", deviation(&again));
    }

    proptest! {
        #[test]
        fn swapping_the_two_sides_mirrors_everything(d in prop::collection::vec(-0.2_f64..0.2, 5..15)) {
            let (a, b) = (paired(&d, 1, 1).unwrap(), paired(&d.iter().map(|d| -d).collect::<Vec<_>>(), 1, 1).unwrap());
            prop_assert!((a.mean + b.mean).abs() < 1e-12 && (a.half.unwrap() - b.half.unwrap()).abs() < 1e-12);
            prop_assert!((a.p.unwrap() - b.p.unwrap()).abs() < 1e-9);
        }
    }
}
