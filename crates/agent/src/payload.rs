//! What the messages contain: a fixed pattern, with the sequence number in the first bytes.

use msgpath_core::units::Pieces;
use msgpath_sys::scatter::Scatter;

/// Every byte of a message up to this size is compared; of larger messages every k-th, so that the comparison reads
/// about this much a message.
const VERIFY_BYTES: u64 = 4096;

/// Byte `at` of every message, the sequence number aside.
pub fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).rotate_left(9) as u8
}

/// How messages of one size are filled and checked.
#[derive(Clone, Debug)]
pub struct Payload {
    expected: Vec<u8>,
    width: usize,
    every: u64,
}

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
        Self {
            expected: (0..total as usize).map(pattern).collect(),
            width: (pieces.size as usize).min(8),
            every: if total <= VERIFY_BYTES { 1 } else { (total / VERIFY_BYTES).next_power_of_two() },
        }
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
            _ => bytes[..self.width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        }
    }

    /// The bits of a sequence number that a message carries.
    #[inline(always)]
    pub fn mask(&self) -> u64 {
        if self.width == 8 { u64::MAX } else { (1 << (8 * self.width)) - 1 }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pieces: Pieces, sequence: u64) -> (Payload, Vec<u8>) {
        let payload = Payload::new(pieces);
        let mut scatter = msgpath_paths::Layout { pieces, inflight: 1, copies: 1, content: pattern }.cut();
        payload.number(&mut scatter, sequence);
        let bytes = (0..scatter.count()).flat_map(|piece| scatter.piece(piece).to_vec()).collect();
        (payload, bytes)
    }

    #[test]
    fn what_was_filled_compares_and_every_flipped_byte_is_found() {
        for pieces in [Pieces::whole(1), Pieces::whole(7), Pieces::whole(64), Pieces { count: 9, size: 5 }] {
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

    #[test]
    fn large_messages_are_sampled() {
        assert_eq!(Payload::new(Pieces::whole(4096)).every(), 1);
        let large = Payload::new(Pieces::whole(64 * 1024));
        assert_eq!((large.every(), large.is_sampled(16), large.is_sampled(17)), (16, true, false));
    }
}
