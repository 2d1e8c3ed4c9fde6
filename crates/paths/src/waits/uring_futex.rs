//! `uring-futex`: sleep on the ring's futex, and wake it, through io_uring.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

pub struct UringFutex;

impl Part for UringFutex {
    const META: Meta = Meta {
        name: "uring-futex",
        summary: "as futex, but both operations go through io_uring",
        manual: "IORING_OP_FUTEX_WAIT and IORING_OP_FUTEX_WAKE, one io_uring_enter() each: what io_uring adds to futex(2) when nothing \
                 else is in it. Kernel 6.7.",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::UringFutex);
}

impl NewWait<RingEnd> for UringFutex {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for UringFutex {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
