//! Ratios of sums over rounds.

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;

use crate::describe::deviation;
use crate::distributions::t_quantile;
use crate::estimate::Estimate;

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
    fn interval_holds_the_truth() {
        let mut ratios = 0;
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(1_000 + seed);
            let pairs: Vec<_> = round_effects(seed, 40, 5.0, 0.3)
                .into_iter()
                .map(|below| (below * 2.0 * (1.0 + 0.2 * normal(&mut random)), below))
                .collect();
            let of = ratio(&pairs).unwrap();
            ratios += i32::from(of.low.unwrap() <= 2.0 && 2.0 <= of.high.unwrap());
        }
        assert!((275..=295).contains(&ratios), "{ratios} of 300");
    }

    #[test]
    fn a_ratio_of_nothing_is_none() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(1.0, 0.0)]), None);
        assert_eq!(ratio(&[(1.0, 2.0)]).unwrap(), Estimate { value: 0.5, low: None, high: None });
    }
}
