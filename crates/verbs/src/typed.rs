//! What one option's text means: value parsers for clap. They check a value alone; what values mean together is
//! [`crate::request`]'s business.

use std::net::IpAddr;

use clap::builder::{PossibleValue, TypedValueParser, ValueParserFactory};
use msgpath_core::gate::Gate;
use msgpath_core::path::PathSpec;
use msgpath_core::plan::{Expectation, Metric, Placement};
use msgpath_core::program::{BadProgram, Program};
use msgpath_core::schedule::Rate;
use msgpath_core::target::{BadTarget, PortRange, parse_port};
use msgpath_core::units::{self, Pieces};
use msgpath_core::{Launch, Problem, Target};

use crate::metrics::MetricsTo;
use crate::problems;

/// A list that clap takes as one value (`64,4K`, `64..1M`, `1,2,4`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

/// `-l`.
pub fn sizes(text: &str) -> Result<List<u64>, units::ParseError> {
    units::parse_sizes(text).map(List)
}

/// `-T`.
pub fn numbers(text: &str) -> Result<List<u32>, units::ParseError> {
    units::parse_numbers(text).map(List)
}

/// A count that cannot be 0: `-P`, `-r` ...
pub fn number(text: &str) -> Result<u32, units::ParseError> {
    match units::parse_numbers(text)?[..] {
        [number] => Ok(number),
        _ => Err(units::ParseError { what: "one whole number from 1".into(), input: text.into() }),
    }
}

/// So many of something, or each by the name of its place or host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountOrNames {
    Count(u32),
    Names(Vec<String>),
}

impl CountOrNames {
    /// Names between commas.
    pub fn named(text: &str) -> Self {
        Self::Names(text.split(',').map(|name| name.trim().to_owned()).collect())
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            Self::Names(names) => names.len() as u32,
        }
    }

    /// None where they are counted.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Count(_) => &[],
            Self::Names(names) => names,
        }
    }
}

/// `--pieces`.
pub fn pieces(text: &str) -> Result<List<Pieces>, units::ParseError> {
    units::parse_pieces(text).map(List)
}

/// `-c`. iperf3's `-c host` is caught here.
pub fn count(text: &str) -> Result<u64, Problem> {
    match units::parse_count(text) {
        Ok(count) => Ok(count),
        Err(_) if looks_like_a_host(text) => Err(problems::count_is_a_host(text)),
        Err(error) => Err(problems::bad_value("-c", error.to_string())),
    }
}

fn looks_like_a_host(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| "kKmMgG".contains(c));
    let a_number = !digits.is_empty() && digits.len() + 1 >= text.len() && digits.chars().all(|c| c.is_ascii_digit());
    !a_number
        && matches!(text.parse(), Ok(Target::Host { .. }))
        && (text.contains(|c: char| c.is_alphabetic()) || text.contains(':') || text.parse::<IpAddr>().is_ok())
}

/// `-p`.
pub fn port(text: &str) -> Result<u16, Problem> {
    parse_port(text).map_err(|error| problems::bad_target(text, &error))
}

/// `-B`: an address, with the device of its link if it has one.
pub fn local_address(text: &str) -> Result<String, Problem> {
    problems::check_one_peer(text)?;
    let none = || problems::bad_value("-B", format!("an address such as 10.0.0.2 or fe80::1%eth0, got {text:?}"));
    msgpath_sys::address::parse(text).map(msgpath_sys::address::shown).ok_or_else(none)
}

/// `--data-ports`.
pub fn port_range(text: &str) -> Result<PortRange, Problem> {
    text.parse().map_err(|_| problems::bad_value("--data-ports", format!("ports such as 5211-5219, got {text:?}")))
}

/// `TARGET`. What can only be meant as paths is no target.
pub fn target(text: &str) -> Result<Target, Problem> {
    if text.split(',').all(is_path) {
        let problem = problems::usage(format!("{text} is no target"));
        return Err(problem.why("paths are an option").hint(format!("-x {text}")));
    }
    text.parse().map_err(|error: BadTarget| problems::bad_target(text, &error))
}

/// `--launch`: a launcher by its name, or a template.
pub fn launch(text: &str) -> Result<Launch, Problem> {
    Launch::parse(text).map_err(|error| {
        let names: Vec<&str> = Launch::names().collect();
        let nearest = msgpath_core::path::nearest(text, names.iter().copied());
        problems::usage(error.to_string()).hint(match nearest {
            Some(name) => format!("--launch {name}"),
            None => format!("{}, or a template: 'ssh -J gate {{host}} {{program}}'", names.join(", ")),
        })
    })
}

/// `--cpu`: `near,far`, or two lists `0,2:1,3`; `none`: no CPU at either end, so that nothing is pinned.
pub fn cpus(text: &str) -> Result<Placement, Problem> {
    let bad = || {
        problems::bad_value("--cpu", format!("one CPU for each end, got {text:?}"))
            .hint("--cpu 0,1 (near end, far end), or lists: --cpu 0,2:1,3, or none")
    };
    if text == "none" {
        return Ok(Placement::default());
    }
    let list = |part: &str| part.split(',').map(|cpu| cpu.trim().parse::<u32>().ok()).collect::<Option<Vec<u32>>>();
    match text.split_once(':') {
        Some((near, far)) => Ok(Placement::pair(list(near).ok_or_else(bad)?, list(far).ok_or_else(bad)?)),
        None => match list(text).ok_or_else(bad)?[..] {
            [near, far] => Ok(Placement::pair([near], [far])),
            _ => Err(bad()),
        },
    }
}

/// A share such as `0.1%` or `0.001`, as a number from 0 to 1.
pub fn share(text: &str) -> Result<f64, Problem> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    number
        .trim()
        .parse()
        .map(|number: f64| number / scale)
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| problems::usage(format!("a share is 0.1% or 0.001, got {text:?}")))
}

/// `--open-metrics`: an address of this machine (`127.0.0.1:9464`, `[::1]:9464`, `:9464`), or a file.
pub fn metrics(text: &str) -> Result<MetricsTo, Problem> {
    let typed = text.strip_prefix(':').map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    let typed = typed.strip_prefix("localhost:").map_or_else(|| typed.clone(), |port| format!("127.0.0.1:{port}"));
    match typed.parse::<std::net::SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(MetricsTo::Address(address)),
        Ok(_) => Err(problems::bad_value(
            "--open-metrics",
            format!(
                "an address of this machine alone, such as 127.0.0.1:9464, got {text:?}: what is measured is nobody else's business"
            ),
        )),
        Err(_) if text.is_empty() || text.starts_with(':') || text.starts_with("localhost:") => {
            Err(problems::bad_value(
                "--open-metrics",
                format!("a file, or an address such as 127.0.0.1:9464, got {text:?}"),
            ))
        }
        Err(_) => Ok(MetricsTo::File(text.into())),
    }
}

/// A number up to `most`.
///
/// # Errors
/// It is none, or larger.
pub fn at_most(option: &str, text: &str, most: u32) -> Result<u32, Problem> {
    let number = number(text).map_err(|error| problems::bad_value(option, error.to_string()))?;
    Some(number)
        .filter(|number| *number <= most)
        .ok_or_else(|| problems::bad_value(option, format!("1 to {most}, got {number}")))
}

/// `--name`: what a folder may be called without surprises.
pub fn run_name(text: &str) -> Result<String, Problem> {
    let fine = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if fine {
        Ok(text.into())
    } else {
        Err(problems::bad_value("--name", format!("letters, digits, '.', '_' and '-' (at most 64), got {text:?}")))
    }
}

/// One path as typed, or `all`. Which names exist is asked of the registry later, so that the answer can name the
/// nearest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathArg {
    /// Every path that can reach the target.
    All,
    /// A path, parts possibly missing.
    Spec(PathSpec),
}

impl ValueParserFactory for List<PathArg> {
    type Parser = PathsParser;

    fn value_parser() -> PathsParser {
        PathsParser
    }
}

/// Parses a comma list of [`PathArg`]; its possible values, and so the shells' completions, are the registry's names.
#[derive(Clone, Copy, Debug)]
pub struct PathsParser;

impl TypedValueParser for PathsParser {
    type Value = List<PathArg>;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<List<PathArg>, clap::Error> {
        (paths as fn(&str) -> Result<List<PathArg>, Problem>).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(msgpath_paths::all().into_iter().map(|entry| PossibleValue::new(entry.name.to_string()))))
    }
}

fn paths(text: &str) -> Result<List<PathArg>, Problem> {
    let path = |text: &str| match text {
        "all" => Ok(PathArg::All),
        _ => text.parse().map(PathArg::Spec).map_err(|_| problems::not_a_path(text)),
    };
    text.split(',').map(path).collect::<Result<_, _>>().map(List)
}

/// What is offered: messages a second, or millionths of what the path takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// An absolute rate.
    Rate(Rate),
    /// A share of the capacity, which is found before the first round.
    Share(u32),
}

/// Whether `text` is `all`, a transport, or a transport with a send method, which is no address.
fn is_path(text: &str) -> bool {
    let named = |spec: PathSpec| {
        let is = |part: &Option<String>, name: &str| part.as_deref().is_none_or(|part| part == name);
        msgpath_paths::all()
            .iter()
            .any(|entry| is(&spec.transport, &entry.name.transport) && is(&spec.method, &entry.name.method))
    };
    text == "all" || text.parse().is_ok_and(named)
}

/// `--rate`.
pub fn rates(text: &str) -> Result<List<Offered>, units::ParseError> {
    Ok(List(match text.contains('%') {
        true => units::parse_shares(text)?.into_iter().map(Offered::Share).collect(),
        false => units::parse_rates(text)?.into_iter().map(Offered::Rate).collect(),
    }))
}

/// `--expect`: a time, or bits per second with the letter that a time does not have.
pub fn expectation(text: &str) -> Result<Expectation, Problem> {
    let bits = text.trim_end_matches("bit/s").trim_end();
    let rate = || units::parse_count(bits).ok().filter(|_| !text.ends_with(|c: char| c.is_ascii_digit()));
    let expected = match units::parse_time(text) {
        Ok(ns) => (ns > 0).then_some(Expectation::Time(ns)),
        Err(_) => rate().filter(|bits| *bits > 0).map(Expectation::Bits),
    };
    expected.ok_or_else(|| {
        problems::bad_value("--expect", format!("a time such as 50us, or bits per second such as 10G, got {text:?}"))
    })
}

/// `--server`.
pub fn program(text: &str) -> Result<Program, Problem> {
    Program::parse(text).map_err(|error| match error {
        BadProgram::Peer(error) => problems::bad_target(text, &error),
        error => problems::bad_value("--server", format!("a program: {error}, got {text:?}"))
            .hint("--server './server {port}', --server 'new=./server {port}' or --server raw://HOST:PORT"),
    })
}

/// `--metric`.
pub fn metric(text: &str) -> Result<Metric, Problem> {
    Metric::find(text)
        .ok_or_else(|| problems::bad_value("--metric", format!("p50, p99, mean, cpu or throughput, got {text:?}")))
}

/// `--fail-if`.
pub fn gate(text: &str) -> Result<Gate, Problem> {
    text.parse().map_err(|error: String| {
        let (what, forms) = error.split_once("; ").unwrap_or((&error, ""));
        problems::usage(format!("--fail-if {text:?}: {what}")).why(forms)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Exit;

    #[test]
    fn a_count_that_is_a_host_is_named() {
        assert_eq!(count("10k"), Ok(10_000));
        for host in ["hostB", "10.0.0.2", "localhost:99", "::1"] {
            assert_eq!(count(host).unwrap_err().code, "E02", "{host}");
        }
        for number in ["-1", "1.2.3.4.5.6,", "99999999999999999999", "99999999999999999G"] {
            assert_eq!(count(number).unwrap_err().code, "E11", "{number}");
        }
    }

    #[test]
    fn a_port_says_what_it_would_wrap_to() {
        assert_eq!(port("5210"), Ok(5210));
        assert!(port("78400").unwrap_err().to_string().contains("12864"));
        assert!(target("host:78400").unwrap_err().to_string().contains("12864"));
        assert_eq!(port("0").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn cpus_are_a_pair_or_two_lists() {
        assert_eq!(cpus("3,11"), Ok(Placement::pair([3], [11])));
        assert_eq!(cpus("0,2:1,3"), Ok(Placement::pair([0, 2], [1, 3])));
        assert_eq!(cpus("none"), Ok(Placement::default()));
        for bad in ["", "3", "1,2,3", "a,b", "1,2:", ":1", "-1,2"] {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(share("0.1%"), Ok(0.001));
        assert_eq!(share("0"), Ok(0.0));
        assert_eq!(share("0.5"), Ok(0.5));
        for bad in ["", "%", "101%", "-1", "nan", "inf", "x"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_estimate_is_a_time_or_bits() {
        assert_eq!(expectation("50us"), Ok(Expectation::Time(50_000)));
        for bits in ["10G", "10Gbit/s", "10 Gbit/s", "10000M"] {
            assert_eq!(expectation(bits), Ok(Expectation::Bits(10_000_000_000)), "{bits}");
        }
        assert_eq!(expectation("10m"), Ok(Expectation::Time(600_000_000_000)));
        for bad in ["", "50", "0us", "0G", "fast", "10GB", "bit/s", "99999999999999999999G"] {
            assert!(expectation(bad).unwrap_err().to_string().contains("10G, got"), "{bad}");
        }
    }

    #[test]
    fn a_gate_that_makes_no_sense_names_the_forms() {
        assert_eq!(gate("p99 > +5%").unwrap().to_string(), "p99 > +5%");
        let problem = gate("p99 > soon").unwrap_err();
        assert_eq!((problem.code.as_str(), problem.exit), ("E11", Exit::Usage));
        assert!(problem.what.contains("soon") && problem.why.contains("a gate looks like"), "{problem}");
    }

    #[test]
    fn names_are_safe_folders() {
        assert!(run_name("brisk-otter.2").is_ok());
        for bad in ["", ".", "..", "a/b", "@last", "-x", "a b"] {
            assert!(run_name(bad).is_err(), "{bad}");
        }
    }
}
