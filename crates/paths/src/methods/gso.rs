//! `gso`: several datagrams of one size with one sendmsg(), cut by the kernel as late as it can (UDP_SEGMENT).

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::segments::{self, Together};

use super::hand_over;
use crate::channel::Socket;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Family, Meta, Part, TransportMeta};

pub struct Gso {
    messages: Vec<Scatter>,
    together: Together,
    queued: usize,
    size: usize,
}

impl Part for Gso {
    const META: Meta = Meta {
        name: "gso",
        summary: "several datagrams with one sendmsg(), which the kernel cuts apart (UDP_SEGMENT; echo: one)",
        manual: "UDP segmentation offload: up to 64 datagrams, 64 KiB together, go through the stack as one packet; the device cuts them, \
                 or the kernel just before it, or over loopback the receiver's socket. The receiver still takes one with a call, \
                 unless it waits with gro. One lost packet is all of them. A datagram must fit into the MTU. Kernel 4.18.",
    };

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        of_udp(transport)
    }
}

/// Whether datagrams of this transport are those of UDP.
pub(crate) fn of_udp(transport: &TransportMeta) -> Result<(), &'static str> {
    if transport.inet && transport.lossy && transport.family == Family::Socket {
        Ok(())
    } else {
        Err("only datagrams of UDP are cut and joined by the kernel")
    }
}

impl NewMethod<Socket> for Gso {
    fn new(channel: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let refused = |error: io::Error| Unavailable::new(format!("UDP_SEGMENT: {error}"), "kernel 4.18 or newer");
        let size = layout.pieces.total();
        let fitting = segments::fitting(channel.fd()).map_err(refused)?;
        let bytes = u16::try_from(size).ok().filter(|_| size <= fitting).ok_or_else(|| {
            Unavailable::new(
                format!("a datagram of {size} bytes does not fit into the MTU ({fitting})"),
                "a smaller -l",
            )
        })?;
        segments::segment(channel.fd(), bytes).map_err(refused)?;
        let buffers = segments::MOST_BUFFERS / layout.pieces.count.max(1) as usize;
        let most = (segments::MOST_BYTES / size.max(1) as usize).min(segments::MOST).min(buffers).max(1);
        let layout = Layout { copies: layout.copies.div_ceil(most), ..layout };
        let messages = (0..most).map(|_| layout.cut()).collect();
        let together = Together::new(most * layout.pieces.count as usize);
        Ok(Self { messages, together, queued: 0, size: size as usize })
    }
}

impl Method<Socket> for Gso {
    #[inline(always)]
    fn slot(&mut self, _: &mut Socket) -> io::Result<&mut Scatter> {
        Ok(self.messages[self.queued].turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        self.queued += 1;
        if self.queued == self.messages.len() { self.flush(channel) } else { Ok(()) }
    }

    #[inline(always)]
    fn flush(&mut self, channel: &mut Socket) -> io::Result<()> {
        let Self { messages, together, queued, size } = self;
        let count = std::mem::take(queued);
        if count == 0 {
            return Ok(());
        }
        hand_over(channel, count * *size, |channel, _| together.send(channel.fd(), &messages[..count]))
    }
}
