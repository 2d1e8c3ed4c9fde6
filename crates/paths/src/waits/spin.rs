//! `spin`: ask again and again without sleeping.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::clock;

use super::slice_over;
use crate::channel::{Channel, Looks, ProcessEnd, Receive, RingEnd};
use crate::end::{NewWait, Wait};
use crate::meta::{Meta, Part};

/// How many empty looks there are between two looks at the clock.
const LOOKS: u32 = 512;

pub struct Spin;

impl Part for Spin {
    const META: Meta = Meta {
        name: "spin",
        summary: "ask again and again without sleeping; costs one CPU at each end",
        manual: "No wake-up, no idle state, and a CPU that does nothing else. On a machine with fewer free CPUs than \
                 spinning threads it is slower than sleeping.",
    };
    const SPINS: bool = true;
}

/// Calls `look` until it answers or the slice is over.
#[inline(always)]
fn spin<C: Channel>(channel: &mut C, mut look: impl FnMut(&mut C) -> io::Result<Option<usize>>) -> io::Result<usize> {
    let mut start = None;
    loop {
        for _ in 0..LOOKS {
            if let Some(received) = look(channel)? {
                return Ok(received);
            }
            std::hint::spin_loop();
        }
        if is_over(channel, &mut start) {
            return Err(slice_over());
        }
    }
}

#[cold]
#[inline(never)]
fn is_over<C: Channel>(channel: &C, start: &mut Option<u64>) -> bool {
    let start = *start.get_or_insert_with(clock::now);
    clock::now() - start > channel.limits().slice.as_nanos() as u64
}

impl<C: Receive> NewWait<C> for Spin {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.never_block().map_err(|error| Unavailable::new(format!("O_NONBLOCK: {error}"), ""))?;
        Ok(Self)
    }
}

impl<C: Receive> Wait<C> for Spin {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        spin(channel, |channel| {
            channel.counts().recv_calls += 1;
            match channel.recv_now(buffer) {
                Ok(received) => Ok(Some(received)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    channel.counts().recv_empty += 1;
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })
    }
}

impl NewWait<RingEnd> for Spin {
    fn new(_: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self)
    }
}

impl Wait<RingEnd> for Spin {
    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        spin(channel, |channel| channel.look(buffer))
    }
}

impl NewWait<ProcessEnd> for Spin {
    fn new(_: &mut ProcessEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self)
    }
}

impl Wait<ProcessEnd> for Spin {
    #[inline(always)]
    fn recv(&mut self, channel: &mut ProcessEnd, buffer: &mut [u8]) -> io::Result<usize> {
        spin(channel, |channel| channel.look(buffer))
    }
}
