//! Message times whose true quantiles are known, for benches/coverage.md.

use msgpath_core::{Histogram, SparseHistogram};
use statrs::distribution::{ContinuousCDF, Normal};

/// Median of the fast state, ns.
const CENTER: f64 = 20_000.0;

/// Random numbers of a run.
pub struct Random {
    uniform: fastrand::Rng,
    spare: Option<f64>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { uniform: fastrand::Rng::with_seed(seed), spare: None }
    }

    /// True with this probability.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform.f64() < p
    }

    /// A standard normal value (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * (1.0 - self.uniform.f64()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform.f64()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Student's t with 3 degrees of freedom, scaled to variance 1: rounds that are sometimes far off.
    pub fn heavy(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / squares.sqrt()
    }
}

/// How message times come about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Independent, lognormal, sigma 0.3.
    Independent,
    /// An AR(1) on the logarithm, sigma 0.3 in all.
    Correlated { rho: f64 },
    /// A fast and a slow state with mean lengths of 2,000 and 500 messages; slow is 1.5 times; sigma 0.1.
    Regime,
    /// Sigma 0.2; one burst in 2,000 messages, of 15 on average, 20 times as slow.
    Bursts,
    /// Independent with sigma 0.3, and an effect of every round, sigma 0.1.
    Rounds,
}

/// Two states: probabilities to leave the fast and the slow one, factor of the slow one, sigma of both.
struct States {
    leave: [f64; 2],
    factor: f64,
    sigma: f64,
}

impl Process {
    pub const ALL: [Process; 6] = [
        Process::Independent,
        Process::Correlated { rho: 0.9 },
        Process::Correlated { rho: 0.99 },
        Process::Regime,
        Process::Bursts,
        Process::Rounds,
    ];

    pub fn name(self) -> String {
        match self {
            Process::Independent => "independent lognormal".into(),
            Process::Correlated { rho } => format!("AR(1), ρ = {rho}"),
            Process::Regime => "2-state regime".into(),
            Process::Bursts => "rare bursts".into(),
            Process::Rounds => "true rounds, an effect each".into(),
        }
    }

    fn states(self) -> Option<States> {
        match self {
            Process::Regime => Some(States { leave: [1.0 / 2_000.0, 1.0 / 500.0], factor: 1.5, sigma: 0.1 }),
            Process::Bursts => Some(States { leave: [1.0 / 2_000.0, 1.0 / 15.0], factor: 20.0, sigma: 0.2 }),
            _ => None,
        }
    }

    /// Rounds of messages, one after the other without a gap; all times are multiplied by `scale`.
    pub fn rounds(self, random: &mut Random, rounds: usize, messages: usize, scale: f64) -> Vec<SparseHistogram> {
        let mut level = random.normal();
        let states = self.states();
        let mut slow = states.as_ref().is_some_and(|states| random.chance(share_slow(states)));
        let mut histogram = Histogram::new();
        (0..rounds)
            .map(|_| {
                let effect = if self == Process::Rounds { 0.1 * random.normal() } else { 0.0 };
                histogram.clear();
                for _ in 0..messages {
                    let (log, factor) = match (self, &states) {
                        (Process::Correlated { rho }, _) => {
                            level = rho * level + (1.0 - rho * rho).sqrt() * random.normal();
                            (0.3 * level, 1.0)
                        }
                        (_, Some(states)) => {
                            slow ^= random.chance(states.leave[usize::from(slow)]);
                            (states.sigma * random.normal(), if slow { states.factor } else { 1.0 })
                        }
                        _ => (effect + 0.3 * random.normal(), 1.0),
                    };
                    histogram.record((CENTER * scale * factor * log.exp()) as u64);
                }
                histogram.to_sparse()
            })
            .collect()
    }

    /// The true p-quantile, ns.
    pub fn quantile(self, p: f64) -> f64 {
        let normal = Normal::standard();
        let Some(states) = self.states() else {
            let sigma = if self == Process::Rounds { 0.3_f64.hypot(0.1) } else { 0.3 };
            return CENTER * (sigma * normal.inverse_cdf(p)).exp();
        };
        let slow = share_slow(&states);
        let below = |log: f64| {
            (1.0 - slow) * normal.cdf(log / states.sigma) + slow * normal.cdf((log - states.factor.ln()) / states.sigma)
        };
        let (mut low, mut high) = (-3.0, 6.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if below(middle) < p { low = middle } else { high = middle }
        }
        CENTER * low.exp()
    }
}

fn share_slow(states: &States) -> f64 {
    states.leave[0] / (states.leave[0] + states.leave[1])
}
