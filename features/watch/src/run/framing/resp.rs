//! Redis: RESP 2 and 3. A request is an array of strings or a line, a reply any value.

use msgpath_rpc::resp::{self, Follows};

use super::{End, Name, Step, line, number, words};

/// Values of a message that are still to come, at most.
const MOST: u64 = 1 << 32;
/// After these, replies come that nobody asks for.
const ENDLESS: [&str; 7] = ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "REPLCONF"];
/// A command that is longer has no name.
const LONGEST: u64 = 64;

/// Whether a request begins so.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some((b"*", rest)) = bytes.split_at_checked(1) else { return false };
    line(rest).is_some_and(|(digits, length)| number(digits).is_some() && rest.get(length) == Some(&b'$'))
}

/// The command.
pub(super) fn name(bytes: &[u8]) -> Name {
    let strings = || {
        let (_, first) = line(bytes)?;
        let (_, second) = line(&bytes[first..])?;
        Some(bytes[first + second..].split(|byte| *byte == b'\r').next().unwrap_or_default())
    };
    match begins(bytes) {
        true => command(strings().unwrap_or_default()),
        false => Name::default(),
    }
}

fn command(bytes: &[u8]) -> Name {
    words(&bytes.to_ascii_uppercase())
}

/// Where one direction stands.
pub(super) struct Resp {
    requests: bool,
    /// Values that belong to the one that has begun; 0: none has.
    left: u64,
    /// Strings of a request that were read.
    strings: u32,
    name: Name,
    /// Nobody asked for it.
    alone: bool,
}

impl Resp {
    pub(super) fn requests() -> Self {
        Self { requests: true, left: 0, strings: 0, name: Name::default(), alone: false }
    }

    pub(super) fn replies() -> Self {
        Self { requests: false, ..Self::requests() }
    }

    pub(super) fn step(&mut self, bytes: &[u8]) -> Step {
        let Some((text, length)) = line(bytes) else { return Step::More };
        let mut bytes_of_it = length as u64;
        let Some(kind) = text.first() else {
            // An empty line between requests is ignored.
            return if self.requests && self.left == 0 { Step::Between(bytes_of_it) } else { Step::Lost };
        };
        let first = self.left == 0;
        if first {
            (self.strings, self.name) = (0, Name::default());
            self.alone = *kind == b'>';
            if self.requests && *kind != b'*' {
                return self.inline(text, bytes_of_it);
            }
            self.left = 1;
        } else if self.requests && *kind != b'$' {
            return Step::Lost;
        }
        let nested = match resp::follows(text) {
            Some(Follows::Nothing | Follows::Null) => 0,
            Some(Follows::Bytes(size)) => {
                if self.requests && !self.string(size, &bytes[length..]) {
                    return Step::More;
                }
                bytes_of_it += size + 2;
                0
            }
            Some(Follows::Values(count)) => count,
            None => return Step::Lost,
        };
        self.left = self.left - 1 + nested;
        if self.left > MOST || self.is_endless() {
            return Step::Lost;
        }
        match self.left {
            0 => Step::Last(bytes_of_it, End { name: self.name, alone: self.alone, ..End::default() }),
            _ => Step::Take(bytes_of_it),
        }
    }

    /// A string of a request; `false`: it must be known, and is not yet.
    fn string(&mut self, size: u64, bytes: &[u8]) -> bool {
        let wanted = self.strings == 0 || self.strings == 1 && self.name.starts_with(b"CLIENT\0");
        if wanted && size <= LONGEST {
            let Some(text) = bytes.get(..size as usize) else { return false };
            match self.strings {
                0 => self.name = command(text),
                _ if text.eq_ignore_ascii_case(b"REPLY") => self.name = command(b"CLIENT REPLY"),
                _ => {}
            }
        }
        self.strings += 1;
        true
    }

    fn inline(&mut self, text: &[u8], length: u64) -> Step {
        self.name = command(text.split(|byte| *byte == b' ').next().unwrap_or_default());
        if !text[0].is_ascii_alphabetic() || self.is_endless() {
            return Step::Lost;
        }
        Step::Last(length, End { name: self.name, ..End::default() })
    }

    /// What follows is not a reply to each request.
    fn is_endless(&self) -> bool {
        let name = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        self.requests && (name == b"CLIENT REPLY" || ENDLESS.iter().any(|endless| endless.as_bytes() == name))
    }
}
