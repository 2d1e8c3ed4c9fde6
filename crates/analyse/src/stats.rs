//! Small pieces of statistics that several procedures share.

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use statrs::distribution::{Binomial, ContinuousCDF, Discrete, Normal, StudentsT};

use crate::summary::Estimate;

/// The q-quantile of Student's t with `df` degrees of freedom (at least 1).
pub(crate) fn t_quantile(q: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// The smallest k with P(X <= k) >= q for X ~ Binomial(n, p).
///
/// Summed exactly from the left where the variance is small; Cornish-Fisher to the second order where it is large
/// (there its error is below one count, and the continued fraction of the incomplete beta does not converge).
pub(crate) fn binomial_inverse(q: f64, n: u64, p: f64) -> u64 {
    let (mean, variance) = (n as f64 * p, n as f64 * p * (1.0 - p));
    let deviation = variance.sqrt();
    if variance > 1_000.0 {
        let z = Normal::standard().inverse_cdf(q);
        let k = mean + z * deviation + (1.0 - 2.0 * p) * (z * z - 1.0) / 6.0 - 0.5;
        return (k.ceil().max(0.0) as u64).min(n);
    }
    let Ok(binomial) = Binomial::new(p, n) else { return n };
    // 12 standard deviations below the mean nothing is left.
    let mut k = (mean - 12.0 * deviation - 12.0).floor().max(0.0) as u64;
    let mut term = binomial.ln_pmf(k).exp();
    let mut sum = term;
    while sum < q && k < n {
        term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
        sum += term;
        k += 1;
    }
    k
}

/// Arithmetic mean; NaN for nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample (divisor n - 1); 0 below two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

/// Lag-1 autocorrelation; 0 where there is no spread.
pub(crate) fn lag1(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // What rounding leaves of equal values is no spread.
    let rounding = (1e-12 * mean).powi(2) * values.len() as f64;
    if squares > rounding { products / squares } else { 0.0 }
}

/// What |r1| of `n` independent values stays below 19 times in 20.
pub(crate) fn lag1_limit(n: usize) -> f64 {
    1.96 / (n as f64).sqrt()
}

/// Neighbours are joined down to this many units, not below.
const FEWEST_UNITS: usize = 10;

/// Rounds that go together so much that they are worth fewer than this tell no interval, only what was seen.
pub(crate) const LEAST_WORTH: f64 = 6.0;

/// How many independent values these, in the order of time, are worth for their mean: n (1 - r) / (1 + r) as in an AR(1).
/// r is the lag-1 autocorrelation freed of its bias, -(1 + 3 r) / n (Marriott and Pope 1954). All of them where neighbours
/// resemble each other no more than chance has it: independent rounds are not punished for what few of them happen to show.
pub(crate) fn worth(values: &[f64]) -> f64 {
    let (n, r1) = (values.len() as f64, lag1(values));
    if r1 <= lag1_limit(values.len()) {
        return n;
    }
    let r = ((r1 + 1.0 / n) / (1.0 - 3.0 / n)).min(1.0);
    n * (1.0 - r) / (1.0 + r)
}

/// Joins neighbours while they resemble each other (docs/method/quantiles.md#interval-of-a-quantile). The flag: they
/// still do when no more can be joined. Only likeness (r1 > 0) counts then: rounds that alternate make an interval too
/// wide, never too narrow.
pub(crate) fn independent(values: &[f64]) -> (Vec<f64>, bool) {
    let mut units = values.to_vec();
    while lag1(&units).abs() > lag1_limit(units.len()) {
        if units.len() / 2 < FEWEST_UNITS {
            let drifting = lag1(&units) > lag1_limit(units.len());
            return (units, drifting);
        }
        units = joined(values, units.len() / 2);
    }
    (units, false)
}

/// Means of `groups` neighbouring stretches of (almost) equal length; `groups` is at most the number of values.
pub(crate) fn joined(values: &[f64], groups: usize) -> Vec<f64> {
    (0..groups).map(|at| mean(&values[at * values.len() / groups..(at + 1) * values.len() / groups])).collect()
}

/// The p-quantile of values that need not be sorted; infinities allowed.
pub(crate) fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = ((p * values.len() as f64).ceil() as usize).clamp(1, values.len());
    values[rank - 1]
}

/// The middle value, or the mean of the two in the middle; NaN for nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
    }
}

/// Mean of per-round values with its 95 % t interval; without one below [`MIN_ROUNDS_FOR_CLAIMS`] rounds. `None` for
/// nothing.
pub(crate) fn mean_estimate(values: &[f64]) -> Option<Estimate> {
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
pub(crate) fn log_estimate(values: &[f64]) -> Option<Estimate> {
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
pub(crate) fn log_estimate_in_time(values: &[f64]) -> Option<Estimate> {
    let estimate = log_estimate(values)?;
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0 && value.is_finite()).map(|v| v.ln()).collect();
    let worth = worth(&logs);
    if estimate.low.is_none() || worth >= logs.len() as f64 {
        return Some(estimate);
    }
    let ends = match worth >= LEAST_WORTH {
        true => {
            let half = t_quantile(0.975, worth - 1.0) * deviation(&logs) / worth.sqrt();
            (estimate.value.ln() - half, estimate.value.ln() + half)
        }
        false => crate::steady::ends(&logs),
    };
    let [low, high] = [ends.0.exp().min(estimate.value), ends.1.exp().max(estimate.value)];
    Some(Estimate { low: Some(low), high: Some(high), ..estimate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn student_quantiles_are_those_of_the_tables() {
        for (df, expected) in [(1.0, 12.706), (4.0, 2.776), (9.0, 2.262), (39.0, 2.0227), (999.0, 1.9623)] {
            assert!((t_quantile(0.975, df) - expected).abs() < 1e-3, "{df}: {}", t_quantile(0.975, df));
            assert!((t_quantile(0.025, df) + expected).abs() < 1e-3);
        }
    }

    /// An AR(1) of 40 values around 0.
    fn correlated(seed: u64, rho: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut x = crate::testing::normal(&mut random);
        (0..40)
            .map(|_| {
                x = rho * x + (1.0 - rho * rho).sqrt() * crate::testing::normal(&mut random);
                x
            })
            .collect()
    }

    #[test]
    fn rounds_that_go_together_are_worth_fewer() {
        let usual = |rho: f64| median(&(0..200).map(|seed| worth(&correlated(seed, rho))).collect::<Vec<_>>());
        // (1 - 0.5) / (1 + 0.5) of 40 are 13.3, (1 - 0.8) / (1 + 0.8) are 4.4.
        assert!(usual(0.0) == 40.0 && (9.0..18.0).contains(&usual(0.5)) && (2.5..6.0).contains(&usual(0.8)));
        assert_eq!((worth(&[3.0; 40]), worth(&[1.0, 2.0])), (40.0, 2.0));
        assert_eq!(worth(&[0.95; 20]), 20.0, "nor is rounding likeness");
    }

    #[test]
    fn the_mean_of_rounds_that_go_together_holds_the_truth() {
        let rates = |seed| correlated(seed, 0.6).into_iter().map(|x| (0.1 * x).exp()).collect::<Vec<_>>();
        let holds = |of: fn(&[f64]) -> Option<Estimate>| {
            let holds = |own: Estimate| own.low.unwrap() <= 1.0 && 1.0 <= own.high.unwrap();
            (0..200).filter(|seed| holds(of(&rates(*seed)).unwrap())).count()
        };
        let (alone, in_time) = (holds(log_estimate), holds(log_estimate_in_time));
        assert!(alone < 160 && in_time >= 180, "{alone} {in_time}");
        let free: Vec<f64> = correlated(1, 0.0).into_iter().map(f64::exp).collect();
        assert_eq!(log_estimate(&free), log_estimate_in_time(&free));
    }

    #[test]
    fn binomial_inverse_is_that_of_the_tables() {
        // R: qbinom(0.025, 10, 0.5) = 2, qbinom(0.975, 10, 0.5) = 8, qbinom(0.975, 100, 0.99) = 100.
        assert_eq!((binomial_inverse(0.025, 10, 0.5), binomial_inverse(0.975, 10, 0.5)), (2, 8));
        assert_eq!(binomial_inverse(0.975, 100, 0.99), 100);
        assert_eq!(binomial_inverse(0.025, 0, 0.5), 0);
    }

    proptest! {
        #[test]
        fn large_and_small_variance_agree_at_the_seam(p in 0.3_f64..0.7, q in 0.02_f64..0.98) {
            let n = (1_000.0 / (p * (1.0 - p))) as u64;
            let (below, above) = (binomial_inverse(q, n - 5, p), binomial_inverse(q, n + 5, p));
            prop_assert!(above >= below && above - below <= 10, "{below} {above}");
        }

        #[test]
        fn joining_keeps_the_mean_of_equal_groups(values in prop::collection::vec(-5.0_f64..5.0, 8..9)) {
            prop_assert!((mean(&joined(&values, 4)) - mean(&values)).abs() < 1e-12);
        }
    }
}
