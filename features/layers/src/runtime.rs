//! The runtime of a connection: tokio, in the thread that measures. It runs while that thread waits for something.

use std::future::Future;
use std::io;
use std::net::TcpStream as StdStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use msgpath_paths::channel::Limits;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long both ends may take to agree.
const HANDSHAKE: Duration = Duration::from_secs(8);

/// The same, where waits are shorter than that.
pub(crate) fn handshake(limits: &Limits) -> Duration {
    if limits.timed { HANDSHAKE.min(limits.stall) } else { HANDSHAKE }
}
/// How long an end that connected waits until its library has said goodbye.
const GOODBYE: Duration = Duration::from_millis(100);

/// A runtime, and how long it may wait.
pub(crate) struct Driven {
    runtime: Runtime,
    /// Without progress for this long a connection is dead; looked at in every wait only where waits are timed.
    stall: Duration,
    timed: bool,
    handshake: Duration,
}

impl Driven {
    /// A runtime without threads of its own.
    pub(crate) fn new(limits: &Limits) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { runtime, stall: limits.stall, timed: limits.timed, handshake: handshake(limits) })
    }

    /// A connected TCP socket of this runtime.
    pub(crate) fn tcp(&self, fd: OwnedFd) -> io::Result<TcpStream> {
        let stream = StdStream::from(fd);
        stream.set_nonblocking(true)?;
        let _inside = self.runtime.enter();
        TcpStream::from_std(stream)
    }

    /// Enters the runtime for what must be made inside it.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Starts something that goes on whenever this end waits.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Waits for a message to come or to go.
    #[inline]
    pub(crate) fn run<T>(&self, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        match self.timed {
            true => self.within(self.stall, future),
            false => self.runtime.block_on(future),
        }
    }

    /// Waits until both ends have agreed.
    pub(crate) fn agree<T>(&self, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        self.within(self.handshake, future)
    }

    /// Lets everything go on until `future` has ended, or nothing happens any more.
    pub(crate) fn drain(&self, future: impl Future<Output = ()>) {
        let _ = self.runtime.block_on(async { timeout(self.stall, future).await });
    }

    /// The same at the end that closes.
    pub(crate) fn say_goodbye(&self, future: impl Future<Output = ()>) {
        let _ = self.runtime.block_on(async { timeout(GOODBYE, future).await });
    }

    fn within<T>(&self, most: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "the other end is silent");
        self.runtime.block_on(async { timeout(most, future).await.unwrap_or_else(|_| Err(silent())) })
    }
}

/// The error of a library as one of a connection: what the system said, if that is beneath it. `closed`: the library says that the
/// other end has closed; else the protocol was broken.
pub(crate) fn broken(error: &(dyn std::error::Error + 'static), closed: bool) -> io::Error {
    let mut inner = Some(error);
    while let Some(error) = inner {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return io::Error::new(error.kind(), error.to_string());
        }
        inner = error.source();
    }
    let kind = if closed { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
    io::Error::new(kind, error.to_string())
}

/// The other end has closed.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other end closed")
}
