//! What the measuring threads do: the client makes connections, the server answers on them.

mod client;
mod server;
#[cfg_attr(not(feature = "tls"), path = "without.rs")]
mod tls;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use msgpath_agent::ends::{AnyEnd, Ends};
use msgpath_agent::thread::{Job, Outcome, ThreadError};
use msgpath_agent::wire::RoundOrder;
use msgpath_agent::works::Work;
use msgpath_core::{CallCounts, Unavailable, Workload};
use msgpath_paths::AnyChannel;
use msgpath_sys::limits::remedy;
use msgpath_sys::msg::{self, SendFlags};

use tls::Tls;

/// Said in the first byte of a request: no other follows on this connection, and the server closes it.
const LAST: u8 = 1;
/// The same: it is the first request of a connection that is measured.
const COUNTED: u8 = 2;
/// The same: no other connection follows in this round.
const OVER: u8 = 4;
/// Between two looks whether the round was given up, ms.
const LOOK_MS: u64 = 100;

/// The wait of a path whose calls block.
pub(crate) const BLOCK: &str = "block";

/// The work of the threads.
pub static CONNECTIONS: Connections = Connections;

/// See [`CONNECTIONS`].
pub struct Connections;

impl Work for Connections {
    fn workload(&self) -> &'static Workload {
        &crate::workload::CONNECT
    }

    fn run(&self, job: Job, channels: Vec<AnyChannel>) -> Result<Outcome, ThreadError> {
        let _ = msgpath_sys::limits::allow_all_open_files();
        let ready = job.ready.clone();
        let result = if job.near { client::run(job, channels) } else { server::run(job, channels) };
        if let Err(ThreadError::Unavailable(reason)) = &result {
            // Nobody listens any more where the thread was ready before.
            let _ = ready.send(Err(reason.clone()));
        }
        result
    }
}

/// How long the certificate of a server is waited for, which it says as soon as it is ready.
const CERTIFICATE: Duration = Duration::from_secs(5);

/// How long the calls of both ends wait between two looks, where connections are made one after the other; `None`: epoll waits for all.
fn waits(order: &RoundOrder) -> Option<Duration> {
    (order.path.wait == BLOCK).then_some(Duration::from_millis(LOOK_MS))
}

/// As send(2), over TLS where there is some.
fn send(tls: &mut Option<Box<Tls>>, fd: BorrowedFd<'_>, bytes: &[u8], calls: &mut CallCounts) -> io::Result<usize> {
    match tls {
        None => {
            calls.send_calls += 1;
            msg::send(fd, bytes, SendFlags::default())
        }
        Some(tls) => tls.send(fd, bytes, calls),
    }
}

/// As recv(2), over TLS where there is some.
fn recv(
    tls: &mut Option<Box<Tls>>,
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    calls: &mut CallCounts,
) -> io::Result<usize> {
    match tls {
        None => {
            calls.recv_calls += 1;
            msg::recv(fd, buffer)
        }
        Some(tls) => tls.recv(fd, buffer, calls),
    }
}

/// What cannot be had here.
fn unavailable(what: &str, error: &std::io::Error) -> ThreadError {
    ThreadError::Unavailable(Unavailable::new(format!("{what}: {error}"), remedy(error)))
}

/// A thread whose connections come and go: none is metered from begin to end.
struct NoEnds;

impl Ends for NoEnds {
    fn count(&self) -> usize {
        0
    }

    fn end(&mut self, _: usize) -> &mut dyn AnyEnd {
        unreachable!("there is none")
    }
}
