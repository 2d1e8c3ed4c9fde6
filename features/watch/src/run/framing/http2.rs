//! HTTP/2 (RFC 9113): frames. A message is what a stream carries up to END_STREAM; header blocks are not decoded. The replies to
//! streams come in any order, so a message has the number of its stream.

use std::collections::BTreeMap;

use super::{End, Name, Step, words};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes in front of each frame, and those of a header block up to its first field where both optional parts are there.
const HEAD: usize = 9;
const FIELD: usize = 7;
/// Streams of which a message has begun, at most.
const MOST: usize = 4096;
/// The longest frame that is expected of one who was not heard to agree on more.
const USUAL: usize = 16_384;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;
/// Kinds that others have added end here.
const LAST_KIND: u8 = 0x20;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const WITH_PRIORITY: u8 = 0x20;

struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

/// `None`: no frame begins so, or less than [`HEAD`] bytes are known.
fn head(bytes: &[u8]) -> Option<Head> {
    let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEAD>()?;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let stream = u32::from_be_bytes(stream);
    let of_stream = stream > 0 && stream <= i32::MAX as u32;
    let fits = match kind {
        DATA | HEADERS | PUSH | CONTINUATION => of_stream,
        PRIORITY => of_stream && length == 5,
        RESET => of_stream && length == 4,
        SETTINGS => stream == 0 && length.is_multiple_of(6),
        PING => stream == 0 && length == 8,
        GOAWAY => stream == 0 && length >= 8,
        WINDOW => stream <= i32::MAX as u32 && length == 4,
        _ => kind <= LAST_KIND && stream <= i32::MAX as u32,
    };
    fits.then_some(Head { length, kind, flags, stream })
}

/// Whether a request begins so: the preface, or in the midst of a connection the header block of a stream, perhaps behind frames
/// of the connection.
pub(super) fn begins(bytes: &[u8]) -> bool {
    if bytes.starts_with(&PREFACE[..16]) {
        return true;
    }
    let mut rest = bytes;
    while let Some(Head { length, kind, flags, stream }) = head(rest) {
        let usual = END_STREAM | END_HEADERS | PADDED | WITH_PRIORITY;
        match kind {
            HEADERS => {
                return stream % 2 == 1
                    && flags & END_HEADERS > 0
                    && flags & !usual == 0
                    && (1..=USUAL).contains(&length);
            }
            SETTINGS | PING | WINDOW | PRIORITY => rest = rest.get(HEAD + length..).unwrap_or_default(),
            _ => return false,
        }
    }
    false
}

/// The method, where it is the first field, as nearly everybody sends it, and one that the protocol has a number for.
fn method(bytes: &[u8], flags: u8) -> Name {
    let before = usize::from(flags & PADDED > 0) + if flags & WITH_PRIORITY > 0 { 5 } else { 0 };
    match bytes.get(HEAD + before) {
        Some(0x82) => words(b"GET"),
        Some(0x83) => words(b"POST"),
        _ => Name::default(),
    }
}

/// What is asked for by the first bytes of a send call.
pub(super) fn name(bytes: &[u8]) -> Name {
    match head(bytes) {
        Some(Head { kind: HEADERS, flags, .. }) => method(bytes, flags),
        _ => Name::default(),
    }
}

/// A message that has begun.
struct Open {
    from: u64,
    name: Name,
    /// It ends with its header block.
    ends: bool,
}

/// Where one direction stands.
pub(super) struct Http2 {
    requests: bool,
    /// Bytes of the stream that are understood.
    at: u64,
    open: BTreeMap<u32, Open>,
}

impl Http2 {
    pub(super) fn requests() -> Self {
        Self { requests: true, at: 0, open: BTreeMap::new() }
    }

    pub(super) fn replies() -> Self {
        Self { requests: false, ..Self::requests() }
    }

    /// Where the first message that has not ended begins.
    pub(super) fn begin(&self) -> Option<u64> {
        self.open.values().map(|open| open.from).min()
    }

    /// The first stream that has not ended.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.open.keys().next().copied()
    }

    pub(super) fn is_open(&self, stream: u32) -> bool {
        self.open.contains_key(&stream)
    }

    /// Nothing more of this stream is wanted.
    pub(super) fn forget(&mut self, stream: u32) {
        self.open.remove(&stream);
    }

    pub(super) fn step(&mut self, bytes: &[u8]) -> Step {
        if self.requests && bytes.starts_with(&PREFACE[..3]) {
            return match bytes.get(..PREFACE.len()) {
                None => Step::More,
                Some(PREFACE) => self.passes(PREFACE.len(), None),
                Some(_) => Step::Lost,
            };
        }
        if bytes.len() < HEAD {
            return Step::More;
        }
        let Some(Head { length, kind, flags, stream }) = head(bytes) else { return Step::Lost };
        if kind == HEADERS && self.requests && bytes.len() < HEAD + length.min(FIELD) {
            return Step::More;
        }
        let whole = HEAD + length;
        // What a server begins, nobody has asked for.
        if stream % 2 == 0 {
            return self.passes(whole, None);
        }
        let end = match kind {
            HEADERS => {
                let name = if self.requests { method(bytes, flags) } else { Name::default() };
                let begun = Open { from: self.at, name, ends: false };
                self.open.entry(stream).or_insert(begun).ends |= flags & END_STREAM > 0;
                self.ended(stream, flags & END_HEADERS > 0)
            }
            CONTINUATION => self.ended(stream, flags & END_HEADERS > 0),
            DATA if flags & END_STREAM > 0 => {
                self.open.entry(stream).and_modify(|open| open.ends = true);
                self.ended(stream, true)
            }
            RESET => {
                self.open.remove(&stream);
                Some(End { stream, reset: true, ..End::default() })
            }
            _ => None,
        };
        if self.open.len() > MOST { Step::Lost } else { self.passes(whole, end) }
    }

    /// How a message ends, if it does so with this frame.
    fn ended(&mut self, stream: u32, last: bool) -> Option<End> {
        self.open.get(&stream).filter(|open| last && open.ends)?;
        let Open { from, name, .. } = self.open.remove(&stream)?;
        Some(End { stream, from: Some(from), name, ..End::default() })
    }

    fn passes(&mut self, bytes: usize, end: Option<End>) -> Step {
        self.at = self.at.saturating_add(bytes as u64);
        end.map_or(Step::Between(bytes as u64), |end| Step::Last(bytes as u64, end))
    }
}
