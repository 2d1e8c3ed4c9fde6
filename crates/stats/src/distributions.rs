//! Quantiles of the distributions that intervals are read from.

use statrs::distribution::{Binomial, ContinuousCDF, Discrete, Normal, StudentsT};

/// The q-quantile of Student's t with `df` degrees of freedom (at least 1).
pub fn t_quantile(q: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// The q-quantile of the standard normal distribution.
pub fn normal_quantile(q: f64) -> f64 {
    Normal::standard().inverse_cdf(q)
}

/// The share of the standard normal distribution below `z`.
pub fn normal_share(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The smallest k with P(X <= k) >= q for X ~ Binomial(n, p).
///
/// Summed exactly from the left where the variance is small; Cornish-Fisher to the second order where it is large
/// (there its error is below one count, and the continued fraction of the incomplete beta does not converge).
pub fn binomial_inverse(q: f64, n: u64, p: f64) -> u64 {
    let (mean, variance) = (n as f64 * p, n as f64 * p * (1.0 - p));
    let deviation = variance.sqrt();
    if variance > 1_000.0 {
        let z = Normal::standard().inverse_cdf(q);
        let k = mean + z * deviation + (1.0 - 2.0 * p) * (z * z - 1.0) / 6.0 - 0.5;
        return (k.ceil().max(0.0) as u64).min(n);
    }
    let Ok(binomial) = Binomial::new(p, n) else { return n };
    // 12 standard deviations below the mean nothing is left.
    let mut k = (mean - 12.0 * deviation - 12.0).floor().max(0.0) as u64;
    let mut term = binomial.ln_pmf(k).exp();
    let mut sum = term;
    while sum < q && k < n {
        term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
        sum += term;
        k += 1;
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn student_quantiles_are_those_of_the_tables() {
        for (df, expected) in [(1.0, 12.706), (4.0, 2.776), (9.0, 2.262), (39.0, 2.0227), (999.0, 1.9623)] {
            assert!((t_quantile(0.975, df) - expected).abs() < 1e-3, "{df}: {}", t_quantile(0.975, df));
            assert!((t_quantile(0.025, df) + expected).abs() < 1e-3);
        }
    }

    #[test]
    fn binomial_inverse_is_that_of_the_tables() {
        // R: qbinom(0.025, 10, 0.5) = 2, qbinom(0.975, 10, 0.5) = 8, qbinom(0.975, 100, 0.99) = 100.
        assert_eq!((binomial_inverse(0.025, 10, 0.5), binomial_inverse(0.975, 10, 0.5)), (2, 8));
        assert_eq!(binomial_inverse(0.975, 100, 0.99), 100);
        assert_eq!(binomial_inverse(0.025, 0, 0.5), 0);
    }

    proptest! {
        #[test]
        fn large_and_small_variance_agree_at_the_seam(p in 0.3_f64..0.7, q in 0.02_f64..0.98) {
            let n = (1_000.0 / (p * (1.0 - p))) as u64;
            let (below, above) = (binomial_inverse(q, n - 5, p), binomial_inverse(q, n + 5, p));
            prop_assert!(above >= below && above - below <= 10, "{below} {above}");
        }
    }
}
