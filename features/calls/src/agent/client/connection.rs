//! One connection to a server: made, written to, read from, given up.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use msgpath_agent::names;
use msgpath_core::counts::CallCounts;
use msgpath_core::schema::TcpInfo;
use msgpath_core::{Exit, Problem};
use msgpath_sys::{clock, socket};

use super::http::Http;
use super::http2::Http2;
use super::login::Greeting;
use super::orders::{Broken, Endpoint};
use super::stream::Stream;
use super::tls::Client;
use super::wire::{Frame, Wire};
use crate::record::{Handshakes, Shaken};

/// Bytes that one receive call asks for at least.
const READ: usize = 64 << 10;

/// What the watching thread knows of a connection.
pub struct Watch {
    /// Last send into silence, or last reply, ns.
    progress: AtomicU64,
    in_flight: AtomicU64,
    /// 0: nobody cut it; 1: no reply in time; 2: stopped.
    cut: AtomicU8,
    stream: Mutex<Option<OwnedFd>>,
}

impl Watch {
    /// Of a connection, while nothing is in flight.
    pub fn new(stream: BorrowedFd<'_>) -> Self {
        Self {
            progress: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            cut: AtomicU8::new(0),
            stream: Mutex::new(stream.try_clone_to_owned().ok()),
        }
    }

    /// A call is about to be sent.
    #[inline(always)]
    pub fn sends(&self, now: u64) {
        if self.in_flight.fetch_add(1, Ordering::Relaxed) == 0 {
            self.progress.store(now, Ordering::Relaxed);
        }
    }

    /// A reply came.
    #[inline(always)]
    pub fn received(&self, now: u64) {
        self.progress.store(now, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Since when nothing has come although something is awaited, ns.
    pub fn silent_since(&self) -> Option<u64> {
        (self.in_flight() > 0).then(|| self.progress.load(Ordering::Relaxed))
    }

    /// Ends the connection from outside: whoever waits for it goes on.
    pub fn cut(&self, timed_out: bool) {
        let _ = self.cut.compare_exchange(0, if timed_out { 1 } else { 2 }, Ordering::Relaxed, Ordering::Relaxed);
        if let Some(stream) = &*self.stream.lock().expect("no holder panics") {
            let _ = socket::shut_down(stream.as_fd());
        }
    }

    /// What an end of the connection means: the server's doing, unless it was cut here.
    pub fn reason(&self, there: usize) -> Broken {
        match self.cut.load(Ordering::Relaxed) {
            1 => Broken::TimedOut,
            2 => Broken::Stopped,
            _ => Broken::Closed(there),
        }
    }
}

/// What was read and not yet taken.
pub struct Inbox {
    bytes: Vec<u8>,
    have: usize,
    /// When the last bytes came, ns.
    read_at: u64,
}

impl Inbox {
    fn new() -> Self {
        // Touched, so that the first reply pays for no page.
        Self { bytes: vec![1; READ], have: 0, read_at: 0 }
    }

    /// Makes room for a reply of so many bytes.
    pub fn room(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 1);
        }
    }

    /// The bytes of a reply.
    pub fn reply(&self, whole: usize) -> &[u8] {
        &self.bytes[..whole]
    }

    /// Bytes that are there beyond a reply.
    pub fn beyond(&self, whole: usize) -> &[u8] {
        &self.bytes[whole..self.have]
    }

    /// Whether the next reply is whole already.
    pub fn has_reply(&mut self, wire: &mut Wire) -> bool {
        self.have > 0 && matches!(wire.frame_in(&mut self.bytes, self.have), Ok(Frame::Whole(_)))
    }

    /// Forgets a reply; what follows it stays.
    pub fn consume(&mut self, whole: usize) {
        self.bytes.copy_within(whole..self.have, 0);
        self.have -= whole;
    }

    /// Reads until a reply is whole. Returns its length, and when its first bytes were read, ns.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn receive(
        &mut self,
        stream: &Stream,
        wire: &mut Wire,
        watch: &Watch,
        calls: &mut CallCounts,
    ) -> Result<(usize, u64), Broken> {
        self.read::<true>(stream, wire, watch, calls).map(|reply| reply.expect("it waits"))
    }

    /// The same of what is there already; `None`: the reply is not whole yet.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn receive_now(
        &mut self,
        stream: &Stream,
        wire: &mut Wire,
        watch: &Watch,
        calls: &mut CallCounts,
    ) -> Result<Option<(usize, u64)>, Broken> {
        self.read::<false>(stream, wire, watch, calls)
    }

    #[inline(always)]
    fn read<const WAITS: bool>(
        &mut self,
        stream: &Stream,
        wire: &mut Wire,
        watch: &Watch,
        calls: &mut CallCounts,
    ) -> Result<Option<(usize, u64)>, Broken> {
        let mut first = 0;
        if self.have > 0 {
            first = self.read_at;
            if let Frame::Whole(whole) = wire.frame_in(&mut self.bytes, self.have).map_err(Broken::Foreign)? {
                return Ok(Some((whole, first)));
            }
        }
        loop {
            if self.have == self.bytes.len() {
                self.room(2 * self.have);
            }
            let room = self.bytes.len() - self.have;
            let buffer = &mut self.bytes[self.have..];
            let got = match if WAITS { stream.recv(buffer) } else { stream.recv_now(buffer) } {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if !WAITS && error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(Broken::Foreign(error.to_string()));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted && self.have == 0 => {
                    return Err(Broken::Parted(error.to_string()));
                }
                Err(_) => return Err(watch.reason(self.have)),
            };
            calls.recv_calls += 1;
            if first == 0 {
                first = clock::now();
            }
            self.read_at = first;
            if got == 0 {
                calls.recv_empty += 1;
                // HTTP knows bodies that end so.
                let whole = if let Wire::Http(http) = wire { http.closed() } else { false };
                let uncut = watch.cut.load(Ordering::Relaxed) == 0;
                if let Some(why) = wire.parting(&self.bytes[..self.have]).filter(|_| uncut) {
                    return Err(Broken::Parted(why));
                }
                let reply = (whole && uncut).then_some(Some((self.have, first)));
                return reply.ok_or_else(|| watch.reason(self.have));
            }
            self.have += got;
            match wire.frame_in(&mut self.bytes, self.have).map_err(Broken::Foreign)? {
                Frame::Whole(whole) => {
                    calls.recv_full += 1;
                    return Ok(Some((whole, first)));
                }
                Frame::More(whole) => self.room(whole),
                Frame::UntilClose => {}
            }
            calls.recv_short += u64::from(got < room);
        }
    }
}

/// A connection and what belongs to it.
pub struct Connection {
    /// Its number within the run.
    pub index: u32,
    pub stream: Stream,
    /// The streams of HTTP/2, where that is spoken.
    pub http2: Option<Box<Http2>>,
    /// Its own address; `None`: it is none of IP.
    pub local: Option<SocketAddr>,
    /// Read and not yet taken.
    pub inbox: Inbox,
    /// Looked at by the watching thread.
    pub watch: std::sync::Arc<Watch>,
    /// How long connecting took, ns; taken by the first round that asks.
    pub connect_ns: Option<u64>,
    /// The handshakes since a round has asked.
    pub handshakes: Option<Handshakes>,
    /// The server has said that it closes: the next call needs a new connection.
    pub stale: bool,
    /// A reply has come over it.
    pub used: bool,
    /// How often a new one took its place.
    pub renewals: u64,
    /// Repetition of the command that the last call belonged to.
    pub rep: u64,
    /// What the server called itself at the greeting.
    pub met: Option<String>,
    server: Server,
}

/// Whom a connection leads to, and what is said first.
#[derive(Clone)]
pub struct Server {
    pub address: Endpoint,
    /// How long connecting may take, the handshake, and each answer to the login.
    pub timeout: Duration,
    /// Said before the first call.
    pub greeting: Greeting,
    /// TLS is spoken, and begins so.
    pub tls: Option<Client>,
    /// HTTP/2 is spoken: the fields of all requests, and most calls in flight.
    pub http2: Option<(Http, u64)>,
}

/// A connection that is ready for calls.
struct Made {
    stream: Stream,
    http2: Option<Box<Http2>>,
    local: Option<SocketAddr>,
    /// How long connecting took, without handshake and greeting, ns.
    connect_ns: u64,
    shaken: Option<Shaken>,
    met: Option<String>,
}

impl Made {
    /// Among the handshakes of its connection.
    fn note(&self, handshakes: &mut Option<Handshakes>) {
        if self.shaken.is_none() && self.http2.is_none() {
            return;
        }
        let streams = self.http2.as_ref().map(|http2| http2.streams());
        let noted = handshakes.get_or_insert_default();
        noted.note(self.connect_ns, self.shaken.as_ref(), streams);
    }
}

impl Server {
    /// A connection that is ready for calls.
    fn connect(&self, stop: &AtomicBool) -> Result<Made, Problem> {
        let begin = clock::now();
        let connected = match &self.address {
            Endpoint::Tcp(address) => socket::connect(*address, self.timeout, stop),
            Endpoint::Unix(path) => socket::connect_unix(path, self.timeout, stop),
        };
        let connected = connected.map_err(|error| nobody(&self.address, &error))?;
        let connect_ns = clock::now() - begin;
        let (stream, local) = match self.address {
            Endpoint::Tcp(_) => {
                let stream = TcpStream::from(connected);
                let _ = stream.set_nodelay(true);
                let local = stream.local_addr().ok();
                (stream.into(), local)
            }
            Endpoint::Unix(_) => (connected, None),
        };
        let (mut stream, mut shaken) = (Stream::from(stream), None);
        if let Some(client) = &self.tls {
            self.greeting.ask_for_tls(&stream, self.timeout)?;
            let (tls, made) = client.shake(stream.as_fd(), self.timeout, stop)?;
            (stream, shaken) = (stream.with(tls), Some(made));
        }
        let http2 = self.http2.as_ref().map(|(http, inflight)| {
            Http2::begin(http, self.tls.is_some(), &stream, (*inflight, self.timeout), stop).map(Box::new)
        });
        let http2 = http2.transpose()?;
        let met = self.greeting.say(&stream, self.timeout)?;
        Ok(Made { stream, http2, local, connect_ns, shaken, met })
    }
}

impl Connection {
    /// Connects, unless `stop` is set meanwhile.
    ///
    /// # Errors
    /// E01, E65, E137, E138, E146.
    pub fn open(index: u32, server: Server, stop: &AtomicBool) -> Result<Self, Problem> {
        let made = server.connect(stop)?;
        let watch = std::sync::Arc::new(Watch::new(made.stream.as_fd()));
        let mut handshakes = None;
        made.note(&mut handshakes);
        Ok(Self {
            index,
            stream: made.stream,
            http2: made.http2,
            local: made.local,
            inbox: Inbox::new(),
            watch,
            connect_ns: Some(made.connect_ns),
            handshakes,
            stale: false,
            used: false,
            renewals: 0,
            rep: 0,
            met: made.met,
            server,
        })
    }

    /// A new connection in place of the one that the server has closed.
    ///
    /// # Errors
    /// E01, E65, E137, E138, E146.
    pub fn renew(&mut self, stop: &AtomicBool) -> Result<(), Problem> {
        let made = self.server.connect(stop)?;
        *self.watch.stream.lock().expect("no holder panics") = made.stream.as_fd().try_clone_to_owned().ok();
        made.note(&mut self.handshakes);
        self.connect_ns = self.connect_ns.max(Some(made.connect_ns));
        (self.local, self.stream, self.http2) = (made.local, made.stream, made.http2);
        (self.stale, self.used, self.inbox.have) = (false, false, 0);
        self.renewals += 1;
        Ok(())
    }

    /// Its own port; 0: it has none.
    pub fn port(&self) -> u16 {
        self.local.map_or(0, |local| local.port())
    }

    /// TCP_INFO now.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        msgpath_paths::channel::tcp_info(self.stream.as_fd())
    }
}

/// Sends a whole message: one call, unless the kernel takes only a part.
///
/// # Errors
/// [`Broken`].
#[inline(always)]
pub fn send(stream: &Stream, message: &[u8], watch: &Watch, calls: &mut CallCounts) -> Result<(), Broken> {
    stream.send(message, calls).map_err(|_| parted(stream, watch))
}

/// Why a connection takes no more: what the server said in the way of TLS before it closed, if it said something.
#[cold]
fn parted(stream: &Stream, watch: &Watch) -> Broken {
    match stream.last_words() {
        Some(why) => Broken::Parted(why),
        None => watch.reason(0),
    }
}

fn nobody(address: &Endpoint, error: &io::Error) -> Problem {
    if let Some(problem) = names::no_port(error) {
        return problem;
    }
    let (why, hint) = match (address, error.kind()) {
        (Endpoint::Unix(_), io::ErrorKind::ConnectionRefused) => {
            ("no program listens at that socket", "start the server")
        }
        (Endpoint::Unix(_), io::ErrorKind::NotFound) => ("there is no such socket", "the path of its socket: ss -xl"),
        (Endpoint::Unix(_), io::ErrorKind::PermissionDenied) => {
            ("this user may not write to it", "ls -l of the socket")
        }
        (Endpoint::Unix(_), _) => ("", "the path of its socket: ss -xl"),
        (Endpoint::Tcp(_), kind) => (
            match kind {
                io::ErrorKind::ConnectionRefused => "no program listens at that port",
                io::ErrorKind::TimedOut => "no answer at all: the machine is off, or a firewall drops the packets",
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route leads there",
                _ => "",
            },
            "on the far machine run   msgpath serve --rpc   (or the lab's server4)",
        ),
    };
    let what = error.to_string().to_lowercase();
    let what = what.split(" (os error").next().unwrap_or(&what);
    Problem::new("E01", Exit::CannotStart, format!("nobody answers at {address} ({what})")).why(why).hint(hint)
}
