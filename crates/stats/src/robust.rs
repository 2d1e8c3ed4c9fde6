//! Means over rounds that one bad round does not move, and ratios of sums.

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;

use crate::describe::{deviation, mean};
use crate::distributions::t_quantile;
use crate::estimate::Estimate;

/// Share of the values left out at each end.
const TRIMMED: f64 = 0.2;

/// A trimmed mean and its error.
#[derive(Clone, Copy, Debug)]
pub struct Trimmed {
    /// Mean of the values in the middle.
    pub mean: f64,
    /// Its standard error; `None`: fewer than [`MIN_ROUNDS_FOR_CLAIMS`] values.
    error: Option<f64>,
    degrees: f64,
}

impl Trimmed {
    /// The 20 % trimmed mean (Yuen 1974): its error comes from the winsorised deviation, s_w / ((1 - 2 * 0.2) sqrt n)
    /// with h - 1 degrees of freedom, h the values that are kept. `None` without a value.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let cut = (TRIMMED * sorted.len() as f64) as usize;
        let kept = &sorted[cut..sorted.len() - cut];
        let (low, high) = (kept[0], kept[kept.len() - 1]);
        let winsorised: Vec<f64> = values.iter().map(|value| value.clamp(low, high)).collect();
        let n = values.len() as f64;
        let error = deviation(&winsorised) / ((1.0 - 2.0 * cut as f64 / n) * n.sqrt());
        Some(Self {
            mean: mean(kept),
            error: (values.len() >= MIN_ROUNDS_FOR_CLAIMS as usize).then_some(error),
            degrees: kept.len() as f64 - 1.0,
        })
    }

    /// Below this lies the true mean with a probability of 1 - `level`; `None` with too few values.
    pub fn lower(&self, level: f64) -> Option<f64> {
        Some(self.mean - t_quantile(level, self.degrees) * self.error?)
    }

    /// With its 95 % interval.
    pub fn estimate(&self) -> Estimate {
        let half = self.error.map(|error| t_quantile(0.975, self.degrees) * error);
        Estimate { value: self.mean, low: half.map(|half| self.mean - half), high: half.map(|half| self.mean + half) }
    }
}

/// Sum of the numerators divided by the sum of the denominators, one pair a round, with the 95 % t interval of the
/// linearised ratio (Cochran 1977, 6.4). Rounds of few messages weigh as little as they should. `None` where the
/// denominators sum to nothing.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let sum: f64 = pairs.iter().map(|(_, below)| below).sum();
    if sum <= 0.0 || !sum.is_finite() {
        return None;
    }
    let value = pairs.iter().map(|(above, _)| above).sum::<f64>() / sum;
    let residuals: Vec<f64> = pairs.iter().map(|(above, below)| above - value * below).collect();
    let n = pairs.len() as f64;
    let half = (pairs.len() >= MIN_ROUNDS_FOR_CLAIMS as usize)
        .then(|| t_quantile(0.975, n - 1.0) * deviation(&residuals) * n.sqrt() / sum);
    Some(Estimate { value, low: half.map(|half| value - half), high: half.map(|half| value + half) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{normal, round_effects};

    #[test]
    fn one_bad_round_does_not_move_a_trimmed_mean() {
        let mut values: Vec<f64> = (0..20).map(|at| 10.0 + f64::from(at % 5)).collect();
        let before = Trimmed::of(&values).unwrap();
        values[3] = 1e9;
        let after = Trimmed::of(&values).unwrap();
        assert!((before.mean - 12.0).abs() < 1e-9 && (after.mean - 12.0).abs() < 0.2, "{before:?} {after:?}");
        assert!(after.estimate().high.unwrap() < 14.0 && after.lower(0.99).unwrap() > 10.0);
        assert_eq!(Trimmed::of(&[1.0, 2.0]).unwrap().estimate(), Estimate { value: 1.5, low: None, high: None });
        assert!(Trimmed::of(&[]).is_none());
    }

    #[test]
    fn both_intervals_hold_the_truth() {
        let (mut trimmed, mut ratios) = (0, 0);
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let values: Vec<f64> = (0..20).map(|_| 3.0 + normal(&mut random)).collect();
            let of = Trimmed::of(&values).unwrap().estimate();
            trimmed += i32::from(of.low.unwrap() <= 3.0 && 3.0 <= of.high.unwrap());
            let pairs: Vec<_> = round_effects(seed, 40, 5.0, 0.3)
                .into_iter()
                .map(|below| (below * 2.0 * (1.0 + 0.2 * normal(&mut random)), below))
                .collect();
            let of = ratio(&pairs).unwrap();
            ratios += i32::from(of.low.unwrap() <= 2.0 && 2.0 <= of.high.unwrap());
        }
        assert!((275..=295).contains(&trimmed) && (275..=295).contains(&ratios), "{trimmed} {ratios} of 300");
    }

    #[test]
    fn a_ratio_of_nothing_is_none() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(1.0, 0.0)]), None);
        assert_eq!(ratio(&[(1.0, 2.0)]).unwrap(), Estimate { value: 0.5, low: None, high: None });
    }
}
