//! `send`: the message lies in one buffer and goes with one call.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::{packet, sysvmsg};

use super::hand_over;
use crate::channel::{Channel, Packet, Queue, Socket, SysvQueues, XskEnd};
use crate::end::{Layout, Method, NewMethod};
use crate::layer::Layered;
use crate::meta::{Meta, Part};

pub struct Send {
    message: Scatter,
}

impl Part for Send {
    const META: Meta = Meta {
        name: "send",
        summary: "one send() of one buffer (mq: mq_send; sysvmsg: msgsnd; eth: sendto; xdp: sendto without bytes; layers: the call of their library)",
        manual: "The whole message in one buffer, one call. The kernel copies it.",
    };
    const IN_EVENT_LOOP: bool = true;
}

impl NewMethod<Socket> for Send {
    fn new(_: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole() })
    }
}

impl Method<Socket> for Send {
    #[inline(always)]
    fn slot(&mut self, _: &mut Socket) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        let bytes = self.message.piece(0);
        hand_over(channel, bytes.len(), |channel, done| msg::send(channel.fd(), &bytes[done..], SendFlags::default()))
    }
}

impl NewMethod<Queue> for Send {
    fn new(_: &mut Queue, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole() })
    }
}

impl Method<Queue> for Send {
    #[inline(always)]
    fn slot(&mut self, _: &mut Queue) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Queue) -> io::Result<()> {
        channel.counts().send_calls += 1;
        channel.outgoing().send(self.message.piece(0))
    }
}

impl NewMethod<SysvQueues> for Send {
    fn new(_: &mut SysvQueues, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole_behind(&sysvmsg::head()) })
    }
}

impl Method<SysvQueues> for Send {
    #[inline(always)]
    fn slot(&mut self, _: &mut SysvQueues) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut SysvQueues) -> io::Result<()> {
        let total = self.message.len();
        hand_over(channel, total, |channel, _| channel.send(&self.message).map(|()| total))
    }
}

impl NewMethod<Packet> for Send {
    fn new(channel: &mut Packet, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole_behind(&channel.head(layout.pieces.total())?.bytes()) })
    }
}

impl Method<Packet> for Send {
    #[inline(always)]
    fn slot(&mut self, _: &mut Packet) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Packet) -> io::Result<()> {
        hand_over(channel, self.message.len() + packet::HEAD, |channel, _| {
            packet::send_whole(channel.fd(), &self.message, channel.to()).map_err(Packet::later)
        })
    }
}

impl NewMethod<XskEnd> for Send {
    fn new(channel: &mut XskEnd, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole_behind(&channel.head(layout.pieces.total())?) })
    }
}

impl Method<XskEnd> for Send {
    #[inline(always)]
    fn slot(&mut self, _: &mut XskEnd) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut XskEnd) -> io::Result<()> {
        channel.post(&self.message)?;
        // The message is in the ring: there is nothing but the call to be repeated.
        hand_over(channel, 1, |channel, _| channel.kick().map(|()| 1))
    }
}

impl NewMethod<Layered> for Send {
    fn new(channel: &mut Layered, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.begin()?;
        Ok(Self { message: layout.whole() })
    }
}

impl Method<Layered> for Send {
    #[inline(always)]
    fn slot(&mut self, _: &mut Layered) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Layered) -> io::Result<()> {
        channel.layer()?.send(self.message.piece(0))
    }

    fn drain(&mut self, channel: &mut Layered) -> io::Result<()> {
        channel.layer()?.drain();
        Ok(())
    }
}
