//! `writes`: one write() a piece, as programs do that put a header and a body out apart.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::{msg, socket};

use super::hand_over;
use crate::channel::Fds;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

pub struct Writes {
    message: Scatter,
    cork: bool,
}

impl Part for Writes {
    const META: Meta = Meta {
        name: "writes",
        summary: "one write() a piece",
        manual: "A message of N pieces costs N calls and, with TCP_NODELAY, up to N segments. Without TCP_NODELAY the \
                 second piece may wait for the acknowledgement of the first (Nagle's algorithm), which the receiver \
                 delays. -o cork=yes sets TCP_CORK before the first piece and releases it after the last.",
    };
    const APART: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if transport.framed { Err("each piece would arrive as a message of its own") } else { Ok(()) }
    }
}

impl<C: Fds> NewMethod<C> for Writes {
    fn new(_: &mut C, layout: Layout, options: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut(), cork: options.cork })
    }
}

impl<C: Fds> Method<C> for Writes {
    #[inline(always)]
    fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        if self.cork {
            channel.counts().other_calls += 1;
            socket::cork(channel.write_fd(), true)?;
        }
        for at in 0..self.message.count() {
            let bytes = self.message.piece(at);
            hand_over(channel, bytes.len(), |channel, done| msg::write(channel.write_fd(), &bytes[done..]))?;
        }
        if self.cork {
            channel.counts().other_calls += 1;
            socket::cork(channel.write_fd(), false)?; // released: the tail goes now, not after 200 ms
        }
        Ok(())
    }
}
