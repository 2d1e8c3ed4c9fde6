//! `fetch`: say where the message is; the receiver reads it from there. As many buffers in turn as can be announced and not read.

use std::io;
use std::time::Duration;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::clock;
use msgpath_sys::scatter::Scatter;

use super::wait_for_room;
use crate::channel::{Channel, ProcessEnd};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part};

pub struct Fetch {
    message: Scatter,
}

impl Part for Fetch {
    const META: Meta = Meta {
        name: "fetch",
        summary: "say where the message is; the receiver reads it with process_vm_readv()",
        manual: "The sender copies nothing and enters the kernel only to wake; the receiver copies once, from memory to memory. A \
                 buffer that is changed before it was read sends what it was changed to (W21): msgpath uses as many in \
                 turn as can be announced, and waits at the end until the last was read.",
    };
    const LENDS: bool = true;
}

impl NewMethod<ProcessEnd> for Fetch {
    fn new(channel: &mut ProcessEnd, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        // Who takes a message out has read the one before: beside those in the ring one may be being read, and one is written.
        Ok(Self { message: layout.lent(channel.ring().slots() + 2).whole() })
    }
}

impl Method<ProcessEnd> for Fetch {
    #[inline(always)]
    fn slot(&mut self, _: &mut ProcessEnd) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut ProcessEnd) -> io::Result<()> {
        let note = ProcessEnd::note(self.message.piece(0));
        if channel.ring().try_send(&note)? {
            return Ok(());
        }
        wait_for_room(channel, |channel| channel.ring(), &note)
    }

    /// Waits until the receiver has all messages: they are freed with this.
    fn drain(&mut self, channel: &mut ProcessEnd) -> io::Result<()> {
        let since = clock::now();
        let slice = channel.limits().slice.as_nanos() as u64;
        while channel.ring().unread() > 0 && clock::now() - since < slice {
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}
