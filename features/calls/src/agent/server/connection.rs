//! One connection: what was received and not yet answered, and what was answered and not yet taken.
//!
//! A call that arrives whole and whose reply fits into the socket costs one receive and one send. While a reply waits
//! for room nothing more is read, so a client that asks and does not listen fills its own socket and no memory here.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use msgpath_rpc::tenlg::tenlg;
use msgpath_rpc::{Header, Kind, Marker, RPC_HEADER_BYTES, Telling};
use msgpath_sys::duplex::{recv_stamped_now, send_now, send_parts_now};
use msgpath_sys::ready::Event;
use msgpath_sys::{clock, msg};

use msgpath_rpc::log::DATA_BYTES;

use super::fault::{Fault, Journal};
use super::log::Log;
use super::parser::{Parser, Request, SHORT};
use super::seat::Seat;
use super::service::{Answer, Remark, Reply, Service};
use super::worker::Accepted;

/// Replies up to this length are sent from one buffer, bytes.
const COPIED: usize = 4096;
/// What one connection may receive before the others have their turn, bytes.
const TURN: usize = 4 << 20;
/// How long a peer may take to notice that its connection is being ended.
const LEAVING: Duration = Duration::from_secs(1);
/// On top of the limit for a message, a body gets this long for each byte (1 MB/s), ns.
const NS_PER_BYTE: u64 = 1000;

/// How long a connection may wait for its peer.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without a request.
    pub idle: Duration,
    /// Between the first byte of a message and its last, however many there are between; also for a reply to be taken.
    pub message: Duration,
}

/// What all connections of one thread share.
pub struct Desk<'a> {
    pub service: &'a Service,
    /// What went wrong.
    pub journal: &'a Journal,
    /// The log, where one is written.
    pub log: Option<Log<'a>>,
    /// Where short messages are received.
    scratch: Vec<u8>,
    /// Where short replies are put together.
    out: Vec<u8>,
    /// Whether the kernel's receive stamps are read.
    stamped: bool,
    /// Calls that were answered.
    pub calls: u64,
    /// A call asked the server to stop, and it may.
    pub quit: bool,
}

impl<'a> Desk<'a> {
    /// With empty buffers.
    pub fn new(service: &'a Service, journal: &'a Journal, log: Option<Log<'a>>, stamped: bool) -> Self {
        let out = Vec::with_capacity(COPIED + 256);
        Self { service, journal, log, scratch: vec![0; SHORT], out, stamped, calls: 0, quit: false }
    }
}

/// What is to be done with a connection that had its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Wait until the kernel reports something.
    Wait,
    /// There may be more to do now.
    Again,
}

/// Why a connection is over. Without a trouble, its peer closed it between two messages, or was asked to leave.
pub struct End(pub Option<(Fault, String)>);

impl End {
    fn quiet() -> Self {
        Self(None)
    }

    fn of(fault: Fault, what: impl Into<String>) -> Self {
        Self(Some((fault, what.into())))
    }

    fn broken(error: &io::Error) -> Self {
        Self::of(Fault::Broken, format!("the connection broke: {error}"))
    }
}

/// How long a request lay before it was read.
#[derive(Clone, Copy)]
enum Lay {
    /// So long, ns.
    For(u64),
    /// Since then (CLOCK_MONOTONIC, ns) until it is taken up: it came together with one before it.
    Since(u64),
    /// Nobody knows.
    Unknown,
}

/// What is known of the bytes that were received last.
#[derive(Clone, Copy)]
struct Arrival {
    /// When they could be read, CLOCK_MONOTONIC, ns.
    ready_ns: Option<u64>,
    /// When they were read.
    read_ns: u64,
    /// No message of them was taken up yet.
    fresh: bool,
}

impl Arrival {
    fn lay(self) -> Lay {
        match self.ready_ns {
            None => Lay::Unknown,
            Some(ready) if self.fresh => Lay::For(self.read_ns.saturating_sub(ready)),
            Some(ready) => Lay::Since(ready),
        }
    }
}

/// A reply that the socket had no room for.
struct Pending {
    head: Vec<u8>,
    reply: Reply<'static>,
    done: usize,
}

/// The sending half.
struct Wire {
    stream: TcpStream,
    peer: SocketAddr,
    client_ip: u32,
    /// The first call is answered TooBusy, and then this connection ends.
    turned_away: bool,
    seat: Arc<Seat>,
    pending: Option<Pending>,
    broken: Option<io::Error>,
    leaving: bool,
}

pub struct Connection {
    parser: Parser,
    /// Received behind a request whose reply is pending.
    unread: Vec<u8>,
    arrival: Arrival,
    wire: Wire,
    /// The message in progress: since when, and how long its first bytes lay.
    begun: Option<(u64, Lay)>,
    /// The kernel has said that there is something to read, and has not been read empty since.
    readable: bool,
    /// Reads must go on until they say how this ends.
    ended: bool,
    /// When something was received or taken last.
    last_ns: u64,
    /// Until when a peer that was asked to leave may stay; `None`: it was not asked.
    leave_by_ns: Option<u64>,
}

/// CLOCK_REALTIME, ns.
fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Calls again what a signal interrupted.
fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Connection {
    pub fn new(accepted: Accepted, now_ns: u64) -> Self {
        let Accepted { stream, peer, turned_away, seat } = accepted;
        let client_ip = match peer.ip().to_canonical() {
            IpAddr::V4(ip) => u32::from(ip),
            IpAddr::V6(_) => 0, // the header has no room for it
        };
        let wire = Wire { stream, peer, client_ip, turned_away, seat, pending: None, broken: None, leaving: false };
        Self {
            parser: Parser::default(),
            unread: Vec::new(),
            arrival: Arrival { ready_ns: None, read_ns: now_ns, fresh: false },
            wire,
            begun: None,
            readable: false,
            ended: false,
            last_ns: now_ns,
            leave_by_ns: None,
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.wire.stream
    }

    /// The other end.
    pub fn peer(&self) -> SocketAddr {
        self.wire.peer
    }

    /// Whether a reply waits for room.
    pub fn owes(&self) -> bool {
        self.wire.pending.is_some()
    }

    /// What the kernel said at `now_ns`.
    pub fn note(&mut self, event: Event, now_ns: u64) {
        if event.readable && !self.readable {
            self.readable = true;
            self.arrival.ready_ns = Some(now_ns);
        }
        self.ended |= event.ended;
    }

    /// Does what can be done now without waiting, up to a limit. `now_ns` is the time.
    ///
    /// # Errors
    /// The connection is over.
    pub fn turn(&mut self, desk: &mut Desk<'_>, now_ns: u64) -> Result<Turn, End> {
        let mut budget = TURN;
        let mut read_ns = now_ns;
        loop {
            match self.wire.flush() {
                Ok((done, moved)) => {
                    if moved {
                        self.last_ns = read_ns;
                    }
                    if !done {
                        return Ok(Turn::Wait);
                    }
                }
                Err(error) => return Err(End::broken(&error)),
            }
            if self.wire.leaving {
                return self.leave(desk, read_ns);
            }
            if !self.unread.is_empty() {
                let bytes = std::mem::take(&mut self.unread);
                self.take_in(&bytes, desk)?;
                continue;
            }
            if !self.readable {
                return Ok(Turn::Wait);
            }
            if budget == 0 {
                return Ok(Turn::Again);
            }
            if budget < TURN {
                // Not the first read of this turn: what it finds may have come since the one before.
                self.arrival.ready_ns = Some(read_ns);
                read_ns = clock::now();
            }
            budget = budget.saturating_sub(self.receive(desk, read_ns)?.max(1));
        }
    }

    /// One receive, and everything that became whole by it. Returns how many bytes came.
    fn receive(&mut self, desk: &mut Desk<'_>, read_ns: u64) -> Result<usize, End> {
        let fd = self.wire.stream.as_fd();
        // A message that is whole by this receive has its place; one that begins with it does not know its length yet.
        let mut scratch = std::mem::take(&mut desk.scratch);
        let (room, in_place) = match self.parser.room() {
            Some(room) => (room, true),
            None => (&mut scratch[..], false),
        };
        let asked = room.len();
        let (got, ready_ns) = if desk.stamped {
            let wall = wall_ns();
            let got = retried(|| recv_stamped_now(fd, room));
            let lay = |stamp: Option<u64>| stamp.map(|stamp| read_ns.saturating_sub(wall.saturating_sub(stamp)));
            got.map_or_else(|error| (Err(error), None), |(got, stamp)| (Ok(got), lay(stamp)))
        } else {
            (retried(|| msg::recv_now(fd, room)), self.arrival.ready_ns)
        };
        let outcome = match got {
            Ok(0) if self.parser.is_midway() => {
                Err(End::of(Fault::HalfMessage, "closed by the other end within a message"))
            }
            Ok(0) => Err(End::quiet()),
            Ok(got) => {
                self.readable = self.ended || got == asked;
                self.last_ns = read_ns;
                self.arrival = Arrival { ready_ns, read_ns, fresh: true };
                if !in_place {
                    self.take_in(&scratch[..got], desk).map(|()| got)
                } else {
                    if let Some(request) = self.parser.advance(got) {
                        let lay = self.begun.take().map_or(Lay::Unknown, |(_, lay)| lay);
                        self.wire.answer(desk, request, lay);
                    }
                    Ok(got)
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(0)
            }
            Err(error) => Err(End::broken(&error)),
        };
        desk.scratch = scratch;
        outcome
    }

    /// Answers what is whole in `bytes`, and keeps the rest.
    fn take_in(&mut self, bytes: &[u8], desk: &mut Desk<'_>) -> Result<(), End> {
        let mut input = bytes;
        loop {
            match self.parser.next(&mut input, desk.service.memory()) {
                Ok(Some(request)) => {
                    let lay = self.begun.take().map_or_else(|| self.arrival.lay(), |(_, lay)| lay);
                    self.arrival.fresh = false;
                    self.wire.answer(desk, request, lay);
                    if self.wire.leaving || self.wire.broken.is_some() || self.wire.pending.is_some() {
                        self.unread = if self.wire.pending.is_some() { input.to_vec() } else { Vec::new() };
                        return Ok(());
                    }
                }
                Ok(None) => {
                    if self.begun.is_none() && self.parser.is_midway() {
                        let lay = match self.arrival.lay() {
                            Lay::Since(ready) => Lay::For(clock::now().saturating_sub(ready)),
                            known => known,
                        };
                        self.begun = Some((self.arrival.read_ns, lay));
                    }
                    return Ok(());
                }
                Err(error) => return Err(End::of(error.into(), format!("closed: {error}"))),
            }
        }
    }

    /// Lets the peer read its last reply: what it still sends is thrown away until it closes as well. A close with
    /// bytes unread would reset the connection, and the reply with it.
    fn leave(&mut self, desk: &mut Desk<'_>, now_ns: u64) -> Result<Turn, End> {
        if self.leave_by_ns.is_none() {
            self.leave_by_ns = Some(now_ns + LEAVING.as_nanos() as u64);
            let _ = self.wire.stream.shutdown(Shutdown::Write);
        }
        for _ in 0..64 {
            match retried(|| msg::recv_now(self.wire.stream.as_fd(), &mut desk.scratch)) {
                Ok(0) => return Err(End::quiet()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Turn::Wait),
                Err(_) => return Err(End::quiet()),
            }
        }
        Ok(Turn::Again)
    }

    /// Whether the peer has made this server wait for too long.
    pub fn overdue(&self, patience: Patience, now_ns: u64) -> Option<End> {
        let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let since = |then: u64| now_ns.saturating_sub(then);
        if self.leave_by_ns.is_some_and(|until| now_ns > until) {
            return Some(End::quiet());
        }
        let quiet = since(self.last_ns);
        if self.owes() {
            let late = quiet > ns(patience.message);
            return late.then(|| End::of(Fault::SlowReply, "closed: its reply was not taken in time"));
        }
        if let Some((begun, _)) = self.begun {
            let allowed = ns(patience.message).saturating_add(self.parser.announced() as u64 * NS_PER_BYTE);
            let late = since(begun) > allowed;
            return late.then(|| End::of(Fault::SlowMessage, "closed: a message was not whole in time"));
        }
        if self.wire.turned_away {
            return (quiet > ns(patience.message)).then(End::quiet);
        }
        (quiet > ns(patience.idle)).then(|| End::of(Fault::Idle, "closed: nothing was asked for too long"))
    }
}

impl Wire {
    /// Sends what is pending. Whether all of it went, and whether any of it did.
    fn flush(&mut self) -> io::Result<(bool, bool)> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let mut moved = false;
        while let Some(pending) = &mut self.pending {
            let head = pending.head.get(pending.done..).unwrap_or(&[]);
            let body = &pending.reply.bytes()[pending.done.saturating_sub(pending.head.len())..];
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            match retried(|| send_parts_now(self.stream.as_fd(), &parts)) {
                Ok(sent) => {
                    moved = true;
                    if sent == head.len() + body.len() {
                        self.pending = None;
                    } else {
                        pending.done += sent;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((false, moved)),
                Err(error) => return Err(error),
            }
        }
        Ok((true, moved))
    }

    /// Carries out one call and sends its reply, as far as the socket takes it.
    fn answer(&mut self, desk: &mut Desk<'_>, request: Request<'_>, lay: Lay) {
        let (wall, begun_ns) = (wall_ns(), clock::now());
        let (asked, length) = (request.header, request.length);
        let mut data = [0; DATA_BYTES];
        let kept = request.bytes().len().min(DATA_BYTES);
        if desk.log.is_some() {
            data[..kept].copy_from_slice(&request.bytes()[..kept]);
        }
        let answer = if self.turned_away { Answer::too_busy() } else { desk.service.answer(asked.method, request) };
        let Answer { status, reply, lock_ns, remark } = answer;
        let body = reply.bytes();
        let served_ns = clock::now() - begun_ns;
        let tells = asked.asks();
        let header = Header {
            // T3 is T2 and what the monotonic clock counted since: a step of the wall clock cannot turn them around.
            t: [asked.t[0], (wall / 1000) as i64, ((wall + served_ns) / 1000) as i64, asked.t[3]],
            client_ip: self.client_ip,
            client_port: self.peer.port(),
            lglen2: tenlg(body.len() as u64),
            kind: Kind::RespSend as u16,
            status: status.0,
            pad: if tells { Header::TELL } else { asked.pad },
            ..asked
        };
        let header_length = RPC_HEADER_BYTES + if tells { Telling::BYTES } else { 0 };
        let out = &mut desk.out;
        out.clear();
        out.extend_from_slice(&Marker { header: header_length as u32, body: body.len() as u32 }.to_bytes());
        out.extend_from_slice(&header.to_bytes());
        if tells {
            let waited_ns = match lay {
                Lay::For(ns) => ns,
                Lay::Since(ready_ns) => begun_ns.saturating_sub(ready_ns),
                Lay::Unknown => u64::MAX,
            };
            out.extend_from_slice(&Telling { waited_ns, served_ns, lock_ns }.to_bytes());
        }
        let (head, total) = (out.len(), out.len() + body.len());
        let sent = retried(|| {
            if body.is_empty() {
                send_now(self.stream.as_fd(), out)
            } else if body.len() <= COPIED {
                out.truncate(head);
                out.extend_from_slice(body);
                send_now(self.stream.as_fd(), out)
            } else {
                send_parts_now(self.stream.as_fd(), &[IoSlice::new(out), IoSlice::new(body)])
            }
        });
        desk.calls += 1;
        self.seat.answered(begun_ns);
        if let Some(log) = &mut desk.log
            && !log.call(&asked, (length, &data[..kept]), &header, body)
        {
            let what = "answered, and left out of the log: its T1 is not a time, or its method not a name";
            desk.journal.fault(Fault::NotLogged, self.peer, &what);
        }
        match sent {
            Ok(sent) if sent == total => {}
            Ok(done) => self.pending = Some(Pending { head: out[..head].to_vec(), reply: reply.into_owned(), done }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.pending = Some(Pending { head: out[..head].to_vec(), reply: reply.into_owned(), done: 0 });
            }
            Err(error) => self.broken = Some(error),
        }
        self.leaving = self.turned_away;
        if let Some(remark) = remark {
            self.note(desk, remark, asked);
        }
    }

    #[cold]
    fn note(&mut self, desk: &mut Desk<'_>, remark: Remark, asked: Header) {
        let say = |fault, what: &str| {
            desk.journal.fault(fault, self.peer, &format_args!("{} {what}", asked.method));
        };
        match remark {
            Remark::BadBody => say(Fault::BadBody, "failed: the strings of its body do not fit into it"),
            Remark::NoRoom => say(Fault::NoRoom, "was told TooBusy: the memory limit is reached"),
            Remark::Unknown => say(Fault::Unknown, "failed: no such method"),
            Remark::Quit => {
                desk.quit = true;
                self.leaving = true;
            }
        }
    }
}
