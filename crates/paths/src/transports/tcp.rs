//! TCP over IPv4 or IPv6.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use msgpath_sys::address::{self, with_port};
use msgpath_sys::mark::traffic_class_of_handshake;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::ports;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Protocol, SocketFlags, SocketType, sockopt};

use super::{BACKLOG, LOOK_MS, Listening, admission, mark, set_buffers};
use crate::channel::{AnyChannel, Limits, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Tcp;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "tcp",
        summary: "a TCP connection, IPv4 or IPv6, TCP_NODELAY on unless asked otherwise",
        manual: "A byte stream. Bytes are copied into socket buffers when sent and out of them when received. On one \
                 machine the segments take the loopback device: the protocol work of the receiver runs inside the \
                 sender's call, and nothing leaves the machine.",
    },
    family: Family::Socket,
    framed: false,
    lossy: false,
    inet: true,
    device: false,
    connects: true,
    segments: true,
    stack: Stack::Network,
    headers: &[66, 86, 54, 74],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// How long a connection may take at most: three lost handshakes.
const CONNECT: Duration = Duration::from_secs(8);

/// Sets the options that were asked for.
pub(super) fn tune(fd: &OwnedFd, need: &Need) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, need.options.nodelay)?;
    if need.options.hold_cork {
        msgpath_sys::socket::cork(fd.as_fd(), true)?; // and never released
    }
    if let Some(name) = &need.options.congestion {
        sockopt::set_tcp_congestion(fd, name).map_err(|error| {
            let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            congestion_refused(name, &known.unwrap_or_default(), error.into())
        })?;
    }
    set_buffers(fd.as_fd(), &need.options)
}

/// What is wrong with a congestion control that the kernel refused; `known`: those that it has.
fn congestion_refused(name: &str, known: &str, error: io::Error) -> io::Error {
    let known = known.split_whitespace().collect::<Vec<_>>().join(", ");
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("this kernel has no congestion control {name}, only {known}; sudo modprobe tcp_{name} may add it")
        }
        io::ErrorKind::PermissionDenied => {
            format!("only root may choose the congestion control {name} (net.ipv4.tcp_allowed_congestion_control)")
        }
        _ => format!("the congestion control {name} was refused"),
    };
    io::Error::new(error.kind(), format!("{why}: {error}"))
}

/// A socket of the family of `address`, bound to `local` if given.
pub(crate) fn socket(address: SocketAddr, kind: SocketType, bind: Option<SocketAddr>) -> io::Result<OwnedFd> {
    socket_of(address, kind, None, bind)
}

/// The same of a protocol; `None`: the one that every kind of socket has.
fn socket_of(
    address: SocketAddr,
    kind: SocketType,
    protocol: Option<Protocol>,
    bind: Option<SocketAddr>,
) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
    if let Some(local) = bind {
        net::bind(&fd, &local).map_err(ports::explained)?;
    }
    Ok(fd)
}

/// Sockets that listen at one port, at most.
const MOST_LISTENERS: u32 = 256;

/// The address of `-o bind`, port chosen by the kernel.
pub(crate) fn bind_address(need: &Need) -> io::Result<Option<SocketAddr>> {
    let Some(text) = &need.options.bind else { return Ok(None) };
    let none = || io::Error::new(io::ErrorKind::InvalidInput, format!("{text} is not an address of this machine"));
    address::parse(text).map(Some).ok_or_else(none)
}

/// What `open` makes at a port of the server: one that the kernel chooses, or the first free one of those that it may take. Each call
/// begins behind the port that the last one got, so that what comes late for a round does not reach the next one.
pub(crate) fn at_data_port<T>(need: &Need, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let Some(range) = need.data_ports else { return open(with_port(need.host, 0)) };
    let count = u32::from(range.last - range.first) + 1;
    let start = NEXT.load(Ordering::Relaxed);
    for step in 0..count {
        let at = start.wrapping_add(step);
        match open(with_port(need.host, range.first + (at % count) as u16)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            opened => {
                NEXT.store(at.wrapping_add(1), Ordering::Relaxed);
                return opened;
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, format!("every port of --data-ports {range} is in use")))
}

/// An address that came over the control channel.
pub(crate) fn parse(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{address:?} is not an address")))
}

/// The place of an offer as the near end sees it: behind the address at which it reached the far end, where that is not the
/// one that the far end knows of itself (NAT), or belongs to a link that has another number there.
pub(crate) fn as_seen(place: SocketAddr, need: &Need) -> SocketAddr {
    match need.peer.map(address::canonical) {
        Some(seen) if seen.ip() != place.ip().to_canonical() || address::scope(seen) > 0 => {
            with_port(seen, place.port())
        }
        _ => place,
    }
}

/// The local address of an inet socket.
pub(crate) fn local_address(fd: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(net::getsockname(fd)?)?)
}

/// Connects, or gives up where packets vanish: the kernel itself tries for two minutes.
fn connect(fd: &OwnedFd, address: SocketAddr, limits: &Limits) -> io::Result<()> {
    limits.look()?;
    let most = CONNECT.min(limits.stall);
    sockopt::set_socket_timeout(fd, sockopt::Timeout::Send, Some(most))?;
    let connected = match net::connect(fd, &address) {
        // A signal ended the wait, not the attempt: connect(2).
        Err(Errno::INTR) => connected_later(fd, limits, most),
        other => other,
    };
    connected.map_err(|error| no_connection(address, error, most))?;
    Ok(sockopt::set_socket_timeout(fd, sockopt::Timeout::Send, None)?)
}

/// How it begins where the network or the other end kept a connection from being made.
pub const NO_CONNECTION: &str = "connection to";

/// What became of a handshake, by the port it went to.
fn no_connection(address: SocketAddr, error: Errno, waited: Duration) -> io::Error {
    let what = match error {
        // Nothing of the network kept it.
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => return ports::explained(error),
        Errno::INPROGRESS | Errno::TIMEDOUT => format!("dropped, no answer within {:.1} s", waited.as_secs_f64()),
        Errno::CONNREFUSED => "refused".to_owned(),
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::ACCESS | Errno::PERM => {
            let said = io::Error::from(error).to_string();
            let said = said.split(" (os error").next().unwrap_or_default();
            format!("rejected ({said}), as firewalls do")
        }
        error => io::Error::from(error).to_string(),
    };
    let kind = if error == Errno::INPROGRESS { io::ErrorKind::TimedOut } else { io::Error::from(error).kind() };
    io::Error::new(kind, format!("{NO_CONNECTION} {}, port {}: {what}", address::shown(address), address.port()))
}

/// Waits for a connection that is being made.
fn connected_later(fd: &OwnedFd, limits: &Limits, most: Duration) -> rustix::io::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < most {
        limits.look().map_err(|_| Errno::CONNABORTED)?;
        match poll(fd.as_fd(), Interest::Write, LOOK_MS) {
            Ok(true) => return sockopt::socket_error(fd)?,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    Err(Errno::INPROGRESS)
}

impl Transport for Tcp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        offer(need, None)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        connect_to_offer(address, need, None)
    }

    fn reaches_programs(&self) -> bool {
        true
    }

    fn connect_to_program(&self, address: &str, need: &Need) -> io::Result<AnyChannel> {
        connect_to_program(address, need, None)
    }
}

/// [`Transport::offer`] over TCP (`protocol`: `None`) or over a protocol with its sockets and options.
pub(super) fn offer(need: &Need, protocol: Option<Protocol>) -> io::Result<Box<dyn Offer>> {
    let listen = |address: SocketAddr| {
        let fd = socket_of(address, SocketType::STREAM, protocol, None)?;
        set_buffers(fd.as_fd(), &need.options)?; // before listen: the window scale is fixed at the handshake
        mark(fd.as_fd(), &need.options, false)?;
        // Connections of the round before may be in TIME_WAIT at this port. A port on which another socket listens stays taken.
        sockopt::set_socket_reuseaddr(&fd, need.data_ports.is_some())?;
        sockopt::set_socket_reuseport(&fd, need.options.reuse_port)?;
        net::bind(&fd, &address).map_err(ports::explained)?;
        net::listen(&fd, BACKLOG)?;
        Ok(fd)
    };
    let mut listeners = vec![at_data_port(need, listen)?];
    let place = local_address(&listeners[0])?;
    let more = if need.options.reuse_port { need.connections.min(MOST_LISTENERS) - 1 } else { 0 };
    for _ in 0..more {
        listeners.push(listen(place)?);
    }
    let place = place.to_string();
    let channel = |fd: OwnedFd, need: &Need| {
        tune(&fd, need)?;
        let class = need.options.traffic_class.and_then(|_| traffic_class_of_handshake(fd.as_fd()).ok().flatten());
        Ok(AnyChannel::Socket(Socket::new(fd, false, need.limits.clone())?.with_arrived(class)))
    };
    Ok(Box::new(Listening::at(listeners, place, need, |_| true, channel)?))
}

/// [`Transport::connect`] over the same.
pub(super) fn connect_to_offer(
    address: &str,
    need: &Need,
    protocol: Option<Protocol>,
) -> io::Result<(AnyChannel, String)> {
    let (place, key) = admission::parse(address)?;
    let address = as_seen(parse(place)?, need);
    let fd = unconnected(address, need, protocol)?;
    connect(&fd, address, &need.limits)?;
    // At once, whatever the options say: the key is not a part of what is measured.
    sockopt::set_tcp_nodelay(&fd, true)?;
    admission::introduce(&fd, &key)?;
    tune(&fd, need)?;
    let local = local_address(&fd)?.to_string();
    Ok((AnyChannel::Socket(Socket::new(fd, false, need.limits.clone())?), local))
}

/// [`Transport::connect_to_program`] over the same.
pub(super) fn connect_to_program(address: &str, need: &Need, protocol: Option<Protocol>) -> io::Result<AnyChannel> {
    let address = parse(address)?;
    let fd = unconnected(address, need, protocol)?;
    connect(&fd, address, &need.limits)?;
    // To a port of this machine from which the kernel takes local ports, where nobody listens.
    if local_address(&fd)? == address {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens: the socket met itself"));
    }
    tune(&fd, need)?;
    Ok(AnyChannel::Socket(Socket::new(fd, false, need.limits.clone())?))
}

/// A socket that is to connect.
fn unconnected(address: SocketAddr, need: &Need, protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let fd = socket_of(address, SocketType::STREAM, protocol, bind_address(need)?)?;
    mark(fd.as_fd(), &need.options, true)?;
    set_buffers(fd.as_fd(), &need.options)?; // before connect: the window scale is fixed at the handshake
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_that_is_not_there_names_those_that_are() {
        let said =
            |errno| congestion_refused("dctcp", "reno bbr cubic\n", io::Error::from_raw_os_error(errno)).to_string();
        assert!(said(2).contains("no congestion control dctcp, only reno, bbr, cubic;"), "{}", said(2));
        assert!(said(2).contains("os error 2"), "the kernel's text stands behind");
        assert!(said(1).contains("tcp_allowed_congestion_control"));
    }
}
