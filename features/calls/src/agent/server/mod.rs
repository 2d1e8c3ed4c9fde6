//! `msgpath serve --rpc`: a key-value server for the lab's messages.
//!
//! One thread accepts and prints; a fixed number of others have the connections, each with an epoll set of its own. What
//! a client sends can cost that client its connection, never another one its own. Memory is bounded by the limit for
//! keys, values and long messages, and at most 48 KiB for each connection: a short message in progress, what was received
//! behind a reply that waits, and that reply.
//!
//! | module | what |
//! |---|---|
//! | `parser` | bytes become requests: a state machine without I/O |
//! | `service`, `store` | what each method does, over one map under one lock |
//! | `memory` | the budget, and buffers that are used again |
//! | `connection` | one connection: received, answered, sent |
//! | `worker` | one thread and its connections |
//! | `seat` | which connection is given up where another one comes |
//! | `hog` | threads that take its lock or CPUs away, where that is asked for |
//! | `log` | the lab's log of calls |
//! | `fault` | what goes wrong: counted, and said a few times a second |

mod connection;
mod fault;
pub mod hog;
mod log;
pub mod memory;
mod options;
pub mod parser;
mod seat;
mod service;
mod store;
mod worker;

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::Duration;

use msgpath_core::{Exit, Problem, units};
use msgpath_sys::clock;
use msgpath_sys::limits::allow_open_files;
use msgpath_sys::poll::any_readable;

use connection::Patience;
use log::LogFile;
use memory::Memory;
use msgpath_agent::serve::{Event, cannot_listen};
use msgpath_agent::team::thread_problem;
use seat::{Room, Seat, Seats};
use service::Service;
use worker::{Accepted, Post, Shared, work};

pub use fault::Fault;
use fault::Journal;
pub use options::{LAB_PORT, ServerOptions};

/// Connections beyond the limit that are told TooBusy; more than that are closed at once.
const TURNED_AWAY: usize = 64;
/// Descriptors that are not connections: listener, epoll sets, log, standard streams.
const OTHER_FILES: usize = 64;

/// What a server has done when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections that were accepted, those that were turned away included.
    pub connections: u64,
    /// Calls that were answered.
    pub calls: u64,
    /// What went wrong how often; what never did is left out.
    pub faults: Vec<(Fault, u64)>,
    /// Keys that were there at the end.
    pub keys: u64,
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = |count: u64, thing: &str| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
        let (calls, connections) = (counted(self.calls, "call"), counted(self.connections, "connection"));
        write!(f, "answered {calls} on {connections}, {} at the end", counted(self.keys, "key"))?;
        // On one line: it is printed with what would command a terminal escaped.
        for (fault, count) in &self.faults {
            write!(f, "; {count} × {}", fault.name())?;
        }
        Ok(())
    }
}

/// A server that listens and does not answer yet.
pub struct Server {
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    posts: Vec<Post>,
    shared: Shared,
    connections: usize,
    sure: Duration,
    /// What the user should know before the first connection.
    remarks: Vec<String>,
    /// Troubles that are wanted.
    hogs: (Option<hog::LockHog>, u32),
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// E01 where it cannot; E12 where the log cannot be written.
    pub fn bind(options: ServerOptions) -> Result<Self, Problem> {
        let host = options.host.as_deref().unwrap_or("127.0.0.1");
        let broken = |error: io::Error| cannot_listen(&format!("{host}, port {}", options.port), &error);
        let mut listeners = vec![listen(host, options.port)?];
        let address = listeners[0].local_addr().map_err(broken)?;
        for at in 1..options.ports {
            let beyond = || broken(io::ErrorKind::AddrNotAvailable.into());
            listeners.push(listen(host, address.port().checked_add(at).ok_or_else(beyond)?)?);
        }
        listeners.iter().try_for_each(|listener| listener.set_nonblocking(true)).map_err(broken)?;
        let mut remarks = Vec::new();
        let wanted = options.connections.max(1);
        let files = wanted + TURNED_AWAY + OTHER_FILES;
        let allowed = allow_open_files(files as u64).map_err(broken)?;
        let connections = match usize::try_from(allowed) {
            Ok(allowed) if allowed < files => {
                let fewer = allowed.saturating_sub(TURNED_AWAY + OTHER_FILES).max(1);
                remarks.push(format!("{fewer} connections instead of {wanted}: this process may open {allowed} files"));
                fewer
            }
            _ => wanted,
        };
        if !address.ip().to_canonical().is_loopback() {
            remarks.push(format!(
                "warning: {address} is not loopback: whoever reaches it can read, change and delete every key, and \
                 nobody is asked who they are"
            ));
        }
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        };
        let posts = (0..threads).map(|_| Post::new()).collect::<io::Result<_>>().map_err(broken)?;
        let log = options.log.as_deref().map(|path| {
            LogFile::create(path).map_err(|error| {
                Problem::new("E12", Exit::CannotStart, format!("cannot write {}: {error}", path.display()))
            })
        });
        let memory = Memory::new(usize::try_from(options.memory).unwrap_or(usize::MAX));
        let shared = Shared {
            service: Service::new(memory, options.may_quit),
            journal: Journal::new(options.verbose),
            log: log.transpose()?,
            patience: Patience { idle: options.idle, message: options.message },
            stamped: options.kernel_stamps,
            calls: AtomicU64::new(0),
            over: AtomicBool::new(false),
            quit: AtomicBool::new(false),
        };
        let hogs = (options.lock_hog, options.cpu_hogs.min(hog::MOST_CPU_HOGS));
        Ok(Self { listeners, address, posts, shared, connections, sure: options.sure, remarks, hogs })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is set, or a client that may asks it to quit. Says nothing.
    ///
    /// # Errors
    /// E00: a thread could not be started. E12: the log is not whole.
    pub fn run(self, stop: &AtomicBool) -> Result<Totals, Problem> {
        self.run_saying(stop, &mut |_| {})
    }

    /// The same; `say` gets one line for each event, in the thread of the caller.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub fn run_saying(self, stop: &AtomicBool, say: &mut dyn FnMut(Event<'_>)) -> Result<Totals, Problem> {
        let Self { listeners, address, posts, shared, connections, sure, remarks, hogs } = self;
        remarks.iter().for_each(|remark| say(Event::Wrong(remark)));
        say(Event::Course(&format!(
            "serving the RPC lab's keys and values at {address}{}   {}, {}   Ctrl-C stops",
            listeners.last().filter(|_| listeners.len() > 1).map_or_else(String::new, up_to),
            plural(posts.len(), "thread"),
            units::size(shared.service.memory().limit() as u64)
        )));
        let (seats, turned) = (Seats::new(connections, sure), Seats::new(TURNED_AWAY, Duration::ZERO));
        let mut door =
            Door { listeners, shared: &shared, posts: &posts, connections, seats, turned, accepted: 0, spare: spare() };
        let started = std::thread::scope(|scope| {
            let mut started = Ok(());
            for (at, post) in posts.iter().enumerate() {
                let shared = &shared;
                let thread = Builder::new().name(format!("rpc-{at}"));
                if let Err(error) = thread.spawn_scoped(scope, move || work(shared, post)) {
                    started = Err(thread_problem(&error));
                    break;
                }
            }
            if let (Ok(()), Some(lock)) = (&started, hogs.0) {
                let shared = &shared;
                let hog = move || hog::lock(lock, shared.service.store(), &shared.over);
                started = Builder::new().spawn_scoped(scope, hog).map(drop).map_err(|error| thread_problem(&error));
            }
            for _ in 0..if started.is_ok() { hogs.1 } else { 0 } {
                if let Err(error) = Builder::new().spawn_scoped(scope, || hog::cpu(&shared.over)) {
                    started = Err(thread_problem(&error));
                    break;
                }
            }
            while started.is_ok() && !stop.load(Ordering::Relaxed) && !shared.quit.load(Ordering::Relaxed) {
                door.open_for(100);
                shared.journal.take(false, say);
            }
            shared.over.store(true, Ordering::Relaxed);
            posts.iter().for_each(Post::ring);
            started
        });
        shared.journal.take(true, say);
        let totals = Totals {
            connections: door.accepted,
            calls: shared.calls.load(Ordering::Relaxed),
            faults: Fault::ALL
                .into_iter()
                .map(|fault| (fault, shared.journal.count(fault)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            keys: shared.service.store().keys() as u64,
        };
        say(Event::Course(&totals.to_string()));
        started?;
        match shared.log.as_ref().and_then(LogFile::failure) {
            Some(error) => Err(Problem::new("E12", Exit::Unfinished, format!("the log is not whole: {error}"))),
            None => Ok(totals),
        }
    }
}

/// ` to 12348`.
fn up_to(last: &TcpListener) -> String {
    last.local_addr().map_or_else(|_| String::new(), |address| format!(" to {}", address.port()))
}

/// "1 thread", "2 threads".
fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Listens at the first address of `host` that works, IPv4 first: the lab knows nothing else. The address may be one
/// that was in use a moment ago (SO_REUSEADDR, which the standard library sets).
fn listen(host: &str, port: u16) -> Result<TcpListener, Problem> {
    let place = format!("{host}, port {port}");
    let mut addresses: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| cannot_listen(&place, &error))?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut failed = Problem::new("E01", Exit::CannotStart, format!("{place} is not an address to listen at"));
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = cannot_listen(&address.to_string(), &error),
        }
    }
    Err(failed)
}

/// A descriptor to give up when there is no other.
fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Where connections come in.
struct Door<'a> {
    listeners: Vec<TcpListener>,
    shared: &'a Shared,
    posts: &'a [Post],
    connections: usize,
    seats: Seats,
    /// Those of connections that are turned away.
    turned: Seats,
    accepted: u64,
    spare: Option<File>,
}

impl Door<'_> {
    /// Lets in who comes within `wait_ms`, a limited number at once.
    fn open_for(&mut self, wait_ms: i32) {
        let fds: Vec<BorrowedFd<'_>> = self.listeners.iter().map(AsFd::as_fd).collect();
        if any_readable(&fds, wait_ms).unwrap_or(false) {
            (0..self.listeners.len()).for_each(|at| self.let_in(at));
        }
    }

    /// Who waits at a port.
    fn let_in(&mut self, at: usize) {
        for _ in 0..256 {
            match self.listeners[at].accept() {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.refuse(at, &error),
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.accepted += 1;
        let (source, now) = (peer.ip().to_canonical(), clock::now());
        let mut room = self.seats.room(source, now);
        let turned_away = matches!(room, Room::None);
        if turned_away {
            let what = format!("turned away: {} connections are open", self.connections);
            self.shared.journal.fault(Fault::TurnedAway, peer, &what);
            room = self.turned.room(source, now);
        }
        match room {
            Room::Free => {}
            Room::After(seat) => {
                let post = seat.post;
                self.posts[post].end(seat);
            }
            Room::None => return, // closed by being dropped
        }
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let fewest = self.posts.iter().enumerate().min_by_key(|(_, post)| post.held.load(Ordering::Relaxed));
        if let Some((at, post)) = fewest {
            let seat = Seat::new(source, at, now);
            if turned_away { &mut self.turned } else { &mut self.seats }.take(&seat);
            post.hand(Accepted { stream, peer, turned_away, seat });
        }
    }

    /// Accepting failed. Where no descriptor is left, the spare one is given up for a moment, so that whoever waits is
    /// closed instead of waiting for ever.
    fn refuse(&mut self, at: usize, error: &io::Error) {
        self.spare = None;
        let peer = self.listeners[at].accept().map(|(_, peer)| peer);
        self.spare = spare();
        let nobody = || self.listeners[at].local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let from = peer.unwrap_or_else(|_| nobody());
        self.shared.journal.fault(Fault::NoDescriptor, from, &format_args!("not accepted: {error}"));
        std::thread::sleep(Duration::from_millis(20)); // it may last; it must not take a whole CPU
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;

    use msgpath_rpc::{Header, MARKER_BYTES, Marker, Method, RPC_HEADER_BYTES};

    use super::*;

    #[test]
    fn what_a_server_has_done_is_one_line() {
        let faults = vec![(Fault::ALL[0], 2), (Fault::ALL[1], 1)];
        let totals = Totals { connections: 1, calls: 3, faults, keys: 0 };
        let text = totals.to_string();
        assert!(text.starts_with("answered 3 calls on 1 connection, 0 keys at the end; 2 × "), "{text}");
        assert_eq!(msgpath_core::foreign::shown(&text), text);
    }

    /// A ping as the lab's client sends it.
    fn ping() -> Vec<u8> {
        let header = Header { method: Method::new("ping"), ..Header::default() };
        let mut bytes = Marker { header: RPC_HEADER_BYTES as u32, body: 0 }.to_bytes().to_vec();
        bytes.extend(header.to_bytes());
        bytes
    }

    #[test]
    fn idle_connections_keep_nobody_out() {
        let options =
            ServerOptions { port: 0, threads: 2, connections: 8, sure: Duration::ZERO, ..ServerOptions::default() };
        let server = Server::bind(options).unwrap();
        let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let serving = std::thread::spawn(move || server.run(&stopped));
        let silent: Vec<_> = (0..200)
            .map(|at| {
                let mut stream = TcpStream::connect(address).unwrap();
                // Every other one says half a request.
                stream.write_all(&ping()[..if at % 2 == 0 { 0 } else { MARKER_BYTES + 3 }]).unwrap();
                stream
            })
            .collect();
        for _ in 0..5 {
            let mut good = TcpStream::connect(address).unwrap();
            good.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            good.write_all(&ping()).unwrap();
            let mut reply = [0; MARKER_BYTES + RPC_HEADER_BYTES];
            good.read_exact(&mut reply).unwrap();
            let header = Header::parse(&reply[MARKER_BYTES..]).unwrap();
            assert_eq!(header.status, 0, "it is served");
        }
        drop(silent);
        stop.store(true, Ordering::Relaxed);
        assert!(serving.join().unwrap().unwrap().calls >= 5);
    }
}
