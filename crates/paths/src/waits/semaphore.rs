//! `sem`: sleep at a POSIX semaphore in the shared memory until the sender posts it.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

/// `sem`.
pub struct Semaphore;

impl Part for Semaphore {
    const META: Meta = Meta {
        name: "sem",
        summary: "sleep in sem_wait() until the sender posts the POSIX semaphore",
        manual: "sem_post() and sem_wait() on a semaphore for several processes (sem_overview(7)): a counter in the shared memory and \
                 a futex below it.",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::Posix);
}

impl NewWait<RingEnd> for Semaphore {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for Semaphore {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
