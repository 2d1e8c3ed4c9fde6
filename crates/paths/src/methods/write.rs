//! `write`: the message lies in one buffer and goes with one write(). Copy this file to add a send method.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg;
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::Fds;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

pub struct Write {
    message: Scatter,
}

impl Part for Write {
    const META: Meta = Meta {
        name: "write",
        summary: "one write() of one buffer",
        manual: "As send, through the call that works on every descriptor. The kernel copies the bytes.",
    };
    const IN_EVENT_LOOP: bool = true;
}

impl<C: Fds> NewMethod<C> for Write {
    fn new(_: &mut C, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole() })
    }
}

impl<C: Fds> Method<C> for Write {
    #[inline(always)]
    fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        let bytes = self.message.piece(0);
        hand_over(channel, bytes.len(), |channel, done| msg::write(channel.write_fd(), &bytes[done..]))
    }
}
