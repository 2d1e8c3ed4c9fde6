//! `poll`: poll(), then receive.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::poll::{self, Interest};

use super::receive_when_ready;
use crate::channel::Polled;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part};

pub struct Poll;

impl Part for Poll {
    const META: Meta = Meta {
        name: "poll",
        summary: "poll(), then receive",
        manual: "Two calls a message: the price of waiting for several descriptors at once, paid for one.",
    };
}

impl<C: Polled> NewWait<C> for Poll {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.never_block().map_err(|error| Unavailable::new(format!("O_NONBLOCK: {error}"), ""))?;
        Ok(Self)
    }
}

impl<C: Polled> Wait<C> for Poll {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        let slice_ms = channel.limits().poll_ms();
        let ready = |channel: &C| poll::poll(channel.recv_fd(), Interest::Read, slice_ms);
        receive_when_ready(channel, buffer, ready, C::recv_now)
    }
}
