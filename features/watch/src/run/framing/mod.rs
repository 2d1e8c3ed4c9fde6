//! Messages in a byte stream of which not every byte is known: what was sent was copied up to a limit.
//!
//! A [`Framer`] follows one direction of a connection. What a protocol says of its bytes is a step (`Rules`): so many bytes belong
//! to the message that has begun, and perhaps it ends with them. Bytes that are skipped so may be missing; any others may not.
//! Everything is bounded: what is kept of a message is at most [`LIMIT`] bytes.

mod chosen;
mod http;
mod http2;
mod plain;
mod postgres;
mod resp;
mod rpc;

use std::collections::VecDeque;

pub use chosen::{Framing, Prefix};
use msgpath_rpc::resp::line;

/// Bytes that are looked at together, at most: the head of a request.
const LIMIT: usize = 16 << 10;
/// Requests in flight, at most.
const IN_FLIGHT: usize = 1 << 16;

/// What was asked for, padded with zeros: `GET`, `POST /login`, `SELECT`.
pub(crate) type Name = [u8; 16];

/// A protocol whose messages can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Http2,
    Resp,
    Postgres,
    Rpc,
    Line,
    Prefix(Prefix),
}

impl Protocol {
    /// The one that was asked for. `None`: none, or whichever is recognised.
    pub(crate) fn of(framing: Framing) -> Option<Self> {
        match framing {
            Framing::Auto => None,
            Framing::Http => Some(Self::Http),
            Framing::Http2 => Some(Self::Http2),
            Framing::Resp => Some(Self::Resp),
            Framing::Postgres => Some(Self::Postgres),
            Framing::Rpc => Some(Self::Rpc),
            Framing::Line => Some(Self::Line),
            Framing::Prefix(prefix) => Some(Self::Prefix(prefix)),
        }
    }

    /// By the first bytes of a request. `born`: they are the first ones of the connection.
    pub(crate) fn recognise(bytes: &[u8], born: bool) -> Option<Self> {
        if http::begins(bytes) {
            Some(Self::Http)
        } else if resp::begins(bytes) {
            Some(Self::Resp)
        } else if rpc::begins(bytes) {
            Some(Self::Rpc)
        } else if postgres::begins(bytes, born) {
            Some(Self::Postgres)
        } else if http2::begins(bytes) {
            Some(Self::Http2)
        } else {
            None
        }
    }

    /// What a request asks for, by its first bytes; zeros where they do not tell.
    pub(crate) fn name(self, bytes: &[u8]) -> Name {
        match self {
            Self::Http => http::name(bytes),
            Self::Http2 => http2::name(bytes),
            Self::Resp => resp::name(bytes),
            Self::Postgres => postgres::name(bytes),
            Self::Rpc => rpc::name(bytes),
            Self::Line => words(bytes.split(|byte| *byte == b'\n').next().unwrap_or_default()),
            Self::Prefix(_) => Name::default(),
        }
    }
}

/// What the reply to a request looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expect {
    #[default]
    Usual,
    /// Of HTTP: there is no body, whatever the head says.
    NoBody,
    /// Of PostgreSQL: one byte, whether the connection will be encrypted.
    OneByte,
}

/// A message that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where it begins and ends in the stream.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) name: Name,
    pub(crate) expect: Expect,
    /// Replies come in any order: it belongs to the one of the same number. 0: in the order of the requests.
    pub(crate) stream: u32,
    /// No message: what has begun on this stream is given up.
    pub(crate) reset: bool,
}

/// How a message ends.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    name: Name,
    expect: Expect,
    /// It asks for nothing, or answers nothing.
    alone: bool,
    /// As in [`Frame`], and where it begins if other messages lie between.
    stream: u32,
    reset: bool,
    from: Option<u64>,
}

/// What the next bytes of a stream are.
enum Step {
    /// More of them must be known.
    More,
    /// So many (more than 0) belong to the message that has begun, or begin one.
    Take(u64),
    /// The same, and it ends with them.
    Last(u64, End),
    /// So many (more than 0) belong to no message.
    Between(u64),
    /// The stream cannot be followed.
    Lost,
}

/// The stream cannot be followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// What a protocol says of the bytes of one direction.
enum Rules {
    Http(http::Http),
    Http2(http2::Http2),
    Resp(resp::Resp),
    Postgres(postgres::Postgres),
    Rpc,
    Line,
    Prefix(Prefix),
}

impl Rules {
    fn step(&mut self, bytes: &[u8], open: bool, expected: &mut VecDeque<Expect>) -> Step {
        match self {
            Self::Http(http) => http.step(bytes, expected),
            Self::Http2(http) => http.step(bytes),
            Self::Resp(resp) => resp.step(bytes),
            Self::Postgres(postgres) => postgres.step(bytes, open, expected),
            Self::Rpc => rpc::step(bytes),
            Self::Line => plain::line(bytes),
            Self::Prefix(prefix) => plain::prefix(*prefix, bytes),
        }
    }
}

/// Follows one direction of a connection.
pub(crate) struct Framer {
    rules: Rules,
    /// Bytes of the stream that are understood.
    at: u64,
    /// Where the message that has begun began.
    open: Option<u64>,
    /// Bytes of it that need not be known, and how it ends with them.
    skip: u64,
    end: Option<End>,
    /// Bytes that are not understood yet.
    rest: Vec<u8>,
    /// Of a server's direction: what the requests that are not answered yet expect.
    expected: VecDeque<Expect>,
}

impl Framer {
    /// Of what a client sends. `born`: from the connection's first byte on.
    pub(crate) fn requests(protocol: Protocol, born: bool) -> Self {
        Self::new(match protocol {
            Protocol::Http => Rules::Http(http::Http::requests()),
            Protocol::Http2 => Rules::Http2(http2::Http2::requests()),
            Protocol::Resp => Rules::Resp(resp::Resp::requests()),
            Protocol::Postgres => Rules::Postgres(postgres::Postgres::requests(born)),
            Protocol::Rpc => Rules::Rpc,
            Protocol::Line => Rules::Line,
            Protocol::Prefix(prefix) => Rules::Prefix(prefix),
        })
    }

    /// Of what a server sends.
    pub(crate) fn replies(protocol: Protocol) -> Self {
        Self::new(match protocol {
            Protocol::Http => Rules::Http(http::Http::replies()),
            Protocol::Http2 => Rules::Http2(http2::Http2::replies()),
            Protocol::Resp => Rules::Resp(resp::Resp::replies()),
            Protocol::Postgres => Rules::Postgres(postgres::Postgres::replies()),
            Protocol::Rpc => Rules::Rpc,
            Protocol::Line => Rules::Line,
            Protocol::Prefix(prefix) => Rules::Prefix(prefix),
        })
    }

    fn new(rules: Rules) -> Self {
        let (rest, expected) = (Vec::new(), VecDeque::new());
        Self { rules, at: 0, open: None, skip: 0, end: None, rest, expected }
    }

    /// Where what is not a whole message yet begins.
    pub(crate) fn begin(&self) -> u64 {
        let at = self.open.unwrap_or(self.at);
        let others = self.http2().and_then(http2::Http2::begin);
        [self.end.and_then(|end| end.from), others].into_iter().flatten().fold(at, u64::min)
    }

    fn http2(&self) -> Option<&http2::Http2> {
        if let Rules::Http2(http) = &self.rules { Some(http) } else { None }
    }

    /// A message of this stream has begun.
    pub(crate) fn is_open(&self, stream: u32) -> bool {
        self.http2().is_some_and(|http| http.is_open(stream))
    }

    /// The first stream of which a message has begun.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.http2().and_then(http2::Http2::oldest)
    }

    /// Gives up what has begun on a stream.
    pub(crate) fn forget(&mut self, stream: u32) {
        if let Rules::Http2(http) = &mut self.rules {
            http.forget(stream);
        }
    }

    /// A request was sent; its reply will look like this.
    ///
    /// # Errors
    /// There are too many of them.
    pub(crate) fn expect(&mut self, expect: Expect) -> Result<(), Lost> {
        // The others do not ask.
        if matches!(self.rules, Rules::Http(_) | Rules::Postgres(_)) {
            self.expected.push_back(expect);
        }
        if self.expected.len() > IN_FLIGHT { Err(Lost) } else { Ok(()) }
    }

    /// The next bytes of the stream, and what ends with them.
    ///
    /// # Errors
    /// They are not what the protocol says.
    pub(crate) fn known(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), Lost> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut from = 0;
        loop {
            from += self.pass((rest.len() - from) as u64, frames) as usize;
            if self.skip > 0 || from == rest.len() {
                break;
            }
            match self.rules.step(&rest[from..], self.open.is_some(), &mut self.expected) {
                Step::More if rest.len() - from >= LIMIT => return Err(Lost),
                Step::More => break,
                Step::Take(bytes) if bytes > 0 => self.takes(bytes, None),
                Step::Last(bytes, end) if bytes > 0 => self.takes(bytes, Some(end)),
                Step::Between(bytes) if bytes > 0 => self.skip = bytes,
                _ => return Err(Lost),
            }
        }
        rest.drain(..from);
        self.rest = rest;
        Ok(())
    }

    /// The next bytes of the stream were not copied.
    ///
    /// # Errors
    /// They would have to be known.
    pub(crate) fn unknown(&mut self, bytes: u64, frames: &mut Vec<Frame>) -> Result<(), Lost> {
        if !self.rest.is_empty() || bytes > self.skip {
            return Err(Lost);
        }
        self.pass(bytes, frames);
        Ok(())
    }

    fn takes(&mut self, bytes: u64, end: Option<End>) {
        self.open.get_or_insert(self.at);
        (self.skip, self.end) = (bytes, end);
    }

    /// Goes over what is skipped, at most `bytes`: how far.
    fn pass(&mut self, bytes: u64, frames: &mut Vec<Frame>) -> u64 {
        let own = self.skip.min(bytes);
        self.skip -= own;
        self.at = self.at.saturating_add(own);
        if own > 0
            && self.skip == 0
            && let Some(end) = self.end.take()
            && let Some(from) = self.open.take()
            && !end.alone
        {
            let End { name, expect, stream, reset, .. } = end;
            frames.push(Frame { from: end.from.unwrap_or(from), to: self.at, name, expect, stream, reset });
        }
        own
    }
}

/// The beginning of a text as a name: what can be printed.
fn words(bytes: &[u8]) -> Name {
    let mut name = Name::default();
    let printed = bytes.iter().take_while(|byte| byte.is_ascii_graphic() || **byte == b' ');
    name.iter_mut().zip(printed).for_each(|(to, from)| *to = *from);
    name
}

/// A number without a sign.
fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
