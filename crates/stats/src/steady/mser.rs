//! How many rounds at the start are warm-up: MSER (White 1997) on logarithms of round medians
//! (docs/method/steadiness.md#warm-up).

use crate::describe::mean;

/// The variance of fewer rounds at the end is not looked at.
const LEAST_LEFT: usize = 5;

/// d that minimises sum over i >= d of (y_i - mean from d)^2 / (m - d)^2: what is best dropped at the start.
pub fn warm_up(y: &[f64]) -> usize {
    let score = |from: usize| {
        let left = &y[from..];
        let center = mean(left);
        left.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (left.len() as f64).powi(2)
    };
    let scores =
        (0..=y.len().saturating_sub(LEAST_LEFT)).filter(|from| *from < y.len()).map(|from| (from, score(from)));
    // Of equals the first: nothing is dropped without a reason.
    scores.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(from, _)| from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::round_effects;
    use proptest::prelude::*;

    fn logs(seed: u64, n: usize) -> Vec<f64> {
        round_effects(seed, n, 1_000.0, 0.05).iter().map(|value| value.ln()).collect()
    }

    /// 200 batches each, of which the truth is known.
    #[test]
    fn a_step_a_flat_series_and_a_ramp() {
        let (mut flat, mut step, mut ramp) = (Vec::new(), Vec::new(), 0);
        for seed in 0..200 {
            let y = logs(seed, 200);
            flat.push(warm_up(&y));
            let warm = y.iter().enumerate().map(|(at, v)| if at < 20 { v + 0.5 } else { *v });
            step.push(warm_up(&warm.collect::<Vec<_>>()));
            let rising: Vec<f64> = y.iter().enumerate().map(|(at, v)| v + at as f64 / 200.0).collect();
            ramp += usize::from(warm_up(&rising) > 100);
        }
        flat.sort_unstable();
        step.sort_unstable();
        assert!(flat[100] <= 1 && flat[180] <= 20, "{flat:?}");
        assert!(step[0] == 20 && step[100] <= 21 && step[180] <= 40, "{step:?}");
        assert_eq!(ramp, 200);
    }

    #[test]
    fn nothing_to_drop() {
        assert_eq!((warm_up(&[]), warm_up(&[1.0, 2.0]), warm_up(&[7.0; 40])), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn enough_is_left(y in prop::collection::vec(-9.0_f64..9.0, 5..80)) {
            prop_assert!(warm_up(&y) + LEAST_LEFT <= y.len());
        }
    }
}
