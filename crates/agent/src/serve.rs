//! `msgpath serve`: the far end for people who start it by hand. Each near end gets a session of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use msgpath_core::target::PortRange;
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_sys::address::canonical;
use msgpath_sys::limits::allow_open_files;
use msgpath_sys::memory::give_back;
use msgpath_sys::ready::{Direction, Events, ReadySet};
use msgpath_sys::socket::{is_own, set_backlog};

use crate::confine::confine;
use crate::crowd::first_to_go;
use crate::greeting::{GREETING, service_name};
use crate::handshake::{Question, SERVE};
use crate::memory::Budget;
use crate::presence::has_closed;
use crate::privileges::{Peer, Reach, Spinning};
use crate::seal::{Sealing, Seals};
use crate::session::{Begun, Lease, Terms, session};
use crate::team::no_thread;
use crate::token::Token;
use crate::wire::{self, Addresses, Admits, FromEnd, Incoming, Opening, Proves, ToEnd};

/// Where `serve` listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeAddress {
    /// TCP; `host` `None`: loopback, both families.
    Tcp {
        /// Address or name.
        host: Option<String>,
        port: u16,
    },
    /// A socket in the file system, removed at the end.
    Unix(PathBuf),
    /// An abstract name on this machine.
    Name(String),
}

/// Connections that have not greeted yet: in all, and from one address. Beyond that the oldest goes.
const HALF_OPEN: usize = 1024;
const HALF_OPEN_OF_ONE: usize = 512;
/// Connections that the kernel keeps until they are accepted, as far as net.core.somaxconn allows. The standard library
/// asks for 128: whoever comes in a flood to a full queue tries again after a second.
const BACKLOG: i32 = 4096;
/// How long a greeting may take.
const HELLO: Duration = Duration::from_secs(2);
/// Connections that are accepted before others are looked at.
const AT_ONCE: usize = 128;
/// How long a near end may take nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// A near end that has greeted and orders nothing for so long is the first to go where there is no place for another.
const IDLE: Duration = Duration::from_secs(10);
/// So many times as many sessions as there are places may be ending at the same time.
const ENDING: usize = 4;
/// Descriptors that are set aside for each session and its connections.
const FILES_OF_A_SESSION: usize = 32;

/// A line about what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// What was to be expected: it begins, it ends; a connection comes or goes, where that was asked for.
    Course(&'a str),
    /// A warning, or trouble.
    Wrong(&'a str),
}

/// How `serve` behaves.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Near ends at the same time, half of them from one address that is not loopback; more are turned away.
    pub sessions: usize,
    /// The memory that the rounds of all of them may take together, bytes.
    pub memory: u64,
    /// The longest that a round may last.
    pub round: Duration,
    /// What every near end must have; nothing: nobody is asked who they are.
    pub token: Option<Token>,
    /// Proofs do not cover the addresses of their connection: a translator of addresses is in between.
    pub behind_nat: bool,
    /// Without a token it listens at addresses that others reach.
    pub insecure: bool,
    /// The ports that data connections come to; nothing: the kernel chooses.
    pub data_ports: Option<PortRange>,
    /// The thread that serves takes from itself what it does not need: it has no other work.
    pub confined: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            sessions: 64,
            memory: 256 << 20,
            round: Duration::from_secs(600),
            token: None,
            behind_nat: false,
            insecure: false,
            data_ports: None,
            confined: false,
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Option<PathBuf>),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, Some(path)) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// E01: nobody can listen there.
pub fn cannot_listen(place: &str, error: &io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "another port with -p, or stop the program that listens there",
        io::ErrorKind::PermissionDenied => "a port from 1024 on",
        io::ErrorKind::AddrNotAvailable => "an address of this machine",
        _ => "",
    };
    Problem::new("E01", Exit::CannotStart, format!("cannot listen at {place} ({error})")).hint(hint)
}

/// E74: others could come, and nobody would ask who they are.
fn asks_nobody(address: SocketAddr) -> Problem {
    let place = address.ip();
    let what = format!("{place} is not loopback, and whoever reaches it could make this machine send and compute");
    Problem::new("E74", Exit::Usage, what)
        .why("a token says who may come: a secret in a file, the same at both ends; serve makes the file if it is not there")
        .hint(format!("msgpath serve {place} --token-file FILE, or --insecure to let everybody in"))
}

/// `open`: also at addresses that others reach.
fn listen(address: &ServeAddress, open: bool) -> Result<Vec<(Listener, String)>, Problem> {
    match address {
        ServeAddress::Tcp { host, port } => {
            let hosts = match host {
                Some(host) => vec![host.clone()],
                None => vec!["127.0.0.1".to_owned(), "::1".to_owned()],
            };
            let mut out = Vec::new();
            let mut failed = None;
            let mut port = *port;
            for host in hosts {
                let place = format!("{host}, port {port}");
                let resolved =
                    (host.as_str(), port).to_socket_addrs().map_err(|error| cannot_listen(&place, &error))?;
                for address in resolved {
                    if !open && !address.ip().to_canonical().is_loopback() {
                        return Err(asks_nobody(address));
                    }
                    match TcpListener::bind(address) {
                        Ok(listener) => {
                            set_backlog(listener.as_fd(), BACKLOG).map_err(|error| cannot_listen(&place, &error))?;
                            let local = listener.local_addr().unwrap_or(address);
                            port = local.port(); // port 0 in a test: the same one for both families
                            out.push((Listener::Tcp(listener), local.to_string()));
                        }
                        Err(error) => failed = Some(cannot_listen(&address.to_string(), &error)),
                    }
                }
            }
            // Loopback without IPv6 is still loopback; but a port that is taken must be said.
            match (out.is_empty(), failed) {
                (true, Some(problem)) => Err(problem),
                (true, None) => Err(Problem::new("E01", Exit::CannotStart, "no address to listen at")),
                (false, _) => Ok(out),
            }
        }
        ServeAddress::Unix(path) => {
            let place = path.display().to_string();
            remove_dead(path);
            let listener = UnixListener::bind(path).map_err(|error| cannot_listen(&place, &error))?;
            Ok(vec![(Listener::Unix(listener, Some(path.clone())), place)])
        }
        ServeAddress::Name(name) => {
            let listener = std::os::unix::net::SocketAddr::from_abstract_name(service_name(name))
                .and_then(|address| UnixListener::bind_addr(&address))
                .map_err(|error| cannot_listen(name, &error))?;
            Ok(vec![(Listener::Unix(listener, None), name.clone())])
        }
    }
}

/// A socket file that a killed `serve` left behind; one that answers is left alone.
fn remove_dead(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    let refused = UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && refused {
        let _ = std::fs::remove_file(path);
    }
}

/// A connection of either kind.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    /// Who is at the other end.
    fn peer(&self) -> io::Result<Peer> {
        match self {
            Stream::Tcp(stream) => {
                let (host, near) = (canonical(stream.local_addr()?), canonical(stream.peer_addr()?));
                let reach = match host.ip().is_loopback() && near.ip().is_loopback() {
                    true => Reach::Machine,
                    false => Reach::Network,
                };
                Ok(Peer { host: Some(host), address: Some(near), reach, proven: false })
            }
            Stream::Unix(stream) => {
                let reach = if is_own(stream.as_fd()) { Reach::Own } else { Reach::Machine };
                Ok(Peer { reach, ..Peer::default() })
            }
        }
    }

    /// Both addresses; `None`: it has none.
    fn addresses(&self) -> io::Result<Option<Addresses>> {
        match self {
            Stream::Tcp(stream) => Addresses::of(stream, false).map(Some),
            Stream::Unix(_) => Ok(None),
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// Ends it, whoever has a descriptor of it.
    fn shut(&self) {
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Waits for writes again, as a session does; a near end that takes nothing is given up.
    fn settle(&self) -> io::Result<()> {
        msgpath_sys::set_nonblocking(self.as_fd(), false)?;
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(PATIENCE))),
            Stream::Unix(stream) => stream.set_write_timeout(Some(PATIENCE)),
        }
    }
}

/// A connection that has not said who it is.
struct HalfOpen {
    token: u64,
    stream: Stream,
    from: String,
    /// Whom the limit for one source counts it to; `None`: this machine.
    source: Option<IpAddr>,
    since: Instant,
    incoming: Incoming,
    stage: Stage,
}

/// What a connection without a session is waited for to say.
enum Stage {
    /// That it has the token.
    Asked(Question),
    Greets(Option<Seals>),
}

impl HalfOpen {
    /// What it has said, as far as it is whole: its greeting, or nothing that begins a session.
    fn hears(&mut self, token: Option<&Token>) -> io::Result<Option<ToEnd>> {
        let (Stage::Asked(question), Some(token)) = (&self.stage, token) else {
            return match self.incoming.take::<ToEnd>()? {
                None => Ok(None),
                Some((hello @ ToEnd::Hello { .. }, _)) => Ok(Some(hello)),
                Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it did not greet")),
            };
        };
        let Some((proves, _)) = self.incoming.take::<Proves>()? else { return Ok(None) };
        let (answer, seals) = question.judge(token, SERVE, &proves, self.stream.addresses()?.as_ref());
        // So little always has room in a connection to which almost nothing was sent.
        wire::write(&mut self.stream, &answer, &[])?;
        let denied = |what| Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        match seals {
            Some(seals) => {
                self.incoming = Incoming::hello().sealed(Some(seals.hears.clone()));
                self.stage = Stage::Greets(Some(seals));
                Ok(None)
            }
            None if answer == Admits::Refused => denied("it has not the token"),
            None => denied("it sees other addresses of this connection: NAT or a relay is in between (--behind-nat)"),
        }
    }

    /// The seals of what follows its greeting.
    fn seals(&mut self) -> Option<Seals> {
        let incoming = std::mem::replace(&mut self.incoming, Incoming::hello());
        match std::mem::replace(&mut self.stage, Stage::Greets(None)) {
            Stage::Greets(Some(seals)) => Some(Seals { hears: incoming.into_seal()?, ..seals }),
            _ => None,
        }
    }
}

/// A session that has not ended.
struct OpenSession {
    number: u64,
    source: Option<IpAddr>,
    control: Stream,
    since: Instant,
    lease: Arc<Lease>,
    /// Its connection was ended to make room.
    evicted: bool,
}

impl OpenSession {
    /// Whether somebody is at the other end: one whose near end has closed takes nobody's place.
    fn stands(&self) -> bool {
        !self.evicted && !has_closed(&self.control)
    }

    /// Whether it has ordered nothing for longer than any near end takes.
    fn is_idle(&self) -> bool {
        !self.lease.has_worked() && self.since.elapsed() > IDLE
    }
}

type Open = Arc<Mutex<Vec<OpenSession>>>;

/// The sessions that are open, and what they share.
struct Sessions {
    open: Open,
    most: usize,
    terms: Terms,
    token: Option<Token>,
    behind_nat: bool,
    next: AtomicU64,
    lines: Sender<String>,
}

/// Gives a session's place back, however it ends.
struct Place(Open, u64);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|session| session.number != self.1);
    }
}

impl Sessions {
    /// A place for one session more, or why there is none. Whoever keeps sessions open by staying alive must not keep
    /// everybody else out: an address other than this machine's has half of them at most, and the one that has ordered
    /// nothing for longest makes room. A session whose near end has closed counts no more, though its threads may be ending.
    fn place(&self, source: Option<IpAddr>, control: &Stream, lease: &Arc<Lease>) -> io::Result<Result<Place, String>> {
        let control = control.try_clone()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let limited = source.is_some_and(|address| !address.is_loopback());
        let most_of_one = if limited { self.most.div_ceil(2) } else { usize::MAX };
        let standing: Vec<usize> = (0..open.len()).filter(|at| open[*at].stands()).collect();
        let own = standing.iter().filter(|at| open[**at].source == source).count();
        let of_one = own >= most_of_one;
        if of_one || standing.len() >= self.most {
            let idle = |at: &&usize| open[**at].is_idle() && (!of_one || open[**at].source == source);
            match standing.iter().find(idle) {
                Some(at) => {
                    open[*at].control.shut();
                    open[*at].evicted = true;
                }
                None => return Ok(Err(busy(standing.len(), source.filter(|_| of_one).map(|address| (address, own))))),
            }
        }
        if open.len() >= self.most.saturating_mul(ENDING) {
            return Ok(Err("the far end is busy: many sessions are ending".into()));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (since, lease) = (Instant::now(), Arc::clone(lease));
        open.push(OpenSession { number, source, control, since, lease, evicted: false });
        Ok(Ok(Place(Arc::clone(&self.open), number)))
    }

    /// What follows the greeting on a new connection, and what is waited for then.
    fn opening(&self, stream: &Stream) -> io::Result<(Vec<u8>, Stage)> {
        match &self.token {
            None => Ok((wire::frame(&Opening::Open, &[])?, Stage::Greets(None))),
            Some(_) => {
                let bound = !self.behind_nat && matches!(stream, Stream::Tcp(_));
                let (question, opening) = Question::new(bound)?;
                Ok((opening, Stage::Asked(question)))
            }
        }
    }

    /// Starts a session in a thread of its own, or says why not.
    fn begin(&self, mut half: HalfOpen, hello: ToEnd) -> io::Result<()> {
        half.stream.settle()?;
        let seals = half.seals();
        let says = seals.as_ref().map(|seals| seals.says.clone());
        let lease = Arc::new(Lease::new(Duration::from_secs(10)));
        let place = match self.place(half.source, &half.stream, &lease)? {
            Ok(place) => place,
            Err(why) => {
                let reason = Unavailable::new(why.clone(), "later again");
                wire::write(&mut Sealing::new(&mut half.stream, says), &FromEnd::Busy { reason }, &[])?;
                return Err(io::Error::other(format!("turned away: {why}")));
            }
        };
        // Where there is a token, a client without it does not come here.
        let peer = Peer { proven: self.token.is_some(), ..half.stream.peer()? };
        // A second descriptor only until the thread runs: it answers where there is none.
        let spare = half.stream.as_fd().try_clone_to_owned().map(File::from)?;
        let (lines, terms) = (self.lines.clone(), self.terms.clone());
        let HalfOpen { mut stream, from, .. } = half;
        let started = std::thread::Builder::new().name("session".into()).spawn(move || {
            let _ = lines.send(format!("{from}: begins"));
            let mut write = match stream.as_fd().try_clone_to_owned() {
                Ok(fd) => File::from(fd),
                Err(error) => return drop(lines.send(format!("{from}: ended: {error}"))),
            };
            let ended = session(&mut stream, &mut write, Begun { first: Some(hello), seals }, peer, &terms, &lease);
            // Before anybody gets its place.
            give_back();
            drop(place);
            let _ = lines.send(match ended {
                Ok(()) => format!("{from}: ends"),
                Err(error) => format!("{from}: ended: {error}"),
            });
        });
        if let Err(error) = started {
            let reason = no_thread(&error);
            wire::write(&mut Sealing::new(spare, says), &FromEnd::Busy { reason: reason.clone() }, &[])?;
            return Err(io::Error::other(format!("turned away: {}", reason.why)));
        }
        Ok(())
    }
}

/// Why there is no place: so many sessions in all, or so many of one address.
fn busy(all: usize, of_one: Option<(IpAddr, usize)>) -> String {
    let sessions = |count: usize| if count == 1 { "1 session".into() } else { format!("{count} sessions") };
    match of_one {
        Some((address, own)) => {
            format!("the far end is busy: {} of {address} open, and no address gets more", sessions(own))
        }
        None => format!("the far end is busy: {} {} open", sessions(all), if all == 1 { "is" } else { "are" }),
    }
}

/// Everybody who knocks: listeners and half-open connections, in one epoll set.
struct Door {
    set: ReadySet,
    listeners: Vec<Listener>,
    /// The oldest first.
    half_open: VecDeque<HalfOpen>,
    next: u64,
    sessions: Sessions,
}

impl Door {
    fn new(listeners: Vec<Listener>, sessions: Sessions) -> io::Result<Self> {
        let set = ReadySet::new()?;
        for (token, listener) in listeners.iter().enumerate() {
            msgpath_sys::set_nonblocking(listener.as_fd(), true)?;
            set.watch(listener.as_fd(), Direction::Input, token as u64)?;
        }
        let next = listeners.len() as u64;
        Ok(Self { set, listeners, half_open: VecDeque::new(), next, sessions })
    }

    /// Waits for whatever happens, at most a fifth of a second, and does it.
    fn turn(&mut self, events: &mut Events, log: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        self.set.wait(events, 200)?;
        for event in events.iter() {
            match usize::try_from(event.token).ok().filter(|token| *token < self.listeners.len()) {
                Some(listener) => self.accept(listener, log),
                None => self.listen_to(event.token, log),
            }
        }
        while self.half_open.front().is_some_and(|oldest| oldest.since.elapsed() > HELLO) {
            if let Some(silent) = self.half_open.pop_front() {
                log(Event::Course(&format!("{}: ended: no greeting within {} s", silent.from, HELLO.as_secs())));
            }
        }
        Ok(())
    }

    /// Takes whoever has connected.
    fn accept(&mut self, listener: usize, log: &mut dyn FnMut(Event<'_>)) {
        for _ in 0..AT_ONCE {
            let accepted = match &self.listeners[listener] {
                Listener::Tcp(listener) => listener
                    .accept()
                    .map(|(stream, from)| (Stream::Tcp(stream), from.to_string(), Some(from.ip().to_canonical()))),
                Listener::Unix(listener, _) => {
                    listener.accept().map(|(stream, _)| (Stream::Unix(stream), "this machine".to_owned(), None))
                }
            };
            match accepted {
                Ok((stream, from, source)) => self.admit(stream, from, source, log),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                // No descriptor or no memory is left. Whoever has waited longest makes room; where nobody waits, the
                // sessions have them all, and there is nothing to do but to wait.
                Err(error) => match self.half_open.pop_front() {
                    Some(oldest) => log(Event::Course(&format!("{}: ended: {error}", oldest.from))),
                    None => return std::thread::sleep(Duration::from_millis(50)),
                },
            }
        }
    }

    fn admit(&mut self, mut stream: Stream, from: String, source: Option<IpAddr>, log: &mut dyn FnMut(Event<'_>)) {
        let waiting = self.half_open.iter().map(|half| &half.source);
        let oldest = first_to_go(waiting, &source, HALF_OPEN, HALF_OPEN_OF_ONE);
        if let Some(evicted) = oldest.and_then(|at| self.half_open.remove(at)) {
            log(Event::Course(&format!("{}: ended: others came before it greeted", evicted.from)));
        }
        let token = self.next;
        self.next += 1;
        // A new connection has room for the greeting: where it has none, it is none of msgpath's.
        let watched = msgpath_sys::set_nonblocking(stream.as_fd(), true)
            .and_then(|()| self.sessions.opening(&stream))
            .and_then(|(opening, stage)| {
                stream.write_all(&[&GREETING[..], &opening].concat())?;
                self.set.watch(stream.as_fd(), Direction::Input, token)?;
                Ok(stage)
            });
        if let Ok(stage) = watched {
            let (since, incoming) = (Instant::now(), Incoming::hello());
            self.half_open.push_back(HalfOpen { token, stream, from, source, since, incoming, stage });
            self.listen_to(token, log); // what it says first is often there already
        }
    }

    /// Reads what a half-open connection says.
    fn listen_to(&mut self, token: u64, log: &mut dyn FnMut(Event<'_>)) {
        let Some(at) = self.half_open.iter().position(|half| half.token == token) else { return };
        let half = &mut self.half_open[at];
        let heard = loop {
            match half.incoming.fill(&mut half.stream) {
                Ok(0) if half.incoming.is_empty() => break Err(io::Error::other("it said nothing")),
                Ok(0) => break Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => break Err(error),
            }
            match half.hears(self.sessions.token.as_ref()) {
                Ok(Some(hello)) => break Ok(hello),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        };
        let Some(half) = self.half_open.remove(at) else { return };
        let from = half.from.clone();
        let _ = self.set.forget(half.stream.as_fd());
        if let Err(error) = heard.and_then(|hello| self.sessions.begin(half, hello)) {
            log(Event::Course(&format!("{from}: ended: {error}")));
        }
    }
}

/// Answers until `stop` is set. `log` gets one line for each event: strangers can make as many as they like, and how many
/// of them are written is its affair.
///
/// # Errors
/// E01 where it cannot listen.
pub fn serve(
    address: &ServeAddress,
    options: ServeOptions,
    log: &mut dyn FnMut(Event<'_>),
    stop: &AtomicBool,
) -> Result<(), Problem> {
    let listeners = listen(address, options.token.is_some() || options.insecure)?;
    let broken = |error: io::Error| cannot_listen("the address", &error);
    for (listener, place) in &listeners {
        log(Event::Course(&format!("serving at {place}   Ctrl-C stops")));
        if let (Listener::Tcp(listener), None) = (listener, &options.token)
            && listener.local_addr().is_ok_and(|local| !local.ip().to_canonical().is_loopback())
        {
            log(Event::Wrong(&format!(
                "warning: {place} is not loopback: whoever reaches it can make this machine send, receive and compute, \
                 and nobody is asked who they are"
            )));
        }
    }
    // Enough for everybody who may knock; what is allowed less is turned away a little earlier.
    let _ = allow_open_files((HALF_OPEN + options.sessions * FILES_OF_A_SESSION) as u64);
    if options.confined {
        let socket = match address {
            ServeAddress::Unix(path) => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
            _ => None,
        };
        let temporary = std::env::temp_dir();
        confine(&[Some(temporary.as_path()), socket].into_iter().flatten().collect::<Vec<_>>());
    }
    let (lines_in, lines) = channel::<String>();
    // Where nothing else is done in this process, all that it has counts.
    let budget = if options.confined { Budget::of_process } else { Budget::new };
    let terms = Terms {
        budget: Some(budget(options.memory)),
        round: Some(options.round),
        spinning: Spinning::default(),
        data_ports: options.data_ports,
    };
    let sessions = Sessions {
        open: Arc::default(),
        most: options.sessions,
        terms,
        token: options.token,
        behind_nat: options.behind_nat,
        next: AtomicU64::new(0),
        lines: lines_in,
    };
    let listeners = listeners.into_iter().map(|(listener, _)| listener).collect();
    let mut door = Door::new(listeners, sessions).map_err(broken)?;
    let mut events = Events::new(256);
    while !stop.load(Ordering::Relaxed) {
        door.turn(&mut events, log).map_err(broken)?;
        lines.try_iter().for_each(|line| log(Event::Course(&line)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;
    use crate::handshake::read_sealed_by;
    use crate::handshake::{Asked, Refusal};

    /// A `serve` on loopback in threads of this process.
    struct Serving {
        address: SocketAddr,
        stop: Arc<AtomicBool>,
        lines: Receiver<String>,
        thread: Option<std::thread::JoinHandle<()>>,
    }

    impl Serving {
        fn new(host: &str, options: ServeOptions) -> Self {
            let (text, lines) = channel();
            let stop = Arc::new(AtomicBool::new(false));
            let (address, stopped) = (ServeAddress::Tcp { host: Some(host.into()), port: 0 }, Arc::clone(&stop));
            let thread = std::thread::spawn(move || {
                let mut log = |event: Event<'_>| match event {
                    Event::Course(line) | Event::Wrong(line) => drop(text.send(line.to_owned())),
                };
                serve(&address, options, &mut log, &stopped).unwrap();
            });
            let first = lines.recv().unwrap();
            let address = first.split(' ').nth(2).unwrap().parse().unwrap();
            Self { address, stop, lines, thread: Some(thread) }
        }

        /// Whether a line with these words is said, sooner or later.
        fn says(&self, words: &str) -> bool {
            std::iter::from_fn(|| self.lines.recv_timeout(Duration::from_secs(20)).ok())
                .any(|line| line.contains(words))
        }
    }

    impl Drop for Serving {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            let _ = self.thread.take().map(std::thread::JoinHandle::join);
        }
    }

    /// So many places for sessions, without a token.
    fn sessions(most: usize, lines: Sender<String>) -> Sessions {
        let (open, terms, next) = (Arc::default(), Terms::default(), AtomicU64::new(0));
        Sessions { open, most, terms, token: None, behind_nat: false, next, lines }
    }

    /// Connects, and reads what is said first.
    fn meets(address: SocketAddr) -> (TcpStream, Asked) {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut greeting = [0; GREETING.len()];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, GREETING);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let asked = Asked::listen(&mut stream, soon()).unwrap();
        (stream, asked)
    }

    /// A limit that nothing reaches.
    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Greets, and reads the answer.
    fn greets(address: SocketAddr) -> (TcpStream, FromEnd) {
        let (mut stream, asked) = meets(address);
        assert_eq!(asked.opening, Opening::Open);
        wire::write(&mut stream, &ToEnd::Hello { version: String::new(), lease_ms: 10_000 }, &[]).unwrap();
        let answer = wire::read(&mut stream).unwrap().unwrap().0;
        (stream, answer)
    }

    fn half_a_greeting() -> Vec<u8> {
        let mut frame = Vec::new();
        wire::write(&mut frame, &ToEnd::Hello { version: String::new(), lease_ms: 3_600_000 }, &[]).unwrap();
        frame.truncate(frame.len() / 2);
        frame
    }

    #[test]
    fn a_near_end_is_served_while_hundreds_have_not_greeted() {
        let serving = Serving::new("127.0.0.1", ServeOptions::default());
        let half = half_a_greeting();
        let _strangers: Vec<TcpStream> = (0..300)
            .map(|at| {
                let mut stranger = TcpStream::connect(serving.address).unwrap();
                if at % 2 == 0 {
                    stranger.write_all(&half).unwrap();
                }
                stranger
            })
            .collect();
        for _ in 0..20 {
            assert!(matches!(greets(serving.address).1, FromEnd::Hello { .. }));
        }
        assert!(serving.says("no greeting within 2 s"));
    }

    #[test]
    fn who_does_not_greet_makes_room_for_others() {
        if allow_open_files(4096).unwrap() < 4096 {
            eprintln!("skipped: this process may open too few files");
            return;
        }
        let (lines, _) = channel();
        let sessions = sessions(1, lines);
        let mut door = Door::new(Vec::new(), sessions).unwrap();
        let mut admit = |from: String, source| {
            let (near, far) = UnixStream::pair().unwrap();
            door.admit(Stream::Unix(far), from, source, &mut |_| {});
            let oldest = door.half_open.front().map(|half| half.from.clone());
            (near, door.half_open.len(), oldest.unwrap_or_default())
        };
        let _one: Vec<_> = (0..HALF_OPEN_OF_ONE).map(|at| admit(at.to_string(), None)).collect();
        let other = admit("other".into(), Some(IpAddr::from([192, 0, 2, 1])));
        assert_eq!((other.1, other.2.as_str()), (HALF_OPEN_OF_ONE + 1, "0"), "another source has room of its own");
        let more = admit("more".into(), None);
        assert_eq!((more.1, more.2.as_str()), (HALF_OPEN_OF_ONE + 1, "1"), "the oldest of the same source is gone");
    }

    #[test]
    fn one_near_end_too_many_is_told_so() {
        let serving = Serving::new("127.0.0.1", ServeOptions { sessions: 1, ..ServeOptions::default() });
        let (first, answer) = greets(serving.address);
        assert!(matches!(answer, FromEnd::Hello { .. }));
        let FromEnd::Busy { reason } = greets(serving.address).1 else { panic!("it was served") };
        assert_eq!(reason.why, "the far end is busy: 1 session is open");
        drop(first);
        assert!(serving.says(": ends"));
        assert!(matches!(greets(serving.address).1, FromEnd::Hello { .. }), "its place is free again");
    }

    #[test]
    fn one_address_cannot_have_all_sessions() {
        let (lines, ended) = channel();
        let sessions = sessions(4, lines);
        let mut door = Door::new(Vec::new(), sessions).unwrap();
        let mut comes = |source: Option<IpAddr>| {
            let (mut near, far) = UnixStream::pair().unwrap();
            near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let hello = ToEnd::Hello { version: String::new(), lease_ms: 60_000 };
            wire::write(&mut near, &hello, &[]).unwrap();
            door.admit(Stream::Unix(far), "somebody".into(), source, &mut |_| {});
            near.read_exact(&mut [0; GREETING.len()]).unwrap();
            assert_eq!(wire::read::<Opening>(&mut near).unwrap().unwrap().0, Opening::Open);
            let busy = match wire::read(&mut near).unwrap().unwrap().0 {
                FromEnd::Busy { reason } => reason.why,
                _ => String::new(),
            };
            (near, busy)
        };
        let greedy = Some(IpAddr::from([192, 0, 2, 1]));
        let (first, second, third) = (comes(greedy), comes(greedy), comes(greedy));
        assert_eq!((first.1.as_str(), second.1.as_str()), ("", ""));
        assert_eq!(third.1, "the far end is busy: 2 sessions of 192.0.2.1 open, and no address gets more");
        // Others have the other half: this machine as much of it as there is.
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        let (other, own) = (comes(Some(IpAddr::from([192, 0, 2, 2]))), comes(loopback));
        assert_eq!((other.1.as_str(), own.1.as_str()), ("", ""));
        assert_eq!(comes(loopback).1, "the far end is busy: 4 sessions are open");
        drop((first, second, other));
        let heard = std::iter::from_fn(|| ended.recv_timeout(Duration::from_secs(60)).ok());
        assert_eq!(heard.filter(|line| line.contains("somebody: end")).take(3).count(), 3);
        let more: Vec<_> = (0..3).map(|_| comes(loopback)).collect();
        assert!(more.iter().all(|(_, busy)| busy.is_empty()), "loopback has what is free: {more:?}");
        let again = comes(greedy);
        assert_eq!(again.1, "the far end is busy: 4 sessions are open");
    }

    #[test]
    fn an_address_beyond_loopback_is_warned_of() {
        let serving = Serving::new("0.0.0.0", ServeOptions { insecure: true, ..ServeOptions::default() });
        assert!(serving.says("nobody is asked who they are"));
    }

    #[test]
    fn beyond_loopback_somebody_is_asked() {
        for host in ["0.0.0.0", "::"] {
            let address = ServeAddress::Tcp { host: Some(host.into()), port: 0 };
            let stop = AtomicBool::new(true);
            let problem = serve(&address, ServeOptions::default(), &mut |_| {}, &stop).unwrap_err();
            assert!(problem.code == "E74" && problem.hint.contains("--token-file FILE, or --insecure"), "{problem:?}");
        }
    }

    /// A token, and a `serve` that asks for it.
    fn guarded() -> (Token, Serving) {
        let file = std::env::temp_dir().join(format!("msgpath-guarded-{:?}", std::thread::current().id()));
        let _ = std::fs::remove_file(&file);
        assert!(Token::make(&file).unwrap());
        let token = Token::read(&file).unwrap().0;
        std::fs::remove_file(&file).unwrap();
        let serving = Serving::new("127.0.0.1", ServeOptions { token: Some(token.clone()), ..ServeOptions::default() });
        (token, serving)
    }

    /// A near end that has proven to have the token, and may say what it likes.
    fn admitted(token: &Token, address: SocketAddr) -> (TcpStream, Seals) {
        let (mut stream, asked) = meets(address);
        let own = Addresses::of(&stream, true).unwrap();
        let seals = asked.prove(&mut stream, token, SERVE, Some(own), soon()).unwrap();
        (stream, seals)
    }

    /// Frames of a near end by hand.
    struct Says<'a>(&'a mut TcpStream, Seals);

    impl Says<'_> {
        fn say(&mut self, order: &ToEnd) {
            let mut to = Sealing::new(&mut *self.0, Some(self.1.says.clone()));
            wire::write(&mut to, order, &[]).unwrap();
            self.1.says = to.into_parts().1.unwrap();
        }

        fn hear(&mut self) -> io::Result<FromEnd> {
            let mut hears = Some(self.1.hears.clone());
            let (frame, _) = read_sealed_by(&mut *self.0, &mut hears, soon())?;
            self.1.hears = hears.unwrap();
            Ok(frame)
        }
    }

    fn hello() -> ToEnd {
        ToEnd::Hello { version: String::new(), lease_ms: 60_000 }
    }

    #[test]
    fn who_has_the_token_is_served_and_what_follows_is_sealed() {
        let (token, serving) = guarded();
        let (mut stream, seals) = admitted(&token, serving.address);
        let mut near = Says(&mut stream, seals);
        near.say(&hello());
        assert!(matches!(near.hear().unwrap(), FromEnd::Hello { .. }));
        // The keys of data connections are not to be read on the way.
        near.say(&ToEnd::Round(Box::new(crate::memory::tests::order("tcp:send"))));
        let FromEnd::Offered { addresses, .. } = near.hear().unwrap() else { panic!("no offer") };
        assert!(!addresses[0].contains("127.0.0.1"), "{addresses:?}");
        assert!(near.1.veil.show(&addresses).unwrap()[0].starts_with("127.0.0.1:"));
        near.say(&ToEnd::Bye);
        assert!(near.hear().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof));
        // A frame without a seal is nobody's.
        let (mut stream, seals) = admitted(&token, serving.address);
        let mut near = Says(&mut stream, seals);
        near.say(&hello());
        assert!(matches!(near.hear().unwrap(), FromEnd::Hello { .. }));
        wire::write(&mut *near.0, &ToEnd::Bye, &[]).unwrap();
        assert!(near.hear().is_err());
        assert!(serving.says("something between the two changes the control channel"));
    }

    #[test]
    fn proofs_of_another_channel_or_token_are_refused() {
        let (token, serving) = guarded();
        let proves = |token: &Token| {
            let (mut stream, asked) = meets(serving.address);
            let own = Addresses::of(&stream, true).unwrap();
            asked.prove(&mut stream, token, SERVE, Some(own), soon())
        };
        assert!(matches!(proves(&crate::token::tests::token("other")), Err(Refusal::OtherToken)));
        assert!(serving.says("it has not the token"));
        assert!(proves(&token).is_ok());
        // What was heard serves nobody: another connection is asked with another number.
        let (mut heard, mut replay) = (Vec::new(), meets(serving.address).0);
        let (mut pair, mut other) = UnixStream::pair().unwrap();
        let (question, opening) = Question::new(true).unwrap();
        other.write_all(&opening).unwrap();
        let asked = Asked::listen(&mut pair, soon()).unwrap();
        let own = Addresses::of(&replay, true).unwrap();
        std::thread::scope(|scope| {
            let token = &token;
            scope.spawn(move || asked.prove(&mut pair, token, SERVE, Some(own), soon()));
            let (said, frame) = crate::handshake::read_by::<Proves>(&mut other, soon()).unwrap();
            heard.extend(frame);
            assert!(question.judge(token, SERVE, &said, said.addresses.as_ref()).1.is_some(), "it holds there");
            wire::write(&mut other, &Admits::Refused, &[]).unwrap();
        });
        replay.write_all(&heard).unwrap();
        assert_eq!(wire::read::<Admits>(&mut replay).unwrap().unwrap().0, Admits::Refused);
        assert!(wire::read::<Admits>(&mut replay).is_ok_and(|frame| frame.is_none()), "it is closed");
    }

    #[test]
    fn nobody_gets_past_the_question() {
        let (_, serving) = guarded();
        let orders = [
            hello(),
            ToEnd::Bye,
            ToEnd::Examine(msgpath_core::doctor::Examine::default()),
            ToEnd::Connect { locals: Vec::new() },
        ];
        for order in orders {
            let (mut stream, asked) = meets(serving.address);
            assert!(matches!(asked.opening, Opening::Challenge { addresses: true, .. }));
            wire::write(&mut stream, &order, &[]).unwrap();
            assert!(wire::read::<FromEnd>(&mut stream).is_ok_and(|frame| frame.is_none()), "{order:?}");
        }
    }

    #[test]
    fn who_does_not_answer_the_question_makes_room() {
        let (token, serving) = guarded();
        let silent: Vec<_> = (0..300).map(|_| meets(serving.address)).collect();
        admitted(&token, serving.address);
        assert!(serving.says("no greeting within 2 s"), "{} are ended", silent.len());
    }

    /// Passes bytes on between a near end and a `serve`, and changes what the near end says from its second frame on.
    fn relay(serve: SocketAddr, change: fn(&mut Vec<u8>)) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut near, _) = listener.accept().unwrap();
            let mut far = TcpStream::connect(serve).unwrap();
            let (mut answers, mut back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            let home = std::thread::spawn(move || {
                let _ = io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            // The proof and the greeting go through as they are.
            let mut passed = 0;
            let mut bytes = [0; 4096];
            while let Ok(got @ 1..) = near.read(&mut bytes) {
                let mut said = bytes[..got].to_vec();
                if passed >= 2 {
                    change(&mut said);
                }
                passed += said.windows(2).filter(|at| at == b"mp").count();
                if far.write_all(&said).is_err() {
                    break;
                }
            }
            let _ = far.shutdown(Shutdown::Both);
            home.join().unwrap();
        });
        (address, thread)
    }

    #[test]
    fn relay_is_refused_where_addresses_count_and_changes_nothing_where_they_do_not() {
        let (token, serving) = guarded();
        let (address, passing) = relay(serving.address, |_| {});
        let (mut stream, asked) = meets(address);
        let own = Addresses::of(&stream, true).unwrap();
        let refused = asked.prove(&mut stream, &token, SERVE, Some(own.clone()), soon()).unwrap_err();
        let Refusal::Elsewhere { here: Some(here), there } = &refused else { panic!("{refused:?}") };
        assert!(**here == own && there.far == serving.address, "{refused:?}");
        let problem = refused.problem("far end", "msgpath serve");
        assert!(problem.code == "E75" && problem.hint.contains("--behind-nat"), "{problem:?}");
        assert!(serving.says("--behind-nat"), "the server says it, too");
        passing.join().unwrap();

        let options = ServeOptions { token: Some(token.clone()), behind_nat: true, ..ServeOptions::default() };
        let translated = Serving::new("127.0.0.1", options);
        let other_order: fn(&mut Vec<u8>) = |said| {
            if let Some(last) = said.len().checked_sub(1) {
                said[last] ^= 1;
            }
        };
        let twice: fn(&mut Vec<u8>) = |said| *said = said.repeat(2);
        for (change, goes_on) in [((|_| {}) as fn(&mut Vec<u8>), true), (other_order, false), (twice, false)] {
            let (address, passing) = relay(translated.address, change);
            let (mut stream, seals) = admitted(&token, address);
            let mut near = Says(&mut stream, seals);
            near.say(&hello());
            assert!(matches!(near.hear().unwrap(), FromEnd::Hello { .. }));
            near.say(&ToEnd::Round(Box::new(crate::memory::tests::order("tcp:send"))));
            if goes_on {
                assert!(matches!(near.hear().unwrap(), FromEnd::Offered { .. }));
            } else {
                assert!(translated.says("something between the two changes the control channel"));
            }
            drop(stream);
            passing.join().unwrap();
        }
    }

    #[test]
    fn near_ends_that_come_and_go_keep_nobody_out() {
        // Fewer places than those that come in all, and more that may be ending.
        let serving = Serving::new("127.0.0.1", ServeOptions { sessions: 16, ..ServeOptions::default() });
        // The far end waits for connections that do not come: for 8 s, where nothing ends that.
        let begins = || {
            let (mut stranger, answer) = greets(serving.address);
            assert!(matches!(answer, FromEnd::Hello { .. }), "{answer:?}");
            wire::write(&mut stranger, &ToEnd::Round(Box::new(crate::memory::tests::order("tcp:send"))), &[]).unwrap();
            assert!(matches!(wire::read(&mut stranger).unwrap().unwrap().0, FromEnd::Offered { .. }));
            wire::write(&mut stranger, &ToEnd::Connect { locals: vec![String::new()] }, &[]).unwrap();
        };
        for at in 0..20 {
            // Each closes as soon as its session waits; nothing says when the server has seen that.
            (0..3).for_each(|_| begins());
            let (good, answer) = greets(serving.address);
            assert!(matches!(answer, FromEnd::Hello { .. }), "the near end {at}: {answer:?}");
            drop(good);
        }
    }

    #[test]
    fn session_that_orders_nothing_makes_room_for_another() {
        let (lines, _ended) = channel();
        let sessions = sessions(2, lines);
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let streams: Vec<Stream> = pairs.iter().map(|(_, far)| Stream::Unix(far.try_clone().unwrap())).collect();
        let leases: Vec<_> = (0..3).map(|_| Arc::new(Lease::new(Duration::from_secs(60)))).collect();
        let comes = |at: usize| sessions.place(None, &streams[at], &leases[at]).unwrap();
        let (_first, _second) = (comes(0).unwrap(), comes(1).unwrap());
        assert_eq!(comes(2).err().unwrap(), "the far end is busy: 2 sessions are open", "they may be about to order");
        let later = |at: usize| sessions.open.lock().unwrap()[at].since -= 2 * IDLE;
        (0..2).for_each(later);
        leases[0].begins_to_work();
        assert!(comes(2).is_ok());
        assert!(has_closed(&pairs[1].0) && !has_closed(&pairs[0].0), "the one that has ordered something stays");
    }
}
