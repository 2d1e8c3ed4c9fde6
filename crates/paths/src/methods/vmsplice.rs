//! `vmsplice`: the pages of the message go into the pipe as they are. As many buffers in turn as the pipe can hold unread messages.

use std::io;
use std::time::Duration;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::{clock, msg};

use super::hand_over;
use crate::channel::{Channel, Fds, Pipe};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

pub struct Vmsplice {
    message: Scatter,
}

/// Bytes of a slot of a pipe.
const PAGE: u64 = 4096;

impl Part for Vmsplice {
    const META: Meta = Meta {
        name: "vmsplice",
        summary: "one vmsplice() of one buffer: its pages go into the pipe, the reader copies them out",
        manual: "The sender copies nothing: the pipe holds the program's own pages until the reader has copied them. A buffer \
                 that is changed before that sends what it was changed to, without an error, and a ping-pong hides it, \
                 because the reply proves that the message was read (W21). Where nobody answers, msgpath uses as many \
                 buffers in turn as the pipe can hold messages; else as many as are in flight. At the end it waits until the \
                 pipe is empty.",
    };
    const LENDS: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if transport.framed { Err("pages that are lent become no packets") } else { Ok(()) }
    }
}

/// Buffers of so many bytes that are needed so that none is used again before the reader has it: a message that is in the pipe
/// fills a slot for each page at least, and when the buffer's turn comes again, all others were handed over after it.
fn buffers(room: u64, message: u64) -> u64 {
    let (slots, pages) = (room.div_ceil(PAGE), message.div_ceil(PAGE).max(1));
    slots / pages + 2
}

impl NewMethod<Pipe> for Vmsplice {
    fn new(channel: &mut Pipe, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let room = channel.room().ok_or_else(|| Unavailable::new("the pipe does not say how much it holds", ""))?;
        Ok(Self { message: layout.lent(buffers(room, layout.pieces.total())).whole() })
    }
}

impl Method<Pipe> for Vmsplice {
    #[inline(always)]
    fn slot(&mut self, _: &mut Pipe) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Pipe) -> io::Result<()> {
        let bytes = self.message.piece(0);
        hand_over(channel, bytes.len(), |channel, done| msg::vmsplice(channel.write_fd(), &bytes[done..]))
    }

    /// Waits until the reader has all pages: they are freed with this.
    fn drain(&mut self, channel: &mut Pipe) -> io::Result<()> {
        let since = clock::now();
        let slice = channel.limits().slice.as_nanos() as u64;
        while rustix::io::ioctl_fionread(channel.write_fd())? > 0 && clock::now() - since < slice {
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::buffers;

    #[test]
    fn a_buffer_is_used_again_when_the_pipe_cannot_hold_it_any_more() {
        for (slots, bytes) in [(16, 1_u64), (16, 4096), (16, 4097), (16, 65_536), (16, 1 << 20), (1, 64), (256, 65_500)]
        {
            let (room, pages) = (slots * 4096, bytes.div_ceil(4096));
            // The others, whole in the pipe, and one slot of the buffer in question: more than there are.
            let others = buffers(room, bytes) - 1;
            assert!(others * pages + 1 > slots, "{slots} slots, {bytes} bytes");
        }
    }
}
