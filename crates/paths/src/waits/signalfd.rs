//! `signalfd`: sleep in read() of a signalfd until the sender queues a real-time signal.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::bell::Kind;

use super::receive_at_bell;
use crate::channel::RingEnd;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

pub struct Signalfd;

impl Part for Signalfd {
    const META: Meta = Meta {
        name: "signalfd",
        summary: "sleep in read() of a signalfd until the sender queues a real-time signal",
        manual: "As sigqueue, but the signal is read from a descriptor (signalfd(2)).",
    };
    const WAKES: Wakes = Wakes::Bell(Kind::Signalfd);
}

impl NewWait<RingEnd> for Signalfd {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.meet()?;
        Ok(Self)
    }
}

impl Wait<RingEnd> for Signalfd {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        receive_at_bell(channel, buffer)
    }
}
