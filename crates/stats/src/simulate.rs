//! Seeded values of which the truth is known, for tests of this crate and of those that use it.

use msgpath_core::{Histogram, SparseHistogram};

/// A standard normal value (Box and Muller).
pub fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Lognormal values around `center`: rounds that differ by chance.
pub fn round_effects(seed: u64, n: usize, center: f64, sigma: f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..n).map(|_| center * (sigma * normal(&mut random)).exp()).collect()
}

/// Rounds of lognormal messages: `sigma` between messages, `effect` between rounds.
pub fn lognormal_rounds(
    seed: u64,
    rounds: usize,
    messages: usize,
    center: f64,
    sigma: f64,
    effect: f64,
) -> Vec<SparseHistogram> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..rounds)
        .map(|_| {
            let mut histogram = Histogram::new();
            let center = center * (effect * normal(&mut random)).exp();
            (0..messages).for_each(|_| histogram.record((center * (sigma * normal(&mut random)).exp()) as u64));
            histogram.to_sparse()
        })
        .collect()
}

/// `n` values of an autoregressive process of order 1 around 0, with variance 1: neighbours correlate by `rho`.
pub fn autoregressive(seed: u64, n: usize, rho: f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut x = normal(&mut random);
    (0..n)
        .map(|_| {
            x = rho * x + (1.0 - rho * rho).sqrt() * normal(&mut random);
            x
        })
        .collect()
}
