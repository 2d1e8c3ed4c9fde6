//! Passes drawn again: the bootstrap over the unit of evidence (docs/method/comparison.md#tails).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::dependence::{lag1, lag1_limit};
use crate::distributions::t_quantile;

/// Resamples of the passes.
pub const RESAMPLES: usize = 2_000;
/// Passes that resemble their neighbours are judged in blocks of this many.
const BLOCK: usize = 4;

/// How many independent units values in the order of their passes are: the values themselves, or blocks of four where
/// they resemble their neighbours (r1 > 1.96/sqrt(B)). Alternating ones are left alone, since that only widens.
pub fn unit_count(values: &[f64]) -> usize {
    let blocks = values.len() / BLOCK;
    if blocks >= 2 && lag1(values) > lag1_limit(values.len()) { blocks } else { values.len() }
}

/// Draws units with replacement. The same number of units and the same seed give the same draws: so the cases of a run
/// are drawn with the same passes.
pub struct Redraw {
    random: fastrand::Rng,
    times: Vec<f64>,
}

impl Redraw {
    /// Draws of so many units.
    pub fn new(units: usize, seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), times: vec![0.0; units] }
    }

    /// How often each unit was drawn this time; the sum is the number of units.
    pub fn draw(&mut self) -> &[f64] {
        self.times.fill(0.0);
        for _ in 0..self.times.len() {
            let at = self.random.usize(..self.times.len());
            self.times[at] += 1.0;
        }
        &self.times
    }
}

/// Share of the resamples that lie outside the interval of two-sided level `level`, on each side:
/// alpha'/2 = Phi(-t_{1-alpha/2, B-1} sqrt(B/(B-1))), the expanded percentile interval of Hesterberg, What Teachers
/// Should Know About the Bootstrap (2015), section 5.2: a plain one is too narrow for few units.
pub fn outside_each(level: f64, units: usize) -> f64 {
    let t = t_quantile(1.0 - level / 2.0, units as f64 - 1.0);
    Normal::standard().cdf(-t * expansion(units))
}

/// The level at which an interval of [`outside_each`] ends exactly where `share` of the resamples lie beyond: its
/// inverse, and so the p-value that belongs to the interval (Efron and Tibshirani, An Introduction to the Bootstrap,
/// 15.4: the achieved significance level).
pub fn level_of(share: f64, units: usize) -> f64 {
    if share >= 0.5 {
        return 1.0;
    }
    let t = Normal::standard().inverse_cdf(share) / expansion(units);
    StudentsT::new(0.0, 1.0, (units as f64 - 1.0).max(1.0)).map_or(1.0, |student| 2.0 * student.cdf(t))
}

fn expansion(units: usize) -> f64 {
    (units as f64 / (units as f64 - 1.0).max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expansion_is_that_of_the_method() {
        // Percentiles 1.59 / 98.41 at B = 20, 2.03 / 97.97 at B = 40.
        assert!((outside_each(0.05, 20) - 0.0159).abs() < 5e-5, "{}", outside_each(0.05, 20));
        assert!((outside_each(0.05, 40) - 0.0203).abs() < 5e-5, "{}", outside_each(0.05, 40));
    }

    #[test]
    fn the_level_inverts_the_share() {
        for (level, units) in [(0.05, 40), (0.002, 20), (0.3, 10)] {
            assert!((level_of(outside_each(level, units), units) - level).abs() < 1e-6);
        }
        assert_eq!(level_of(0.6, 40), 1.0);
    }

    #[test]
    fn draws_keep_their_number_and_repeat_with_the_seed() {
        let (mut a, mut b) = (Redraw::new(7, 3), Redraw::new(7, 3));
        for _ in 0..20 {
            assert_eq!(a.draw().iter().sum::<f64>(), 7.0);
            b.draw();
            assert_eq!(a.times, b.times);
        }
    }

    #[test]
    fn only_likeness_joins() {
        let rising: Vec<f64> = (0..40).map(f64::from).collect();
        let alternating: Vec<f64> = (0..40).map(|at| f64::from(at % 2)).collect();
        assert_eq!((unit_count(&rising), unit_count(&alternating), unit_count(&[1.0, 2.0, 3.0])), (10, 40, 3));
    }
}
