//! `ring`: copy the message into the shared ring and publish it.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;

use super::wait_for_room;
use crate::channel::RingEnd;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

pub struct RingCopy {
    message: Scatter,
}

impl Part for RingCopy {
    const META: Meta = Meta {
        name: "ring",
        summary: "copy the message into the shared ring",
        manual: "One copy in at the sender, one copy out at the receiver, no kernel in between.",
    };
}

impl NewMethod<RingEnd> for RingCopy {
    fn new(_: &mut RingEnd, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole() })
    }
}

impl Method<RingEnd> for RingCopy {
    #[inline(always)]
    fn slot(&mut self, _: &mut RingEnd) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut RingEnd) -> io::Result<()> {
        if channel.ring.try_send(self.message.piece(0))? {
            return Ok(());
        }
        wait_for_room(channel, |channel| &mut channel.ring, self.message.piece(0))
    }
}
