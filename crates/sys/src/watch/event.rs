//! What happens at the sockets of a connection whose messages user space tells apart: `struct event` of `bpf/watch/types.h`.

use msgpath_core::watch::Culprit;

use super::{block_at, culprit_at, name_at, u32_at, u64_at};

/// Kinds of thread states, as in the programs.
pub const KINDS: usize = 14;
/// Parts of what a thread did since a moment: blocked, waking, runnable, on a CPU, stopped.
pub const PARTS: usize = 5;
/// Bytes of an event without what was copied.
pub(super) const EVENT_SIZE: usize = CULPRITS + 2 * 32 + 16;
const TOTALS: usize = 32;
const SINCE: usize = TOTALS + KINDS * 8;
const NUMBERS: usize = SINCE + PARTS * 8;
const WHAT: usize = NUMBERS + 8 * 4;
const CULPRITS: usize = WHAT + 8;
/// A piece of what is sent, with two lengths in front of it.
const PIECE: usize = 256;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A send call began.
    Begin,
    /// It ended, and so many bytes were taken.
    Sent,
    /// Data became ready for the thread that is expected to read.
    Ready,
    /// Bytes were received.
    Read,
    /// The connection has ended.
    Gone,
}

/// Which end did it, or for which end data became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub connection: u64,
    /// CLOCK_MONOTONIC, ns.
    pub t: u64,
    /// [`What::Read`]: when the thread did something on any connection before; 0: never.
    pub last: u64,
    /// [`What::Read`]: when its last wait for a CPU ended.
    pub run_ended: u64,
    /// What the thread had done up to `t`, by kind, ns.
    pub totals: [u64; KINDS],
    /// [`What::Read`]: what it did since `last`: by parts, ns.
    pub since: [u64; PARTS],
    /// Its number within the connection.
    pub seq: u32,
    /// Turns that the kernel has finished on the connection.
    pub turns: u32,
    /// The thread; 0: it is not known.
    pub pid: i32,
    pub process: i32,
    /// To be sent, sent or received.
    pub bytes: u32,
    /// The server, by its number; `None`: not known yet.
    pub service: Option<u32>,
    /// TCP port of the server; 0: a Unix socket.
    pub port: u32,
    pub what: What,
    /// At which end.
    pub role: Role,
    /// The log of the connection begins here, and nothing is in flight.
    pub fresh: bool,
    /// Nothing was sent on the connection before.
    pub born: bool,
    /// No [`What::Sent`] follows.
    pub whole: bool,
    /// The kernel does not count the turns of this connection any more.
    pub paired: bool,
    /// Page faults of the thread so far.
    pub faults: u32,
    /// [`What::Read`]: its last wait for a CPU. [`What::Begin`]: the longest since it read.
    pub run: Culprit,
    /// [`What::Begin`]: the longest block since the thread read.
    pub block: Culprit,
    pub name: [u8; 16],
    /// [`What::Begin`]: the first bytes of what is sent.
    pub payload: Vec<u8>,
    /// Up to where in them, bytes were left out, and how many: of each buffer of a call what is behind its beginning.
    pub left_out: Vec<(usize, u64)>,
}

/// `None`: it is not one.
pub(super) fn parse(bytes: &[u8]) -> Option<Event> {
    let (head, payload) = bytes.split_at_checked(EVENT_SIZE)?;
    let what = match head[WHAT] {
        0 => What::Begin,
        1 => What::Sent,
        2 => What::Ready,
        3 => What::Read,
        4 => What::Gone,
        _ => return None,
    };
    let flag = |bit: u8| head[WHAT + 2] & bit != 0;
    let copied = (u32_at(head, NUMBERS + 20) as usize).min(payload.len());
    let (payload, left_out) =
        if flag(16) { pieces(&payload[..copied]) } else { (payload[..copied].to_vec(), Vec::new()) };
    Some(Event {
        connection: u64_at(head, 0),
        t: u64_at(head, 8),
        last: u64_at(head, 16),
        run_ended: u64_at(head, 24),
        totals: std::array::from_fn(|kind| u64_at(head, TOTALS + kind * 8)),
        since: std::array::from_fn(|part| u64_at(head, SINCE + part * 8)),
        seq: u32_at(head, NUMBERS),
        turns: u32_at(head, NUMBERS + 4),
        pid: u32_at(head, NUMBERS + 8) as i32,
        process: u32_at(head, NUMBERS + 12) as i32,
        bytes: u32_at(head, NUMBERS + 16),
        service: u32_at(head, NUMBERS + 24).checked_sub(1),
        port: u32_at(head, NUMBERS + 28),
        what,
        role: if head[WHAT + 1] == 1 { Role::Server } else { Role::Client },
        fresh: flag(1),
        born: flag(2),
        whole: flag(4),
        paired: flag(8),
        faults: u32_at(head, WHAT + 4),
        run: culprit_at(head, CULPRITS),
        block: block_at(head, CULPRITS + 32),
        name: name_at(head, CULPRITS + 64),
        payload,
        left_out,
    })
}

/// Pieces of what is sent, each behind its length and that of what is left out: one behind the other, and the gaps.
fn pieces(bytes: &[u8]) -> (Vec<u8>, Vec<(usize, u64)>) {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for (head, rest) in bytes.chunks(PIECE).filter_map(|piece| piece.split_at_checked(8)) {
        let known = (u32_at(head, 0) as usize).min(rest.len());
        all.extend_from_slice(&rest[..known]);
        left_out.push((all.len(), u64::from(u32_at(head, 4))));
    }
    (all, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let mut bytes: Vec<u8> = (1..=EVENT_SIZE as u32 / 4).flat_map(u32::to_ne_bytes).collect();
        bytes[NUMBERS + 20..NUMBERS + 24].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[WHAT..WHAT + 4].copy_from_slice(&[3, 1, 9, 0]);
        bytes.extend_from_slice(b"GET and more");
        let event = parse(&bytes).unwrap();
        let word = |at: usize| at as u32 / 4 + 1;
        let wide = |at: usize| u64::from(word(at)) | u64::from(word(at) + 1) << 32;
        assert_eq!((event.connection, event.t, event.totals[KINDS - 1]), (wide(0), wide(8), wide(SINCE - 8)));
        assert_eq!(
            (event.since[PARTS - 1], event.seq, event.pid as u32),
            (wide(NUMBERS - 8), word(NUMBERS), word(NUMBERS + 8))
        );
        let numbers = (event.bytes, event.service, event.port);
        assert_eq!(numbers, (word(NUMBERS + 16), Some(word(NUMBERS + 24) - 1), word(NUMBERS + 28)));
        assert_eq!((event.what, event.role), (What::Read, Role::Server));
        assert!(event.fresh && event.paired && !event.born && !event.whole);
        assert_eq!((event.faults, event.run.ns, event.block.ns), (word(WHAT + 4), wide(CULPRITS), wide(CULPRITS + 32)));
        let name = word(CULPRITS + 64).to_ne_bytes().to_vec();
        assert_eq!((event.name[..4].to_vec(), event.payload.as_slice()), (name, &b"GET"[..]));
        assert_eq!((parse(&bytes[..EVENT_SIZE - 1]), parse(&[9; EVENT_SIZE])), (None, None));
        assert!(event.left_out.is_empty());

        let piece =
            |known: u32, skipped: u32, bytes: &[u8]| [&known.to_ne_bytes()[..], &skipped.to_ne_bytes(), bytes].concat();
        let whole = |piece: Vec<u8>| [piece, vec![9; PIECE]].concat()[..PIECE].to_vec();
        let all = [whole(piece(3, 0, b"abc")), whole(piece(9, 70_000, b"defghijkl")), piece(4, 1, b"no")].concat();
        bytes.truncate(EVENT_SIZE);
        bytes[WHAT + 2] = 16;
        bytes[NUMBERS + 20..NUMBERS + 24].copy_from_slice(&(all.len() as u32).to_ne_bytes());
        let event = parse(&[bytes, all].concat()).unwrap();
        assert_eq!(event.payload, b"abcdefghijklno");
        assert_eq!(event.left_out, [(3, 0), (12, 70_000), (14, 1)], "no more than there is");
    }
}
