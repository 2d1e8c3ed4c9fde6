//! Unix datagram sockets, both connected.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::admission::drain;
use super::{set_buffers, unique_name, unix_datagram_limit};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `unixgram`.
pub struct UnixGram;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "unixgram",
        summary: "Unix datagrams between two connected sockets: nothing is lost, a full queue blocks the sender",
        manual: "One datagram a message on one machine. The queue holds net.unix.max_dgram_qlen messages; then the \
                 sender blocks. A message is at most as large as the send buffer.",
    },
    family: Family::Socket,
    framed: true,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Local,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

fn bound(need: &Need) -> io::Result<(OwnedFd, String)> {
    let name = unique_name()?;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_buffers(fd.as_fd(), &need.options)?;
    net::bind(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok((fd, name))
}

fn join(fd: OwnedFd, name: &str, need: &Need) -> io::Result<AnyChannel> {
    net::connect(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    // Connected, a datagram socket takes messages from its peer only; what came before may be anybody's.
    drain(&fd);
    Ok(AnyChannel::Socket(Socket::new(fd, true, need.limits.clone())?))
}

struct Bound {
    sockets: Vec<(OwnedFd, String)>,
    need: Need,
}

impl Offer for Bound {
    fn addresses(&self) -> Vec<String> {
        self.sockets.iter().map(|(_, name)| name.clone()).collect()
    }

    fn accept(&mut self, locals: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        // The names are the keys: nobody can guess them, and they come over the control channel.
        let sockets = std::mem::take(&mut self.sockets);
        sockets.into_iter().zip(locals).map(|((fd, _), local)| join(fd, local, &self.need)).collect()
    }
}

impl Transport for UnixGram {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        unix_datagram_limit()
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let sockets = (0..need.connections).map(|_| bound(need)).collect::<io::Result<_>>()?;
        Ok(Box::new(Bound { sockets, need: need.clone() }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let (fd, name) = bound(need)?;
        Ok((join(fd, address, need)?, name))
    }
}
