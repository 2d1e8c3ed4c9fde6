//! First half of the rounds against the second.

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;

use crate::describe::{deviation, mean};
use crate::distributions::t_quantile;
use crate::estimate::Estimate;

/// The second half's level divided by the first's ([`ratio`]); `rounds` in the order of time.
pub fn halves(rounds: &[f64]) -> Option<Estimate> {
    let (first, second) = rounds.split_at(rounds.len() / 2);
    ratio(first, second)
}

/// The level of `second` divided by that of `first` (geometric means of the rounds' values), with the 95 % interval of
/// Welch's t on the logarithms. `None` below [`MIN_ROUNDS_FOR_CLAIMS`] rounds in either or where a value is not positive.
pub fn ratio(first: &[f64], second: &[f64]) -> Option<Estimate> {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
    let (first, second) = (logs(first), logs(second));
    let few = first.len().min(second.len()) < MIN_ROUNDS_FOR_CLAIMS as usize;
    if few || first.iter().chain(&second).any(|log| !log.is_finite()) {
        return None;
    }
    let difference = mean(&second) - mean(&first);
    let squared_error = |half: &[f64]| deviation(half).powi(2) / half.len() as f64;
    let (a, b) = (squared_error(&first), squared_error(&second));
    let degrees = (a + b).powi(2) / (a.powi(2) / (first.len() - 1) as f64 + b.powi(2) / (second.len() - 1) as f64);
    // Two halves without any spread have no degrees of freedom to estimate and no error either.
    let half = if a + b > 0.0 { t_quantile(0.975, degrees) * (a + b).sqrt() } else { 0.0 };
    Some(Estimate {
        value: difference.exp(),
        low: Some((difference - half).exp()),
        high: Some((difference + half).exp()),
    })
}

/// Whether both halves of paired log-ratios (in the order of their passes) lie on the side of the whole.
pub fn halves_agree(d: &[f64]) -> bool {
    let (first, second) = d.split_at(d.len() / 2);
    !first.is_empty() && mean(first).signum() == mean(second).signum()
}

/// Whether both halves of paired log-ratios lie within `+-ln(1 + margin)`.
pub fn halves_within(d: &[f64], margin: f64) -> bool {
    let (first, second) = d.split_at(d.len() / 2);
    !first.is_empty() && [first, second].iter().all(|half| mean(half).abs() <= (1.0 + margin).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::round_effects;

    #[test]
    fn a_flat_run_is_flat_and_a_step_is_seen() {
        let flat = round_effects(1, 40, 20_000.0, 0.02);
        let ratio = halves(&flat).unwrap();
        assert!(ratio.low.unwrap() < 1.0 && ratio.high.unwrap() > 1.0, "{ratio:?}");
        let step: Vec<f64> = flat.iter().enumerate().map(|(at, v)| if at < 20 { *v } else { v * 1.1 }).collect();
        let ratio = halves(&step).unwrap();
        assert!(ratio.low.unwrap() > 1.05 && ratio.high.unwrap() < 1.15, "{ratio:?}");
    }

    #[test]
    fn the_interval_of_equal_halves_holds_one() {
        let covered = (0..200).filter(|seed| {
            let ratio = halves(&round_effects(*seed, 20, 1_000.0, 0.05)).unwrap();
            ratio.low.unwrap() <= 1.0 && 1.0 <= ratio.high.unwrap()
        });
        assert!(covered.count() >= 180);
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        assert_eq!(halves(&[1.0; 9]), None);
        assert_eq!(halves(&[5.0; 10]).unwrap().high, Some(1.0));
        assert!(!halves_agree(&[]) && halves_agree(&[1.0, 2.0]) && !halves_agree(&[1.0, -2.0]));
        assert!(halves_within(&[0.01, -0.01], 0.02) && !halves_within(&[0.01, 0.05], 0.02));
    }
}
