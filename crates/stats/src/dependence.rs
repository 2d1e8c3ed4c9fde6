//! Rounds that resemble their neighbours in time: how much, and how many independent ones they are worth.

use crate::describe::mean;

/// Lag-1 autocorrelation; 0 where there is no spread.
pub fn lag1(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    // What rounding leaves of equal values is not a spread.
    let rounding = (1e-12 * mean).powi(2) * values.len() as f64;
    if squares > rounding { products / squares } else { 0.0 }
}

/// What |r1| of `n` independent values stays below 19 times in 20.
pub fn lag1_limit(n: usize) -> f64 {
    1.96 / (n as f64).sqrt()
}

/// Neighbours are joined down to this many units, not below.
const FEWEST_UNITS: usize = 10;

/// Rounds that go together so much that they are worth fewer than this tell no interval, only what was seen.
pub const LEAST_WORTH: f64 = 6.0;

/// How many independent values these, in the order of time, are worth for their mean: n (1 - r) / (1 + r) as in an AR(1),
/// at least 1. r is the lag-1 autocorrelation freed of its bias: (n [`lag1`] + 1) / (n - 4), since with a mean that is
/// estimated and one product fewer than squares it is (1 + 4 r) / n too low (Marriott and Pope 1954;
/// docs/method/quantiles.md#interval-of-a-quantile). All of them where neighbours resemble each other no more than chance
/// has it: independent rounds are not punished for what few of them happen to show.
pub fn worth(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let r1 = lag1(values);
    // Of five values or fewer none goes beyond the limit.
    if r1 <= lag1_limit(values.len()) {
        return n;
    }
    let r = ((n * r1 + 1.0) / (n - 4.0)).min(1.0);
    (n * (1.0 - r) / (1.0 + r)).max(1.0)
}

/// Joins neighbours while they resemble each other (docs/method/quantiles.md#interval-of-a-quantile). The flag: they
/// still do when no more can be joined. Only likeness (r1 > 0) counts then: rounds that alternate make an interval too
/// wide, never too narrow.
pub fn independent(values: &[f64]) -> (Vec<f64>, bool) {
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
pub fn joined(values: &[f64], groups: usize) -> Vec<f64> {
    (0..groups).map(|at| mean(&values[at * values.len() / groups..(at + 1) * values.len() / groups])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::median;
    use crate::simulate::autoregressive;
    use proptest::prelude::*;

    #[test]
    fn the_likeness_is_freed_of_its_bias() {
        // Of 40 values with a mean of their own r1 is (1 + 4 * 0.6) / 40 = 0.085 too low.
        let found: Vec<f64> = (0..4_000).map(|seed| lag1(&autoregressive(seed, 40, 0.6))).collect();
        assert!((mean(&found) - 0.515).abs() < 0.01, "{}", mean(&found));
        let freed = (40.0 * mean(&found) + 1.0) / 36.0;
        assert!((freed - 0.6).abs() < 0.012, "{freed}");
        // Hardly any, and never fewer than one: what rises all the time is one draw.
        assert_eq!(worth(&(0..40).map(f64::from).collect::<Vec<_>>()), 1.0);
    }

    #[test]
    fn rounds_that_go_together_are_worth_fewer() {
        let usual = |rho: f64| median(&(0..200).map(|seed| worth(&autoregressive(seed, 40, rho))).collect::<Vec<_>>());
        // (1 - 0.5) / (1 + 0.5) of 40 are 13.3, (1 - 0.8) / (1 + 0.8) are 4.4.
        assert!(usual(0.0) == 40.0 && (9.0..18.0).contains(&usual(0.5)) && (2.5..6.0).contains(&usual(0.8)));
        assert_eq!((worth(&[3.0; 40]), worth(&[1.0, 2.0])), (40.0, 2.0));
        assert_eq!(worth(&[0.95; 20]), 20.0, "nor is rounding likeness");
    }

    proptest! {
        #[test]
        fn joining_keeps_the_mean_of_equal_groups(values in prop::collection::vec(-5.0_f64..5.0, 8..9)) {
            prop_assert!((mean(&joined(&values, 4)) - mean(&values)).abs() < 1e-12);
        }
    }
}
