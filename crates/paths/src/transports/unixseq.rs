//! Unix sockets with sequenced packets.

use std::io;

use rustix::net::SocketType;

use super::unix::{connect, connect_to_path, offer};
use super::unix_datagram_limit;
use crate::channel::AnyChannel;
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct UnixSeq;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "unixseq",
        summary: "a Unix socket with sequenced packets: connected, in order, message boundaries are preserved",
        manual: "As unix, but each message is one buffer in the receiver's queue and is received whole. A message is \
                 at most as large as the send buffer.",
    },
    family: Family::Socket,
    framed: true,
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

impl Transport for UnixSeq {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        unix_datagram_limit()
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        offer(SocketType::SEQPACKET, true, need)
    }

    fn reaches_programs(&self) -> bool {
        true
    }

    fn connect_to_program(&self, address: &str, need: &Need) -> io::Result<AnyChannel> {
        connect_to_path(address, SocketType::SEQPACKET, true, need)
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        connect(address, SocketType::SEQPACKET, true, need)
    }
}
