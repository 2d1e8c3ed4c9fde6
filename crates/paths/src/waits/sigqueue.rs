//! `sigqueue`: sleep in sigtimedwait() until the sender queues a real-time signal.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

pub struct Sigqueue;

impl Part for Sigqueue {
    const META: Meta = Meta {
        name: "sigqueue",
        summary: "sleep in sigtimedwait() until the sender queues a real-time signal",
        manual: "rt_tgsigqueueinfo() to the thread that sleeps, which has the signal blocked: no handler runs. Real-time signals are \
                 queued and do not merge; RLIMIT_SIGPENDING bounds them. Both ends must be in one process namespace.",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::Signal);
}

impl NewWait<RingEnd> for Sigqueue {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for Sigqueue {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
