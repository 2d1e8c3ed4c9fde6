//! One file per wait.

pub mod block;
pub mod busy_poll;
pub mod epoll;
pub mod futex;
pub mod poll;
pub mod quickack;
pub mod sigio;
pub mod spin;
pub mod uring;

use std::io;

use msgpath_sys::clock;

use crate::channel::Receive;

/// What a wait returns when its slice is over.
fn slice_over() -> io::Error {
    io::Error::from(io::ErrorKind::WouldBlock)
}

/// Waits with `ready` (which returns false when the time is over), then receives. A descriptor can be ready without a
/// byte: a zero-copy completion on the error queue wakes pollers as well. That is an empty receive call, and the wait
/// goes on.
#[inline(always)]
fn receive_when_ready<C: Receive>(
    channel: &mut C,
    buffer: &mut [u8],
    mut ready: impl FnMut(&C) -> io::Result<bool>,
) -> io::Result<usize> {
    let mut since = None;
    loop {
        channel.counts().wait_calls += 1;
        if !ready(channel)? {
            return Err(slice_over());
        }
        channel.counts().recv_calls += 1;
        match channel.recv_now(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                channel.counts().recv_empty += 1;
                let since = *since.get_or_insert_with(clock::now);
                if clock::now() - since > channel.limits().slice.as_nanos() as u64 {
                    return Err(slice_over());
                }
            }
            received => return received,
        }
    }
}
