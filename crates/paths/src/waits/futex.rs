//! `futex`: sleep on a word of the ring until the sender wakes us.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::clock;

use super::slice_over;
use crate::channel::{Channel, RingEnd};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part, Wakes};

/// `futex`.
pub struct Futex;

impl Part for Futex {
    const META: Meta = Meta {
        name: "futex",
        summary: "sleep on a word of the ring until the sender wakes it",
        manual: "One system call to sleep and one to wake, both only when the ring is empty.",
    };
    const WAKES: Wakes = Wakes::Futex;
}

impl NewWait<RingEnd> for Futex {
    fn new(channel: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        if channel.ring.notifies() { Ok(Self) } else { Err(Unavailable::new("the ring was made without wake-ups", "")) }
    }
}

impl Wait<RingEnd> for Futex {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(received) = channel.ring.try_recv(buffer)? {
            return Ok(received);
        }
        let slice = channel.limits().slice;
        let start = clock::now();
        loop {
            channel.ring.sleep_for_message(slice)?;
            if let Some(received) = channel.ring.try_recv(buffer)? {
                return Ok(received);
            }
            if clock::now() - start > slice.as_nanos() as u64 {
                return Err(slice_over());
            }
        }
    }
}
