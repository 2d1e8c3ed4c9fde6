//! `uring-multishot`: a receive through io_uring that stays armed.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::multishot::Multishot;

use super::uring::or_why;
use crate::channel::{Channel, Socket};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, TransportMeta};

pub struct UringMultishot {
    ring: Multishot,
}

impl Part for UringMultishot {
    const META: Meta = Meta {
        name: "uring-multishot",
        summary: "a receive through io_uring that stays armed",
        manual: "IORING_RECV_MULTISHOT with a ring of 16 buffers of 64 KiB: one receive is submitted once, the kernel fills one buffer \
                 after the other, and several messages may come with one io_uring_enter. Each is copied once more, out of the kernel's \
                 choice of a buffer into the program's. Needs io_uring and kernel 6.0.",
    };

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        let whole = !transport.framed || (transport.inet && transport.lossy);
        if whole { Ok(()) } else { Err("a message may be longer than a buffer of its ring, and would be cut") }
    }
}

impl NewWait<Socket> for UringMultishot {
    fn new(_: &mut Socket, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { ring: or_why(Multishot::new())? })
    }
}

impl Wait<Socket> for UringMultishot {
    #[inline(always)]
    fn recv(&mut self, channel: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let slice = channel.limits().timed.then_some(channel.limits().slice);
        let before = self.ring.enters();
        let received = self.ring.recv(channel.fd(), buffer, slice);
        channel.counts().recv_calls += self.ring.enters() - before;
        received
    }
}
