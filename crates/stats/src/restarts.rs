//! Restarts as a level of the design: variance within and between them (docs/method/steadiness.md#restarts).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor};

use crate::describe::{deviation, mean};
use crate::distributions::t_quantile;
use crate::estimate::Estimate;

/// A round's time in ns, with the restart that it belongs to.
pub type Timed = (u32, f64);

/// A restart with fewer rounds says nothing about the spread within.
const LEAST_ROUNDS: usize = 2;

/// Variance within and between restarts (docs/method/steadiness.md#restarts), of the log medians of rounds.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Restarts {
    /// Restarts with at least two rounds.
    pub restarts: u64,
    /// Standard deviation of rounds within a restart, relative: 0.05 is 5 %.
    pub within: f64,
    /// Standard deviation between restarts beyond what `within` explains (T), relative.
    pub between: f64,
    /// Geometric mean of the restarts' medians, ns, with a t-interval over restarts.
    pub p50_ns: Estimate,
    /// Restarts dominate: T^2 > S^2 within. More rounds will not help.
    pub dominate: bool,
    /// Rounds per restart that use time best; `None` where T is 0 or the cost of a restart is not known.
    pub best_rounds: Option<u64>,
}

/// Both variances of `rounds` (on the logarithm) and what follows. `cost`: of a restart, in rounds of this
/// case. `None` below two restarts of two rounds each.
pub fn restarts(rounds: &[Timed], cost: Option<f64>) -> Option<Restarts> {
    let groups: Vec<Vec<f64>> = grouped(rounds).into_values().filter(|logs| logs.len() >= LEAST_ROUNDS).collect();
    if groups.len() < 2 {
        return None;
    }
    let means: Vec<f64> = groups.iter().map(|logs| mean(logs)).collect();
    let within = mean(&groups.iter().map(|logs| deviation(logs).powi(2)).collect::<Vec<_>>());
    // The mean of a restart of n rounds has variance T^2 + S^2/n: over unequal restarts 1/n is averaged.
    let error = within * mean(&groups.iter().map(|logs| 1.0 / logs.len() as f64).collect::<Vec<_>>());
    let between = (deviation(&means).powi(2) - error).max(0.0);
    let center = mean(&means);
    let half = t_quantile(0.975, means.len() as f64 - 1.0) * deviation(&means) / (means.len() as f64).sqrt();
    Some(Restarts {
        restarts: groups.len() as u64,
        within: within.sqrt(),
        between: between.sqrt(),
        p50_ns: Estimate { value: center.exp(), low: Some((center - half).exp()), high: Some((center + half).exp()) },
        dominate: between > within,
        best_rounds: cost.filter(|_| between > 0.0).map(|cost| (cost * within / between).sqrt().ceil().max(1.0) as u64),
    })
}

/// Logarithms by restart.
fn grouped(rounds: &[Timed]) -> BTreeMap<u32, Vec<f64>> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (restart, ns) in rounds {
        groups.entry(*restart).or_default().push(ns.ln());
    }
    groups
}

/// The rounds with every restart moved to the level of all: what is left changes within restarts. A change between them
/// is [`restarts`]' business, not a lack of steadiness.
pub fn levelled(rounds: &[Timed]) -> Vec<f64> {
    let levels: BTreeMap<u32, f64> =
        grouped(rounds).into_iter().map(|(restart, logs)| (restart, mean(&logs))).collect();
    let all = mean(&rounds.iter().map(|(_, ns)| ns.ln()).collect::<Vec<_>>());
    rounds.iter().map(|(restart, ns)| if levels.len() < 2 { *ns } else { ns * (all - levels[restart]).exp() }).collect()
}

/// p-value of "restarts make no difference": F = n S^2 between / S^2 within over R - 1 and R (n - 1) degrees of freedom,
/// with n rounds a restart. `None` where there is no spread within.
pub fn p_value(restarts: &Restarts, rounds: f64) -> Option<f64> {
    let r = restarts.restarts as f64;
    let n = rounds / r;
    let f = 1.0 + n * (restarts.between / restarts.within).powi(2);
    // T = 0 stands for every F up to 1: no evidence of a difference.
    if restarts.between == 0.0 {
        return Some(1.0);
    }
    let law = FisherSnedecor::new(r - 1.0, r * (n - 1.0)).ok()?;
    f.is_finite().then(|| law.sf(f))
}

/// What T is at most, at 97.5 %: from the chi-squared law of the variance between restart means. Where T is 0, their
/// variance is taken as what chance makes of it, S^2 / n: it was at most that.
pub fn most_between(restarts: &Restarts, rounds: f64) -> f64 {
    let r = restarts.restarts as f64;
    let error = restarts.within.powi(2) * r / rounds;
    let least = ChiSquared::new(r - 1.0).map_or(0.0, |law| law.inverse_cdf(0.025));
    ((restarts.between.powi(2) + error) * (r - 1.0) / least - error).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;

    /// R restarts of n rounds: T between, S within.
    fn simulated(seed: u64, (r, n): (u32, u32), between: f64, within: f64) -> Vec<Timed> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..r)
            .flat_map(|restart| {
                let level = between * normal(&mut random);
                let logs: Vec<f64> = (0..n).map(|_| level + within * normal(&mut random)).collect();
                logs.into_iter().map(move |log| (restart, 10_000.0 * log.exp()))
            })
            .collect()
    }

    #[test]
    fn both_variances_are_found() {
        for (between, within) in [(0.1, 0.03), (0.02, 0.05), (0.05, 0.05)] {
            let found = restarts(&simulated(1, (400, 10), between, within), Some(8.0)).unwrap();
            assert!((found.between / between - 1.0).abs() < 0.12, "{found:?}");
            assert!((found.within / within - 1.0).abs() < 0.05 && found.restarts == 400, "{found:?}");
            let best = (8.0_f64).sqrt() * within / between;
            assert!((found.best_rounds.unwrap() as f64 - best).abs() <= 1.0 + 0.15 * best, "{found:?} {best}");
        }
        let none = (0..100).filter(|seed| restarts(&simulated(*seed, (3, 13), 0.0, 0.05), None).unwrap().dominate);
        assert_eq!(none.count(), 0);
        let dominate = (0..100).filter(|seed| restarts(&simulated(*seed, (10, 4), 0.1, 0.02), None).unwrap().dominate);
        assert_eq!(dominate.count(), 100);
    }

    #[test]
    fn the_interval_over_restarts_covers_and_that_over_rounds_would_not() {
        let (mut over_restarts, mut over_rounds) = (0, 0);
        for seed in 0..300 {
            let rounds = simulated(seed, (5, 8), 0.1, 0.02);
            let holds = |estimate: &Estimate| estimate.low.unwrap() <= 10_000.0 && 10_000.0 <= estimate.high.unwrap();
            over_restarts += u32::from(holds(&restarts(&rounds, None).unwrap().p50_ns));
            let values: Vec<f64> = rounds.iter().map(|(_, ns)| *ns).collect();
            over_rounds += u32::from(holds(&crate::estimate::log_estimate(&values).unwrap()));
        }
        assert!((276..=297).contains(&over_restarts) && over_rounds < 200, "{over_restarts} {over_rounds}");
    }

    #[test]
    fn the_test_and_the_bound_hold_what_they_promise() {
        let (mut alarms, mut seen, mut bounded) = (0, 0, 0);
        for seed in 0..300 {
            let of = |between| restarts(&simulated(seed, (5, 8), between, 0.03), None).unwrap();
            alarms += u32::from(p_value(&of(0.0), 40.0).unwrap() < 0.05);
            seen += u32::from(p_value(&of(0.06), 40.0).unwrap() < 0.05);
            bounded += u32::from(most_between(&of(0.03), 40.0) >= 0.03);
        }
        assert!(alarms <= 25 && seen >= 250 && bounded >= 280, "{alarms} {seen} {bounded}");
    }

    #[test]
    fn restarts_are_levelled_and_a_single_one_is_left_alone() {
        let rounds = simulated(3, (4, 5), 0.5, 0.0);
        let flat = levelled(&rounds);
        assert!(flat.iter().all(|ns| (ns / flat[0] - 1.0).abs() < 1e-9), "{flat:?}");
        assert_eq!(levelled(&[(0, 5.0), (0, 7.0)]), [5.0, 7.0]);
    }

    #[test]
    fn too_few_restarts_are_no_level() {
        assert_eq!(restarts(&[(0, 1.0), (0, 2.0), (1, 3.0)], None), None);
        let same = restarts(&[(0, 1.0), (0, 1.0), (1, 1.0), (1, 1.0)], Some(3.0)).unwrap();
        assert_eq!((same.between, same.dominate, same.best_rounds), (0.0, false, None));
    }
}
