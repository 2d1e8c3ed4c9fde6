//! `epoll`: epoll_wait(), then receive.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::poll;

use super::receive_when_ready;
use crate::channel::Receive;
use crate::end::Wait;
use crate::meta::{Meta, Part};

/// `epoll`.
pub struct Epoll {
    epoll: poll::Epoll,
}

impl Part for Epoll {
    const META: Meta = Meta {
        name: "epoll",
        summary: "epoll_wait(), then receive; level-triggered",
        manual: "Two calls a message, as event loops do. The descriptor is registered once.",
    };
}

impl<C: Receive> Wait<C> for Epoll {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let failed = |error: io::Error| Unavailable::new(format!("epoll: {error}"), "");
        channel.never_block().map_err(failed)?;
        Ok(Self { epoll: poll::Epoll::new(channel.recv_fd()).map_err(failed)? })
    }

    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        let slice_ms = channel.limits().poll_ms();
        receive_when_ready(channel, buffer, |_| self.epoll.wait(slice_ms))
    }
}
