//! What goes wrong with connections: counted always, said a few times a second.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use msgpath_rpc::MarkerError;
use msgpath_sys::clock;

use msgpath_agent::serve::Event;

/// Lines about troubles in one second; the rest of that second is summed up in one more.
const LINES_PER_SECOND: u32 = 5;
/// Lines about connections that wait to be printed; more are left out, and that is said.
const LINES_WAITING: usize = 1000;

/// A kind of trouble. The first ones end the connection they come from, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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

impl Fault {
    pub const ALL: [Fault; 15] = [
        Fault::Signature,
        Fault::Checksum,
        Fault::HeaderLength,
        Fault::BodyLength,
        Fault::HalfMessage,
        Fault::SlowMessage,
        Fault::SlowReply,
        Fault::Broken,
        Fault::Idle,
        Fault::TurnedAway,
        Fault::NoDescriptor,
        Fault::BadBody,
        Fault::NoRoom,
        Fault::Unknown,
        Fault::NotLogged,
    ];

    /// What is counted under it.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Signature => "closed: not a message",
            Fault::Checksum => "closed: bad checksum",
            Fault::HeaderLength => "closed: header length",
            Fault::BodyLength => "closed: body too long",
            Fault::HalfMessage => "ended within a message",
            Fault::SlowMessage => "closed: message not whole in time",
            Fault::SlowReply => "closed: reply not taken in time",
            Fault::Broken => "broken connection",
            Fault::Idle => "closed: idle",
            Fault::TurnedAway => "turned away",
            Fault::NoDescriptor => "no descriptor left",
            Fault::BadBody => "call with a bad body",
            Fault::NoRoom => "call without room",
            Fault::Unknown => "call of an unknown method",
            Fault::NotLogged => "call left out of the log",
        }
    }
}

impl From<MarkerError> for Fault {
    fn from(error: MarkerError) -> Self {
        match error {
            MarkerError::Signature(_) => Fault::Signature,
            MarkerError::Checksum { .. } => Fault::Checksum,
            MarkerError::Header(_) => Fault::HeaderLength,
            MarkerError::Body(_) => Fault::BodyLength,
        }
    }
}

#[derive(Default)]
struct Lines {
    /// Whether each is about trouble, and its text.
    waiting: Vec<(bool, String)>,
    /// When the second that is counted began, and what was said and left out in it.
    since_ns: u64,
    written: u32,
    hushed: u64,
    /// Lines about connections for which there was no space.
    dropped: u64,
}

/// Counts, and lines that wait for the thread that prints them.
#[derive(Default)]
pub struct Journal {
    counts: [AtomicU64; Fault::ALL.len()],
    lines: Mutex<Lines>,
    verbose: bool,
}

impl Journal {
    /// `verbose`: connections that open and close are printed as well.
    pub fn new(verbose: bool) -> Self {
        Self { verbose, ..Self::default() }
    }

    /// How often something went wrong.
    pub fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize].load(Ordering::Relaxed)
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a trouble, and says it if not too much was said.
    pub fn fault(&self, fault: Fault, from: SocketAddr, what: &dyn fmt::Display) {
        self.counts[fault as usize].fetch_add(1, Ordering::Relaxed);
        let mut lines = self.lines();
        if lines.written < LINES_PER_SECOND {
            lines.written += 1;
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

    fn texts(journal: &Journal, last: bool) -> Vec<String> {
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
        (0..1000).for_each(|at| journal.fault(Fault::Checksum, from, &at));
        journal.connection(from, &"connected");
        let lines = texts(&journal, true);
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert_eq!(lines[0], "! 127.0.0.1:9: 0");
        assert_eq!(lines[5], "! 995 more such lines left out in this second");
        assert_eq!(journal.count(Fault::Checksum), 1000);
        assert!(texts(&journal, true).is_empty());
        journal.fault(Fault::Idle, from, &"idle");
        assert_eq!(texts(&journal, false).len(), 1, "the next second speaks again");
    }

    #[test]
    fn every_kind_has_its_place() {
        for (at, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, at);
        }
        let verbose = Journal::new(true);
        verbose.connection("[::ffff:10.0.0.1]:7".parse().unwrap(), &"connected");
        assert_eq!(texts(&verbose, true), ["10.0.0.1:7: connected"]);
    }
}
