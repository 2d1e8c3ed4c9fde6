//! Means over rounds with their intervals (docs/method/rounds.md#means-over-rounds).

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dependence::{LEAST_WORTH, worth};
use crate::describe::{deviation, ends, mean};
use crate::distributions::t_quantile;

/// An estimate with its 95 % interval over rounds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate, in the unit that the name of its field ends in.
    pub value: f64,
    /// Lower end; `None`: no interval can be claimed.
    pub low: Option<f64>,
    /// Upper end; `None`: no interval, or not resolvable.
    pub high: Option<f64>,
}

impl From<f64> for Estimate {
    /// Without an interval.
    fn from(value: f64) -> Self {
        Self { value, low: None, high: None }
    }
}

/// Mean of per-round values with its 95 % t interval; without one below [`MIN_ROUNDS_FOR_CLAIMS`] rounds. `None` for
/// nothing.
pub fn mean_estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let value = mean(values);
    let claim = values.len() >= MIN_ROUNDS_FOR_CLAIMS as usize;
    let half = t_quantile(0.975, values.len() as f64 - 1.0) * deviation(values) / (values.len() as f64).sqrt();
    Some(Estimate { value, low: claim.then_some(value - half), high: claim.then_some(value + half) })
}

/// Geometric mean of positive per-round values with its 95 % t interval on the logarithm
/// (docs/method/rounds.md#means-over-rounds); without an interval below [`MIN_ROUNDS_FOR_CLAIMS`] rounds. `None`
/// without a positive value.
pub fn log_estimate(values: &[f64]) -> Option<Estimate> {
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0 && value.is_finite()).map(|v| v.ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let center = mean(&logs);
    let claim = logs.len() >= MIN_ROUNDS_FOR_CLAIMS as usize;
    let half = t_quantile(0.975, logs.len() as f64 - 1.0) * deviation(&logs) / (logs.len() as f64).sqrt();
    Some(Estimate {
        value: center.exp(),
        low: claim.then(|| (center - half).exp()),
        high: claim.then(|| (center + half).exp()),
    })
}

/// [`log_estimate`] of rounds in the order of time, which may go together: the interval is that of as many independent
/// ones as they are [`worth`], and the range of all where that is next to nothing.
pub fn log_estimate_in_time(values: &[f64]) -> Option<Estimate> {
    let estimate = log_estimate(values)?;
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0 && value.is_finite()).map(|v| v.ln()).collect();
    let worth = worth(&logs);
    if estimate.low.is_none() || worth >= logs.len() as f64 {
        return Some(estimate);
    }
    let ends = if worth >= LEAST_WORTH {
        let half = t_quantile(0.975, worth - 1.0) * deviation(&logs) / worth.sqrt();
        (estimate.value.ln() - half, estimate.value.ln() + half)
    } else {
        ends(&logs)
    };
    let [low, high] = [ends.0.exp().min(estimate.value), ends.1.exp().max(estimate.value)];
    Some(Estimate { low: Some(low), high: Some(high), ..estimate })
}

/// A positive number that all rounds have together, with its 95 % interval by the jackknife on the logarithm: from how it moves where
/// one round is left out. Without an interval below [`MIN_ROUNDS_FOR_CLAIMS`] rounds, or where those that are left do not have it.
/// `None`: all together do not.
pub fn jackknife<T>(rounds: &[&T], of: impl Fn(&[&T]) -> Option<f64>) -> Option<Estimate> {
    let log = |rounds: &[&T]| of(rounds).filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln);
    let center = log(rounds)?;
    let without = |at: usize| log(&[&rounds[..at], &rounds[at + 1..]].concat());
    let each: Option<Vec<f64>> = (0..rounds.len()).map(without).collect();
    let estimate = Estimate::from(center.exp());
    let Some(each) = each.filter(|each| each.len() >= MIN_ROUNDS_FOR_CLAIMS as usize) else { return Some(estimate) };
    let (count, middle) = (each.len() as f64, mean(&each));
    let spread = each.iter().map(|one| (one - middle).powi(2)).sum::<f64>() * (count - 1.0) / count;
    let half = t_quantile(0.975, count - 1.0) * spread.sqrt();
    Some(Estimate { low: Some((center - half).exp()), high: Some((center + half).exp()), ..estimate })
}

/// Widens the interval of a mean to those of the same mean of each level.
pub fn widen_mean(estimate: &mut Estimate, levels: &[Estimate]) {
    let lows = levels.iter().map(|level| level.low.unwrap_or(level.value)).chain(estimate.low);
    let highs = levels.iter().map(|level| level.high.unwrap_or(level.value)).chain(estimate.high);
    if !levels.is_empty() {
        (estimate.low, estimate.high) = (lows.reduce(f64::min), highs.reduce(f64::max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::autoregressive;

    #[test]
    fn the_mean_of_rounds_that_go_together_holds_the_truth() {
        let rates = |seed| autoregressive(seed, 40, 0.6).into_iter().map(|x| (0.1 * x).exp()).collect::<Vec<_>>();
        let holds = |of: fn(&[f64]) -> Option<Estimate>| {
            let holds = |own: Estimate| own.low.unwrap() <= 1.0 && 1.0 <= own.high.unwrap();
            (0..200).filter(|seed| holds(of(&rates(*seed)).unwrap())).count()
        };
        let (alone, in_time) = (holds(log_estimate), holds(log_estimate_in_time));
        assert!(alone < 160 && in_time >= 180, "{alone} {in_time}");
        let free: Vec<f64> = autoregressive(1, 40, 0.0).into_iter().map(f64::exp).collect();
        assert_eq!(log_estimate(&free), log_estimate_in_time(&free));
    }

    #[test]
    fn of_a_mean_the_jackknife_is_the_interval_of_the_mean() {
        let values: Vec<f64> = autoregressive(3, 20, 0.0).into_iter().map(|x| 100.0 + x).collect();
        let rounds: Vec<&f64> = values.iter().collect();
        let of = |rounds: &[&f64]| Some(rounds.iter().copied().sum::<f64>() / rounds.len() as f64);
        let (own, known) = (jackknife(&rounds, of).unwrap(), mean_estimate(&values).unwrap());
        assert!((own.value - known.value).abs() < 1e-9, "{own:?} {known:?}");
        for (own, known) in [(own.low, known.low), (own.high, known.high)] {
            assert!((own.unwrap() - known.unwrap()).abs() < 1e-2, "{own:?} {known:?}");
        }
        assert_eq!(jackknife(&rounds[..2], of).unwrap().low, None);
        assert_eq!(jackknife::<f64>(&[], |_| None), None);
        // One round alone has it.
        let rare = |rounds: &[&f64]| rounds.iter().any(|one| **one == values[0]).then_some(1.0);
        assert_eq!(jackknife(&rounds, rare), Some(Estimate::from(1.0)));
    }
}
