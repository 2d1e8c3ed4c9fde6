//! Two samples of single values: Welch's t and a permutation test (docs/method/comparison.md#single-messages).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Two-sided level of both tests.
pub const LEVEL: f64 = 0.05;

/// Mean, median and spread of single times.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub arrived: u64,
    /// Arithmetic mean, ns.
    pub mean_ns: f64,
    /// The middle value, or the mean of the two in the middle, ns.
    pub median_ns: f64,
    /// Standard deviation of the sample (divisor n - 1), ns; `None` with a single trial.
    pub deviation_ns: Option<f64>,
    /// Fastest, ns.
    pub min_ns: u64,
    /// Slowest, ns.
    pub max_ns: u64,
}

/// [`Spread`] of these times, ns; `None` for nothing.
pub fn spread(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let (&min_ns, &max_ns) = (values.first()?, values.last()?);
    let n = values.len();
    let mean_ns = values.iter().map(|value| *value as f64).sum::<f64>() / n as f64;
    let median_ns = (values[(n - 1) / 2] as f64 + values[n / 2] as f64) / 2.0;
    let squares: f64 = values.iter().map(|value| (*value as f64 - mean_ns).powi(2)).sum();
    let deviation_ns = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
    Some(Spread { arrived: n as u64, mean_ns, median_ns, deviation_ns, min_ns, max_ns })
}

/// The difference of two means by Welch (*The Generalization of 'Student's' Problem when Several Different Population
/// Variances are Involved*, 1947).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// `(mean of a - mean of b) / standard error`.
    pub t: f64,
    /// Degrees of freedom after Welch and Satterthwaite.
    pub degrees: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// `None` where one of the two has fewer than two values, or neither has any spread.
pub fn welch(a: &Spread, b: &Spread) -> Option<Welch> {
    let of_mean = |s: &Spread| Some((s.deviation_ns?.powi(2) / s.arrived as f64, (s.arrived - 1) as f64));
    let ((va, ka), (vb, kb)) = (of_mean(a)?, of_mean(b)?);
    if va + vb <= 0.0 {
        return None;
    }
    let t = (a.mean_ns - b.mean_ns) / (va + vb).sqrt();
    let degrees = (va + vb).powi(2) / (va.powi(2) / ka + vb.powi(2) / kb);
    let p = 2.0 * StudentsT::new(0.0, 1.0, degrees).ok()?.cdf(-t.abs());
    Some(Welch { t, degrees, p })
}

/// Up to so many values all ways to deal them are tried.
const EXACT: usize = 20;
/// Random ways to deal more of them.
const DEALS: usize = 9_999;

/// Two-sided p-value of the difference of two means under exchange of the values: all ways to deal up to `EXACT` values,
/// else `DEALS` random ones of a fixed seed, with p = (1 + hits) / (1 + deals).
pub fn permutation(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let n = all.len();
    let total = all.iter().sum::<f64>();
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    // The sum of the first column decides the difference of the means.
    let expected = total * a.len() as f64 / n as f64;
    let observed = (a.iter().sum::<f64>() - expected).abs() - 1e-9 * total.abs();
    let extreme = |sum: f64| (sum - expected).abs() >= observed;
    if n <= EXACT {
        let (mut hits, mut deals) = (0_u64, 0_u64);
        let mut chosen = (1_u64 << a.len()) - 1;
        while chosen < 1 << n {
            let sum = all.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, value)| value).sum();
            (hits, deals) = (hits + u64::from(extreme(sum)), deals + 1);
            // The next larger number with as many bits set (Gosper).
            let lowest = chosen & chosen.wrapping_neg();
            let ripple = chosen + lowest;
            chosen = ripple | ((chosen ^ ripple) / lowest) >> 2;
        }
        return hits as f64 / deals as f64;
    }
    let mut random = fastrand::Rng::with_seed(n as u64);
    let mut dealt = all;
    let mut once = || {
        random.shuffle(&mut dealt);
        extreme(dealt[..a.len()].iter().sum())
    };
    (1 + (0..DEALS).filter(|_| once()).count()) as f64 / (1 + DEALS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn deals_are_those_of_the_definition() {
        // 2 of the 20 ways to deal six values put the three smallest, or the three largest, into one column.
        assert_eq!(permutation(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1);
        assert_eq!(permutation(&[1.0, 1.0], &[1.0, 1.0, 1.0]), 1.0);
        assert_eq!(permutation(&[], &[1.0]), 1.0);
        // Random deals agree with all of them.
        let column = |from: u64, n: u64| (0..n).map(|at| (from + at * at % 7) as f64).collect::<Vec<f64>>();
        let exact = permutation(&column(3, 10), &column(4, 10));
        let (wide, other) = (column(3, 11), column(4, 10));
        assert!((permutation(&wide, &other) - exact).abs() < 0.15, "{exact} {}", permutation(&wide, &other));
    }

    proptest! {
        #[test]
        fn spread_is_ordered(values in prop::collection::vec(1_u64..1 << 40, 1..50)) {
            let n = values.len();
            let spread = spread(values).unwrap();
            prop_assert!(spread.min_ns as f64 <= spread.median_ns && spread.median_ns <= spread.max_ns as f64);
            prop_assert!(spread.min_ns as f64 <= spread.mean_ns * (1.0 + 1e-12) && spread.mean_ns <= spread.max_ns as f64 * (1.0 + 1e-12));
            prop_assert_eq!(spread.arrived as usize, n);
        }
    }
}
