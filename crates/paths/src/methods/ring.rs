//! `ring`: copy the message into the shared ring and publish it.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::clock;
use msgpath_sys::scatter::Scatter;

use crate::channel::{Channel, RingEnd};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

/// `ring`.
pub struct RingCopy {
    message: Scatter,
    notify: bool,
}

impl Part for RingCopy {
    const META: Meta = Meta {
        name: "ring",
        summary: "copy the message into the shared ring",
        manual: "One copy in at the sender, one copy out at the receiver, no kernel in between.",
    };
}

impl NewMethod<RingEnd> for RingCopy {
    fn new(channel: &mut RingEnd, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { message: layout.whole(), notify: channel.ring.notifies() })
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
        self.wait_for_room(channel)
    }
}

impl RingCopy {
    #[cold]
    fn wait_for_room(&mut self, channel: &mut RingEnd) -> io::Result<()> {
        let since = clock::now();
        let mut spins = 0_u32;
        while !channel.ring.try_send(self.message.piece(0))? {
            if self.notify {
                channel.ring.sleep_for_space(channel.limits().slice)?;
            } else {
                std::hint::spin_loop();
            }
            spins = spins.wrapping_add(1);
            if self.notify || spins.is_multiple_of(1024) {
                channel.limits().again(io::Error::from(io::ErrorKind::WouldBlock), since)?;
            }
        }
        Ok(())
    }
}
