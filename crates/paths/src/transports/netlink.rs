//! Two netlink sockets that are connected with one another. The near end makes both and passes the far end's over a Unix socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::Unavailable;
use rustix::net::netlink::{SocketAddrNetlink, USERSOCK};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Listening, connect_local, pass, set_buffers, take};
use crate::channel::{AnyChannel, Limits, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Netlink;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "netlink",
        summary: "netlink messages between two programs (NETLINK_USERSOCK), message boundaries are preserved",
        manual: "The kernel's own message bus, from program to program: no protocol, one buffer a message, and a full \
                 receiver blocks the sender. A connected socket takes messages of its peer only. A message is at most as \
                 large as the send buffer. The sockets do not end: a receiver whose peer is gone waits until its time is \
                 over.",
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

/// Bytes of the send buffer that a message cannot have (netlink_sendmsg in net/netlink/af_netlink.c).
const RESERVED: u64 = 32;

/// A socket with the address that the kernel gives it.
fn socket() -> io::Result<(OwnedFd, SocketAddrNetlink)> {
    let fd = net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(USERSOCK))?;
    net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
    let address = SocketAddrNetlink::try_from(net::getsockname(&fd)?)?;
    Ok((fd, address))
}

/// Two of them, each connected with the other.
fn pair(need: &Need) -> io::Result<[OwnedFd; 2]> {
    let ((near, near_address), (far, far_address)) = (socket()?, socket()?);
    for (fd, peer) in [(&near, &far_address), (&far, &near_address)] {
        set_buffers(fd.as_fd(), &need.options)?;
        net::connect(fd, peer)?;
        super::admission::drain(fd);
    }
    Ok([near, far])
}

/// Waits are always timed: nothing tells of a peer that is gone.
fn end(fd: OwnedFd, need: &Need) -> io::Result<AnyChannel> {
    let limits = Limits { timed: true, ..need.limits.clone() };
    Ok(AnyChannel::Socket(Socket::new(fd, true, limits)?))
}

impl Transport for Netlink {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        let (fd, _) = socket().ok()?;
        Some((sockopt::socket_send_buffer_size(&fd).ok()? as u64).saturating_sub(RESERVED))
    }

    fn probe(&self) -> Result<(), Unavailable> {
        pair(&Need::local(64)).map(drop).map_err(|error| {
            Unavailable::new(
                format!("netlink between programs: {error}"),
                "a kernel and a container that allow AF_NETLINK",
            )
        })
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let channel = |local: OwnedFd, need: &Need| {
            let [fd] = take::<1>(&local, &need.limits)?;
            end(fd, need)
        };
        Ok(Box::new(Listening::local(SocketType::STREAM, need, channel)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let local = connect_local(address, SocketType::STREAM)?;
        let [near, far] = pair(need)?;
        pass(&local, &[far.as_fd()])?;
        Ok((end(near, need)?, String::new()))
    }
}
