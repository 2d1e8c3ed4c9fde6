//! `splice`: the near end writes; the far end of an echo moves the pages into a pipe of its own and from there back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::msg;
use msgpath_sys::scatter::Scatter;
use rustix::pipe::{PipeFlags, pipe_with};

use super::hand_over;
use crate::channel::Fds;
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

pub struct Splice {
    message: Scatter,
    /// Where pages are between the two calls, and how many bytes of them.
    out: OwnedFd,
    into: OwnedFd,
    held: usize,
}

impl Part for Splice {
    const META: Meta = Meta {
        name: "splice",
        summary: "the far end of an echo moves pages by splice() and never touches the payload; the near end writes",
        manual: "What a proxy does that looks at nothing: splice() from the connection into a pipe, splice() from there back, no copy \
                 to the program (W21). The near end sends by write() and receives as with any other method. A reply has \
                 the size of its message. Parts of a long message go back as they come, so it must fit into the send buffer.",
    };
    const UNTOUCHED: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if ["tcp", "unix", "pipe", "fifo"].contains(&transport.meta.name) {
            Ok(())
        } else {
            Err("splice() moves bytes that stream: TCP, Unix streams and pipes have them")
        }
    }
}

impl<C: Fds> NewMethod<C> for Splice {
    fn new(channel: &mut C, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let size = layout.pieces.total();
        if let Some(room) = channel.room().filter(|room| size > *room) {
            let why = format!("{size} bytes do not fit into the {room} bytes that this end may send ahead");
            return Err(Unavailable::new(why, "a smaller -l, or a larger -o sndbuf"));
        }
        let (out, into) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| Unavailable::new(format!("a pipe: {error}"), "ulimit -n"))?;
        Ok(Self { message: layout.whole(), out, into, held: 0 })
    }
}

impl Splice {
    /// Moves on what is held.
    #[inline(always)]
    fn pass<C: Fds>(&mut self, channel: &mut C) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        hand_over(channel, held, |channel, done| msg::splice(self.out.as_fd(), channel.write_fd(), held - done))
    }
}

impl<C: Fds> Method<C> for Splice {
    #[inline(always)]
    fn slot(&mut self, _: &mut C) -> io::Result<&mut Scatter> {
        Ok(self.message.turn())
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        if self.held > 0 {
            return self.pass(channel);
        }
        let bytes = self.message.piece(0);
        hand_over(channel, bytes.len(), |channel, done| msg::write(channel.write_fd(), &bytes[done..]))
    }

    #[inline(always)]
    fn relays(&self) -> bool {
        true
    }

    fn relay(&mut self, channel: &mut C, most: usize) -> io::Result<usize> {
        // Where a message comes in parts, each goes on before the next is taken: the pipe never fills.
        if self.held > 0 {
            self.pass(channel)?;
        }
        channel.counts().recv_calls += 1;
        self.held = msg::splice(channel.recv_fd(), self.into.as_fd(), most)?;
        Ok(self.held)
    }
}
