//! `zc-receive`: poll(), then pages are mapped instead of copied, as far as they can be (TCP_ZEROCOPY_RECEIVE).

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::mapped_receive::Window;
use msgpath_sys::poll::{self, Interest};

use super::receive_when_ready;
use crate::channel::{Channel, Polled, Socket};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, TransportMeta};

pub struct ZcReceive {
    window: Window,
}

impl Part for ZcReceive {
    const META: Meta = Meta {
        name: "zc-receive",
        summary: "poll(), then map the pages that came instead of copying them (TCP_ZEROCOPY_RECEIVE)",
        manual: "The kernel maps pages into the program that hold nothing but payload; the rest is received as always. msgpath, which wants \
                 a message in one buffer, copies from the mapping: the path shows what mapping costs and how much can be mapped \
                 (W20), not the copy that a program saves which reads in place. On one machine the sender decides: send() \
                 fills pages with several messages, zerocopy hands over whole ones. Kernel 4.18.",
    };
    const MAPS: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if transport.meta.name == "tcp" { Ok(()) } else { Err("only sockets of TCP map what they receive") }
    }
}

impl NewWait<Socket> for ZcReceive {
    fn new(channel: &mut Socket, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let refused = |error| Unavailable::new(format!("TCP_ZEROCOPY_RECEIVE: {error}"), "kernel 4.18 or newer");
        Window::new(channel.fd()).map(|window| Self { window }).map_err(refused)
    }
}

impl Wait<Socket> for ZcReceive {
    #[inline(always)]
    fn recv(&mut self, channel: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let slice_ms = channel.limits().poll_ms();
        let ready = |channel: &Socket| poll::poll(channel.recv_fd(), Interest::Read, slice_ms);
        receive_when_ready(channel, buffer, ready, |channel, buffer| {
            let received = self.window.recv_now(channel.fd(), buffer)?;
            channel.counts().mapped_bytes += received.mapped as u64;
            Ok(received.bytes)
        })
    }
}
