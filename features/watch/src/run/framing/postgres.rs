//! PostgreSQL, version 3 of its protocol. A request is what the client sends up to a query or Sync; its reply ends with
//! ReadyForQuery. A connection that becomes encrypted is lost.

use std::collections::VecDeque;

use super::{End, Expect, Name, Step, words};

const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;
/// Versions 3.0 and 3.2.
const VERSIONS: [u32; 2] = [196_608, 196_610];
/// The longest message, as the server has it.
const MOST: u32 = 0x3fff_ffff;
/// The longest that begins a connection.
const LONGEST_STARTUP: u32 = 10_000;
/// So much of a query is looked at for its first word.
const LOOKED_AT: usize = 96;

const FROM_CLIENT: &[u8] = b"QPBEDSCFHXpdcf";
const FROM_SERVER: &[u8] = b"RSKZTDCIENA123ntsGHWdcVv";

/// Whether a request begins so. In the midst of a connection, where little tells, its messages must fit exactly.
pub(super) fn begins(bytes: &[u8], born: bool) -> bool {
    if born {
        return startup(bytes).is_some_and(|(length, code)| is_startup(length, code));
    }
    let mut rest = bytes;
    let mut messages = 0;
    while let Some((kind, length)) = message(rest) {
        if !b"QPBEDSCFH".contains(&kind) {
            return false;
        }
        messages += 1;
        match rest.split_at_checked(1 + length as usize) {
            Some((whole, _)) if kind == b'Q' && !is_query(kind, &whole[5..]) => return false,
            Some((_, after)) => rest = after,
            // It goes on beyond what is known.
            None => return messages > 1 || is_query(kind, &rest[5..]),
        }
        if rest.is_empty() {
            return kind == b'S' || kind == b'H' || kind == b'Q';
        }
    }
    false
}

/// Whether this is the beginning of a message that has a query.
fn is_query(kind: u8, body: &[u8]) -> bool {
    let mut texts = body.split(|byte| *byte == 0);
    let text = match kind {
        b'Q' => texts.next(),
        b'P' => texts.nth(1),
        _ => None,
    };
    let is_text = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    text.is_some_and(|text| !text.is_empty() && is_text(text))
}

fn is_startup(length: u32, code: u32) -> bool {
    match code {
        SSL | GSS => length == 8,
        CANCEL => (16..=LONGEST_STARTUP).contains(&length),
        _ => VERSIONS.contains(&code) && (9..=LONGEST_STARTUP).contains(&length),
    }
}

/// Length and code of the message that begins a connection.
fn startup(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((u32_at(bytes, 0)?, u32_at(bytes, 4)?))
}

/// Type and length (without the type) of the message at the beginning.
fn message(bytes: &[u8]) -> Option<(u8, u32)> {
    let length = u32_at(bytes, 1)?;
    (4..=MOST).contains(&length).then(|| (bytes[0], length))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The first word of the query.
pub(super) fn name(bytes: &[u8]) -> Name {
    let Some((kind, length)) = message(bytes) else { return Name::default() };
    // What follows the message is not its text.
    let body = &bytes[5..bytes.len().min(1 + length as usize)];
    match kind {
        b'Q' => query(body),
        b'P' => parsed(body),
        b'B' => words(b"EXECUTE"),
        _ => Name::default(),
    }
}

fn query(text: &[u8]) -> Name {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(text.len());
    words(&text[..end].to_ascii_uppercase())
}

/// Of a Parse message: behind the name of the statement.
fn parsed(body: &[u8]) -> Name {
    body.iter().position(|byte| *byte == 0).map_or_else(Name::default, |end| query(&body[end + 1..]))
}

/// Where one direction stands.
pub(super) struct Postgres {
    requests: bool,
    /// The connection has just begun.
    starts: bool,
    name: Name,
}

impl Postgres {
    pub(super) fn requests(born: bool) -> Self {
        Self { requests: true, starts: born, name: Name::default() }
    }

    pub(super) fn replies() -> Self {
        Self { requests: false, starts: false, name: Name::default() }
    }

    pub(super) fn step(&mut self, bytes: &[u8], open: bool, expected: &mut VecDeque<Expect>) -> Step {
        if self.starts {
            return self.start(bytes);
        }
        if !self.requests && !open && expected.front() == Some(&Expect::OneByte) {
            expected.pop_front();
            return if bytes[0] == b'N' { Step::Last(1, End::default()) } else { Step::Lost };
        }
        if bytes.len() < 5 {
            return Step::More;
        }
        let Some((kind, length)) = message(bytes) else { return Step::Lost };
        let all = 1 + u64::from(length);
        match self.requests {
            true => self.request(kind, bytes, all, open),
            false => reply(kind, all, open, expected),
        }
    }

    fn start(&mut self, bytes: &[u8]) -> Step {
        let Some((length, code)) = startup(bytes) else { return Step::More };
        if !is_startup(length, code) {
            return Step::Lost;
        }
        let end = match code {
            SSL | GSS => End { name: words(b"encryption"), expect: Expect::OneByte, ..End::default() },
            CANCEL => End { alone: true, ..End::default() },
            _ => End { name: words(b"startup"), ..End::default() },
        };
        self.starts = matches!(code, SSL | GSS);
        Step::Last(length.into(), end)
    }

    fn request(&mut self, kind: u8, bytes: &[u8], all: u64, open: bool) -> Step {
        if !FROM_CLIENT.contains(&kind) {
            return Step::Lost;
        }
        // As much in one piece as in many, and nothing of the message behind.
        let looked_at = (all - 5).min(LOOKED_AT as u64) as usize;
        let known = &bytes[5..bytes.len().min(5 + looked_at)];
        let named = kind == b'Q' || kind == b'P';
        if named && known.len() < looked_at {
            return Step::More;
        }
        if !open {
            self.name = Name::default();
        }
        let own = match kind {
            b'Q' => query(known),
            b'P' => parsed(known),
            b'B' => words(b"EXECUTE"),
            b'F' => words(b"CALL"),
            b'S' => words(b"SYNC"),
            _ => Name::default(),
        };
        if self.name == Name::default() {
            self.name = own;
        }
        match kind {
            b'Q' | b'S' | b'F' => Step::Last(all, End { name: self.name, ..End::default() }),
            b'X' => Step::Last(all, End { alone: true, ..End::default() }),
            // Passwords, and data of COPY, belong to what was asked before.
            b'p' | b'd' | b'c' | b'f' if !open => Step::Between(all),
            _ => Step::Take(all),
        }
    }
}

fn reply(kind: u8, all: u64, open: bool, expected: &mut VecDeque<Expect>) -> Step {
    if !FROM_SERVER.contains(&kind) {
        return Step::Lost;
    }
    match kind {
        b'Z' => {
            expected.pop_front();
            Step::Last(all, End::default())
        }
        // Notices and the like may come at any time.
        b'N' | b'A' | b'S' if !open => Step::Between(all),
        _ => Step::Take(all),
    }
}
