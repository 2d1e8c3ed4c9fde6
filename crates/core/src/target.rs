//! Where the far end is: nothing (this machine, started here), a host, or a name on this machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::group::check_one_peer;
use crate::program::{BadProgram, Source};

/// The port of `msgpath serve`.
pub const DEFAULT_PORT: u16 = 5210;

/// A far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Start the far end here, as another process on another CPU.
    Local,
    /// `host[:port]`, `tcp://host`, `udp://host`: a `msgpath serve` reached over TCP.
    Host {
        /// Name or address.
        host: String,
        /// Control port.
        port: u16,
        /// Transport named by the scheme.
        transport: Option<String>,
    },
    /// `unix:/path`, `unixgram:/path`, `unixseq:/path`: a `msgpath serve` on a socket in the file system.
    Socket {
        /// Path of the control socket.
        path: String,
        /// Transport named by the scheme.
        transport: String,
    },
    /// `raw://host:port`, `raw+udp://host:port`, `raw+unix:/path`, `raw+unixgram:/path`, `raw+unixseq:/path`: a program of others
    /// that runs already.
    Program {
        /// Where: an address or a socket.
        source: Source,
        /// Transport named by the scheme.
        transport: Option<String>,
    },
    /// `shm:name`, `pipe:name`, `fifo:name`, `mq:name`: a `msgpath serve` under an abstract name of this machine.
    Name {
        /// The name, `[A-Za-z0-9._-]{1,64}`.
        name: String,
        /// Transport named by the scheme.
        transport: String,
    },
}

/// A target that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// A port outside 1..=65535.
    #[error("port {typed} does not exist (1 to 65535)")]
    Port {
        /// What was typed.
        typed: u64,
        /// What a program that keeps 16 bits would have used.
        wraps_to: u16,
    },
    /// An address that stands for many.
    #[error("{host} is {}, not one peer", if *broadcast { "the broadcast address" } else { "a multicast group" })]
    Group {
        /// As typed, without a port.
        host: String,
        /// The limited broadcast address of IPv4; else a multicast group.
        broadcast: bool,
    },
    /// Anything else.
    #[error("{0:?} is not a target")]
    Text(String),
}

/// Ports from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    /// The last one; not below `first`.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (parse_port(first)?, parse_port(last)?);
        if first > last { Err(BadTarget::Text(text.into())) } else { Ok(Self { first, last }) }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

const FILE_SCHEMES: [&str; 3] = ["unix", "unixgram", "unixseq"];
const NAME_SCHEMES: [&str; 4] = ["shm", "pipe", "fifo", "mq"];

impl Target {
    /// The transport that the scheme names, if it names one.
    pub fn transport(&self) -> Option<&str> {
        match self {
            Target::Local => None,
            Target::Host { transport, .. } | Target::Program { transport, .. } => transport.as_deref(),
            Target::Socket { transport, .. } | Target::Name { transport, .. } => Some(transport),
        }
    }

    /// Whether the far end runs on this machine by construction.
    pub fn is_same_machine(&self) -> bool {
        !matches!(self, Target::Host { .. } | Target::Program { .. })
    }
}

/// A port as typed.
///
/// # Errors
/// 0, or more than 65535: then the value that 16 bits would keep is named.
pub fn parse_port(text: &str) -> Result<u16, BadTarget> {
    let typed: u64 = text.parse().map_err(|_| BadTarget::Text(text.into()))?;
    match u16::try_from(typed) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(BadTarget::Port { typed, wraps_to: (typed & 0xffff) as u16 }),
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget::Text(text.into());
        if text.is_empty() || text.len() > 512 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(bad());
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme {
                "tcp" | "udp" => host(rest, Some(scheme)).ok_or_else(bad)?,
                "raw" | "raw+udp" => match Source::parse(&format!("raw://{rest}")) {
                    Ok(source @ Source::Address(_)) => {
                        Ok(Target::Program { source, transport: scheme.strip_prefix("raw+").map(Into::into) })
                    }
                    Err(BadProgram::Peer(group)) => Err(group),
                    _ => Err(bad()),
                },
                _ => program_at_socket(scheme, rest).ok_or_else(bad),
            };
        }
        if let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| scheme.starts_with("raw+")) {
            return program_at_socket(scheme, rest).ok_or_else(bad);
        }
        if let Some((scheme, rest)) = text.split_once(':') {
            if FILE_SCHEMES.contains(&scheme) {
                return match rest {
                    "" => Err(bad()),
                    path => Ok(Target::Socket { path: path.into(), transport: scheme.into() }),
                };
            }
            if NAME_SCHEMES.contains(&scheme) {
                let fine = !rest.is_empty()
                    && rest.len() <= 64
                    && rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
                return if fine {
                    Ok(Target::Name { name: rest.into(), transport: scheme.into() })
                } else {
                    Err(bad())
                };
            }
        }
        host(text, None).ok_or_else(bad)?
    }
}

/// `raw+unix:/path` and the like: a program at a Unix socket.
fn program_at_socket(scheme: &str, path: &str) -> Option<Target> {
    let transport = scheme.strip_prefix("raw+").filter(|transport| FILE_SCHEMES.contains(transport))?;
    let source = Source::parse(&format!("raw+unix:{path}")).ok()?;
    Some(Target::Program { source, transport: Some(transport.into()) })
}

/// Host and port of `HOST[:PORT]`, the port as typed, empty where there is none; `None`: it cannot be one.
pub(crate) fn split_host(text: &str) -> Option<(&str, &str)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        (host, rest.strip_prefix(':').or(if rest.is_empty() { Some("") } else { None })?)
    } else if text.matches(':').count() > 1 {
        // A bare IPv6 address; a port stands behind its device only.
        let device = text.find('%').map_or(text.len(), |at| at + 1);
        text[device..].rsplit_once(':').map_or((text, ""), |(name, port)| (&text[..device + name.len()], port))
    } else {
        text.split_once(':').unwrap_or((text, ""))
    };
    if host.is_empty() || host.starts_with('-') || !host.chars().all(|c| c.is_alphanumeric() || ".-_:%@".contains(c)) {
        return None;
    }
    Some((host, port))
}

fn host(text: &str, scheme: Option<&str>) -> Option<Result<Target, BadTarget>> {
    let (host, port) = split_host(text)?;
    if let Err(group) = check_one_peer(host) {
        return Some(Err(group));
    }
    if host.chars().all(|c| c.is_ascii_digit()) {
        // `server 12345` means a port; a resolver would read the address 0.0.48.57 into it.
        return Some(Err(parse_port(host).err().unwrap_or_else(|| BadTarget::Text(host.into()))));
    }
    let port = match port {
        "" => DEFAULT_PORT,
        port => match parse_port(port) {
            Ok(port) => port,
            Err(error) => return Some(Err(error)),
        },
    };
    Some(Ok(Target::Host { host: host.into(), port, transport: scheme.map(Into::into) }))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Local => f.write_str("this machine"),
            Target::Host { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Target::Host { host, port, .. } => write!(f, "{host}:{port}"),
            Target::Socket { path, transport } => write!(f, "{transport}:{path}"),
            Target::Program { source: Source::Address(address), transport } => match transport {
                Some(transport) => write!(f, "raw+{transport}://{address}"),
                None => write!(f, "raw://{address}"),
            },
            Target::Program { source: Source::Socket(path), transport } => {
                write!(f, "raw+{}:{path}", transport.as_deref().unwrap_or("unix"))
            }
            Target::Program { source, .. } => source.fmt(f),
            Target::Name { name, transport } => write!(f, "{transport}:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str, transport: Option<&str>) {
        let target: Target = text.parse().unwrap();
        assert_eq!((target.to_string().as_str(), target.transport()), (expected, transport));
    }

    #[test]
    fn port_ranges_have_both_ends_or_one_port() {
        let range = |text: &str| text.parse::<PortRange>().map(|range| (range.first, range.last, range.to_string()));
        assert_eq!(range("5211-5219"), Ok((5211, 5219, "5211-5219".into())));
        assert_eq!(range("5211"), Ok((5211, 5211, "5211".into())));
        for bad in ["", "-", "5219-5211", "0-5", "5-70000", "5-6-7", "a-b"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets() {
        check("hostB", "hostB:5210", None);
        check("10.0.0.2:99", "10.0.0.2:99", None);
        check("tcp://localhost", "localhost:5210", Some("tcp"));
        check("udp://[::1]:7", "[::1]:7", Some("udp"));
        check("::1", "[::1]:5210", None);
        check("fe80::1%eth0", "[fe80::1%eth0]:5210", None);
        check("fe80::1%eth0:7", "[fe80::1%eth0]:7", None);
        check("unix:/tmp/x", "unix:/tmp/x", Some("unix"));
        check("shm:demo", "shm:demo", Some("shm"));
        check("raw://n:7", "raw://n:7", None);
        check("raw+udp://n:7", "raw+udp://n:7", Some("udp"));
        check("raw+unix:/run/x", "raw+unix:/run/x", Some("unix"));
        check("raw+unixgram:///run/x", "raw+unixgram:/run/x", Some("unixgram"));
        check("user@hostB", "user@hostB:5210", None); // for a launcher
        for bad in [
            "raw+unix:x",
            "raw+shm:/x",
            "raw+udp://n",
            "",
            "http://x",
            "unix:",
            "shm:a/b",
            "-c",
            "a b",
            "[::1",
            "host:port",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_that_stand_for_many_are_named() {
        for (text, host, broadcast) in [
            ("239.1.1.1", "239.1.1.1", false),
            ("udp://239.1.1.1:7", "239.1.1.1", false),
            ("ff15::1%eth0", "ff15::1%eth0", false),
            ("tcp://[ff02::1]:7", "ff02::1", false),
            ("255.255.255.255", "255.255.255.255", true),
            ("raw://224.0.0.1:7", "224.0.0.1", false),
            ("raw+udp://[ff15::1]:7", "ff15::1", false),
        ] {
            assert_eq!(text.parse::<Target>(), Err(BadTarget::Group { host: host.into(), broadcast }), "{text}");
        }
    }

    #[test]
    fn a_port_that_wraps_is_named() {
        assert_eq!(parse_port("78400"), Err(BadTarget::Port { typed: 78400, wraps_to: 12864 }));
        assert!(parse_port("0").is_err());
        assert!("host:78400".parse::<Target>().is_err());
        assert_eq!("78400".parse::<Target>(), Err(BadTarget::Port { typed: 78400, wraps_to: 12864 }));
        assert_eq!("12345".parse::<Target>(), Err(BadTarget::Text("12345".into())));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Target>();
        }
    }
}
