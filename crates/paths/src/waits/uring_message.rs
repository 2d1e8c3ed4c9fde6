//! `uring-msg`: sleep in io_uring until the sender puts a completion into the ring.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

/// `uring-msg`.
pub struct UringMessage;

impl Part for UringMessage {
    const META: Meta = Meta {
        name: "uring-msg",
        summary: "sleep in io_uring until the sender's ring puts a completion into this one",
        manual: "IORING_OP_MSG_RING: no file and no buffer, one io_uring posts into the other. Since kernel 6.7 the \
                 descriptor of an io_uring cannot be passed over a socket, so each end fetches the other's with \
                 pidfd_getfd(), which asks for ptrace access. One io_uring_enter() wakes, one sleeps. Kernel 5.18.",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::UringMessage);
}

impl NewWait<RingEnd> for UringMessage {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for UringMessage {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
