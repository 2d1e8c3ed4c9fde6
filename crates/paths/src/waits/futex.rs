//! `futex`: sleep on a word of the ring until the sender wakes us.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};

use super::receive_asleep;
use crate::channel::Looks;
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

pub struct Futex;

impl Part for Futex {
    const META: Meta = Meta {
        name: "futex",
        summary: "sleep on a word of the ring until the sender wakes it",
        manual: "One system call to sleep and one to wake, both only when the ring is empty.",
    };
    const WAKES: Wakes = Wakes::Futex;
}

impl<C: Looks> NewWait<C> for Futex {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        if channel.wakes() { Ok(Self) } else { Err(Unavailable::new("the ring was made without wake-ups", "")) }
    }
}

impl<C: Looks> Wait<C> for Futex {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        receive_asleep(channel, |end| end.look(buffer), C::sleep)
    }
}
