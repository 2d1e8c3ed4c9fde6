//! TCP over IPv4 or IPv6.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::{accept_within, set_buffers};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Family, Meta, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `tcp`.
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
    default_method: "send",
    default_wait: "block",
};

fn tune(fd: &OwnedFd, need: &Need) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, need.options.nodelay)?;
    if need.options.hold_cork {
        msgpath_sys::socket::cork(fd.as_fd(), true)?; // and never released
    }
    if let Some(name) = &need.options.congestion {
        sockopt::set_tcp_congestion(fd, name)?;
    }
    set_buffers(fd.as_fd(), &need.options)
}

/// A socket of the family of `address`, bound to `local` if given.
pub(crate) fn socket(address: SocketAddr, kind: SocketType, bind: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if let Some(local) = bind {
        net::bind(&fd, &local)?;
    }
    Ok(fd)
}

/// The address of `--bind`, port chosen by the kernel.
pub(crate) fn bind_address(need: &Need) -> io::Result<Option<SocketAddr>> {
    let Some(text) = &need.options.bind else { return Ok(None) };
    let ip = text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{text} is no address")))?;
    Ok(Some(SocketAddr::new(ip, 0)))
}

/// An address that came over the control channel.
pub(crate) fn parse(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{address:?} is no address")))
}

/// The local address of an inet socket.
pub(crate) fn local_address(fd: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(net::getsockname(fd)?)?)
}

struct Listening {
    fd: OwnedFd,
    need: Need,
}

impl Offer for Listening {
    fn addresses(&self) -> Vec<String> {
        let address = local_address(&self.fd).map(|address| address.to_string()).unwrap_or_default();
        vec![address; self.need.connections as usize]
    }

    fn accept(&mut self, locals: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>> {
        let mut channels = Vec::with_capacity(locals.len());
        let mut strangers = 0;
        while channels.len() < locals.len() {
            let fd = accept_within(self.fd.as_fd(), timeout)?;
            let from = net::getpeername(&fd)?.and_then(|any| SocketAddr::try_from(any).ok());
            // Only the very connections that the near end says it made; whoever else came is turned away.
            if from.is_none_or(|from| from.to_string() != locals[channels.len()]) {
                strangers += 1;
                if strangers > 64 {
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "only strangers connected"));
                }
                continue;
            }
            tune(&fd, &self.need)?;
            channels.push(AnyChannel::Socket(Socket::new(fd, false, self.need.limits.clone())?));
        }
        Ok(channels)
    }
}

impl Transport for Tcp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let address = SocketAddr::new(need.host, 0);
        let fd = socket(address, SocketType::STREAM, None)?;
        set_buffers(fd.as_fd(), &need.options)?; // before listen: the window scale is fixed at the handshake
        net::bind(&fd, &address)?;
        net::listen(&fd, 1024)?;
        Ok(Box::new(Listening { fd, need: need.clone() }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let address = parse(address)?;
        let fd = socket(address, SocketType::STREAM, bind_address(need)?)?;
        tune(&fd, need)?;
        net::connect(&fd, &address)?;
        let local = local_address(&fd)?.to_string();
        Ok((AnyChannel::Socket(Socket::new(fd, false, need.limits.clone())?), local))
    }
}
