//! Connections of a compatible server: accepted, counted, watched, ended. What a peer sends can cost that peer its
//! connection, never another one its own.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::classic::primitives::Primitive;
use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};

use msgpath_agent::crowd::first_to_go;

use super::{Seen, Watch, css432, discard, echo, primitives};
use msgpath_agent::serve::cannot_listen;

/// However it goes on, a connection ends after so long.
const LONGEST: Duration = Duration::from_secs(3600);
/// On top of the limit for a message, each of its bytes may take so long (100 kB/s), ns.
const NS_PER_BYTE: u64 = 10_000;
/// Lines about connections in one second; the others are counted.
const LINES_A_SECOND: usize = 20;

/// Whom the server is compatible with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Write shapes.
    Css432(css432::Serving),
    /// Lines that come back, up to so many bytes each, their ends included.
    Echo {
        /// The longest line.
        longest: usize,
    },
    /// Bytes that are read and counted.
    Discard {
        /// Whether the figures are told when the stream has ended.
        tells: bool,
    },
    /// A1, A2, A3: messages of so many bytes both ways.
    Primitives {
        /// How replies are handed over.
        primitive: Primitive,
        /// Bytes of a message.
        size: usize,
    },
}

impl Protocol {
    fn name(&self) -> String {
        match self {
            Protocol::Css432(serving) => serving.name(),
            Protocol::Echo { .. } => "line echo".into(),
            Protocol::Discard { .. } => "discard".into(),
            Protocol::Primitives { primitive, size } => format!("{}, messages of {size} bytes", primitive.name()),
        }
    }
}

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address or name to listen at; `None`: 127.0.0.1.
    pub host: Option<String>,
    /// Port; 0: one that is free.
    pub port: u16,
    /// Connections at the same time; more are closed at once.
    pub connections: usize,
    /// How long a connection may send nothing between two messages.
    pub idle: Duration,
    /// How long one step of it may take where all places are taken and another one comes: then the one whose step takes longest
    /// goes.
    pub sure: Duration,
    /// How long a message may take from its first byte to its last, and a reply to be taken; each byte adds 10 µs.
    pub message: Duration,
    /// What is spoken.
    pub protocol: Protocol,
}

/// A line about what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// What was to be expected: it begins, it ends, a connection has ended well.
    Course(&'a str),
    /// A warning, or trouble with a connection.
    Wrong(&'a str),
    /// What the course's own server prints.
    Classic(&'a str),
}

/// A line on its way to the thread that says it.
pub(super) enum Line {
    Course(String),
    Wrong(String),
    Classic(String),
}

/// How a conversation ended.
pub(super) enum End {
    /// As it should.
    Well,
    /// The peer did what the protocol does not allow.
    Refused(String),
    /// The connection broke.
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// One connection, as its thread sees it.
pub(super) struct Guest<'a> {
    pub(super) stream: TcpStream,
    watch: &'a Watch,
    over: &'a AtomicBool,
    idle: Duration,
    message: Duration,
    peer: SocketAddr,
    lines: &'a Sender<Line>,
}

impl Guest<'_> {
    /// The next message may begin.
    #[inline]
    pub(super) fn may_idle(&self) {
        self.watch.expect(self.idle);
    }

    /// A message of about so many bytes is in progress, or its reply is.
    #[inline]
    pub(super) fn is_within(&self, bytes: usize) {
        self.watch.expect(self.message + Duration::from_nanos((bytes as u64).saturating_mul(NS_PER_BYTE)));
    }

    /// The next step takes at most so long.
    pub(super) fn takes(&self, time: Duration) {
        self.watch.expect(time);
    }

    /// Whether the server stops, or this connection is being ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.watch.late.load(Ordering::Relaxed)
    }

    /// Says what happened on this connection.
    pub(super) fn say(&self, what: &str) {
        let _ = self.lines.send(Line::Course(format!("{}: {what}", self.peer)));
    }

    /// Says what the course's server says.
    pub(super) fn say_classic(&self, line: String) {
        let _ = self.lines.send(Line::Classic(line));
    }
}

/// A connection, as the accepting thread sees it.
struct Held {
    stream: TcpStream,
    source: IpAddr,
    watch: Arc<Watch>,
    seen: Seen,
    since: Instant,
    thread: JoinHandle<()>,
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// E01 where it cannot.
    pub fn bind(options: Options) -> Result<Self, Problem> {
        let host = options.host.as_deref().unwrap_or("127.0.0.1");
        let place = format!("{host}, port {}", options.port);
        let mut addresses: Vec<SocketAddr> =
            (host, options.port).to_socket_addrs().map_err(|error| cannot_listen(&place, &error))?.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6); // programs of courses know IPv4
        let mut failed = Problem::new("E01", Exit::CannotStart, format!("{place} is not an address to listen at"));
        for address in addresses {
            match TcpListener::bind(address) {
                Ok(listener) => {
                    let address = listener.local_addr().map_err(|error| cannot_listen(&place, &error))?;
                    listener.set_nonblocking(true).map_err(|error| cannot_listen(&place, &error))?;
                    return Ok(Self { listener, address, options });
                }
                Err(error) => failed = cannot_listen(&address.to_string(), &error),
            }
        }
        Err(failed)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is set; `say` gets one line for each event, in the thread of the caller. Returns how many
    /// connections were answered.
    pub fn run(self, stop: &AtomicBool, say: &mut dyn FnMut(Event<'_>)) -> u64 {
        let Self { listener, address, options } = self;
        if !address.ip().to_canonical().is_loopback() {
            say(Event::Wrong(&format!(
                "warning: {address} is not loopback: whoever reaches it is answered, and nobody is asked who they are"
            )));
        }
        say(Event::Course(&format!("serving {} at {address}   Ctrl-C stops", options.protocol.name())));
        let (lines_in, lines) = channel::<Line>();
        let over = Arc::new(AtomicBool::new(false));
        let options = Arc::new(options);
        let mut held: Vec<Held> = Vec::new();
        let mut voice = Voice::default();
        let mut answered = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            if poll(listener.as_fd(), Interest::Read, 50).unwrap_or(false) {
                for _ in 0..64 {
                    match listener.accept() {
                        Ok((stream, peer)) if makes_room(&mut held, peer.ip().to_canonical(), &options) => {
                            answered += 1;
                            match begin(stream, peer, &options, &over, &lines_in) {
                                Ok(one) => held.push(one),
                                Err(error) => drop(lines_in.send(Line::Wrong(format!("{peer}: not served: {error}")))),
                            }
                        }
                        Ok((_, peer)) => drop(lines_in.send(Line::Wrong(format!(
                            "{peer}: turned away, {} connections are open",
                            options.connections
                        )))),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => {
                            // It may last, and must not take a whole CPU.
                            let _ = lines_in.send(Line::Wrong(format!("a connection was not accepted: {error}")));
                            std::thread::sleep(Duration::from_millis(50));
                            break;
                        }
                    }
                    // Those that ended meanwhile make room for those who wait.
                    sweep(&mut held);
                }
            }
            sweep(&mut held);
            lines.try_iter().for_each(|line| voice.take(line));
            voice.speak(false, say);
        }
        over.store(true, Ordering::Relaxed);
        held.iter().for_each(|one| drop(one.stream.shutdown(Shutdown::Both)));
        held.into_iter().for_each(|one| drop(one.thread.join()));
        drop(lines_in);
        lines.try_iter().for_each(|line| voice.take(line));
        voice.speak(true, say);
        let plural = if answered == 1 { "" } else { "s" };
        say(Event::Course(&format!("answered {answered} connection{plural}")));
        answered
    }
}

/// Whether there is a place for a connection from `source`, after another one was ended perhaps: the one that has waited longest,
/// so that those who say nothing, or half of something, keep nobody out. An address beyond loopback has half of the places.
fn makes_room(held: &mut [Held], source: IpAddr, options: &Options) -> bool {
    let most_of_one = if source.is_loopback() { usize::MAX } else { options.connections.div_ceil(2) };
    // One that is being ended has no place any more.
    let mut waiting: Vec<&mut Held> =
        held.iter_mut().filter(|one| !one.watch.late.load(Ordering::Relaxed) && !one.thread.is_finished()).collect();
    for one in &mut waiting {
        let _ = one.seen.is_late(&one.watch); // sees which steps are new
    }
    waiting.sort_by_key(|one| one.seen.since);
    let sources = waiting.iter().map(|one| &one.source);
    match first_to_go(sources, &source, options.connections, most_of_one).map(|at| &waiting[at]) {
        None => true,
        Some(one) if one.seen.since.elapsed() >= options.sure => {
            one.watch.late.store(true, Ordering::Relaxed);
            let _ = one.stream.shutdown(Shutdown::Both);
            true
        }
        Some(_) => false,
    }
}

/// Forgets connections that have ended, and ends those that take too long.
fn sweep(held: &mut Vec<Held>) {
    held.retain_mut(|one| {
        if one.seen.is_late(&one.watch) || one.since.elapsed() > LONGEST {
            one.watch.late.store(true, Ordering::Relaxed);
            let _ = one.stream.shutdown(Shutdown::Both);
        }
        !one.thread.is_finished()
    });
}

/// Starts the thread of a connection.
fn begin(
    stream: TcpStream,
    peer: SocketAddr,
    options: &Arc<Options>,
    over: &Arc<AtomicBool>,
    lines: &Sender<Line>,
) -> io::Result<Held> {
    stream.set_nonblocking(false)?;
    let watch = Arc::new(Watch::default());
    watch.expect(options.idle);
    let kept = stream.try_clone()?;
    let options = Arc::clone(options);
    let lines = lines.clone();
    let (watched, over) = (Arc::clone(&watch), Arc::clone(over));
    let thread = std::thread::Builder::new().name("guest".into()).spawn(move || {
        let guest = Guest {
            stream,
            watch: &watched,
            over: &over,
            idle: options.idle,
            message: options.message,
            peer,
            lines: &lines,
        };
        let end = match &options.protocol {
            Protocol::Css432(serving) => css432::answer(serving, &guest),
            Protocol::Echo { longest } => echo::answer(*longest, &guest),
            Protocol::Discard { tells } => discard::answer(*tells, &guest),
            Protocol::Primitives { primitive, size } => primitives::answer(*primitive, *size, &guest),
        };
        let why = match end {
            End::Well => None,
            // In this order: a connection that was late has its reason before the server stops.
            _ if watched.late.load(Ordering::Relaxed) => Some("ended: it took too long".to_owned()),
            _ if over.load(Ordering::Relaxed) => Some("ended: the server stops".to_owned()),
            End::Refused(why) => Some(format!("ended: {why}")),
            End::Broken(error) => Some(format!("broke: {error}")),
        };
        why.map(|why| lines.send(Line::Wrong(format!("{peer}: {why}"))));
        // Heard at once: another descriptor of this socket is closed only when the accepting thread looks again.
        let _ = guest.stream.shutdown(Shutdown::Write);
    })?;
    let source = peer.ip().to_canonical();
    Ok(Held { stream: kept, source, watch, seen: Seen::new(), since: Instant::now(), thread })
}

/// Lines that wait to be said, so many a second.
#[derive(Default)]
struct Voice {
    waiting: VecDeque<Line>,
    since: Option<Instant>,
    text: usize,
    left_out: u64,
}

impl Voice {
    /// More lines than this are not kept.
    const MOST_WAITING: usize = 200;

    fn take(&mut self, line: Line) {
        // The course's lines are a result: they are never left out.
        if self.waiting.len() < Self::MOST_WAITING || matches!(line, Line::Classic(_)) {
            self.waiting.push_back(line);
        } else {
            self.left_out += 1;
        }
    }

    fn speak(&mut self, all: bool, say: &mut dyn FnMut(Event<'_>)) {
        if self.since.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            (self.since, self.text) = (Some(Instant::now()), 0);
        }
        while all || self.text < LINES_A_SECOND {
            let Some(line) = self.waiting.pop_front() else { break };
            self.text += 1;
            match &line {
                Line::Course(line) => say(Event::Course(line)),
                Line::Wrong(line) => say(Event::Wrong(line)),
                Line::Classic(line) => say(Event::Classic(line)),
            }
        }
        if self.waiting.is_empty() && self.left_out > 0 {
            say(Event::Wrong(&format!("{} more lines were left out", std::mem::take(&mut self.left_out))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_was_answered_does_not_wait_for_the_accepting_thread() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        let patience = Duration::from_secs(60);
        let options = Options {
            host: None,
            port: 0,
            connections: 1,
            idle: patience,
            sure: patience,
            message: patience,
            protocol: Protocol::Discard { tells: false },
        };
        let (lines, _kept) = channel();
        let held = begin(stream, peer, &Arc::new(options), &Arc::default(), &lines).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        // Nobody sweeps: the server's end of the socket stays open.
        assert_eq!(std::io::Read::read(&mut near, &mut [0]).unwrap(), 0);
        held.thread.join().unwrap();
    }

    #[test]
    fn a_flood_of_lines_is_counted() {
        let mut voice = Voice::default();
        for at in 0..300 {
            voice.take(Line::Wrong(format!("line {at}")));
        }
        let mut text = Vec::new();
        voice.speak(false, &mut |event| text.push(format!("{event:?}")));
        assert_eq!(text.len(), LINES_A_SECOND);
        voice.speak(true, &mut |event| text.push(format!("{event:?}")));
        assert_eq!(text.len(), Voice::MOST_WAITING + 1);
        assert!(text.last().unwrap().contains("100 more lines"), "{text:?}");
    }
}
