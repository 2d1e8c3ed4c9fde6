//! HTTP/1 (RFC 9112): heads, bodies with a length, chunked bodies. What has neither, and what becomes another protocol, is lost.

use std::collections::VecDeque;

use msgpath_rpc::http::{self, Body as Ends};

use super::{End, Expect, Name, Step, line, words};

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
        let (head, body) = match self.requests {
            true => match http::request(bytes) {
                Ok(None) => return Step::More,
                Ok(Some(head)) if begins(bytes) && head.method != "CONNECT" => {
                    let expect = if head.method == "HEAD" { Expect::NoBody } else { Expect::Usual };
                    self.end = End { name: name(bytes), expect, ..End::default() };
                    (head.bytes, head.body)
                }
                _ => return Step::Lost,
            },
            false => match http::reply(bytes, expected.front() == Some(&Expect::NoBody)) {
                Ok(None) => return Step::More,
                Err(_) => return Step::Lost,
                Ok(Some(head)) => match head.status {
                    101 => return Step::Lost,
                    ..200 => return Step::Last(head.bytes as u64, End { alone: true, ..End::default() }),
                    _ => {
                        expected.pop_front();
                        self.end = End::default();
                        (head.bytes, head.body)
                    }
                },
            },
        };
        match body {
            Ends::None => Step::Last(head as u64, self.end),
            Ends::Chunked => {
                self.body = Body::Chunk;
                Step::Take(head as u64)
            }
            Ends::Length(length) if length < MOST => Step::Last(head as u64 + length, self.end),
            // What goes on until the connection is closed is no message.
            Ends::Length(_) | Ends::UntilClose => Step::Lost,
        }
    }

    fn chunk(&mut self, bytes: &[u8]) -> Step {
        match http::chunk(bytes) {
            Ok(None) => Step::More,
            Ok(Some((0, line))) => {
                self.body = Body::Trailer;
                Step::Take(line as u64)
            }
            Ok(Some((size, line))) if size < MOST => Step::Take(line as u64 + size + 2),
            _ => Step::Lost,
        }
    }
}
