//! What goes wrong with connections: counted always, said a few times a second.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use msgpath_rpc::MarkerError;
use msgpath_sys::clock;

use super::Event;

/// Lines about troubles in one second; the rest of that second is summed up in one more.
const LINES_PER_SECOND: u32 = 5;
/// Lines about connections that wait to be printed; more are left out, and that is said.
const LINES_WAITING: usize = 1000;

/// A kind of trouble. The first ones end the connection they come from, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Bytes that begin no message.
    Signature,
    /// A marker whose checksum does not fit its lengths.
    Checksum,
    /// A header too short for its fields, or too long.
    HeaderLength,
    /// A body that is too long.
    BodyLength,
    /// The peer closed in the middle of a message.
    HalfMessage,
    /// A message that was not whole in time.
    SlowMessage,
    /// A reply that the peer did not take in time.
    SlowReply,
    /// The connection broke: reset, unreachable.
    Broken,
    /// Nothing was asked for longer than the limit.
    Idle,
    /// Too many connections: answered TooBusy, or closed at once.
    TurnedAway,
    /// No file descriptor was left.
    NoDescriptor,
    /// The strings of a body did not fit into it: answered Fail.
    BadBody,
    /// No memory was left: answered TooBusy.
    NoRoom,
    /// A method that does not exist: answered Fail.
    Unknown,
    /// A request that no reader of the log would take: answered, and left out of it.
    NotLogged,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Trouble; 15] = [
        Trouble::Signature,
        Trouble::Checksum,
        Trouble::HeaderLength,
        Trouble::BodyLength,
        Trouble::HalfMessage,
        Trouble::SlowMessage,
        Trouble::SlowReply,
        Trouble::Broken,
        Trouble::Idle,
        Trouble::TurnedAway,
        Trouble::NoDescriptor,
        Trouble::BadBody,
        Trouble::NoRoom,
        Trouble::Unknown,
        Trouble::NotLogged,
    ];

    /// What is counted under it.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Signature => "closed: not a message",
            Trouble::Checksum => "closed: bad checksum",
            Trouble::HeaderLength => "closed: header length",
            Trouble::BodyLength => "closed: body too long",
            Trouble::HalfMessage => "ended within a message",
            Trouble::SlowMessage => "closed: message not whole in time",
            Trouble::SlowReply => "closed: reply not taken in time",
            Trouble::Broken => "broken connection",
            Trouble::Idle => "closed: idle",
            Trouble::TurnedAway => "turned away",
            Trouble::NoDescriptor => "no descriptor left",
            Trouble::BadBody => "call with a bad body",
            Trouble::NoRoom => "call without room",
            Trouble::Unknown => "call of an unknown method",
            Trouble::NotLogged => "call left out of the log",
        }
    }
}

impl From<MarkerError> for Trouble {
    fn from(error: MarkerError) -> Self {
        match error {
            MarkerError::Signature(_) => Trouble::Signature,
            MarkerError::Checksum { .. } => Trouble::Checksum,
            MarkerError::Header(_) => Trouble::HeaderLength,
            MarkerError::Body(_) => Trouble::BodyLength,
        }
    }
}

#[derive(Default)]
struct Lines {
    /// Whether each is about trouble, and its text.
    waiting: Vec<(bool, String)>,
    /// When the second that is counted began, and what was said and left out in it.
    since_ns: u64,
    said: u32,
    hushed: u64,
    /// Lines about connections for which there was no space.
    dropped: u64,
}

/// Counts, and lines that wait for the thread that prints them.
#[derive(Default)]
pub struct Journal {
    counts: [AtomicU64; Trouble::ALL.len()],
    lines: Mutex<Lines>,
    verbose: bool,
}

impl Journal {
    /// `verbose`: connections that come and go are said as well.
    pub fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// How often something went wrong.
    pub fn count(&self, trouble: Trouble) -> u64 {
        self.counts[trouble as usize].load(Ordering::Relaxed)
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a trouble, and says it if not too much was said.
    pub fn trouble(&self, trouble: Trouble, from: SocketAddr, what: &dyn fmt::Display) {
        self.counts[trouble as usize].fetch_add(1, Ordering::Relaxed);
        let mut lines = self.lines();
        if lines.said < LINES_PER_SECOND {
            lines.said += 1;
            lines.waiting.push((true, format!("{}: {what}", plain(from))));
        } else {
            lines.hushed += 1;
        }
    }

    /// Says that a connection came or went, where that was asked for.
    pub fn connection(&self, from: SocketAddr, what: &dyn fmt::Display) {
        if !self.verbose {
            return;
        }
        let mut lines = self.lines();
        if lines.waiting.len() < LINES_WAITING {
            lines.waiting.push((false, format!("{}: {what}", plain(from))));
        } else {
            lines.dropped += 1;
        }
    }

    /// Says the lines that wait; `last`: also the sum of a second that is not over.
    pub fn take(&self, last: bool, say: &mut dyn FnMut(Event<'_>)) {
        let now = clock::now();
        let mut lines = self.lines();
        let waiting = std::mem::take(&mut lines.waiting);
        let over = last || now.saturating_sub(lines.since_ns) >= 1_000_000_000;
        let (mut hushed, mut dropped) = (0, 0);
        if over {
            (hushed, dropped) = (lines.hushed, lines.dropped);
            *lines = Lines { since_ns: now, ..Lines::default() };
        }
        drop(lines); // who prints may have to wait for a terminal
        for (wrong, line) in &waiting {
            say(if *wrong { Event::Wrong(line) } else { Event::Course(line) });
        }
        if hushed > 0 {
            say(Event::Wrong(&format!("{hushed} more such lines left out in this second")));
        }
        if dropped > 0 {
            say(Event::Course(&format!("{dropped} lines about connections left out")));
        }
    }
}

/// An IPv4 address that came over an IPv6 socket, as IPv4.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(journal: &Journal, last: bool) -> Vec<String> {
        let mut out = Vec::new();
        journal.take(last, &mut |event| {
            out.push(match event {
                Event::Course(line) => line.to_owned(),
                Event::Wrong(line) => format!("! {line}"),
            });
        });
        out
    }

    #[test]
    fn many_troubles_are_counted_and_few_are_said() {
        let journal = Journal::new(false);
        let from = "127.0.0.1:9".parse().unwrap();
        (0..1000).for_each(|at| journal.trouble(Trouble::Checksum, from, &at));
        journal.connection(from, &"connected");
        let lines = said(&journal, true);
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert_eq!(lines[0], "! 127.0.0.1:9: 0");
        assert_eq!(lines[5], "! 995 more such lines left out in this second");
        assert_eq!(journal.count(Trouble::Checksum), 1000);
        assert!(said(&journal, true).is_empty());
        journal.trouble(Trouble::Idle, from, &"idle");
        assert_eq!(said(&journal, false).len(), 1, "the next second speaks again");
    }

    #[test]
    fn every_kind_has_its_place() {
        for (at, trouble) in Trouble::ALL.into_iter().enumerate() {
            assert_eq!(trouble as usize, at);
        }
        let verbose = Journal::new(true);
        verbose.connection("[::ffff:10.0.0.1]:7".parse().unwrap(), &"connected");
        assert_eq!(said(&verbose, true), ["10.0.0.1:7: connected"]);
    }
}
