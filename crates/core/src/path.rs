//! The names of paths: `transport:send-method/wait`, `+setting` where the sockets are set otherwise than the plan says, and
//! `@program` where the far end is a program of others.
//!
//! This module knows the grammar only. Which names exist is the registry's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The wait that is not written.
pub const DEFAULT_WAIT: &str = "block";

/// How a TCP socket treats small packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setting {
    /// TCP_NODELAY on: every packet goes at once.
    NoDelay,
    /// TCP_NODELAY off: a small packet waits while another is not acknowledged (Nagle).
    Nagle,
    /// TCP_NODELAY on, and TCP_CORK around the pieces of each message.
    Cork,
}

impl Setting {
    pub const ALL: [Setting; 3] = [Setting::NoDelay, Setting::Nagle, Setting::Cork];

    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Setting::NoDelay => "nodelay",
            Setting::Nagle => "nagle",
            Setting::Cork => "cork",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }
}

/// The full name of a path. Written `tcp:send`, or `tcp:send/epoll` where the wait is not `block`, or `tcp:send+nagle`
/// where it has a setting of its own, or `tcp:send@server` where a program of others is the far end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathName {
    /// What carries the bytes: `tcp`, `unix`, `shm` ...
    pub transport: String,
    /// How they are handed over: `send`, `writev`, `ring` ...
    pub method: String,
    /// How the receiver waits: `block`, `epoll`, `spin` ...
    pub wait: String,
    /// Set for this path alone; `None`: as the plan says.
    pub setting: Option<Setting>,
    /// The program at the far end; `None`: msgpath itself.
    pub program: Option<String>,
}

/// A part of a path that a file of another program does not tell; where it is the send method, the size of a message is not told either.
pub const UNKNOWN: &str = "unknown";

impl PathName {
    /// What others measured over this transport, and nobody knows how; [`UNKNOWN`]: nor over which.
    pub fn untold(transport: impl Into<String>) -> Self {
        Self::new(transport, UNKNOWN, UNKNOWN)
    }

    /// Whether it is known how messages were handed over, and so how long they were.
    pub fn is_told(&self) -> bool {
        self.method != UNKNOWN
    }

    /// A name from its three parts.
    pub fn new(transport: impl Into<String>, method: impl Into<String>, wait: impl Into<String>) -> Self {
        Self { transport: transport.into(), method: method.into(), wait: wait.into(), setting: None, program: None }
    }

    #[must_use]
    pub fn with(self, setting: Option<Setting>) -> Self {
        Self { setting, ..self }
    }

    #[must_use]
    pub fn to(self, program: Option<String>) -> Self {
        Self { program, ..self }
    }
}

impl fmt::Display for PathName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transport == UNKNOWN && !self.is_told() {
            return f.write_str(UNKNOWN);
        }
        write!(f, "{}:{}", self.transport, self.method)?;
        if self.is_told() && self.wait != DEFAULT_WAIT {
            write!(f, "/{}", self.wait)?;
        }
        if let Some(setting) = self.setting {
            write!(f, "+{}", setting.name())?;
        }
        if let Some(program) = &self.program {
            write!(f, "@{program}")?;
        }
        Ok(())
    }
}

/// A full name that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a message path")]
pub struct BadPath(pub String);

impl FromStr for PathName {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let spec: PathSpec = text.parse()?;
        match spec {
            PathSpec { transport: Some(transport), method: None, .. } if transport == UNKNOWN => {
                Ok(Self::untold(UNKNOWN))
            }
            PathSpec { transport: Some(transport), method: Some(method), .. } if method == UNKNOWN => {
                Ok(Self::untold(transport))
            }
            PathSpec { transport: Some(transport), method: Some(method), wait, setting, program } => {
                Ok(Self { transport, method, wait: wait.unwrap_or_else(|| DEFAULT_WAIT.into()), setting, program })
            }
            _ => Err(BadPath(text.into())),
        }
    }
}

impl Serialize for PathName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for PathName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PathName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A path: transport, send method, wait where it is not the default, setting, and the program at the far end where it is not msgpath: `tcp:writev/epoll`, `tcp:send@server`."
        })
    }
}

impl<'de> Deserialize<'de> for PathName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A path as typed, parts possibly missing: `tcp:writev/epoll`, `shm/spin`, `pipe`, `writev`.
///
/// A bare word sets `word`: only the registry can tell whether it names a transport or a send method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSpec {
    /// Before the colon.
    pub transport: Option<String>,
    /// After the colon.
    pub method: Option<String>,
    /// After the slash.
    pub wait: Option<String>,
    /// After the plus.
    pub setting: Option<Setting>,
    /// After the at sign.
    pub program: Option<String>,
}

impl PathSpec {
    /// The bare word, where nothing stood before or after a colon.
    pub fn bare(&self) -> Option<&str> {
        match (&self.transport, &self.method) {
            (Some(word), None) => Some(word),
            _ => None,
        }
    }
}

fn is_word(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && text.len() <= 32
}

/// Whether a program at the far end can be called so.
pub fn is_end_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

impl FromStr for PathSpec {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let bad = || BadPath(text.into());
        let (own, program) = match text.split_once('@') {
            Some((path, program)) if is_end_name(program) => (path, Some(program)),
            Some(_) => return Err(bad()),
            None => (text, None),
        };
        let (whole, setting) = match own.split_once('+') {
            Some((path, setting)) => (path, Some(Setting::find(setting).ok_or_else(bad)?)),
            None => (own, None),
        };
        let (path, wait) = match whole.split_once('/') {
            Some((path, wait)) => (path, Some(wait)),
            None => (whole, None),
        };
        let (transport, method) = match path.split_once(':') {
            Some((transport, method)) => (transport, Some(method)),
            None => (path, None),
        };
        if ![Some(transport), method, wait].into_iter().flatten().all(is_word) {
            return Err(bad());
        }
        let [method, wait, program] = [method, wait, program].map(|part| part.map(Into::into));
        Ok(Self { transport: Some(transport.into()), method, wait, setting, program })
    }
}

/// The candidate nearest to `typed` (Damerau-Levenshtein distance of at most a third of its length), for "did you
/// mean".
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(typed, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= candidate.len().max(typed.len()).div_ceil(3))
        .map(|(_, candidate)| candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let mut best = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_that_are_not_told_come_back() {
        for (path, text) in [(PathName::untold(UNKNOWN), "unknown"), (PathName::untold("tcp"), "tcp:unknown")] {
            assert_eq!((path.to_string().as_str(), text.parse::<PathName>().unwrap()), (text, path.clone()));
            assert!(!path.is_told());
        }
    }

    #[test]
    fn full_names_round_trip() {
        for text in
            ["tcp:send", "tcp:send/epoll", "shm:ring/spin", "tcp:uring-zc", "tcp:writes/spin+nagle", "tcp:writes+cork"]
                .into_iter()
                .chain(["tcp:send@a", "tcp:send/epoll+nagle@echo.py"])
        {
            assert_eq!(text.parse::<PathName>().unwrap().to_string(), text);
        }
        assert!("tcp".parse::<PathName>().is_err());
    }

    #[test]
    fn parts_may_be_missing() {
        let spec: PathSpec = "shm/spin".parse().unwrap();
        assert_eq!((spec.bare(), spec.wait.as_deref()), (Some("shm"), Some("spin")));
        assert_eq!("writev".parse::<PathSpec>().unwrap().bare(), Some("writev"));
        for bad in [
            "",
            ":",
            "tcp:",
            ":send",
            "TCP:send",
            "tcp:send/",
            "tcp:send:x",
            "a b",
            "1tcp",
            "tcp+",
            "tcp+x",
            "tcp+cork/spin",
            "tcp:send@",
            "tcp:send@a b",
            "tcp:send@-a",
            "tcp@a+cork",
        ] {
            assert!(bad.parse::<PathSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("tcp:splise", ["tcp:send", "tcp:splice", "unix:send"]), Some("tcp:splice"));
        assert_eq!(nearest("tcp:sned", ["tcp:send", "tcp:writev"]), Some("tcp:send"));
        assert_eq!(nearest("zzzzzzzzz", ["tcp:send"]), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<PathSpec>();
            let _ = nearest(&text, ["tcp:send"]);
        }
    }
}
