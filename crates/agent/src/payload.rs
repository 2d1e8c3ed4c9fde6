//! What the messages contain: a fixed pattern, with the sequence number in the first bytes. To a program of others it is what
//! that program understands: text in lines, a length before it, a request of the user's.

use msgpath_core::program::{Framing, Talk};
use msgpath_core::units::Pieces;
use msgpath_sys::scatter::Scatter;

/// Every byte of a message up to this size is compared; of larger messages every k-th, so that the comparison reads
/// about this much a message.
const VERIFY_BYTES: u64 = 4096;

/// Byte `at` of every message, the sequence number aside.
pub fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).rotate_left(9) as u8
}

/// Byte `at` of a line.
fn letter(at: usize) -> u8 {
    b'a' + pattern(at) % 26
}

/// How messages of one size are filled and checked.
#[derive(Clone, Debug)]
pub struct Payload {
    expected: Vec<u8>,
    /// Bytes of the sequence number at the start of the message; 0: it is elsewhere, as `other` says.
    width: usize,
    every: u64,
    /// The bits of a sequence number that a message carries.
    mask: u64,
    other: Other,
}

/// The sequence number of messages to and from a program of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    /// Not in the message; what it holds is known (a request).
    Fixed,
    /// Not in the message, of which nothing is known but its length.
    Any,
    /// In so many bytes behind the length.
    Binary(usize),
    /// In so many letters at the start, four bits each.
    Text(usize),
}

/// Bytes of the length before a message.
const LENGTH: usize = 4;
/// The first of the sixteen letters of a number in text.
const DIGIT: u8 = b'@';

/// Where a message is not what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Sequence number of the message.
    pub message: u64,
    /// Offset of the first wrong byte.
    pub byte: usize,
    /// What was sent there.
    pub sent: u8,
    /// What arrived.
    pub got: u8,
}

impl Payload {
    /// The payload of messages cut into these pieces.
    pub fn new(pieces: Pieces) -> Self {
        let total = pieces.total();
        let width = (pieces.size as usize).min(8);
        Self {
            expected: (0..total as usize).map(pattern).collect(),
            width,
            every: if total <= VERIFY_BYTES { 1 } else { (total / VERIFY_BYTES).next_power_of_two() },
            mask: low_bits(8 * width),
            other: Other::Fixed,
        }
    }

    /// The payload of messages to a program of others, or of its replies.
    pub fn of_program(pieces: Pieces, talk: &Talk, reply: bool) -> Self {
        let plain = Self::new(pieces);
        let request = talk.request().filter(|request| request.len() == plain.len());
        let (other, bits, expected) = match (talk.framing, request) {
            _ if reply && talk.any_reply => (Other::Any, 0, plain.expected),
            (_, Some(request)) => (Other::Fixed, 0, request),
            (Framing::Bytes, None) => return plain,
            (Framing::Line, None) => {
                let mut line: Vec<u8> = (0..plain.len()).map(letter).collect();
                let last = line.len() - 1;
                line[last] = b'\n';
                let digits = (pieces.size as usize).min(last).min(8);
                (Other::Text(digits), 4 * digits, line)
            }
            (Framing::Length, None) => {
                let mut message = plain.expected;
                let rest = (message.len().saturating_sub(LENGTH) as u32).to_be_bytes();
                message.iter_mut().zip(rest).for_each(|(byte, of_length)| *byte = of_length);
                let bytes = (pieces.size as usize).saturating_sub(LENGTH).min(8);
                (Other::Binary(bytes), 8 * bytes, message)
            }
        };
        Self { expected, width: 0, mask: low_bits(bits), other, ..plain }
    }

    /// Byte `at` of every message, the sequence number aside.
    pub fn at(&self, at: usize) -> u8 {
        self.expected[at]
    }

    /// Whether what arrives is compared with anything.
    pub fn is_compared(&self) -> bool {
        self.other != Other::Any
    }

    /// The same, with every message compared byte by byte.
    #[must_use]
    pub fn thorough(self) -> Self {
        Self { every: 1, ..self }
    }

    /// Bytes of a message.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.expected.len()
    }

    /// One message in so many is compared byte by byte.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Writes the sequence number, as many low bytes as fit into the first piece.
    #[inline(always)]
    pub fn number(&self, message: &mut Scatter, sequence: u64) {
        let first = message.piece_mut(0);
        if self.width == 0 {
            return self.number_elsewhere(first, sequence);
        }
        match first.first_chunk_mut::<8>() {
            Some(chunk) => *chunk = sequence.to_le_bytes(),
            None => first.copy_from_slice(&sequence.to_le_bytes()[..first.len()]),
        }
    }

    /// The sequence number of what arrived; only its low bytes where messages are short.
    #[inline(always)]
    pub fn sequence(&self, bytes: &[u8]) -> u64 {
        match bytes.first_chunk::<8>() {
            Some(chunk) if self.width == 8 => u64::from_le_bytes(*chunk),
            _ if self.width == 0 => self.sequence_elsewhere(bytes),
            _ => bytes[..self.width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        }
    }

    /// The bits of a sequence number that a message carries.
    #[inline(always)]
    pub fn mask(&self) -> u64 {
        self.mask
    }

    #[cold]
    fn number_elsewhere(&self, first: &mut [u8], sequence: u64) {
        match self.other {
            Other::Fixed | Other::Any => {}
            Other::Binary(bytes) => {
                first[LENGTH..LENGTH + bytes].copy_from_slice(&sequence.to_le_bytes()[..bytes]);
            }
            Other::Text(digits) => {
                let digit = |at: usize| DIGIT + (sequence >> (4 * at)) as u8 % 16;
                first[..digits].iter_mut().enumerate().for_each(|(at, byte)| *byte = digit(at));
            }
        }
    }

    #[cold]
    fn sequence_elsewhere(&self, bytes: &[u8]) -> u64 {
        let number = |bytes: &[u8], bits: u32, digit: fn(u8) -> u64| {
            bytes.iter().rev().fold(0, |number, byte| number << bits | digit(*byte))
        };
        match self.other {
            Other::Fixed | Other::Any => 0,
            Other::Binary(width) => number(&bytes[LENGTH..LENGTH + width], 8, u64::from),
            Other::Text(digits) => number(&bytes[..digits], 4, |byte| u64::from(byte.wrapping_sub(DIGIT)) & 15),
        }
    }

    pub fn message(&self, sequence: u64) -> Vec<u8> {
        let mut message = self.expected.clone();
        match self.width {
            0 => self.number_elsewhere(&mut message, sequence),
            width => message[..width].copy_from_slice(&sequence.to_le_bytes()[..width]),
        }
        message
    }

    #[cold]
    fn compare_elsewhere(&self, bytes: &[u8], sequence: u64) -> Result<(), Difference> {
        if !self.is_compared() {
            return Ok(());
        }
        let (start, end) = match self.other {
            Other::Binary(width) => (LENGTH, LENGTH + width),
            Other::Text(digits) => (0, digits),
            Other::Fixed | Other::Any => (0, 0),
        };
        let same = |range: std::ops::Range<usize>| bytes[range.clone()] == self.expected[range];
        let numbered = self.sequence_elsewhere(bytes) == sequence & self.mask;
        // A letter that is not a digit has the low bits of one.
        let letters =
            !matches!(self.other, Other::Text(_)) || bytes[start..end].iter().all(|byte| byte >> 4 == DIGIT >> 4);
        if numbered && letters && same(0..start) && same(end..bytes.len()) {
            return Ok(());
        }
        let sent = self.message(sequence);
        let byte = (0..bytes.len()).find(|at| bytes[*at] != sent[*at]).unwrap_or(0);
        Err(Difference { message: sequence, byte, sent: sent[byte], got: bytes[byte] })
    }

    /// The whole sequence number of what arrived: short messages carry its low bits, so it is the one nearest to `near`.
    pub fn nearest(&self, bytes: &[u8], near: u64) -> u64 {
        let ahead = self.sequence(bytes).wrapping_sub(near) & self.mask();
        if ahead > self.mask() / 2 {
            near.wrapping_sub((self.mask() - ahead).wrapping_add(1))
        } else {
            near.wrapping_add(ahead)
        }
    }

    /// Whether message number `sequence` is one of those compared byte by byte.
    #[inline(always)]
    pub fn is_sampled(&self, sequence: u64) -> bool {
        sequence & (self.every - 1) == 0
    }

    /// Compares every byte.
    ///
    /// # Errors
    /// The first difference.
    #[inline]
    pub fn compare(&self, bytes: &[u8], sequence: u64) -> Result<(), Difference> {
        if self.width == 0 {
            return self.compare_elsewhere(bytes, sequence);
        }
        let number = sequence.to_le_bytes();
        if bytes[..self.width] == number[..self.width] && bytes[self.width..] == self.expected[self.width..] {
            return Ok(());
        }
        Err(self.difference(bytes, sequence))
    }

    #[cold]
    fn difference(&self, bytes: &[u8], sequence: u64) -> Difference {
        let number = sequence.to_le_bytes();
        let sent = |at: usize| if at < self.width { number[at] } else { self.expected[at] };
        let byte = (0..bytes.len()).find(|at| bytes[*at] != sent(*at)).unwrap_or(0);
        Difference { message: sequence, byte, sent: sent(byte), got: bytes[byte] }
    }
}

fn low_bits(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pieces: Pieces, sequence: u64) -> (Payload, Vec<u8>) {
        let payload = Payload::new(pieces);
        let mut scatter = msgpath_paths::Layout { pieces, inflight: 1, copies: 1, content: &pattern }.cut();
        payload.number(&mut scatter, sequence);
        let bytes = (0..scatter.count()).flat_map(|piece| scatter.piece(piece).to_vec()).collect();
        (payload, bytes)
    }

    #[test]
    fn what_was_filled_compares_and_every_flipped_byte_is_found() {
        for pieces in [Pieces::whole(1), Pieces::whole(7), Pieces::whole(64), Pieces::of(9, 5)] {
            let (payload, mut bytes) = message(pieces, 0x0102_0304_0506);
            assert_eq!(payload.compare(&bytes, 0x0102_0304_0506), Ok(()));
            assert_eq!(payload.sequence(&bytes), 0x0102_0304_0506 & payload.mask());
            for at in 0..bytes.len() {
                bytes[at] ^= 0x40;
                let difference = payload.compare(&bytes, 0x0102_0304_0506).unwrap_err();
                assert_eq!((difference.byte, difference.got), (at, bytes[at]));
                bytes[at] ^= 0x40;
            }
        }
    }

    /// A message to a program of others as the loops make it.
    fn sent(payload: &Payload, pieces: Pieces, sequence: u64) -> Vec<u8> {
        let content = |at| payload.at(at);
        let mut scatter = msgpath_paths::Layout { pieces, inflight: 1, copies: 1, content: &content }.cut();
        payload.number(&mut scatter, sequence);
        (0..scatter.count()).flat_map(|piece| scatter.piece(piece).to_vec()).collect()
    }

    #[test]
    fn messages_to_programs_are_framed_numbered_and_every_flipped_byte_is_found() {
        let number = 0x0a0a_0a0a_0102_030a; // newlines, were it not for the letters
        for framing in [Framing::Line, Framing::Length] {
            let talk = Talk { framing, ..Talk::default() };
            let shapes = (framing.least() as u32..20).map(Pieces::whole).chain([Pieces::of(3, 5)]);
            for pieces in shapes {
                let payload = Payload::of_program(pieces, &talk, false);
                let mut bytes = sent(&payload, pieces, number);
                let total = pieces.total() as usize;
                match framing {
                    Framing::Length => assert_eq!(bytes[..4], (total as u32 - 4).to_be_bytes()),
                    _ => assert_eq!(bytes.iter().position(|byte| *byte == b'\n'), Some(total - 1)),
                }
                assert_eq!(payload.sequence(&bytes), number & payload.mask(), "{framing:?} {pieces}");
                assert_eq!(payload.nearest(&bytes, number + 3) == number, payload.mask() > 7, "{framing:?} {pieces}");
                payload.compare(&bytes, number).unwrap();
                for at in 0..total {
                    bytes[at] ^= 0x20;
                    let difference = payload.compare(&bytes, number).unwrap_err();
                    assert_eq!((difference.byte, difference.got), (at, bytes[at]), "{framing:?} {pieces}");
                    bytes[at] ^= 0x20;
                }
            }
        }
    }

    #[test]
    fn a_request_goes_as_it_is_and_any_reply_does() {
        let talk = Talk { any_reply: true, ..Talk::default() }.with_request(b"PING\r\n");
        let pieces = Pieces::whole(6);
        let request = Payload::of_program(pieces, &talk, false);
        assert_eq!(sent(&request, pieces, 77), b"PING\r\n");
        let reply = Payload::of_program(Pieces::whole(7), &talk, true);
        assert!(!reply.is_compared() && reply.compare(b"+PONG\r\n", 5).is_ok());
        assert_eq!((reply.sequence(b"+PONG\r\n"), reply.mask(), reply.nearest(b"+PONG\r\n", 9)), (0, 0, 9));
        // An echo of a fixed request is compared with it.
        let echo = Payload::of_program(pieces, &Talk { any_reply: false, ..talk }, true);
        assert!(echo.compare(b"PING\r\n", 3).is_ok() && echo.compare(b"PONG\r\n", 3).is_err());
        let plain = Payload::of_program(Pieces::whole(64), &Talk::default(), true);
        assert_eq!((plain.width, plain.mask()), (8, u64::MAX));
    }

    #[test]
    fn large_messages_are_sampled() {
        assert_eq!(Payload::new(Pieces::whole(4096)).every(), 1);
        let large = Payload::new(Pieces::whole(64 * 1024));
        assert_eq!((large.every(), large.is_sampled(16), large.is_sampled(17)), (16, true, false));
    }
}
