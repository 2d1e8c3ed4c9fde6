//! More connections to where one leads: for a workload that measures how connections are made. Nothing is said on them, and nothing
//! waits; who answers takes them from the socket of the offer ([`crate::Offer::listening`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use msgpath_core::plan::ChannelOptions;
use msgpath_sys::socket::TcpInfo;
use msgpath_sys::{ports, set_nonblocking};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, Protocol, SocketAddrAny, SocketFlags, SocketType, sockopt};

use crate::AnyChannel;
use crate::transports::mark;

/// Where a connection leads, and how its socket was made.
pub struct Destination {
    to: SocketAddrAny,
    family: AddressFamily,
    protocol: Option<Protocol>,
    bind: Option<std::net::SocketAddr>,
    options: ChannelOptions,
}

impl Destination {
    /// That of a channel of the near end.
    ///
    /// # Errors
    /// It is no connected socket.
    pub fn of(channel: &AnyChannel, options: &ChannelOptions) -> io::Result<Self> {
        let fd = channel.socket().ok_or(io::ErrorKind::Unsupported)?;
        let to = net::getpeername(fd)?.ok_or(io::ErrorKind::NotConnected)?;
        let family = to.address_family();
        let inet = family != AddressFamily::UNIX;
        let protocol = if inet { sockopt::socket_protocol(fd)? } else { None };
        let bind = options.bind.as_deref().filter(|_| inet).and_then(msgpath_sys::address::parse);
        Ok(Self { to, family, protocol, bind, options: options.clone() })
    }

    /// Whether connections take the network, and ports with it.
    pub fn is_inet(&self) -> bool {
        self.family != AddressFamily::UNIX
    }

    /// Begins to make a connection. The calls of its socket wait at most so long, or not at all; it can be written to when the connection
    /// is there.
    ///
    /// # Errors
    /// As socket(2), bind(2) and connect(2), at once: `AddrNotAvailable` where no local port is left, with their numbers; `WouldBlock` where
    /// the queue of a Unix socket is full.
    pub fn begin(&self, waits: Option<Duration>) -> io::Result<OwnedFd> {
        let blocks = if waits.is_some() { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
        let fd = net::socket_with(self.family, SocketType::STREAM, SocketFlags::CLOEXEC | blocks, self.protocol)?;
        wait_at_most(fd.as_fd(), waits)?;
        if self.is_inet() {
            mark(fd.as_fd(), &self.options, true)?;
            // Else the request of a connection waits behind the end of its TLS handshake, for as long as the server delays an ACK.
            sockopt::set_tcp_nodelay(&fd, self.options.nodelay)?;
        }
        if let Some(local) = self.bind {
            // The port is chosen with the connection: one that another connection has may be taken.
            msgpath_sys::socket::choose_port_late(fd.as_fd())?;
            net::bind(&fd, &local).map_err(ports::explained)?;
        }
        match net::connect(&fd, &self.to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
            Err(error) => Err(ports::explained(error)),
        }
    }
}

/// Takes a connection that has come, whose socket blocks or not. `None`: none has come, in the time for which the listening socket waits.
/// Those that went again before they were taken are passed over.
///
/// # Errors
/// As accept4(2).
pub fn take(listening: BorrowedFd<'_>, blocks: bool) -> io::Result<Option<OwnedFd>> {
    let blocks = if blocks { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
    loop {
        match net::accept_with(listening, SocketFlags::CLOEXEC | blocks) {
            Ok(fd) => return Ok(Some(fd)),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::CONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Calls of a socket that blocks wait at most so long.
///
/// # Errors
/// As setsockopt(2).
pub fn wait_at_most(fd: BorrowedFd<'_>, waits: Option<Duration>) -> io::Result<()> {
    if waits.is_some() {
        sockopt::set_socket_timeout(fd, Timeout::Recv, waits)?;
        sockopt::set_socket_timeout(fd, Timeout::Send, waits)?;
    }
    Ok(())
}

/// Lets the calls of a listening socket wait at most so long, or not at all. Connections of TCP that it takes have this from it, and
/// the options of those of the near end. How long each that it takes is still to be told to wait: those of a Unix socket have nothing
/// from it.
///
/// # Errors
/// As fcntl(2) and setsockopt(2).
pub fn offer(
    listening: BorrowedFd<'_>,
    options: &ChannelOptions,
    waits: Option<Duration>,
) -> io::Result<Option<Duration>> {
    set_nonblocking(listening, waits.is_none())?;
    wait_at_most(listening, waits)?;
    if net::getsockname(listening)?.address_family() == AddressFamily::UNIX {
        return Ok(waits);
    }
    sockopt::set_tcp_nodelay(listening, options.nodelay)?;
    Ok(None)
}

/// What became of a connection that was begun.
///
/// # Errors
/// Why it was not made.
pub fn outcome(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(fd)??)
}

/// Closes a connection at once, by a reset: neither end keeps anything of it, such as TIME_WAIT.
pub fn reset(fd: OwnedFd) {
    let _ = sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
}

/// TCP_INFO of a connection, where it has it.
pub fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpInfo> {
    msgpath_sys::socket::tcp_info(fd).ok()
}
