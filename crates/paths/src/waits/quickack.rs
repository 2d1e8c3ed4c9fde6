//! `quickack`: the receive call waits, and TCP is asked to acknowledge at once.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::socket;

use crate::channel::{Channel, Receive, Socket};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, TransportMeta};

pub struct QuickAck;

impl Part for QuickAck {
    const META: Meta = Meta {
        name: "quickack",
        summary: "blocks, and asks TCP to acknowledge at once (TCP_QUICKACK) after every receive",
        manual: "The kernel leaves the mode by itself (tcp(7)), so it is asked for again after every receive call: one \
                 more system call each, counted among the other calls. A sender under Nagle's algorithm then waits for \
                 no delayed acknowledgement.",
    };

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if transport.meta.name == "tcp" { Ok(()) } else { Err("only TCP acknowledges") }
    }
}

impl NewWait<Socket> for QuickAck {
    fn new(channel: &mut Socket, _: &ChannelOptions) -> Result<Self, Unavailable> {
        socket::quickack(channel.fd())
            .map_err(|error| Unavailable::new(format!("TCP_QUICKACK: {error}"), "the wait block"))?;
        Ok(Self)
    }
}

impl Wait<Socket> for QuickAck {
    #[inline(always)]
    fn recv(&mut self, channel: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        let received = channel.recv(buffer)?;
        channel.counts().other_calls += 1;
        socket::quickack(channel.fd())?;
        Ok(received)
    }
}
