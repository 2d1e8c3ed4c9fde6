//! Gates of `--fail-if`: conditions on one run (`p99 > 1ms`) or on a comparison of two (`p99 > +5%`).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;

/// What a gate looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watched {
    /// A quantile of the latency, 0 to 1.
    Quantile(f64),
    Mean,
    /// CPU time of both ends per message.
    Cpu,
    /// The receiver's payload bits per second.
    Throughput,
    /// Messages that arrived per second.
    Rate,
    /// Share of the messages that were lost.
    Loss,
}

/// Which side of the limit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// `>`: more than the limit.
    Above,
    /// `<`: less than the limit.
    Below,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Change of the second run against the first: `+5%` is 0.05.
    Change(f64),
    /// A run's own value, the second one's where there are two: in the unit of [`Watched::unit`].
    Value(f64),
}

/// One condition. As text it is what was typed: parsing what is displayed gives the same gate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Gate {
    /// What is looked at.
    pub watched: Watched,
    /// Which side fails.
    pub side: Side,
    pub limit: Limit,
}

// Every number of a gate is finite.
impl Eq for Watched {}
impl Eq for Limit {}
impl Eq for Gate {}

impl From<Gate> for String {
    fn from(gate: Gate) -> Self {
        gate.to_string()
    }
}

impl TryFrom<String> for Gate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Watched {
    /// Unit of its values: `ns`, `bit/s`, `1/s`, `share`.
    pub fn unit(self) -> &'static str {
        match self {
            Watched::Quantile(_) | Watched::Mean | Watched::Cpu => "ns",
            Watched::Throughput => "bit/s",
            Watched::Rate => "1/s",
            Watched::Loss => "share",
        }
    }

    /// The side on which it gets worse.
    pub fn worse(self) -> Side {
        if matches!(self, Watched::Throughput | Watched::Rate) { Side::Below } else { Side::Above }
    }

    /// Whether programs of others have it, whose messages somebody else sends.
    pub fn is_of_watched(self) -> bool {
        matches!(self, Watched::Quantile(_) | Watched::Mean | Watched::Rate)
    }
}

impl Gate {
    /// Whether it compares a run with an earlier one.
    pub fn is_relative(&self) -> bool {
        matches!(self.limit, Limit::Change(_))
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watched::Quantile(p) => write!(f, "p{}", (p * 1e8).round() / 1e6),
            Watched::Mean => f.write_str("mean"),
            Watched::Cpu => f.write_str("cpu"),
            Watched::Throughput => f.write_str("throughput"),
            Watched::Rate => f.write_str("rate"),
            Watched::Loss => f.write_str("loss"),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.side == Side::Above { '>' } else { '<' };
        write!(f, "{} {side} ", self.watched)?;
        match (self.limit, self.watched) {
            (Limit::Change(change), _) => write!(f, "{:+}%", (change * 1e6).round() / 1e4),
            (Limit::Value(share), Watched::Loss) => write!(f, "{}%", (share * 1e6).round() / 1e4),
            (Limit::Value(bits), Watched::Throughput) => f.write_str(&exact(
                bits as u64,
                &[(1, " bit/s"), (1_000, " kbit/s"), (MEGA, " Mbit/s"), (GIGA, " Gbit/s")],
            )),
            (Limit::Value(rate), Watched::Rate) => {
                // In thousandths, as a rate is kept.
                let milli = (rate * 1e3).round() as u64;
                f.write_str(&exact(milli, &[(1_000, " msg/s"), (MEGA, "k msg/s"), (GIGA, "M msg/s")]))
            }
            (Limit::Value(ns), _) => {
                f.write_str(&exact(ns as u64, &[(1, "ns"), (1_000, "us"), (MEGA, "ms"), (GIGA, "s")]))
            }
        }
    }
}

const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000_000_000;
/// Larger times and throughputs have no exact floating-point number.
const MOST: u64 = 1 << 53;

/// `number` with all of its digits, in the largest of these units that it reaches, or the smallest.
fn exact(number: u64, units: &[(u64, &str)]) -> String {
    let (scale, unit) = units.iter().rfind(|(scale, _)| number >= *scale).unwrap_or(&units[0]);
    let (whole, part) = (number / scale, number % scale);
    if part == 0 {
        return format!("{whole}{unit}");
    }
    let digits = scale.ilog10() as usize;
    let part = format!("{part:0digits$}");
    format!("{whole}.{}{unit}", part.trim_end_matches('0'))
}

/// What a gate looks like, said wherever one is refused.
const FORMS: &str = "a gate looks like 'p99 > 1ms', 'cpu > 20us', 'throughput < 5 Gbit/s', 'rate < 10k msg/s' or \
                     'loss > 0.1%', and against an earlier run like 'p99 > +5%' or 'throughput < -3%'";

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |what: String| Err(format!("{what}; {FORMS}"));
        let Some(at) = text.find(['<', '>']) else { return refuse("there is neither > nor < in it".into()) };
        let (name, rest) = text.split_at(at);
        let side = if rest.starts_with('>') { Side::Above } else { Side::Below };
        let (name, typed) = (name.trim(), rest[1..].trim());
        let mut watched = match name {
            "mean" => Watched::Mean,
            "cpu" => Watched::Cpu,
            "throughput" => Watched::Throughput,
            "rate" => Watched::Rate,
            "loss" => Watched::Loss,
            _ => match name.strip_prefix('p').and_then(percent).map(|percent| (percent * 1e6).round() / 1e6) {
                Some(percent) if percent > 0.0 && percent < 100.0 => Watched::Quantile(percent / 100.0),
                _ => return refuse(format!("{name:?} is nothing that can be watched")),
            },
        };
        // A throughput in messages is a rate.
        if watched == Watched::Throughput && typed.ends_with("msg/s") {
            watched = Watched::Rate;
        }
        let limit = match limit(watched, typed) {
            Ok(limit) => limit,
            Err(what) => return refuse(what),
        };
        if side != watched.worse() {
            let other = if watched.worse() == Side::Above { '>' } else { '<' };
            return refuse(format!("{watched} gets worse on the other side: use {other}"));
        }
        Ok(Gate { watched, side, limit })
    }
}

/// A finite number.
fn percent(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|percent| percent.abs() <= 1e6)
}

/// A limit for what is watched. Of a percentage four decimals count.
fn limit(watched: Watched, text: &str) -> Result<Limit, String> {
    if let Some(number) = text.strip_suffix('%') {
        let percent = percent(number).map(|percent| (percent * 1e4).round() / 1e4);
        let signed = number.trim_start().starts_with(['+', '-']);
        return match percent {
            Some(_) if watched == Watched::Loss && signed => Err("a loss is a share of its own, without + or -".into()),
            Some(percent) if watched == Watched::Loss && percent <= 100.0 => Ok(Limit::Value(percent / 100.0)),
            Some(percent) if watched != Watched::Loss && percent > -100.0 => Ok(Limit::Change(percent / 100.0)),
            _ => Err(format!("{text:?} is not a percentage")),
        };
    }
    let (value, takes) = match watched {
        Watched::Quantile(_) | Watched::Mean | Watched::Cpu => {
            (units::parse_time(text).ok().map(|ns| (ns as f64, ns <= MOST)), "a time such as 200us or 1ms")
        }
        Watched::Throughput => {
            let bits = units::parse_count(text.strip_suffix("bit/s").unwrap_or(text));
            (bits.ok().map(|bits| (bits as f64, bits <= MOST)), "bits per second such as 5 Gbit/s")
        }
        Watched::Rate => {
            let rate = units::parse_rate(text.strip_suffix("msg/s").unwrap_or(text));
            (rate.ok().map(|rate| (rate.value(), true)), "messages per second such as 10k msg/s")
        }
        Watched::Loss => return Err("a loss is given in percent".into()),
    };
    match value {
        Some((value, true)) if value > 0.0 => Ok(Limit::Value(value)),
        Some(_) => Err(format!("{text:?} is out of range")),
        None => Err(format!("{text:?} is neither a percentage nor {takes}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gate(text: &str) -> Result<Gate, String> {
        text.parse()
    }

    #[test]
    fn gates_as_people_type_them() {
        assert_eq!(
            gate("p99 > +5%"),
            Ok(Gate { watched: Watched::Quantile(0.99), side: Side::Above, limit: Limit::Change(0.05) })
        );
        assert_eq!(gate("p99>5%"), gate("p99 > +5%"));
        assert_eq!(gate("p50 > 200us").unwrap().limit, Limit::Value(200_000.0));
        assert_eq!(gate("p50 > 200 µs"), gate("p50 > 0.2ms"));
        assert_eq!(gate("throughput < -3%").unwrap().limit, Limit::Change(-0.03));
        assert_eq!(gate("throughput < 5G").unwrap().limit, Limit::Value(5e9));
        assert_eq!(gate("throughput < 5Gbit/s"), gate("throughput<5000 Mbit/s"));
        assert_eq!(gate("rate < 10k").unwrap().limit, Limit::Value(1e4));
        assert_eq!(gate("throughput < 10k msg/s"), gate("rate < 10k/s"));
        assert_eq!(gate("rate < 0.5 msg/s").unwrap().limit, Limit::Value(0.5));
        assert_eq!(gate("loss > 0.1%").unwrap().limit, Limit::Value(0.001));
        for text in [
            "p99 > +5%",
            "p99.9 > +12.5%",
            "loss > 0.1%",
            "loss > 0%",
            "cpu > +3%",
            "cpu > 1.5us",
            "mean > +1%",
            "p50 > 1ns",
            "p50 > 999ns",
            "p99 > 123.456us",
            "p99 > 1ms",
            "p99.99 > 10s",
            "throughput < 5 Gbit/s",
            "throughput < 1.000000001 Gbit/s",
            "throughput < 12 bit/s",
            "rate < 10k msg/s",
            "rate < 1.234567M msg/s",
            "rate < 0.001 msg/s",
        ] {
            assert_eq!(gate(text).unwrap().to_string(), text);
        }
        assert!(gate("p99 > +5%").unwrap().is_relative() && !gate("loss > 5%").unwrap().is_relative());
    }

    #[test]
    fn nonsense_is_refused_with_the_forms() {
        for (text, what) in [
            ("", "neither > nor <"),
            ("p99", "neither > nor <"),
            ("p99 > ", "neither a percentage nor a time such as 200us"),
            ("p99 > 5", "neither a percentage nor a time"),
            ("p99 > 5Gbit/s", "neither a percentage nor a time"),
            ("p99 > 0ns", "out of range"),
            ("p99 > 999999h", "out of range"),
            ("p100 > 5%", "nothing that can be watched"),
            ("p0 > 5%", "nothing that can be watched"),
            ("pinf > 5%", "nothing that can be watched"),
            ("latency > 5%", "nothing that can be watched"),
            ("p99 < 5%", "use >"),
            ("throughput > 5%", "use <"),
            ("throughput < 5ms", "bits per second such as 5 Gbit/s"),
            ("throughput < 5GB/s", "bits per second such as 5 Gbit/s"),
            ("throughput < 0.5bit/s", "out of range"),
            ("rate < 5ms", "messages per second such as 10k msg/s"),
            ("loss > 3us", "in percent"),
            ("loss > +1%", "without + or -"),
            ("loss > 101%", "not a percentage"),
            ("mean > nan%", "not a percentage"),
            ("mean > -100%", "not a percentage"),
        ] {
            let error = gate(text).unwrap_err();
            assert!(error.contains(what) && error.contains("; a gate looks like 'p99 > 1ms'"), "{text}: {error}");
        }
    }

    #[test]
    fn a_gate_is_a_string_in_json() {
        let json = serde_json::to_string(&gate("p99 > 1ms").unwrap()).unwrap();
        assert_eq!(json, "\"p99 > 1ms\"");
        assert_eq!(serde_json::from_str::<Gate>(&json).unwrap(), gate("p99 > 1ms").unwrap());
        assert!(serde_json::from_str::<Gate>("\"p99\"").is_err());
    }

    /// Any gate there is.
    fn any_gate() -> impl Strategy<Value = Gate> {
        let quantile = (1..100_000_000_u64).prop_map(|millionths| Watched::Quantile(millionths as f64 / 1e6 / 100.0));
        let watched = prop_oneof![
            quantile,
            Just(Watched::Mean),
            Just(Watched::Cpu),
            Just(Watched::Throughput),
            Just(Watched::Rate),
            Just(Watched::Loss),
        ];
        // All magnitudes alike.
        let number = (0..53_u32, any::<u64>()).prop_map(|(bits, random)| (random >> (63 - bits)).max(1));
        (watched, any::<bool>(), number, -999_999..=10_000_000_000_i64).prop_map(
            |(watched, relative, number, percent)| {
                let percent = percent as f64 / 1e4 / 100.0;
                let limit = match watched {
                    Watched::Loss => Limit::Value((number % 1_000_001) as f64 / 1e4 / 100.0),
                    _ if relative => Limit::Change(percent),
                    Watched::Rate => Limit::Value((number % 100_000_000_000).max(1) as f64 / 1e3),
                    _ => Limit::Value(number as f64),
                };
                Gate { watched, side: watched.worse(), limit }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_what_is_typed(gate in any_gate()) {
            prop_assert_eq!(gate.to_string().parse(), Ok(gate));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            if let Ok(gate) = text.parse::<Gate>() {
                prop_assert_eq!(gate.to_string().parse(), Ok(gate));
            }
        }

        #[test]
        fn any_condition_is_answered(text in "(p[0-9.]{1,9}|mean|cpu|rate|throughput|loss) ?[<>] ?[+-]?[0-9.e]{1,12} ?(%|ns|us|ms|s|Gbit/s|k msg/s)?") {
            if let Ok(gate) = text.parse::<Gate>() {
                prop_assert_eq!(gate.to_string().parse(), Ok(gate));
            }
        }
    }
}
