//! `sendmsg`: all pieces with one sendmsg(), one iovec a piece.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::packet;
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::{Packet, Socket};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

pub struct Sendmsg {
    message: Scatter,
}

impl Part for Sendmsg {
    const META: Meta = Meta {
        name: "sendmsg",
        summary: "all pieces with one sendmsg(), one iovec a piece",
        manual: "As writev, through the call that also takes addresses and control messages.",
    };
    const IN_EVENT_LOOP: bool = true;
}

impl NewMethod<Socket> for Sendmsg {
    fn new(_: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut() })
    }
}

impl Method<Socket> for Sendmsg {
    #[inline(always)]
    fn slot(&mut self, _: &mut Socket) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        let message = &self.message;
        hand_over(channel, message.len(), |channel, done| match done {
            0 => msg::sendmsg(channel.fd(), message, SendFlags::default()),
            done => msg::sendmsg_rest(channel.fd(), message, done, SendFlags::default()),
        })
    }
}

impl NewMethod<Packet> for Sendmsg {
    fn new(channel: &mut Packet, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut_behind(&channel.head(layout.pieces.total())?.bytes()) })
    }
}

impl Method<Packet> for Sendmsg {
    #[inline(always)]
    fn slot(&mut self, _: &mut Packet) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Packet) -> io::Result<()> {
        hand_over(channel, self.message.len() + packet::HEAD, |channel, _| {
            packet::sendmsg(channel.fd(), &self.message, channel.to()).map_err(Packet::later)
        })
    }
}
