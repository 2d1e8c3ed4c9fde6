//! From bytes to requests: a state machine without I/O.
//!
//! A message that arrived whole is lent out of the bytes that it arrived in. One that arrived in parts is put together:
//! a short one in a small buffer of its connection, a long one in a buffer for its body, into which the caller may
//! receive directly. A long body for which there is no memory is read past, so that its call can be answered.

use std::sync::Arc;

use msgpath_rpc::{Header, MARKER_BYTES, Marker, MarkerError};

use super::memory::{Buffer, Memory};

/// The longest message that is put together with others in one receive, bytes. It is also what one receive asks for:
/// at most this much of a long body is copied.
pub const SHORT: usize = 16 * 1024;

pub enum Body<'a> {
    /// Within what was received.
    Lent(&'a [u8]),
    Own(Buffer),
    /// Read past, for want of memory.
    Refused,
}

/// A whole message.
pub struct Request<'a> {
    pub header: Header,
    /// Bytes of body, also of one that was read past.
    pub length: usize,
    pub body: Body<'a>,
}

impl Request<'_> {
    /// The body; empty where it was read past.
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Lent(bytes) => bytes,
            Body::Own(buffer) => buffer.bytes(),
            Body::Refused => &[],
        }
    }
}

/// A long message in progress.
struct Long {
    header: Header,
    length: usize,
    filled: usize,
    body: Option<Buffer>,
}

/// How long the parts of a message are.
#[derive(Clone, Copy)]
struct Extent {
    head: usize,
    body: usize,
}

impl Extent {
    /// `None`: the marker is not whole yet.
    fn of(bytes: &[u8]) -> Result<Option<Self>, MarkerError> {
        let Some(marker) = bytes.first_chunk::<MARKER_BYTES>() else { return Ok(None) };
        let Marker { header, body } = Marker::parse(marker)?;
        Ok(Some(Self { head: MARKER_BYTES + header as usize, body: body as usize }))
    }

    fn total(self) -> usize {
        self.head + self.body
    }
}

/// Marker and header in front of `head`; the marker was checked, so the header is long enough.
fn header(head: &[u8]) -> Header {
    Header::parse(&head[MARKER_BYTES..]).unwrap_or_default()
}

/// What is known of the message in progress on one connection.
#[derive(Default)]
pub struct Parser {
    held: Vec<u8>,
    /// `held` was handed out whole, and is done with.
    handed_out: bool,
    long: Option<Long>,
}

impl Parser {
    /// Takes bytes off the front of `input` up to the end of one message. `None`: all of them were taken, and more are
    /// needed.
    ///
    /// # Errors
    /// No message begins here; nothing after it can be trusted.
    pub fn next<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
        memory: &Arc<Memory>,
    ) -> Result<Option<Request<'s>>, MarkerError> {
        if self.handed_out {
            self.handed_out = false;
            self.held = Vec::new(); // given back: a thousand silent connections hold nothing
        }
        if self.long.is_none() {
            if self.held.is_empty()
                && let Some(extent) = Extent::of(input)?
                && let Some((message, rest)) = input.split_at_checked(extent.total())
            {
                *input = rest;
                let (head, body) = message.split_at(extent.head);
                return Ok(Some(Request { header: header(head), length: body.len(), body: Body::Lent(body) }));
            }
            match self.hold(input)? {
                None => return Ok(None),
                Some(extent) if extent.total() <= SHORT => {
                    self.handed_out = true;
                    let (head, body) = self.held.split_at(extent.head);
                    return Ok(Some(Request { header: header(head), length: body.len(), body: Body::Lent(body) }));
                }
                Some(extent) => {
                    let header = header(&self.held);
                    self.held = Vec::new();
                    let body = memory.buffer(extent.body);
                    self.long = Some(Long { header, length: extent.body, filled: 0, body });
                }
            }
        }
        let Some(long) = &mut self.long else { return Ok(None) };
        let (part, rest) = input.split_at(input.len().min(long.length - long.filled));
        *input = rest;
        if let Some(body) = &mut long.body {
            body.bytes_mut()[long.filled..][..part.len()].copy_from_slice(part);
        }
        Ok(self.advance(part.len()))
    }

    /// Moves bytes from `input` to `held` until it has a whole short message, or marker and header of a long one.
    fn hold(&mut self, input: &mut &[u8]) -> Result<Option<Extent>, MarkerError> {
        loop {
            let extent = Extent::of(&self.held)?;
            let wanted = match extent {
                None => MARKER_BYTES,
                Some(extent) if extent.total() <= SHORT => extent.total(),
                Some(extent) => extent.head,
            };
            let (part, rest) = input.split_at(input.len().min(wanted - self.held.len()));
            self.held.extend_from_slice(part);
            *input = rest;
            match extent {
                _ if self.held.len() < wanted => return Ok(None),
                None => {} // the marker is whole now
                Some(extent) => return Ok(Some(extent)),
            }
        }
    }

    /// Where the rest of a long body belongs, so that it can be received in place. `None`: receive elsewhere, and hand
    /// it to [`Parser::next`].
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let long = self.long.as_mut()?;
        long.body.as_mut().map(|body| &mut body.bytes_mut()[long.filled..])
    }

    /// So many bytes were received into [`Parser::room`] (or read past).
    pub fn advance(&mut self, received: usize) -> Option<Request<'static>> {
        let long = self.long.as_mut()?;
        long.filled += received;
        if long.filled < long.length {
            return None;
        }
        let Long { header, length, body, .. } = self.long.take()?;
        Some(Request { header, length, body: body.map_or(Body::Refused, Body::Own) })
    }

    /// Whether a message has begun and not ended.
    pub fn is_midway(&self) -> bool {
        self.long.is_some() || !self.handed_out && !self.held.is_empty()
    }

    /// Bytes of body that the message in progress has announced; 0 where that is not known.
    pub fn announced(&self) -> usize {
        self.long.as_ref().map_or(0, |long| long.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::Method;
    use proptest::prelude::*;

    fn message(rpcid: u32, extra_header: usize, body: &[u8]) -> Vec<u8> {
        let header = Header { rpcid, method: Method::new("ping"), ..Header::default() }.to_bytes();
        let marker = Marker { header: (header.len() + extra_header) as u32, body: body.len() as u32 };
        [&marker.to_bytes()[..], &header, &vec![0xee; extra_header], body].concat()
    }

    type Seen = Vec<(u32, usize, Option<Vec<u8>>)>;

    /// Feeds the chunks; with `direct`, long bodies are received in place.
    fn feed(parser: &mut Parser, memory: &Arc<Memory>, mut chunk: &[u8], direct: bool, seen: &mut Seen) {
        let mut note = |request: Request<'_>| {
            let body = match &request.body {
                Body::Refused => None,
                _ => Some(request.bytes().to_vec()),
            };
            seen.push((request.header.rpcid, request.length, body));
        };
        while !chunk.is_empty() {
            if direct && let Some(room) = parser.room() {
                let part = room.len().min(chunk.len());
                room[..part].copy_from_slice(&chunk[..part]);
                chunk = &chunk[part..];
                parser.advance(part).into_iter().for_each(&mut note);
            } else if let Some(request) = parser.next(&mut chunk, memory).unwrap() {
                note(request);
            }
        }
    }

    #[test]
    fn a_message_may_be_cut_at_every_byte() {
        let memory = Memory::new(1 << 20);
        let stream = [message(1, 0, b"0123456789"), message(2, 5, b""), message(3, 0, &[9; 700])].concat();
        let mut whole = Seen::new();
        feed(&mut Parser::default(), &memory, &stream, false, &mut whole);
        assert_eq!(whole.iter().map(|(id, length, _)| (*id, *length)).collect::<Vec<_>>(), [(1, 10), (2, 0), (3, 700)]);
        for cut in 0..=stream.len() {
            let (mut parser, mut seen) = (Parser::default(), Seen::new());
            feed(&mut parser, &memory, &stream[..cut], false, &mut seen);
            let ends = [98, 98 + 93, stream.len()];
            assert_eq!(parser.is_midway(), cut != 0 && !ends.contains(&cut), "cut at {cut}");
            feed(&mut parser, &memory, &stream[cut..], false, &mut seen);
            assert_eq!(seen, whole, "cut at {cut}");
            assert!(!parser.is_midway());
        }
    }

    #[test]
    fn a_long_body_without_memory_is_read_past() {
        let memory = Memory::new(64 << 10);
        let stream = [message(1, 0, &[1; 100_000]), message(2, 0, b"after")].concat();
        let (mut parser, mut seen) = (Parser::default(), Seen::new());
        for chunk in stream.chunks(SHORT) {
            feed(&mut parser, &memory, chunk, true, &mut seen);
        }
        assert_eq!(seen, [(1, 100_000, None), (2, 5, Some(b"after".to_vec()))]);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn what_is_no_message_is_named() {
        let memory = Memory::new(1 << 20);
        let begin = |marker: &[u8]| {
            let mut input = marker;
            Parser::default().next(&mut input, &memory).map(|request| request.is_some())
        };
        assert_eq!(begin(b"GET / HTTP/1.1\r\n\r\n"), Err(MarkerError::Signature(u32::from_le_bytes(*b"GET "))));
        for header in [0, 1, 71, 4096, u32::MAX] {
            let marker = Marker { header, body: 0 }.to_bytes();
            assert_eq!(begin(&marker), Err(MarkerError::Header(header)));
        }
        assert_eq!(begin(&Marker { header: 72, body: 1 << 24 }.to_bytes()), Err(MarkerError::Body(1 << 24)));
        let mut damaged = message(1, 0, b"x");
        damaged[15] ^= 1;
        assert!(matches!(begin(&damaged), Err(MarkerError::Checksum { .. })));
        assert_eq!(begin(&message(1, 0, b"x")), Ok(true));
        assert_eq!(begin(&message(1, 4095 - 72, b"x")), Ok(true));
        assert_eq!(begin(&damaged[..15]), Ok(false), "not yet known");
    }

    #[test]
    fn a_finished_parser_holds_no_memory() {
        let memory = Memory::new(1 << 20);
        let (mut parser, mut seen) = (Parser::default(), Seen::new());
        let stream = message(1, 0, &[5; 3000]);
        feed(&mut parser, &memory, &stream[..2000], false, &mut seen);
        assert!(parser.held.capacity() >= 2000);
        feed(&mut parser, &memory, &stream[2000..], false, &mut seen);
        let mut nothing: &[u8] = &[];
        assert!(parser.next(&mut nothing, &memory).unwrap().is_none());
        assert_eq!((seen.len(), parser.held.capacity()), (1, 0));
    }

    proptest! {
        #[test]
        fn chunks_change_nothing(
            messages in prop::collection::vec((1_u32.., 0_usize..50, prop_oneof![0_usize..40, 15_000_usize..40_000]), 1..6),
            cuts in prop::collection::vec(1_usize..20_000, 1..20),
            direct in any::<bool>(),
        ) {
            let memory = Memory::new(8 << 20);
            let bodies: Vec<Vec<u8>> = messages.iter().map(|(id, _, length)| vec![*id as u8; *length]).collect();
            let stream: Vec<u8> = messages.iter().zip(&bodies).flat_map(|((id, extra, _), body)| message(*id, *extra, body)).collect();
            let (mut parser, mut seen) = (Parser::default(), Seen::new());
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                let (chunk, after) = rest.split_at(rest.len().min(*cut));
                feed(&mut parser, &memory, chunk, direct, &mut seen);
                rest = after;
                if rest.is_empty() { break }
            }
            let expected: Seen = messages.iter().zip(bodies).map(|((id, ..), body)| (*id, body.len(), Some(body))).collect();
            prop_assert_eq!(seen, expected);
            prop_assert!(!parser.is_midway());
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let memory = Memory::new(1 << 20);
            let mut parser = Parser::default();
            let mut input = &bytes[..];
            for _ in 0..=bytes.len() {
                match parser.next(&mut input, &memory) {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }
}
