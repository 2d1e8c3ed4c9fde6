//! HTTP/1 (RFC 9112): heads, bodies with a length, chunked bodies. What has neither, and what becomes another protocol, is lost.

use std::collections::VecDeque;

use super::{End, Expect, Name, Step, line, number, words};

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];
/// Bytes of a chunk's size, and of a body's length.
const MOST: u64 = 1 << 48;

/// Whether a request begins so.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(3, |byte| *byte == b' ');
    let method = parts.next().unwrap_or_default();
    let target = parts.next().unwrap_or_default();
    METHODS.iter().any(|known| known.as_bytes() == method)
        && (target.starts_with(b"/") || target.starts_with(b"http") || target.starts_with(b"*") || method == b"CONNECT")
}

/// Method and path, without what is asked of it.
pub(super) fn name(bytes: &[u8]) -> Name {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n' | b'?')).next().unwrap_or_default();
    let mut spaces = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let end = spaces.nth(1).unwrap_or(line.len());
    if begins(bytes) { words(&line[..end]) } else { Name::default() }
}

/// Where one direction stands.
pub(super) struct Http {
    requests: bool,
    body: Body,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// A head comes next.
    None,
    /// The size of a chunk.
    Chunk,
    /// What may follow the last chunk, up to an empty line.
    Trailer,
}

/// What a head says of the body.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    wrong: bool,
}

impl Http {
    pub(super) fn requests() -> Self {
        Self { requests: true, body: Body::None, end: End::default() }
    }

    pub(super) fn replies() -> Self {
        Self { requests: false, ..Self::requests() }
    }

    pub(super) fn step(&mut self, bytes: &[u8], expected: &mut VecDeque<Expect>) -> Step {
        match self.body {
            Body::None => self.head(bytes, expected),
            Body::Chunk => self.chunk(bytes),
            Body::Trailer => match line(bytes) {
                None => Step::More,
                Some((b"", length)) => {
                    self.body = Body::None;
                    Step::Last(length as u64, self.end)
                }
                Some((_, length)) => Step::Take(length as u64),
            },
        }
    }

    fn head(&mut self, bytes: &[u8], expected: &mut VecDeque<Expect>) -> Step {
        // Empty lines in front of a request are to be ignored.
        if self.requests && bytes.starts_with(b"\r\n") {
            return Step::Between(2);
        }
        let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Step::More };
        let (head, length) = (&bytes[..end], (end + 4) as u64);
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let fields = fields(head);
        if fields.wrong {
            return Step::Lost;
        }
        let mut no_body = false;
        if self.requests {
            if !begins(first) || first.starts_with(b"CONNECT ") {
                return Step::Lost;
            }
            let expect = if first.starts_with(b"HEAD ") { Expect::NoBody } else { Expect::Usual };
            self.end = End { name: name(first), expect, alone: false };
        } else {
            let status = first.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(number);
            match status {
                Some(101) | None => return Step::Lost,
                Some(100..200) => return Step::Last(length, End { alone: true, ..End::default() }),
                Some(status) => no_body = matches!(status, 204 | 304),
            }
            no_body |= expected.pop_front() == Some(Expect::NoBody);
            self.end = End::default();
        }
        match fields {
            _ if no_body => Step::Last(length, self.end),
            Fields { chunked: true, .. } => {
                self.body = Body::Chunk;
                Step::Take(length)
            }
            Fields { length: Some(body), .. } => Step::Last(length + body, self.end),
            // A reply without either goes on until the connection is closed.
            _ if self.requests => Step::Last(length, self.end),
            _ => Step::Lost,
        }
    }

    fn chunk(&mut self, bytes: &[u8]) -> Step {
        let Some((text, length)) = line(bytes) else { return Step::More };
        let digits = text.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
        let hexadecimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        let size = std::str::from_utf8(digits).ok().filter(|_| hexadecimal);
        match size.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(0) => {
                self.body = Body::Trailer;
                Step::Take(length as u64)
            }
            Some(size) if size < MOST => Step::Take(length as u64 + size + 2),
            _ => Step::Lost,
        }
    }
}

fn fields(head: &[u8]) -> Fields {
    let mut fields = Fields::default();
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value).filter(|length| *length < MOST);
            // Two that differ are an attack.
            fields.wrong |= length.is_none() || fields.length.is_some_and(|known| Some(known) != length);
            fields.length = length;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            fields.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            fields.wrong |= !fields.chunked;
        }
    }
    fields
}
