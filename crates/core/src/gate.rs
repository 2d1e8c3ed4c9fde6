//! A condition that fails a comparison of two runs: `p99 > +5%`.

use std::fmt;
use std::str::FromStr;

/// What a gate looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watched {
    /// A quantile of the latency, 0 to 1.
    Quantile(f64),
    /// The mean latency.
    Mean,
    /// CPU time of both ends per message.
    Cpu,
    /// The receiver's payload bits per second.
    Throughput,
    /// Share of the messages that were lost.
    Loss,
}

/// Which side of the limit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `>`: more than the limit.
    Above,
    /// `<`: less than the limit.
    Below,
}

/// The limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Change of the second run against the first: `+5%` is 0.05.
    Change(f64),
    /// The second run's own value: ns for times, bits per second, a share for losses.
    Value(f64),
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// What is looked at.
    pub watched: Watched,
    /// Which side fails.
    pub side: Side,
    /// The limit.
    pub limit: Limit,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watched::Quantile(p) => write!(f, "p{}", (p * 1e8).round() / 1e6),
            Watched::Mean => f.write_str("mean"),
            Watched::Cpu => f.write_str("cpu"),
            Watched::Throughput => f.write_str("throughput"),
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
            (Limit::Value(bits), Watched::Throughput) => {
                f.write_str(&crate::units::bits_per_second(bits, crate::units::BitUnits::Si))
            }
            (Limit::Value(ns), _) => f.write_str(&crate::units::Glyphs::Unicode.time(ns)),
        }
    }
}

/// What a gate looks like, said wherever one is refused.
const FORMS: &str = "a gate looks like 'p99 > +5%', 'p50 > 200us', 'throughput < -3%' or 'loss > 0.1%'";

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |what: String| Err(format!("{what}; {FORMS}"));
        let Some(at) = text.find(['<', '>']) else { return refuse("there is neither > nor < in it".into()) };
        let (name, rest) = text.split_at(at);
        let side = if rest.starts_with('>') { Side::Above } else { Side::Below };
        let (name, limit) = (name.trim(), rest[1..].trim());
        let watched = match name {
            "mean" => Watched::Mean,
            "cpu" => Watched::Cpu,
            "throughput" => Watched::Throughput,
            "loss" => Watched::Loss,
            _ => match name.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok()) {
                Some(percent) if percent > 0.0 && percent < 100.0 => Watched::Quantile(percent / 100.0),
                _ => return refuse(format!("{name:?} is nothing that can be watched")),
            },
        };
        let limit = match limit.strip_suffix('%') {
            Some(number) => match number.trim().parse::<f64>() {
                Ok(percent) if percent.is_finite() && watched == Watched::Loss => Limit::Value(percent / 100.0),
                Ok(percent) if percent.is_finite() && percent > -100.0 => Limit::Change(percent / 100.0),
                _ => return refuse(format!("{limit:?} is no percentage")),
            },
            None => match watched {
                Watched::Quantile(_) | Watched::Mean | Watched::Cpu => match crate::units::parse_time(limit) {
                    Ok(ns) => Limit::Value(ns as f64),
                    Err(_) => return refuse(format!("{limit:?} is neither a percentage nor a time")),
                },
                Watched::Throughput => match crate::units::parse_count(limit) {
                    Ok(bits) => Limit::Value(bits as f64),
                    Err(_) => return refuse(format!("{limit:?} is neither a percentage nor bits per second")),
                },
                Watched::Loss => return refuse("a loss is given in percent".into()),
            },
        };
        let gate = Gate { watched, side, limit };
        let worse = if watched == Watched::Throughput { Side::Below } else { Side::Above };
        if gate.side != worse {
            let other = if worse == Side::Above { '>' } else { '<' };
            return refuse(format!("{watched} gets worse on the other side: use {other}"));
        }
        Ok(gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gates_as_people_type_them() {
        let gate = |text: &str| text.parse::<Gate>();
        assert_eq!(
            gate("p99 > +5%"),
            Ok(Gate { watched: Watched::Quantile(0.99), side: Side::Above, limit: Limit::Change(0.05) })
        );
        assert_eq!(gate("p99>5%"), gate("p99 > +5%"));
        assert_eq!(gate("p50 > 200us").unwrap().limit, Limit::Value(200_000.0));
        assert_eq!(gate("throughput < -3%").unwrap().limit, Limit::Change(-0.03));
        assert_eq!(gate("loss > 0.1%").unwrap().limit, Limit::Value(0.001));
        for text in ["p99 > +5%", "p99.9 > +12.5%", "loss > 0.1%", "cpu > +3%", "mean > +1%"] {
            assert_eq!(gate(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_forms() {
        for text in
            ["", "p99", "p99 > ", "p100 > 5%", "p0 > 5%", "latency > 5%", "p99 < 5%", "throughput > 5%", "loss > 3us"]
        {
            let error = text.parse::<Gate>().unwrap_err();
            assert!(error.contains("a gate looks like"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = text.parse::<Gate>();
        }
    }
}
