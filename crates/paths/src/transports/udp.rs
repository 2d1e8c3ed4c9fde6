//! UDP over IPv4 or IPv6, both sockets connected.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{self, SocketType};

use super::set_buffers;
use super::tcp::{bind_address, local_address, parse, socket};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Family, Meta, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `udp`.
pub struct Udp;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "udp",
        summary: "UDP datagrams between two connected sockets; may be lost",
        manual: "One datagram a message, up to 65507 bytes over IPv4. A datagram longer than the MTU is cut into \
                 fragments. What does not fit into the receiver's buffer is dropped silently: msgpath counts it by \
                 sequence number.",
    },
    family: Family::Socket,
    framed: true,
    lossy: true,
    inet: true,
    default_method: "send",
    default_wait: "block",
};

struct Bound {
    sockets: Vec<OwnedFd>,
    need: Need,
}

impl Offer for Bound {
    fn addresses(&self) -> Vec<String> {
        self.sockets.iter().map(|fd| local_address(fd).map(|a| a.to_string()).unwrap_or_default()).collect()
    }

    fn accept(&mut self, locals: &[String], _: Duration) -> io::Result<Vec<AnyChannel>> {
        let sockets = std::mem::take(&mut self.sockets);
        sockets
            .into_iter()
            .zip(locals)
            .map(|(fd, local)| {
                let peer = parse(local)?;
                if self.need.peer.is_some_and(|allowed| allowed != peer.ip()) {
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not the address of the near end"));
                }
                net::connect(&fd, &peer)?;
                Ok(AnyChannel::Socket(Socket::new(fd, true, self.need.limits.clone())?))
            })
            .collect()
    }
}

impl Transport for Udp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(65_507)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let address = SocketAddr::new(need.host, 0);
        let sockets = (0..need.connections)
            .map(|_| {
                let fd = socket(address, SocketType::DGRAM, Some(address))?;
                set_buffers(fd.as_fd(), &need.options)?;
                Ok(fd)
            })
            .collect::<io::Result<_>>()?;
        Ok(Box::new(Bound { sockets, need: need.clone() }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let address = parse(address)?;
        let fd = socket(address, SocketType::DGRAM, bind_address(need)?)?;
        set_buffers(fd.as_fd(), &need.options)?;
        net::connect(&fd, &address)?;
        let local = local_address(&fd)?.to_string();
        Ok((AnyChannel::Socket(Socket::new(fd, true, need.limits.clone())?), local))
    }
}
