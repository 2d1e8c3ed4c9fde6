//! The level of a run of rounds, with an error that contains its slow drift.
//!
//! Runs that followed each other cannot be paired by pass, and intervals from independent rounds are far too narrow
//! then (docs/method/two-runs.md#the-error-of-one-run). So the interval of a run is the widest of those over single
//! rounds, over five long stretches of it (batch means), and over restarts where there are at least three. Rounds that
//! resemble their neighbours count as fewer ([`worth`]).

use std::ops::Range;

use msgpath_core::SparseHistogram;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::dependence::worth;
use crate::describe::{deviation, mean};
use crate::distributions::t_quantile;
use crate::pooled::Pooled;
use crate::quantile;

/// Stretches of a run for batch means.
const STRETCHES: usize = 5;
/// Restarts are a level of their own from so many on.
const LEAST_RESTARTS: usize = 3;
/// Resamples of a quantile.
const RESAMPLES: usize = 400;
/// The fewest degrees of freedom of rounds that are alike. Chosen by simulation: equal runs whose rounds follow an AR(1) of
/// 0 to 0.98 are called 5 % worse in at most 5 % of the pairs.
const LEAST_FREEDOM: f64 = 2.0;

/// An estimate with its standard error; of the logarithm, but for losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The estimate.
    pub at: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
}

impl Level {
    /// `b - a`, errors added by Welch with the degrees of freedom of Satterthwaite:
    /// (e_a^2 + e_b^2)^2 / (e_a^4 / k_a + e_b^4 / k_b).
    pub fn minus(self, a: Level) -> Level {
        let (own, other) = (self.error.powi(2), a.error.powi(2));
        let freedom = (own + other).powi(2) / (own.powi(2) / self.freedom + other.powi(2) / a.freedom);
        let least = self.freedom.min(a.freedom);
        Level {
            at: self.at - a.at,
            error: (own + other).sqrt(),
            freedom: if freedom.is_finite() { freedom } else { least },
        }
    }

    /// The 95 % interval.
    pub fn interval(self) -> (f64, f64) {
        let half = self.half();
        (self.at - half, self.at + half)
    }

    fn half(self) -> f64 {
        t_quantile(0.975, self.freedom) * self.error
    }

    /// Two-sided p-value of the difference from `bound`.
    pub fn p(self, bound: f64) -> f64 {
        let distance = (self.at - bound).abs();
        if self.error <= 0.0 {
            return if distance > 0.0 { 0.0 } else { 1.0 };
        }
        StudentsT::new(0.0, 1.0, self.freedom.max(1.0)).map_or(1.0, |t| 2.0 * (1.0 - t.cdf(distance / self.error)))
    }
}

/// The levels of quantiles of the same rounds, which are in the order of time and cut in these ways ([`cuts`]); each the
/// logarithm of ns.
///
/// # Errors
/// Why a quantile is withheld. That the rounds drift withholds none: the error of [`Level`] contains the drift.
pub fn of_quantiles(
    latency: &[&SparseHistogram],
    cuts: &[Vec<Range<usize>>],
    ps: &[f64],
    seed: u64,
) -> Vec<Result<Level, String>> {
    let pooled = Pooled::new(latency);
    let pieces = Pieces::new(latency, &pooled);
    let one = |p: &f64| claim(latency, &pooled, *p).and_then(|()| of_quantile(&pieces, cuts, *p, seed));
    ps.iter().map(one).collect()
}

/// Whether the p-quantile of the rounds together is a claim.
fn claim(latency: &[&SparseHistogram], pooled: &Pooled, p: f64) -> Result<(), String> {
    let name = quantile::name(p);
    let estimated = quantile::estimate(latency, pooled, p).ok_or_else(|| format!("{name}: there is no message"))?;
    let quantile = estimated.quantile;
    if quantile.ns.is_none() {
        return Err(format!("{name} is a lost message"));
    }
    // Rounds that go together are worth few messages, and their likeness is in the error of the level.
    let drifts = quantile.range == quantile::Range::Drift;
    let enough = drifts || estimated.effective.is_some_and(|effective| effective >= estimated.needed);
    match quantile.why {
        Some(why) if !enough || quantile.bursts < u64::from(MIN_ROUNDS_FOR_CLAIMS) => Err(match quantile.range {
            quantile::Range::NotYet => format!("{name} is not known yet: {why}"),
            _ => format!("{name} is withheld: {why}"),
        }),
        _ => Ok(()),
    }
}

/// The ways to cut rounds in the order of time into units: one by one, in stretches, by restart. `restarts`: the restart
/// that each of them belongs to.
pub fn cuts(restarts: &[u32]) -> Vec<Vec<Range<usize>>> {
    let n = restarts.len();
    let stretches = |count: usize| (0..count).map(|at| at * n / count..(at + 1) * n / count).collect::<Vec<_>>();
    let mut cuts = vec![stretches(n), stretches(STRETCHES)];
    let starts: Vec<usize> = (0..n).filter(|at| *at == 0 || restarts[*at] != restarts[*at - 1]).collect();
    if starts.len() >= LEAST_RESTARTS {
        let ends = starts.iter().skip(1).copied().chain([n]);
        cuts.push(starts.iter().zip(ends).map(|(from, to)| *from..to).collect());
    }
    cuts
}

fn widest(levels: impl Iterator<Item = Level>) -> Level {
    levels.max_by(|a, b| a.half().total_cmp(&b.half())).expect("at least one cut")
}

/// `level` of n independent rounds, when they are worth `worth`.
fn discounted(level: Level, n: f64, worth: f64) -> Level {
    Level {
        error: level.error * (n / worth).sqrt(),
        freedom: (worth - 1.0).clamp(LEAST_FREEDOM, level.freedom),
        ..level
    }
}

/// Mean of the values of the rounds, cut in these ways ([`cuts`]).
pub fn of_values(values: &[f64], cuts: &[Vec<Range<usize>>]) -> Level {
    let at = mean(values);
    let n = values.len() as f64;
    widest(cuts.iter().map(|units| {
        let means: Vec<f64> = units.iter().map(|unit| mean(&values[unit.clone()])).collect();
        let count = means.len() as f64;
        let level = Level { at, error: deviation(&means) / count.sqrt(), freedom: count - 1.0 };
        if means.len() == values.len() { discounted(level, n, worth(values)) } else { level }
    }))
}

/// Logarithm of a quantile of all rounds together. Its error is that of a bootstrap over units, widened by sqrt(G / (G - 1))
/// for G units; with Student's t for G - 1 that is Hesterberg's expansion of the bootstrap interval
/// (docs/method/comparison.md#tails).
fn of_quantile(pieces: &Pieces, cuts: &[Vec<Range<usize>>], p: f64, seed: u64) -> Result<Level, String> {
    let Pieces { pooled, shares, medians } = pieces;
    let value = pooled.quantile(p).flatten().ok_or_else(|| format!("{} is a lost message", quantile::name(p)))?;
    // How alike neighbours are: in the share that lies below the quantile, and in the median, where a drift shows first.
    let bin = pooled.bins().partition_point(|bin| bin.from <= value).saturating_sub(1);
    let below: Vec<f64> = shares.iter().filter(|shares| !shares.is_empty()).map(|shares| shares[bin]).collect();
    let worth = worth(&below).min(worth(medians));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut levels = Vec::new();
    for units in cuts {
        let resampled = resampled(shares, units, pooled, p, &mut random)
            .ok_or_else(|| format!("{} may be a lost message", quantile::name(p)))?;
        let count = units.len() as f64;
        let error = deviation(&resampled) * (count / (count - 1.0)).sqrt();
        let level = Level { at: (value.max(1) as f64).ln(), error, freedom: count - 1.0 };
        levels.push(if units.len() == shares.len() { discounted(level, count, worth) } else { level });
    }
    Ok(widest(levels.into_iter()))
}

/// What the quantiles of the same rounds share.
struct Pieces<'a> {
    pooled: &'a Pooled,
    /// F of each round at each bin of `pooled`.
    shares: Vec<Vec<f64>>,
    /// Logarithms of the rounds' medians.
    medians: Vec<f64>,
}

impl<'a> Pieces<'a> {
    fn new(latency: &[&SparseHistogram], pooled: &'a Pooled) -> Self {
        Self {
            pooled,
            shares: latency.iter().map(|latency| shares(latency, pooled)).collect(),
            medians: quantile::medians(latency).into_iter().map(|ns| ns.max(1.0).ln()).collect(),
        }
    }
}

/// F of one round at each bin of the pooled distribution; empty for a round without a message.
fn shares(round: &SparseHistogram, pooled: &Pooled) -> Vec<f64> {
    if round.total() == 0 {
        return Vec::new();
    }
    let mut ranges = round.ranges().peekable();
    let mut sum = 0;
    let reached = pooled.bins().iter().map(|bin| {
        while let Some((_, _, count)) = ranges.next_if(|(from, ..)| *from <= bin.from) {
            sum += count;
        }
        sum as f64 / round.total() as f64
    });
    reached.collect()
}

/// Logarithms of the p-quantile of resampled units. `None`: one of them is a lost message.
fn resampled(
    shares: &[Vec<f64>],
    units: &[Range<usize>],
    pooled: &Pooled,
    p: f64,
    random: &mut fastrand::Rng,
) -> Option<Vec<f64>> {
    let bins = pooled.bins();
    // Of each unit: F summed over its rounds, and their number.
    let sums: Vec<(Vec<f64>, f64)> = units
        .iter()
        .map(|unit| {
            let mut sum = vec![0.0; bins.len()];
            let own = shares[unit.clone()].iter().filter(|shares| !shares.is_empty());
            let rounds = own.map(|own| sum.iter_mut().zip(own).for_each(|(sum, share)| *sum += share)).count();
            (sum, rounds as f64)
        })
        .collect();
    let mut one = || {
        let drawn: Vec<&(Vec<f64>, f64)> = sums.iter().map(|_| &sums[random.usize(..sums.len())]).collect();
        let wanted = (p - 1e-11) * drawn.iter().map(|(_, rounds)| rounds).sum::<f64>();
        let (mut low, mut high) = (0, bins.len());
        while low < high {
            let middle = (low + high) / 2;
            let reached = drawn.iter().map(|(sum, _)| sum[middle]).sum::<f64>() >= wanted;
            (low, high) = if reached { (low, middle) } else { (middle + 1, high) };
        }
        bins.get(low).map(|bin| (bin.value().max(1) as f64).ln())
    };
    (0..RESAMPLES).map(|_| one()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{lognormal_rounds, normal};

    #[test]
    fn drift_widens_the_error() {
        let mut random = fastrand::Rng::with_seed(1);
        let chance: Vec<f64> = (0..40).map(|_| 0.01 * normal(&mut random)).collect();
        let drifting: Vec<f64> = chance.iter().enumerate().map(|(at, value)| value + at as f64 * 0.01).collect();
        let cuts = cuts(&[0; 40]);
        let (quiet, loud) = (of_values(&chance, &cuts), of_values(&drifting, &cuts));
        assert!(quiet.error < 0.003 && loud.error > 0.05 && loud.freedom < 5.0, "{quiet:?} {loud:?}");
    }

    #[test]
    fn a_median_that_drifts_is_compared() {
        let rounds: Vec<SparseHistogram> = (0..20_u32)
            .map(|pass| {
                let level = 200_000.0 * (1.0 + f64::from(pass) / 40.0);
                lognormal_rounds(u64::from(pass), 1, 30, level, 0.02, 0.0).remove(0)
            })
            .collect();
        let rounds: Vec<&SparseHistogram> = rounds.iter().collect();
        let level = of_quantiles(&rounds, &cuts(&[0; 20]), &[0.5], 1).remove(0).expect("its error contains the drift");
        assert!(level.error > 0.03 && (level.at.exp() / 245_000.0 - 1.0).abs() < 0.05, "{level:?}");
    }

    #[test]
    fn restarts_are_units_from_three_on() {
        let ways = |restarts: u32| cuts(&(0..40).map(|pass| pass * restarts / 40).collect::<Vec<_>>());
        assert_eq!((ways(1).len(), ways(2).len(), ways(4).len()), (2, 2, 3));
        assert_eq!(ways(4)[2], [0..10, 10..20, 20..30, 30..40]);
        // Short restarts that differ, with rounds that alternate within them: the restarts are what counts.
        let values: Vec<f64> = (0..40).map(|at| [0.2, -0.1, 0.1, -0.2][at / 4 % 4] + [0.3, -0.3][at % 2]).collect();
        let level = of_values(&values, &ways(10));
        assert!(level.freedom == 9.0 && level.error > 0.05, "{level:?}");
    }

    #[test]
    fn welch_and_satterthwaite() {
        // Two samples of 10 and 20 with s = 1 and 2: e = 0.3162 and 0.4472, 27.98 degrees of freedom.
        let of = |at, n: f64, s: f64| Level { at, error: s / n.sqrt(), freedom: n - 1.0 };
        let difference = of(1.0, 20.0, 2.0).minus(of(0.0, 10.0, 1.0));
        assert!(
            (difference.freedom - 27.98).abs() < 0.05 && (difference.error - 0.5477).abs() < 1e-3,
            "{difference:?}"
        );
        // t = 1.826: two-sided p of 0.0786.
        assert!((difference.p(0.0) - 0.0786).abs() < 1e-3, "{}", difference.p(0.0));
        let equal = Level { at: 2.0, error: 0.0, freedom: 4.0 }.minus(Level { at: 2.0, error: 0.0, freedom: 4.0 });
        assert_eq!((equal.p(0.0), equal.p(0.1), equal.interval()), (1.0, 0.0, (0.0, 0.0)));
    }

    /// Logarithms of 40 rounds that follow an AR(1) around `center`.
    fn drifting(random: &mut fastrand::Rng, center: f64, correlation: f64, spread: f64) -> Vec<f64> {
        let mut level = spread * normal(random);
        (0..40)
            .map(|_| {
                level = correlation * level + (1.0 - correlation * correlation).sqrt() * spread * normal(random);
                center + level
            })
            .collect()
    }

    /// Share of the pairs of runs whose second is surely more than 5 % above the first.
    fn called_worse(center: f64, correlation: f64, spread: f64) -> f64 {
        let cuts = cuts(&[0; 40]);
        let mut random = fastrand::Rng::with_seed(5);
        let mut run = |center: f64| of_values(&drifting(&mut random, center, correlation, spread), &cuts);
        let worse = (0..1_000).filter(|_| {
            let a = run(0.0);
            run(center).minus(a).interval().0 > 1.05_f64.ln()
        });
        worse.count() as f64 / 1_000.0
    }

    #[test]
    fn equal_runs_that_drift_are_rarely_called_worse() {
        let table =
            [(0.0, 0.05), (0.0, 0.2), (0.5, 0.05), (0.8, 0.05), (0.9, 0.05), (0.9, 0.15), (0.95, 0.1), (0.98, 0.1)];
        for (correlation, spread) in table {
            let share = called_worse(0.0, correlation, spread);
            assert!(share <= 0.05, "correlation {correlation}, spread {spread}: {share}");
        }
    }

    #[test]
    fn thirty_percent_are_found_in_runs_that_drift() {
        for (correlation, spread, least) in [(0.0, 0.1, 0.99), (0.5, 0.1, 0.95), (0.8, 0.05, 0.85)] {
            let share = called_worse(1.3_f64.ln(), correlation, spread);
            assert!(share >= least, "correlation {correlation}, spread {spread}: {share}");
        }
    }
}
