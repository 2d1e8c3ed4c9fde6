//! Whom the calls go to: the lab's protocol, Redis, HTTP or PostgreSQL.

use std::fmt;
use std::str::FromStr;

use crate::agent::client::orders::{Checks, Login, Secret};
use msgpath_core::group::check_one_peer;
use msgpath_core::target::{BadTarget, parse_port};

/// The port of the lab's servers.
pub const LAB_PORT: u16 = 12345;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The lab's: client4 and server4.
    Lab,
    Redis,
    Http,
    #[cfg(feature = "postgres")]
    Postgres,
}

impl Protocol {
    /// As recorded.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Lab => "lab",
            Protocol::Redis => "redis",
            Protocol::Http => "http",
            #[cfg(feature = "postgres")]
            Protocol::Postgres => "postgres",
        }
    }
}

/// A server that is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcTarget {
    /// What it speaks.
    pub protocol: Protocol,
    /// Over TLS: `https://`, `rediss://`, `sslmode=require`.
    pub tls: bool,
    /// What the target wants to be checked of a certificate.
    pub checks: Checks,
    /// Name or address; of a Unix socket the name that HTTP calls it by.
    pub host: String,
    /// A Unix socket of this machine instead of host and port.
    pub socket: Option<String>,
    /// Port; `None`: not typed.
    pub typed_port: Option<u16>,
    /// HTTP: the path, with its slash in front; PostgreSQL: the database, in the same way.
    pub path: String,
    /// Redis and PostgreSQL.
    pub login: Login,
}

impl RpcTarget {
    /// The port: as typed, else the protocol's own.
    pub fn port(&self) -> u16 {
        self.typed_port.unwrap_or(match self.protocol {
            Protocol::Lab => LAB_PORT,
            Protocol::Redis => 6379,
            Protocol::Http if self.tls => 443,
            Protocol::Http => 80,
            #[cfg(feature = "postgres")]
            Protocol::Postgres => super::postgres::PORT,
        })
    }
}

impl FromStr for RpcTarget {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget::Text(without_password(text));
        let odd = |c: char| c.is_control() || c.is_whitespace();
        if text.is_empty() || text.len() > 2048 || text.chars().any(odd) {
            return Err(bad());
        }
        let (protocol, tls, rest) = match text.split_once("://") {
            None => (Protocol::Lab, false, text),
            Some(("tcp" | "rpc", rest)) => (Protocol::Lab, false, rest),
            Some(("redis", rest)) => (Protocol::Redis, false, rest),
            Some(("rediss", rest)) => (Protocol::Redis, true, rest),
            Some(("http", rest)) => (Protocol::Http, false, rest),
            Some(("https", rest)) => (Protocol::Http, true, rest),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", rest)) => {
                let target = super::postgres::read(rest).ok_or_else(bad)?;
                check_one_peer(&target.host)?;
                return Ok(target);
            }
            Some(("http+unix", rest)) => return over_unix(Protocol::Http, false, rest).ok_or_else(bad),
            Some(("https+unix", rest)) => return over_unix(Protocol::Http, true, rest).ok_or_else(bad),
            Some(("redis+unix" | "redis-socket", rest)) => {
                return over_unix(Protocol::Redis, false, rest).ok_or_else(bad);
            }
            Some(("rediss+unix" | "rediss-socket", rest)) => {
                return over_unix(Protocol::Redis, true, rest).ok_or_else(bad);
            }
            Some(_) => return Err(bad()),
        };
        let (place, path) = match rest.find('/') {
            Some(_) if protocol == Protocol::Lab => return Err(bad()),
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (mut login, mut place, mut path) = (Login::default(), place, path);
        if protocol == Protocol::Redis {
            if let Some((who, rest)) = place.rsplit_once('@') {
                (login, place) = (who_calls(who), rest);
            }
            let number = path.strip_prefix('/').filter(|number| !number.is_empty());
            login.database = number.map_or(Ok(0), |number| number.parse().map_err(|_| bad()))?;
            path = "/";
        }
        let (host, typed_port) = host_and_port(place, bad)?;
        check_one_peer(host)?;
        let (host, path, checks) = (host.into(), path.into(), Checks::All);
        Ok(Self { protocol, tls, checks, host, socket: None, typed_port, path, login })
    }
}

/// `host`, `host:1`, `[::1]:1`.
pub(super) fn host_and_port(place: &str, bad: impl Fn() -> BadTarget) -> Result<(&str, Option<u16>), BadTarget> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(&bad)?;
            match after {
                "" => (host, None),
                after => (host, Some(after.strip_prefix(':').ok_or_else(&bad)?)),
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
    Ok((host, port.map(parse_port).transpose()?))
}

/// `anna:word`, as it stands in front of an `@`.
pub(super) fn who_calls(who: &str) -> Login {
    let (user, password) = who.split_once(':').map_or((who, None), |(user, word)| (user, Some(word)));
    Login {
        user: Some(decoded(user)).filter(|user| !user.is_empty()),
        password: password.map(|word| Secret::new(decoded(word))),
        database: 0,
        cluster: false,
    }
}

/// A server at a Unix socket: `%2Frun%2Fx.sock/path` or `/run/x.sock:/path` for HTTP, `anna@/run/x.sock?db=2` for Redis. With TLS its
/// certificate names localhost.
fn over_unix(protocol: Protocol, tls: bool, text: &str) -> Option<RpcTarget> {
    let (mut login, mut path) = (Login::default(), "/");
    let socket = match protocol {
        Protocol::Redis => {
            let (who, place) = text.rsplit_once('@').unwrap_or(("", text));
            let (socket, query) = place.split_once('?').unwrap_or((place, ""));
            login = who_calls(who);
            if !query.is_empty() {
                login.database = query.strip_prefix("db=")?.parse().ok()?;
            }
            socket
        }
        _ if text.starts_with('/') => {
            let (socket, behind) = text.split_once(':').unwrap_or((text, "/"));
            path = behind;
            socket
        }
        _ => {
            let (socket, behind) = text.split_at(text.find('/').unwrap_or(text.len()));
            path = if behind.is_empty() { "/" } else { behind };
            socket
        }
    };
    let socket = decoded(socket);
    let fine = socket.starts_with('/') && !socket.contains(char::is_control) && path.starts_with('/');
    let (host, path, checks) = ("localhost".into(), path.into(), Checks::All);
    fine.then_some(RpcTarget { protocol, tls, checks, host, socket: Some(socket), typed_port: None, path, login })
}

impl fmt::Display for RpcTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let user = self.login.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        #[cfg(feature = "postgres")]
        if self.protocol == Protocol::Postgres {
            return super::postgres::put(self, f);
        }
        let s = if self.tls { "s" } else { "" };
        if let Some(socket) = &self.socket {
            return match (self.protocol, self.login.database) {
                (Protocol::Redis, 0) => write!(f, "redis{s}+unix://{user}{socket}"),
                (Protocol::Redis, database) => write!(f, "redis{s}+unix://{user}{socket}?db={database}"),
                _ => write!(f, "http{s}+unix://{socket}:{}", self.path),
            };
        }
        match self.protocol {
            Protocol::Lab => write!(f, "{host}:{}", self.port()),
            Protocol::Redis => {
                write!(f, "redis{s}://{user}{host}:{}", self.port())?;
                if self.login.database > 0 { write!(f, "/{}", self.login.database) } else { Ok(()) }
            }
            _ => write!(f, "http{s}://{host}:{}{}", self.port(), self.path),
        }
    }
}

/// A word of a command line without the password that a target in it has: `redis://anna:word@host` is `redis://anna@host`. That of
/// PostgreSQL may stand in the query too.
pub fn without_password(word: &str) -> String {
    let Some((place, query)) = word.split_once('?').filter(|_| word.starts_with("postgres")) else {
        return without_userinfo(word);
    };
    let is_public = |word: &&str| !["password=", "sslpassword="].iter().any(|name| word.starts_with(name));
    let query = query.split('&').filter(is_public).collect::<Vec<_>>().join("&");
    let place = without_userinfo(place);
    if query.is_empty() { place } else { format!("{place}?{query}") }
}

fn without_userinfo(word: &str) -> String {
    let whole = || -> Option<String> {
        let (scheme, rest) = word.split_once("://")?;
        let (who, rest) = rest.rsplit_once('@')?;
        let (user, _) = who.split_once(':')?;
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        Some(format!("{scheme}://{user}{rest}"))
    };
    whole().unwrap_or_else(|| word.to_owned())
}

/// Text of a URL with its `%41` put in.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok()).filter(|_| *first == b'%');
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
            ("redis://localhost/2", "redis://localhost:6379/2"),
            ("redis://anna@localhost/2", "redis://anna@localhost:6379/2"),
            ("redis://anna:s3cret@localhost", "redis://anna@localhost:6379"),
            ("redis://:s3cret@localhost:1", "redis://localhost:1"),
            ("http://10.0.0.2:8000/a/b?c=d", "http://10.0.0.2:8000/a/b?c=d"),
            ("http://host", "http://host:80/"),
            ("https://host/a", "https://host:443/a"),
            ("https://[::1]:8443", "https://[::1]:8443/"),
            ("rediss://anna@localhost/2", "rediss://anna@localhost:6379/2"),
            ("http+unix://%2Frun%2Fdocker.sock/info?a=b", "http+unix:///run/docker.sock:/info?a=b"),
            ("http+unix:///run/docker.sock:/info", "http+unix:///run/docker.sock:/info"),
            ("http+unix:///run/docker.sock", "http+unix:///run/docker.sock:/"),
            ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
            ("redis-socket://anna:s3cret@/run/redis.sock?db=2", "redis+unix://anna@/run/redis.sock?db=2"),
            ("rediss+unix://anna:s3cret@/run/redis.sock?db=2", "rediss+unix://anna@/run/redis.sock?db=2"),
            ("rediss+unix:///run/redis.sock", "rediss+unix:///run/redis.sock"),
            ("https+unix:///run/docker.sock:/info", "https+unix:///run/docker.sock:/info"),
        ] {
            assert_eq!(typed.parse::<RpcTarget>().unwrap().to_string(), printed, "{typed}");
        }
        for bad in [
            "",
            "a b",
            "host:0",
            "host:70000",
            "ftp://x",
            "redis://x/y",
            "[::1",
            "[::1]9",
            "host:",
            "a\r\nb",
            "x/y",
            "http+unix://host/x",
            "redis+unix://x.sock",
            "redis+unix:///x?d=2",
            "http+unix:///x:y",
        ] {
            assert!(bad.parse::<RpcTarget>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_typed_password_is_used_and_never_printed() {
        let target = |text: &str| text.parse::<RpcTarget>().unwrap().login;
        let secret = |word: &str| Some(Secret::new(word.into()));
        assert_eq!(target("redis://anna:a%40b%3a@h").password, secret("a@b:"));
        assert_eq!(target("redis://:a@b@h").password, secret("a@b"));
        assert_eq!(target("redis://anna@h").password, None);
        let error = "redis://anna:s3cret@h:70000x/y".parse::<RpcTarget>().unwrap_err().to_string();
        assert!(error.contains("anna@h") && !error.contains("s3cret"), "{error}");
        for (word, kept) in [
            ("redis://:s3cret@h/2", "redis://h/2"),
            ("redis://anna:s3@cret@h", "redis://anna@h"),
            ("redis://anna@h", "redis://anna@h"),
            ("http://h/a:b", "http://h/a:b"),
            ("http://h/a?password=x", "http://h/a?password=x"),
            ("postgres://h/db?user=b@c&password=s3cret&port=1", "postgres://h/db?user=b@c&port=1"),
            ("postgresql://anna:s3cret@h:1/db?password=s3cret", "postgresql://anna@h:1/db"),
            ("-key", "-key"),
        ] {
            assert_eq!(without_password(word), kept);
        }
    }
}
