//! One file per send method; what several of them share is here.

pub mod fetch;
pub mod flatten;
pub mod gso;
pub mod ring;
pub mod send;
pub mod sendfile;
pub mod sendmmsg;
pub mod sendmsg;
pub mod splice;
pub mod uring;
pub mod uring_zc;
pub mod vmsplice;
pub mod write;
pub mod writes;
pub mod writev;
pub mod zerocopy;
pub mod zerocopy_unset;

use std::io;

use msgpath_sys::clock;
use msgpath_sys::ring::Ring;

use crate::channel::Channel;

/// Repeats `call` (which hands over what follows the first `done` bytes) until `total` bytes are handed over. The first
/// call has no loop around it: one compare a message. A channel that never waits remembers how far it came.
#[inline(always)]
pub(crate) fn hand_over<C: Channel>(
    channel: &mut C,
    total: usize,
    mut call: impl FnMut(&mut C, usize) -> io::Result<usize>,
) -> io::Result<()> {
    channel.counts().send_calls += 1;
    let begun = channel.begun();
    match call(channel, begun) {
        Ok(sent) if sent == total => Ok(()),
        first => the_rest(channel, total, begun, first, call),
    }
}

#[cold]
fn the_rest<C: Channel>(
    channel: &mut C,
    total: usize,
    mut done: usize,
    mut last: io::Result<usize>,
    mut call: impl FnMut(&mut C, usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut since = clock::now();
    loop {
        match last {
            Ok(sent) => {
                done += sent;
                since = clock::now();
                if done >= total {
                    channel.pause(0);
                    return Ok(());
                }
                channel.counts().send_short += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && channel.pause(done) => return Err(error),
            Err(error) => channel.limits().again(error, since)?,
        }
        channel.counts().send_calls += 1;
        last = call(channel, done);
    }
}

/// Puts a message into the ring of a channel that had no room for it, as soon as there is some.
#[cold]
pub(crate) fn wait_for_room<C: Channel>(
    channel: &mut C,
    ring: impl Fn(&mut C) -> &mut Ring,
    message: &[u8],
) -> io::Result<()> {
    let since = clock::now();
    let notifies = ring(channel).notifies();
    let mut spins = 0_u32;
    while !ring(channel).try_send(message)? {
        if notifies {
            let slice = channel.limits().slice;
            ring(channel).sleep_for_space(slice)?;
        } else {
            std::hint::spin_loop();
        }
        spins = spins.wrapping_add(1);
        if notifies || spins.is_multiple_of(1024) {
            channel.limits().again(io::Error::from(io::ErrorKind::WouldBlock), since)?;
        }
    }
    Ok(())
}
