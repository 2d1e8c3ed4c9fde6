//! UDP over IPv4 or IPv6, both sockets connected.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use msgpath_sys::address;
use msgpath_sys::mark::report_traffic_class;
use rustix::net::{self, SocketType};

use super::admission::{self, Keys};
use super::tcp::{as_seen, at_data_port, bind_address, local_address, parse, socket};
use super::{mark, set_buffers};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Udp;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "udp",
        summary: "UDP datagrams between two connected sockets; may be lost",
        manual: "One datagram a message, up to 65507 bytes over IPv4, 65527 over IPv6. A datagram longer than the MTU is cut into \
                 fragments. What does not fit into the receiver's buffer is dropped silently: msgpath counts it by \
                 sequence number.",
    },
    family: Family::Socket,
    framed: true,
    lossy: true,
    inet: true,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Network,
    headers: &[42, 62],
    copies: Copies::Kernel,
    default_method: "send",
    default_wait: "block",
};

/// Where no key came, the link may lose everything: that is measured too.
const LEARN: Duration = Duration::from_secs(2);

struct Bound {
    sockets: Vec<OwnedFd>,
    /// Where the near end's sockets say by their key which connection each of them will be. Apart from the sockets that
    /// are measured: a copy that comes late must not be taken for a message.
    door: OwnedFd,
    keys: Keys,
    need: Need,
}

impl Offer for Bound {
    fn addresses(&self) -> Vec<String> {
        let port = |fd: &OwnedFd| local_address(fd).map_or(0, |address| address.port());
        let door = local_address(&self.door).map(|address| address.to_string()).unwrap_or_default();
        self.keys.addresses(|at| format!("{door} {}", port(&self.sockets[at])))
    }

    fn accept(&mut self, locals: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>> {
        // Nobody is sent anything but the machine at the other end of the control channel: a source can be forged.
        let near = self.need.peer.map(address::canonical);
        let may = |from: SocketAddr| near.is_none_or(|near| near.ip() == from.ip().to_canonical());
        // The number of the link is this end's, not the one that the near end has for it.
        let at_link = |text: &str| -> io::Result<SocketAddr> {
            let local = parse(text)?;
            let scoped = near.filter(|near| near.ip() == local.ip() && address::scope(*near) > 0);
            Ok(scoped.map_or(local, |near| address::with_port(near, local.port())))
        };
        let learnt =
            self.keys.learn(&self.door, timeout.min(LEARN).min(self.need.limits.stall), &self.need.limits, may)?;
        let sockets = std::mem::take(&mut self.sockets);
        sockets
            .into_iter()
            .zip(learnt.into_iter().zip(locals))
            .map(|(fd, (learnt, text))| {
                let (peer, class) = match learnt {
                    Some(learnt) => learnt,
                    None => (at_link(text)?, None),
                };
                if !may(peer) {
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not the address of the near end"));
                }
                net::connect(&fd, &peer)?;
                admission::drain(&fd);
                Ok(AnyChannel::Socket(Socket::new(fd, true, self.need.limits.clone())?.with_arrived(class)))
            })
            .collect()
    }
}

impl Transport for Udp {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(65_527)
    }

    fn max_message_v4(&self) -> Option<u64> {
        Some(65_507)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let bound = || at_data_port(need, |address| socket(address, SocketType::DGRAM, Some(address)));
        let sockets = (0..need.connections)
            .map(|_| {
                let fd = bound()?;
                set_buffers(fd.as_fd(), &need.options)?;
                mark(fd.as_fd(), &need.options, false)?;
                Ok(fd)
            })
            .collect::<io::Result<_>>()?;
        let door = bound()?;
        report_traffic_class(door.as_fd())?;
        Ok(Box::new(Bound { sockets, door, keys: Keys::new(need.connections)?, need: need.clone() }))
    }

    fn reaches_programs(&self) -> bool {
        true
    }

    fn connect_to_program(&self, address: &str, need: &Need) -> io::Result<AnyChannel> {
        let address = parse(address)?;
        let fd = socket(address, SocketType::DGRAM, bind_address(need)?)?;
        set_buffers(fd.as_fd(), &need.options)?;
        mark(fd.as_fd(), &need.options, true)?;
        net::connect(&fd, &address)?;
        Ok(AnyChannel::Socket(Socket::new(fd, true, need.limits.clone())?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let (places, key) = admission::parse(address)?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("{address:?} is not an offer"));
        let (door, port) = places.rsplit_once(' ').ok_or_else(invalid)?;
        let door = as_seen(parse(door)?, need);
        let address = address::with_port(door, port.parse().map_err(|_| invalid())?);
        let fd = socket(door, SocketType::DGRAM, bind_address(need)?)?;
        set_buffers(fd.as_fd(), &need.options)?;
        mark(fd.as_fd(), &need.options, true)?;
        admission::introduce_to(&fd, door, &key)?;
        net::connect(&fd, &address)?;
        admission::drain(&fd);
        let local = local_address(&fd)?.to_string();
        Ok((AnyChannel::Socket(Socket::new(fd, true, need.limits.clone())?), local))
    }
}
