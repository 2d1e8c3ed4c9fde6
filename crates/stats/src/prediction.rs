//! Where the next of several values is expected (docs/method/steadiness.md#between-runs).

use crate::describe::{deviation, ends, mean};
use crate::distributions::t_quantile;

/// From so many runs on their spread is worth a prediction.
pub const FEWEST: usize = 5;
/// Lower and upper end of `values`, and whether they predict the next one. `None` below two.
pub fn range(values: &[f64]) -> Option<(f64, f64, bool)> {
    let logs: Vec<f64> =
        values.iter().filter(|value| **value > 0.0 && value.is_finite()).map(|value| value.ln()).collect();
    if logs.len() < 2 {
        return None;
    }
    let (low, high) = ends(&logs);
    if logs.len() < FEWEST {
        return Some((low.exp(), high.exp(), false));
    }
    let k = logs.len() as f64;
    let half = t_quantile(0.975, k - 1.0) * deviation(&logs) * (1.0 + 1.0 / k).sqrt();
    let center = mean(&logs);
    Some((low.min(center - half).exp(), high.max(center + half).exp(), true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;

    #[test]
    fn the_next_run_lies_in_the_range_with_95_percent() {
        for k in [5, 10, 20] {
            let holds = (0..2_000).filter(|seed| {
                let mut random = fastrand::Rng::with_seed(*seed);
                let mut run = || 20_000.0 * (0.15 * normal(&mut random)).exp();
                let seen: Vec<f64> = (0..k).map(|_| run()).collect();
                let (low, high, predicts) = range(&seen).unwrap();
                assert!(predicts && seen.iter().all(|value| low <= value * 1.000_001 && *value <= high * 1.000_001));
                let next = run();
                low <= next && next <= high
            });
            let holds = holds.count();
            assert!((1_870..=1_970).contains(&holds), "{k}: {holds} of 2000");
        }
    }

    #[test]
    fn few_runs_show_what_was_seen() {
        assert_eq!(range(&[17_700.0]), None);
        let (low, high, predicts) = range(&[21_900.0, 17_700.0, 22_200.0]).unwrap();
        assert!((low - 17_700.0).abs() < 1e-6 && (high - 22_200.0).abs() < 1e-6 && !predicts);
    }
}
