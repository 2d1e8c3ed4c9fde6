//! Unix stream sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use super::{Listening, connect_local, set_buffers};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Unix;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "unix",
        summary: "a Unix stream socket",
        manual: "A byte stream on one machine: the sender copies into a kernel buffer and hands it to the receiver's \
                 queue; the receiver copies out. No protocol, no acknowledgement, no loopback device.",
    },
    family: Family::Socket,
    framed: false,
    lossy: false,
    inet: false,
    device: false,
    connects: true,
    segments: false,
    stack: Stack::Local,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// An offer of the Unix family: stream or sequenced packets.
pub(crate) fn offer(kind: SocketType, framed: bool, need: &Need) -> io::Result<Box<dyn Offer>> {
    let channel = move |fd: OwnedFd, need: &Need| {
        set_buffers(fd.as_fd(), &need.options)?;
        Ok(AnyChannel::Socket(Socket::new(fd, framed, need.limits.clone())?))
    };
    Ok(Box::new(Listening::local(kind, need, channel)?))
}

/// Connects to an [`offer`].
pub(crate) fn connect(name: &str, kind: SocketType, framed: bool, need: &Need) -> io::Result<(AnyChannel, String)> {
    let fd = connect_local(name, kind)?;
    set_buffers(fd.as_fd(), &need.options)?;
    Ok((AnyChannel::Socket(Socket::new(fd, framed, need.limits.clone())?), String::new()))
}

/// Connects to the socket of a program of others. A socket of datagrams gets a name of its own, so that there is somebody to answer.
pub(crate) fn connect_to_path(path: &str, kind: SocketType, framed: bool, need: &Need) -> io::Result<AnyChannel> {
    let fd = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    set_buffers(fd.as_fd(), &need.options)?;
    if kind == SocketType::DGRAM {
        net::bind(&fd, &net::SocketAddrUnix::new_unnamed())?;
    }
    net::connect(&fd, &net::SocketAddrUnix::new(path)?)?;
    Ok(AnyChannel::Socket(Socket::new(fd, framed, need.limits.clone())?))
}

impl Transport for Unix {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        offer(SocketType::STREAM, false, need)
    }

    fn reaches_programs(&self) -> bool {
        true
    }

    fn connect_to_program(&self, address: &str, need: &Need) -> io::Result<AnyChannel> {
        connect_to_path(address, SocketType::STREAM, false, need)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        connect(address, SocketType::STREAM, false, need)
    }
}
