//! `epoll`: epoll_wait(), then receive.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::poll;

use super::receive_when_ready;
use crate::channel::Receive;
use crate::end::{Doors, NewWait, Wait};
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
    const IN_EVENT_LOOP: bool = true;
}

impl<C: Receive> NewWait<C> for Epoll {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let failed = |error: io::Error| Unavailable::new(format!("epoll: {error}"), "");
        channel.never_block().map_err(failed)?;
        Ok(Self { epoll: poll::Epoll::new(channel.recv_fd()).map_err(failed)? })
    }
}

impl<C: Receive> Wait<C> for Epoll {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        let slice_ms = channel.limits().poll_ms();
        receive_when_ready(channel, buffer, |_| self.epoll.wait(slice_ms))
    }

    fn join(&mut self, channel: &mut C) -> Result<Doors, Unavailable> {
        let failed = |error: io::Error| Unavailable::new(format!("epoll: {error}"), "");
        channel.never_wait().map_err(failed)?;
        self.epoll.forget(channel.recv_fd()).map_err(failed)?;
        let input = channel.recv_fd().try_clone_to_owned().map_err(failed)?;
        let output = channel.room_fd().try_clone_to_owned().map_err(failed)?;
        Ok(Doors { input, output })
    }

    #[inline(always)]
    fn take(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        channel.counts().recv_calls += 1;
        let received = channel.recv_now(buffer);
        if matches!(&received, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            channel.counts().recv_empty += 1;
        }
        received
    }
}
