//! `writev`: all pieces with one writev().

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg;
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::Fds;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

pub struct Writev {
    message: Scatter,
}

impl Part for Writev {
    const META: Meta = Meta {
        name: "writev",
        summary: "all pieces with one writev()",
        manual: "The kernel gathers the pieces while it copies them: one call, no copy in the program. The iovec \
                 array is built once, before the first message.",
    };
    const JOINS: bool = true;
    const IN_EVENT_LOOP: bool = true;
}

impl<C: Fds> NewMethod<C> for Writev {
    fn new(_: &mut C, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut() })
    }
}

impl<C: Fds> Method<C> for Writev {
    #[inline(always)]
    fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        let message = &self.message;
        hand_over(channel, message.len(), |channel, done| match done {
            0 => msg::writev(channel.write_fd(), message),
            done => msg::writev_rest(channel.write_fd(), message, done),
        })
    }
}
