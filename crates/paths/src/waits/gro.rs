//! `gro`: one receive call takes all datagrams that the kernel has joined (UDP_GRO).

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::segments::Joined;

use crate::channel::{Channel, Socket};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, TransportMeta};
use crate::methods::gso::of_udp;

pub struct Gro {
    joined: Joined,
}

impl Part for Gro {
    const META: Meta = Meta {
        name: "gro",
        summary: "the receive call sleeps, then takes all datagrams that came as one (UDP_GRO)",
        manual: "recvmsg() into 64 KiB; the kernel says how long each datagram is, and msgpath copies them out one by one. Joined is what \
                 was handed over together (the send method gso, over loopback) or what a device's queue held together. With one \
                 message in flight it is block with a copy more. W131 says how many came with a call. Kernel 5.0.",
    };
    const COALESCES: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        of_udp(transport)
    }
}

impl NewWait<Socket> for Gro {
    fn new(channel: &mut Socket, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let refused = |error: io::Error| Unavailable::new(format!("UDP_GRO: {error}"), "kernel 5.0 or newer");
        Joined::new(channel.fd()).map(|joined| Self { joined }).map_err(refused)
    }
}

impl Wait<Socket> for Gro {
    #[inline(always)]
    fn recv(&mut self, channel: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += u64::from(self.joined.is_empty());
        self.joined.recv(channel.fd(), buffer)
    }
}
