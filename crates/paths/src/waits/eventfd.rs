//! `eventfd`: sleep in read() of an eventfd that the sender writes.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

pub struct Eventfd;

impl Part for Eventfd {
    const META: Meta = Meta {
        name: "eventfd",
        summary: "sleep in read() of an eventfd until the sender writes it",
        manual: "A counter in the kernel (eventfd(2)), one for each direction. The message goes through the ring; write() wakes, read() \
                 sleeps and takes the count back, both only when the ring is empty.",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::Eventfd);
}

impl NewWait<RingEnd> for Eventfd {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for Eventfd {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
