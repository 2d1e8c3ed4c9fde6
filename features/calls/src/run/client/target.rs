//! Whom the calls go to: the lab's protocol, Redis or HTTP.

use std::fmt;
use std::str::FromStr;

use msgpath_core::target::{BadTarget, parse_port};

/// The port of the lab's servers.
pub const LAB_PORT: u16 = 12345;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The lab's: client4 and server4.
    Lab,
    /// Redis (RESP).
    Redis,
    /// HTTP/1.1.
    Http,
}

impl Protocol {
    /// As recorded.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Lab => "lab",
            Protocol::Redis => "redis",
            Protocol::Http => "http",
        }
    }
}

/// A server that is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcTarget {
    /// What it speaks.
    pub protocol: Protocol,
    /// Name or address.
    pub host: String,
    /// Port; `None`: not typed.
    pub typed_port: Option<u16>,
    /// HTTP only: the path, with its slash in front.
    pub path: String,
}

impl RpcTarget {
    /// The port: as typed, else the protocol's own.
    pub fn port(&self) -> u16 {
        self.typed_port.unwrap_or(match self.protocol {
            Protocol::Lab => LAB_PORT,
            Protocol::Redis => 6379,
            Protocol::Http => 80,
        })
    }
}

impl FromStr for RpcTarget {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget::Text(text.into());
        let odd = |c: char| c.is_control() || c.is_whitespace();
        if text.is_empty() || text.len() > 2048 || text.chars().any(odd) {
            return Err(bad());
        }
        let (protocol, rest) = match text.split_once("://") {
            None => (Protocol::Lab, text),
            Some(("tcp" | "rpc", rest)) => (Protocol::Lab, rest),
            Some(("redis", rest)) => (Protocol::Redis, rest.strip_suffix('/').unwrap_or(rest)),
            Some(("http", rest)) => (Protocol::Http, rest),
            Some(_) => return Err(bad()),
        };
        let (place, path) = match rest.find('/') {
            Some(at) if protocol == Protocol::Http => rest.split_at(at),
            Some(_) => return Err(bad()),
            None => (rest, "/"),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(bad)?;
                match after {
                    "" => (host, None),
                    after => (host, Some(after.strip_prefix(':').ok_or_else(bad)?)),
                }
            }
            // More than one colon: an IPv6 address without a port.
            None if place.matches(':').count() > 1 => (place, None),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
        if host.is_empty() || !host.chars().all(fine) {
            return Err(bad());
        }
        let typed_port = port.map(parse_port).transpose()?;
        Ok(Self { protocol, host: host.into(), typed_port, path: path.into() })
    }
}

impl fmt::Display for RpcTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.protocol {
            Protocol::Lab => write!(f, "{host}:{}", self.port()),
            Protocol::Redis => write!(f, "redis://{host}:{}", self.port()),
            Protocol::Http => write!(f, "http://{host}:{}{}", self.port(), self.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_printed() {
        for (typed, printed) in [
            ("127.0.0.1:23200", "127.0.0.1:23200"),
            ("hostB", "hostB:12345"),
            ("[::1]:99", "[::1]:99"),
            ("::1", "[::1]:12345"),
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://localhost:1/", "redis://localhost:1"),
            ("http://10.0.0.2:8000/a/b?c=d", "http://10.0.0.2:8000/a/b?c=d"),
            ("http://host", "http://host:80/"),
        ] {
            assert_eq!(typed.parse::<RpcTarget>().unwrap().to_string(), printed, "{typed}");
        }
        for bad in
            ["", "a b", "host:0", "host:70000", "ftp://x", "redis://x/y", "[::1", "[::1]9", "host:", "a\r\nb", "x/y"]
        {
            assert!(bad.parse::<RpcTarget>().is_err(), "{bad:?}");
        }
    }
}
