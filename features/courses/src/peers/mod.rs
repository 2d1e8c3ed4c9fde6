//! Peers that speak what the programs of courses speak, both sides of each: so that somebody's client or server can be
//! measured against one that is known.
//!
//! The formats are `crate::classic`, without I/O. A server has a thread for each connection, as the programs of
//! courses have, and a limit for connections. No receive has a time limit, because arming a timer would be part of what
//! is measured: a connection tells a `Watch` how long it may take for its next step, and whoever accepts ends the
//! connections that take longer.
//!
//! | module | peer |
//! |---|---|
//! | `css432` | write shapes |
//! | `echo` | lines that come back |
//! | `discard` | bytes that are read and counted |
//! | `primitives` | A1, A2, A3 |
//! | `frames` | raw Ethernet frames, received only |
//! | `server` | connections: accepted, watched, ended |

pub mod css432;
pub mod discard;
pub mod echo;
pub mod frames;
pub mod primitives;
mod server;

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::classic::{RECEIPT_BYTES, Receipt};
use msgpath_agent::names;
use msgpath_core::plan::Family;
use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::{clock, msg, socket};

pub use server::{Event, Options as ServerOptions, Protocol, Server};

/// Bytes of the buffer that streams are read into.
const BLOCK: usize = 256 << 10;
/// How long the other end may take to close, or to tell its figures, after all is said.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long what is in progress may take to its end when somebody interrupts.
const GRACE: Duration = Duration::from_millis(100);

/// Where a client connects, and how patient it is.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address or name.
    pub host: String,
    pub port: u16,
    /// How long connecting, or any one step of a conversation, may take.
    pub timeout: Duration,
}

impl Target {
    /// Connects to the first address that answers. Returns how long the call that succeeded took, ns.
    ///
    /// # Errors
    /// E49: nobody answers there. E50: interrupted meanwhile.
    fn connect(&self, stop: &AtomicBool) -> Result<(TcpStream, u64), Problem> {
        let place = format!("{}, port {}", self.host, self.port);
        let cannot =
            |error: &io::Error| Problem::new("E49", Exit::CannotStart, format!("cannot connect to {place}: {error}"));
        let addresses = names::addresses(&self.host, self.port, Family::Any)
            .map_err(|problem| Problem { code: "E49".into(), ..problem })?;
        let answers = names::answering(&addresses, self.timeout, stop);
        let since = clock::now();
        let failed = match answers.and_then(|address| socket::connect(address, self.timeout, stop)) {
            Ok(stream) => return Ok((stream.into(), clock::now() - since)),
            Err(_) if stop.load(Ordering::Relaxed) => {
                return Err(Problem::new("E50", Exit::Interrupted, format!("interrupted: connecting to {place}")));
            }
            Err(error) => error,
        };
        let problem = cannot(&failed);
        Err(match failed.kind() {
            io::ErrorKind::ConnectionRefused => {
                problem.why("nothing listens there").hint("start the server first: msgpath serve --compat NAME -p PORT")
            }
            _ => problem,
        })
    }

    /// E50, in words that fit what happened.
    fn broken(&self, what: &str, error: &io::Error, watch: &Watch, stop: &AtomicBool) -> Problem {
        if stop.load(Ordering::Relaxed) {
            return Problem::new("E50", Exit::Interrupted, format!("interrupted: {what}"));
        }
        if watch.late.load(Ordering::Relaxed) {
            let seconds = self.timeout.as_secs_f64();
            return Problem::new("E50", Exit::Unfinished, format!("{what}: the peer took longer than {seconds} s"))
                .hint("--timeout TIME, if the peer needs so long");
        }
        Problem::new("E50", Exit::Unfinished, format!("{what}: {error}"))
    }
}

/// What a peer said that does not belong to its protocol. E50.
fn unclear(what: String) -> Problem {
    Problem::new("E50", Exit::Unfinished, what)
}

/// The steps of one conversation, and how long the next may take. Written by the thread that talks, read by the one that
/// watches.
#[derive(Debug, Default)]
struct Watch {
    step: AtomicU64,
    allowed_ns: AtomicU64,
    /// The watching thread has ended it.
    late: AtomicBool,
}

impl Watch {
    /// The next step begins; it may take `allowed`. Two stores, no clock.
    #[inline]
    fn expect(&self, allowed: Duration) {
        self.allowed_ns.store(allowed.as_nanos() as u64, Ordering::Relaxed);
        self.step.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the watching thread remembers of a [`Watch`].
struct Seen {
    step: u64,
    since: Instant,
}

impl Seen {
    fn new() -> Self {
        Self { step: 0, since: Instant::now() }
    }

    /// Whether the step in progress takes too long.
    fn is_late(&mut self, watch: &Watch) -> bool {
        let step = watch.step.load(Ordering::Relaxed);
        if step != self.step {
            (self.step, self.since) = (step, Instant::now());
        }
        self.since.elapsed() > Duration::from_nanos(watch.allowed_ns.load(Ordering::Relaxed))
    }
}

/// Does `work` while another thread watches its steps: those connections end when a step takes too long, or `stop` has been
/// set for as long as `grace`.
///
/// # Errors
/// What `work` says; E50 where the connections cannot be watched.
fn watched<T>(
    streams: &[&TcpStream],
    watches: &[&Watch],
    stop: &AtomicBool,
    grace: Duration,
    work: impl FnOnce() -> Result<T, Problem>,
) -> Result<T, Problem> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().name("watch".into()).spawn_scoped(scope, || {
            let mut seen: Vec<Seen> = watches.iter().map(|_| Seen::new()).collect();
            let mut asked = None;
            while !over.load(Ordering::Relaxed) {
                let stopped = stop.load(Ordering::Relaxed);
                let mut end = stopped && asked.get_or_insert_with(Instant::now).elapsed() >= grace;
                for (seen, watch) in seen.iter_mut().zip(watches) {
                    if seen.is_late(watch) {
                        watch.late.store(true, Ordering::Relaxed);
                        end = true;
                    }
                }
                if end {
                    streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
                    return;
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
        });
        let watcher = watcher.map_err(|error| unclear(format!("no thread could be started: {error}")))?;
        let result = work();
        over.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        result
    })
}

/// Calls again what a signal interrupted.
#[inline]
fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// One receive. `Ok(0)`: the other end has closed.
#[inline]
fn receive(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    retried(|| msg::read(stream.as_fd(), bytes))
}

/// Receives until `bytes` are full. Returns how many calls that took.
///
/// # Errors
/// `UnexpectedEof`: the other end closed before; the text says after how many bytes.
#[inline]
fn receive_all(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<u64> {
    let (mut done, mut calls) = (0, 0);
    while done < bytes.len() {
        match receive(stream, &mut bytes[done..])? {
            0 => return Err(closed_after(done, bytes.len())),
            got => done += got,
        }
        calls += 1;
    }
    Ok(calls)
}

fn closed_after(done: usize, wanted: usize) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the other end closed after {done} of {wanted} bytes"))
}

/// Hands over all of `bytes`, in one call where the socket takes them.
#[inline]
fn send_all(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += retried(|| msg::send(stream.as_fd(), &bytes[done..], msg::SendFlags::default()))?;
    }
    Ok(())
}

/// Waits until something can be read, or the other end has closed.
fn readable(stream: &TcpStream) -> io::Result<()> {
    retried(|| poll(stream.as_fd(), Interest::Read, -1)).map(drop)
}

/// The end of a client's stream: says that no more comes, and reads what our servers tell then. `None`: nothing, or
/// something else. Whatever comes, this ends within `patience`.
fn farewell(stream: &TcpStream, watch: &Watch, patience: Duration) -> Option<Receipt> {
    watch.expect(patience);
    stream.shutdown(Shutdown::Write).ok()?;
    let mut receipt = [0; RECEIPT_BYTES];
    let mut done = 0;
    while done < receipt.len() {
        match receive(stream, &mut receipt[done..]) {
            Ok(got @ 1..) => done += got,
            _ => break,
        }
    }
    Receipt::parse(&receipt[..done])
}

/// Whether what a server tells of `bytes` that were sent and were over within `ns` can be.
///
/// # Errors
/// E50: it cannot.
fn possible(receipt: &Receipt, bytes: u64, ns: u64) -> Result<(), Problem> {
    let Receipt { bytes: received, reads, ns: took, .. } = *receipt;
    let what = if received != bytes {
        format!("{received} bytes were received, and {bytes} were sent")
    } else if reads > bytes {
        format!("{reads} reads returned something, of {bytes} bytes")
    } else if took / 2 > ns {
        // Not exactly: clocks of two machines need not go equally fast.
        format!("receiving took {} s, and all was over in {} s", took as f64 / 1e9, ns as f64 / 1e9)
    } else {
        return Ok(());
    };
    Err(unclear("the server tells what cannot be".into()).why(what))
}

/// Tells a client that has said everything what was received. One that is gone, as those of courses are, does not hear it.
fn tell(mut stream: &TcpStream, receipt: &Receipt) {
    let _ = stream.write_all(receipt.line().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_a_server_tells_must_be_possible() {
        let good = Receipt { bytes: 150_000, ns: 1_000, reads: 150_000, full: 0 };
        assert_eq!(possible(&good, 150_000, 1_000), Ok(()));
        for (receipt, part) in [
            (Receipt { bytes: 150_001, ..good }, "150001 bytes were received, and 150000"),
            (Receipt { reads: 825_000_000, ..good }, "825000000 reads returned something, of 150000"),
            (Receipt { ns: 3_000_000_000, ..good }, "receiving took 3 s"),
        ] {
            let problem = possible(&receipt, 150_000, 1_000_000_000).unwrap_err();
            assert!(problem.exit == Exit::Unfinished && problem.why.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_step_that_takes_too_long_ends_the_conversation() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        let watch = Watch::default();
        let stop = AtomicBool::new(false);
        watch.expect(Duration::from_millis(20));
        let got =
            watched(&[&near], &[&watch], &stop, Duration::ZERO, || Ok(receive(&near, &mut [0; 4]).unwrap())).unwrap();
        assert_eq!((got, watch.late.load(Ordering::Relaxed)), (0, true));
    }

    #[test]
    fn steps_that_go_on_are_never_late() {
        let watch = Watch::default();
        let mut seen = Seen::new();
        for _ in 0..20 {
            watch.expect(Duration::from_secs(5));
            assert!(!seen.is_late(&watch));
        }
        watch.expect(Duration::ZERO);
        seen.is_late(&watch);
        std::thread::sleep(Duration::from_millis(1));
        assert!(seen.is_late(&watch));
    }
}
