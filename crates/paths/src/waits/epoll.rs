//! `epoll`: epoll_wait(), then receive.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::poll;

use super::receive_when_ready;
use crate::channel::Polled;
use crate::end::{Doors, NewWait, Wait};
use crate::meta::{Meta, Part};

pub struct Epoll {
    /// Made with the first message, so that a connection of an event loop needs none.
    epoll: Option<poll::Epoll>,
}

impl Part for Epoll {
    const META: Meta = Meta {
        name: "epoll",
        summary: "epoll_wait(), then receive; level-triggered",
        manual: "Two calls a message, as event loops do. The descriptor is registered once.",
    };
    const IN_EVENT_LOOP: bool = true;
}

impl<C: Polled> NewWait<C> for Epoll {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let failed = |error: io::Error| Unavailable::new(format!("epoll: {error}"), "");
        channel.never_block().map_err(failed)?;
        Ok(Self { epoll: None })
    }
}

impl<C: Polled> Wait<C> for Epoll {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        let slice_ms = channel.limits().poll_ms();
        let epoll = match &mut self.epoll {
            Some(epoll) => epoll,
            none => none.insert(poll::Epoll::new(channel.recv_fd())?),
        };
        receive_when_ready(channel, buffer, |_| epoll.wait(slice_ms), C::recv_now)
    }

    fn join(&mut self, channel: &mut C) -> Result<(), Unavailable> {
        channel.never_wait().map_err(|error| Unavailable::new(format!("epoll: {error}"), ""))
    }

    fn doors<'a>(&self, channel: &'a C) -> Option<Doors<'a>> {
        Some(Doors { input: channel.recv_fd(), output: channel.room_fd() })
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
