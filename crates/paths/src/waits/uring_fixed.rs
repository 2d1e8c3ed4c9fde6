//! `uring-fixed`: as `uring`, from a registered descriptor.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::uring;

use super::uring::ring;
use crate::channel::Fds;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part};

pub struct UringFixed {
    ring: uring::Uring,
}

impl Part for UringFixed {
    const META: Meta = Meta {
        name: "uring-fixed",
        summary: "as uring, from a registered descriptor",
        manual: "IORING_OP_READ with IOSQE_FIXED_FILE: the kernel does not look the descriptor up for each message. With one message in \
                 flight that is nothing beside the wake-up. Needs io_uring.",
    };
}

impl<C: Fds> NewWait<C> for UringFixed {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let ring = ring(8)?;
        ring.register(channel.recv_fd())
            .map_err(|error| Unavailable::new(format!("IORING_REGISTER_FILES: {error}"), "ulimit -n"))?;
        Ok(Self { ring })
    }
}

impl<C: Fds> Wait<C> for UringFixed {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        let slice = channel.limits().timed.then_some(channel.limits().slice);
        self.ring.read_registered(buffer, slice)
    }
}
