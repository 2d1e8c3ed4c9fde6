//! `uring-sqpoll`: as `uring`, submitted by a thread of the kernel that polls.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::uring;

use super::uring::or_why;
use crate::channel::Fds;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part};

pub struct UringSqpoll {
    ring: uring::Uring,
}

impl Part for UringSqpoll {
    const META: Meta = Meta {
        name: "uring-sqpoll",
        summary: "as uring, submitted by a thread of the kernel that polls",
        manual: "IORING_SETUP_SQPOLL: submitting takes no system call; waiting for the completion still does. The kernel's thread keeps \
                 a CPU as long as there is work, for each end and connection one; its CPU time is counted as the end's. With two CPUs \
                 it takes them from the ends. Needs io_uring, and /proc of the process's own PID namespace to find that thread.",
    };
    const POLLED: bool = true;
}

impl<C: Fds> NewWait<C> for UringSqpoll {
    fn new(_: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self { ring: or_why(uring::Uring::polled(8))? })
    }
}

impl<C: Fds> Wait<C> for UringSqpoll {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        let slice = channel.limits().timed.then_some(channel.limits().slice);
        self.ring.read(channel.recv_fd(), buffer, slice)
    }

    fn helpers_ns(&self) -> u64 {
        self.ring.polled_ns()
    }
}
