//! Whether two numbers of the same rounds rise together: rank correlation, with the rounds counted for what they are
//! worth. Rounds resemble their neighbours in time; without the correction two drifts would always be "associated".

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::dependence::lag1;
use crate::describe::mean;

/// Spearman's rank correlation of two series in the order of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Association {
    /// Spearman's rho, -1 to 1.
    pub rho: f64,
    /// Two-sided p-value: Student's t with the effective number of rounds (Bartlett 1935:
    /// n (1 - a b) / (1 + a b), a and b the lag-1 autocorrelations of the two).
    pub p: f64,
    /// Both halves of the time have the sign of the whole.
    pub halves: bool,
}

/// Below this an association is stated. Several are looked at in every run, hence less than 0.05.
const LEVEL: f64 = 0.01;
/// Fewer rounds say nothing.
const FEWEST: usize = 10;

impl Association {
    /// They rise together, in both halves of the run.
    pub fn rises(&self) -> bool {
        self.rho > 0.0 && self.p < LEVEL && self.halves
    }
}

/// `None` below ten rounds or where one of the two does not vary.
pub fn association(x: &[f64], y: &[f64]) -> Option<Association> {
    let n = x.len().min(y.len());
    if n < FEWEST {
        return None;
    }
    let (x, y) = (ranks(&x[..n]), ranks(&y[..n]));
    let rho = pearson(&x, &y)?;
    let shared = (lag1(&x) * lag1(&y)).max(0.0);
    let effective = n as f64 * (1.0 - shared) / (1.0 + shared);
    let degrees = effective - 2.0;
    let p = if degrees < 1.0 {
        1.0
    } else {
        let t = rho * (degrees / (1.0 - rho * rho).max(1e-12)).sqrt();
        2.0 * StudentsT::new(0.0, 1.0, degrees).ok()?.cdf(-t.abs())
    };
    let half = |from: usize, to: usize| pearson(&x[from..to], &y[from..to]).is_some_and(|r| r * rho > 0.0);
    Some(Association { rho, p, halves: half(0, n / 2) && half(n / 2, n) })
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = from as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|at| ranks[*at] = rank);
        from += equal.len();
    }
    ranks
}

/// `None` where one of the two does not vary.
fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let (mx, my) = (mean(x), mean(y));
    let sum = |of: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(a, b)| of(a - mx, b - my)).sum::<f64>();
    let spread = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (spread > 0.0).then(|| (sum(&|a, b| a * b) / spread).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;

    /// An autoregressive series.
    fn drift(random: &mut fastrand::Rng, n: usize, phi: f64) -> Vec<f64> {
        let mut level = 0.0;
        let step = |_| {
            level = phi * level + normal(random);
            level
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn rho_is_that_of_the_tables() {
        // R: cor(c(1,2,3,4,5,6,7,8,9,10), c(2,1,4,3,6,5,8,7,10,9), method = "spearman") = 0.9394.
        let x: Vec<f64> = (1..=10).map(f64::from).collect();
        let y = [2.0, 1.0, 4.0, 3.0, 6.0, 5.0, 8.0, 7.0, 10.0, 9.0];
        assert!((association(&x, &y).unwrap().rho - 0.9394).abs() < 1e-4);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(association(&[1.0; 20], &[2.0; 20]), None);
        assert_eq!(association(&x[..9], &y[..9]), None);
    }

    #[test]
    fn what_drifts_apart_from_each_other_is_rarely_associated() {
        for phi in [0.0, 0.6] {
            let mut random = fastrand::Rng::with_seed(3);
            let false_claims = (0..1_000).filter(|_| {
                let (x, y) = (drift(&mut random, 40, phi), drift(&mut random, 40, phi));
                association(&x, &y).unwrap().rises()
            });
            let false_claims = false_claims.count();
            assert!(false_claims <= 15, "phi {phi}: {false_claims} of 1000");
        }
    }

    #[test]
    fn what_follows_is_found() {
        let mut random = fastrand::Rng::with_seed(4);
        let found = (0..100).filter(|_| {
            let x = drift(&mut random, 40, 0.3);
            let y: Vec<f64> = x.iter().map(|value| value + 0.7 * normal(&mut random)).collect();
            association(&x, &y).unwrap().rises()
        });
        assert!(found.count() >= 95);
    }
}
