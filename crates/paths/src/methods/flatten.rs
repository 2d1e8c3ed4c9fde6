//! `flatten`: the program copies the pieces together, then one write().

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg;
use msgpath_sys::scatter::Scatter;

use super::hand_over;
use crate::channel::Fds;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

pub struct Flatten {
    message: Scatter,
    flat: Scatter,
}

impl Part for Flatten {
    const META: Meta = Meta {
        name: "flatten",
        summary: "copy the pieces together, then one write()",
        manual: "One copy in the program more than writev, one call as there: the difference of the two is the price \
                 of the copy. The copy is inside the measured time.",
    };
}

impl<C: Fds> NewMethod<C> for Flatten {
    fn new(_: &mut C, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.cut(), flat: layout.whole() })
    }
}

impl<C: Fds> Method<C> for Flatten {
    #[inline(always)]
    fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        let flat = self.flat.turn().piece_mut(0);
        let mut at = 0;
        for piece in 0..self.message.count() {
            let bytes = self.message.piece(piece);
            flat[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        channel.counts().copied_bytes += at as u64;
        let bytes = self.flat.piece(0);
        hand_over(channel, bytes.len(), |channel, done| msg::write(channel.write_fd(), &bytes[done..]))
    }
}
