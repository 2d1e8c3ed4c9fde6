//! When the messages of an open loop are sent: computed before the round, reproduced by a stored seed
//! (docs/method/open-loop.md#the-schedule).

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::shuffle::SplitMix64;

/// Messages a second, in thousandths, so that equal rates are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
pub struct Rate(#[schemars(with = "f64")] u64);

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fraction(deserializer, 1e3).map(Rate)
    }
}

/// Reads a number that is kept as an integer of `1 / scale` and written as it is, with a fraction. Records of earlier versions hold
/// the integer.
pub(crate) fn fraction<'de, D: Deserializer<'de>>(deserializer: D, scale: f64) -> Result<u64, D::Error> {
    struct Scaled(f64);

    impl Visitor<'_> for Scaled {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number from 0 on")
        }

        fn visit_u64<E: serde::de::Error>(self, integer: u64) -> Result<u64, E> {
            Ok(integer)
        }

        fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<u64, E> {
            let scaled = (number * self.0).round();
            let fits = scaled >= 0.0 && scaled < u64::MAX as f64;
            fits.then_some(scaled as u64).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
        }
    }

    deserializer.deserialize_any(Scaled(scale))
}

/// The highest rate that can be asked for: 100 million messages a second.
const MAX_MILLI: u64 = 100_000_000_000;

/// The highest rate that one process is asked to send, messages a second.
pub const MOST_PER_SECOND: f64 = 10e6;
/// The longest schedule of a round, messages.
pub const MOST_IN_A_ROUND: f64 = 4e6;
/// The fewest messages of a schedule on each connection in a round.
pub const LEAST_IN_A_ROUND: f64 = 5.0;

impl Rate {
    /// From messages a second; `None` below a thousandth or above 10^8.
    pub fn per_second(rate: f64) -> Option<Self> {
        let milli = (rate * 1e3).round();
        (milli >= 1.0 && milli <= MAX_MILLI as f64).then_some(Rate(milli as u64))
    }

    /// Messages a second.
    pub fn value(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Mean gap between two messages, ns.
    pub fn gap_ns(self) -> f64 {
        1e12 / self.0 as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value();
        match value {
            1e6.. => write!(f, "{}M/s", trimmed(value / 1e6)),
            1e3.. => write!(f, "{}k/s", trimmed(value / 1e3)),
            _ => write!(f, "{}/s", trimmed(value)),
        }
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// How the gaps between messages are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps: independent users.
    #[default]
    Poisson,
    /// Equal gaps from a random phase.
    Constant,
}

/// A positive number below or equal to 1 from 53 random bits.
fn unit(random: &mut SplitMix64) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// An exponentially distributed number with this mean: -mean ln U.
pub fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    -mean * unit(random).ln()
}

/// The seed of one connection's part of the schedule in one round. Equal gaps go on from round to round: their phase is that
/// of the first.
pub fn seed_of(arrivals: Arrivals, plan: u64, case: u32, pass: u32, connection: u32) -> u64 {
    match arrivals {
        Arrivals::Poisson => seed(plan, case, pass, connection),
        Arrivals::Constant => seed(plan, case, 0, connection),
    }
}

/// Where the next round takes the schedule up, after messages of which the last was due at `last`, ns since the first
/// round's part began: exponential gaps have no memory.
pub fn taken_up(arrivals: Arrivals, gap_ns: f64, messages: u64, last: u64) -> u64 {
    match arrivals {
        Arrivals::Poisson => last,
        Arrivals::Constant => (messages as f64 * gap_ns) as u64,
    }
}

/// A seed of its own for each of these.
pub fn seed(plan: u64, case: u32, pass: u32, connection: u32) -> u64 {
    let mut random = SplitMix64::new(plan ^ 0x5eed_5c4e_d01e_0001);
    for part in [case, pass, connection] {
        random = SplitMix64::new(random.next_u64() ^ u64::from(part));
    }
    random.next_u64()
}

/// Intended sends, ns since the start of the schedule, never decreasing. Poisson: t' = t - ln(U) / rate. Constant:
/// t = (phase + i) / rate with one random phase in [0, 1).
#[derive(Clone, Debug)]
pub struct Schedule {
    random: SplitMix64,
    gap_ns: f64,
    arrivals: Arrivals,
    /// Messages so far (constant), or ns so far (Poisson).
    at: f64,
}

impl Schedule {
    /// A schedule with this mean gap.
    pub fn new(gap_ns: f64, arrivals: Arrivals, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let at = match arrivals {
            Arrivals::Poisson => 0.0,
            Arrivals::Constant => 1.0 - unit(&mut random),
        };
        Self { random, gap_ns, arrivals, at }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self.arrivals {
            Arrivals::Poisson => {
                self.at += exponential(&mut self.random, self.gap_ns);
                Some(self.at as u64)
            }
            Arrivals::Constant => {
                let ns = self.at * self.gap_ns;
                self.at += 1.0;
                Some(ns as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals, seed: u64) -> Vec<f64> {
        let times: Vec<u64> = Schedule::new(1e5, arrivals, seed).take(20_001).collect();
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    #[test]
    fn rates_are_written_a_second_and_read_in_thousandths_too() {
        let rate = Rate::per_second(2_500.5).unwrap();
        assert_eq!(serde_json::to_string(&rate).unwrap(), "2500.5");
        for text in ["2500.5", "2500500"] {
            assert_eq!(serde_json::from_str::<Rate>(text).unwrap(), rate);
        }
        assert!(["-1", "-1.0", "1e300", "true"].iter().all(|bad| serde_json::from_str::<Rate>(bad).is_err()));
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        // Anderson-Darling against exp(rate), rate known: 5 % of seeds lie above 2.492.
        let rejected = (0..100)
            .filter(|seed| {
                let mut gaps: Vec<f64> = gaps(Arrivals::Poisson, *seed).into_iter().take(2_000).collect();
                gaps.sort_by(f64::total_cmp);
                let n = gaps.len() as f64;
                let u = |at: usize| 1.0 - (-(gaps[at] + 0.5) / 1e5).exp();
                let sum: f64 = (0..gaps.len())
                    .map(|i| (2.0 * i as f64 + 1.0) * (u(i).ln() + (1.0 - u(gaps.len() - 1 - i)).ln()))
                    .sum();
                -n - sum / n > 2.492
            })
            .count();
        assert!(rejected <= 12, "{rejected} of 100");
    }

    #[test]
    fn constant_gaps_are_equal_and_the_phase_is_random() {
        assert!(gaps(Arrivals::Constant, 3).iter().all(|gap| (gap - 1e5).abs() <= 1.0));
        let phases: Vec<u64> =
            (0..1_000).map(|seed| Schedule::new(1e5, Arrivals::Constant, seed).next().unwrap()).collect();
        assert!(phases.iter().all(|phase| *phase < 100_000));
        let mean = phases.iter().sum::<u64>() as f64 / 1e3;
        assert!((mean - 5e4).abs() < 4e3, "{mean}");
    }

    #[test]
    fn a_seed_reproduces_its_schedule_and_connections_differ() {
        assert_eq!(gaps(Arrivals::Poisson, 7), gaps(Arrivals::Poisson, 7));
        let seeds = [seed(1, 0, 0, 0), seed(1, 1, 0, 0), seed(1, 0, 1, 0), seed(1, 0, 0, 1), seed(2, 0, 0, 0)];
        for (at, one) in seeds.iter().enumerate() {
            assert!(!seeds[..at].contains(one));
        }
        assert_eq!(seed(1, 2, 3, 4), seed(1, 2, 3, 4));
    }

    #[test]
    fn rates_are_written_as_typed() {
        let text = |rate: f64| Rate::per_second(rate).unwrap().to_string();
        assert_eq!([text(0.5), text(10_000.0), text(2_500_000.0), text(999.0)], ["0.5/s", "10k/s", "2.5M/s", "999/s"]);
        assert_eq!(Rate::per_second(0.0), None);
        assert_eq!(Rate::per_second(f64::INFINITY), None);
        assert_eq!(Rate::per_second(1e9), None);
        assert_eq!(Rate::per_second(20_000.0).unwrap().gap_ns(), 50_000.0);
    }
}
