//! `sysvsem`: sleep at a System V semaphore until the sender raises it.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

/// `sysvsem`.
pub struct SysvSemaphore;

impl Part for SysvSemaphore {
    const META: Meta = Meta {
        name: "sysvsem",
        summary: "sleep in semop() until the sender raises the System V semaphore",
        manual: "A set of two semaphores that the kernel keeps until it is removed (IPC_RMID): each end removes it when it ends, and \
                 only a SIGKILL for both leaves it behind (ipcs -s shows it). Limits: kernel.sem.",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::SystemV);
}

impl NewWait<RingEnd> for SysvSemaphore {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for SysvSemaphore {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
