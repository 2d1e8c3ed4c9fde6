//! `sendmmsg`: several datagrams with one call.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::{clock, msg, packet};

use crate::channel::{Channel, Packet, Socket};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

/// Datagrams of one call in a stream.
const BATCH: usize = 32;
/// Bytes that the messages of one batch may take together.
const BATCH_BYTES: usize = 1 << 20;

pub struct Sendmmsg {
    messages: Vec<Scatter>,
    headers: Vec<msg::MultiHeader>,
    queued: usize,
}

impl Part for Sendmmsg {
    const META: Meta = Meta {
        name: "sendmmsg",
        summary: "several datagrams with one sendmmsg() (stream: up to 32; echo: one)",
        manual: "The call is shared by the datagrams of a batch; the way of each through the stack is not.",
    };

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if transport.framed { Ok(()) } else { Err("sendmmsg() batches datagrams; a byte stream has none") }
    }
}

impl Sendmmsg {
    /// Buffers for one batch, each made by `message`.
    fn batched(layout: Layout, message: impl Fn(Layout) -> Scatter) -> Self {
        let batch = (BATCH_BYTES / layout.pieces.total().max(1) as usize).clamp(1, BATCH);
        let layout = Layout { copies: layout.copies.div_ceil(batch), ..layout };
        Self { messages: (0..batch).map(|_| message(layout)).collect(), headers: Vec::with_capacity(batch), queued: 0 }
    }

    /// Repeats `call` until the batch is handed over.
    #[inline(always)]
    fn hand_over<C: Channel>(
        &mut self,
        channel: &mut C,
        call: impl Fn(&C, &[Scatter], &mut Vec<msg::MultiHeader>) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut done = 0;
        let since = clock::now();
        while done < self.queued {
            channel.counts().send_calls += 1;
            match call(channel, &self.messages[done..self.queued], &mut self.headers) {
                Ok(sent) => done += sent,
                Err(error) => channel.limits().again(error, since)?,
            }
        }
        self.queued = 0;
        Ok(())
    }
}

impl NewMethod<Socket> for Sendmmsg {
    fn new(_: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self::batched(layout, |layout| layout.cut()))
    }
}

impl Method<Socket> for Sendmmsg {
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
        self.hand_over(channel, |channel, messages, headers| msg::sendmmsg(channel.fd(), messages, headers))
    }
}

impl NewMethod<Packet> for Sendmmsg {
    fn new(channel: &mut Packet, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let head = channel.head(layout.pieces.total())?.bytes();
        Ok(Self::batched(layout, |layout| layout.cut_behind(&head)))
    }
}

impl Method<Packet> for Sendmmsg {
    #[inline(always)]
    fn slot(&mut self, _: &mut Packet) -> io::Result<&mut Scatter> {
        Ok(self.messages[self.queued].turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Packet) -> io::Result<()> {
        self.queued += 1;
        if self.queued == self.messages.len() { self.flush(channel) } else { Ok(()) }
    }

    #[inline(always)]
    fn flush(&mut self, channel: &mut Packet) -> io::Result<()> {
        self.hand_over(channel, |channel, messages, headers| {
            packet::sendmmsg(channel.fd(), messages, headers, channel.to()).map_err(Packet::later)
        })
    }
}
