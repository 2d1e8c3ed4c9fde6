//! Unix stream sockets.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::SocketType;

use super::{Admission, LocalListener, connect_local, set_buffers};
use crate::channel::{AnyChannel, Socket};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `unix`.
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

/// Connections of the Unix family that are accepted: stream and sequenced packets.
pub(crate) struct Accepting {
    listener: LocalListener,
    framed: bool,
    need: Need,
}

impl Accepting {
    pub(crate) fn new(kind: SocketType, framed: bool, need: &Need) -> io::Result<Self> {
        Ok(Self { listener: LocalListener::new(kind, need.connections)?, framed, need: need.clone() })
    }
}

impl Offer for Accepting {
    fn addresses(&self) -> Vec<String> {
        self.listener.addresses()
    }

    fn admission(&mut self) -> Option<&mut Admission> {
        Some(&mut self.listener.admission)
    }

    fn accept(&mut self, _: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>> {
        let accepted = self.listener.admission.accept(timeout)?.into_iter();
        accepted
            .map(|fd| {
                set_buffers(fd.as_fd(), &self.need.options)?;
                Ok(AnyChannel::Socket(Socket::new(fd, self.framed, self.need.limits.clone())?))
            })
            .collect()
    }
}

/// Connects to an [`Accepting`].
pub(crate) fn connect(name: &str, kind: SocketType, framed: bool, need: &Need) -> io::Result<(AnyChannel, String)> {
    let fd = connect_local(name, kind)?;
    set_buffers(fd.as_fd(), &need.options)?;
    Ok((AnyChannel::Socket(Socket::new(fd, framed, need.limits.clone())?), String::new()))
}

impl Transport for Unix {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        Ok(Box::new(Accepting::new(SocketType::STREAM, false, need)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        connect(address, SocketType::STREAM, false, need)
    }
}
