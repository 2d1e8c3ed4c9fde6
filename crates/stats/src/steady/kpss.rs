//! The KPSS test for a constant level (Kwiatkowski, Phillips, Schmidt and Shin 1992; docs/method/steadiness.md#levels).

use crate::describe::mean;

/// eta = sum S_k^2 / (B^2 long-run variance), with the Bartlett window of lag L = 4 (B / 100)^(1/4). Above 0.463 the level
/// is not constant at 5 %, above 0.739 at 1 %. `None` where there is no spread.
pub fn statistic(y: &[f64]) -> Option<f64> {
    let n = y.len() as f64;
    let center = mean(y);
    let e: Vec<f64> = y.iter().map(|value| value - center).collect();
    let lag = (4.0 * (n / 100.0).powf(0.25)).floor() as usize;
    let covariance = |k: usize| e.iter().skip(k).zip(&e).map(|(a, b)| a * b).sum::<f64>() / n;
    let window = |k: usize| 1.0 - k as f64 / (lag + 1) as f64;
    let variance = covariance(0) + 2.0 * (1..=lag).map(|k| window(k) * covariance(k)).sum::<f64>();
    let mut sum = 0.0;
    let squares: f64 = e
        .iter()
        .map(|value| {
            sum += value;
            sum * sum
        })
        .sum();
    (variance > 0.0).then(|| squares / (n * n * variance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::round_effects;

    #[test]
    fn its_false_alarms_are_those_of_the_method() {
        // At B = 40 the true rates are 3.4 % and 0.1 %.
        let all: Vec<f64> = (0..1_000).filter_map(|seed| statistic(&round_effects(seed, 40, 1_000.0, 0.05))).collect();
        let above = |limit: f64| all.iter().filter(|eta| **eta > limit).count();
        assert!((15..=55).contains(&above(0.463)) && above(0.739) <= 5, "{} {}", above(0.463), above(0.739));
    }

    #[test]
    fn a_ramp_is_no_level() {
        let ramp: Vec<f64> = (0..40).map(f64::from).collect();
        assert!(statistic(&ramp).unwrap() > 0.739);
        assert_eq!(statistic(&[5.0; 40]), None);
    }
}
