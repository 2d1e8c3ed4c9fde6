//! `spin`: ask again and again without sleeping.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::clock;

use super::slice_over;
use crate::channel::{Channel, Receive, RingEnd};
use crate::end::Wait;
use crate::meta::{Meta, Part};

/// How many empty looks there are between two looks at the clock.
const LOOKS: u32 = 512;

/// `spin`.
pub struct Spin;

impl Part for Spin {
    const META: Meta = Meta {
        name: "spin",
        summary: "ask again and again without sleeping; costs one CPU at each end",
        manual: "No wake-up, no idle state, and a CPU that does nothing else. On a machine with fewer free CPUs than \
                 spinning threads it is slower than sleeping.",
    };
}

/// Calls `look` until it answers or the slice is over.
#[inline(always)]
fn spin(slice_ns: u64, mut look: impl FnMut() -> io::Result<Option<usize>>) -> io::Result<usize> {
    if let Some(received) = look()? {
        return Ok(received);
    }
    let mut start = None;
    loop {
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if let Some(received) = look()? {
                return Ok(received);
            }
        }
        let start = *start.get_or_insert_with(clock::now);
        if clock::now() - start > slice_ns {
            return Err(slice_over());
        }
    }
}

impl<C: Receive> Wait<C> for Spin {
    fn new(channel: &mut C, _: &ChannelOptions) -> Result<Self, Unavailable> {
        channel.never_block().map_err(|error| Unavailable::new(format!("O_NONBLOCK: {error}"), ""))?;
        Ok(Self)
    }

    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        let slice = channel.limits().slice.as_nanos() as u64;
        spin(slice, || {
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

impl Wait<RingEnd> for Spin {
    fn new(_: &mut RingEnd, _: &ChannelOptions) -> Result<Self, Unavailable> {
        Ok(Self)
    }

    #[inline(always)]
    fn recv(&mut self, channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
        let slice = channel.limits().slice.as_nanos() as u64;
        spin(slice, || channel.ring.try_recv(buffer))
    }
}
