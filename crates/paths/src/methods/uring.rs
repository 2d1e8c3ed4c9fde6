//! `uring`: one send through io_uring, submitted and waited for with one io_uring_enter().

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::Fds;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};
use crate::waits::uring::ring;

pub struct Uring {
    message: Scatter,
    ring: msgpath_sys::uring::Uring,
}

impl Part for Uring {
    const META: Meta = Meta {
        name: "uring",
        summary: "one write through io_uring, submitted and waited for with one call",
        manual: "IORING_OP_WRITE of one buffer, one io_uring_enter a message: what io_uring costs when nothing is \
                 batched. The kernel copies the bytes. Needs io_uring (kernel.io_uring_disabled = 0).",
    };
}

impl<C: Fds> NewMethod<C> for Uring {
    fn new(_: &mut C, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole(), ring: ring(8)? })
    }
}

impl<C: Fds> Method<C> for Uring {
    #[inline(always)]
    fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        let Self { message, ring } = self;
        let bytes = message.piece(0);
        hand_over(channel, bytes.len(), |channel, done| ring.write(channel.write_fd(), &bytes[done..]))
    }
}
