//! One file per wait.

pub mod block;
pub mod busy_poll;
pub mod epoll;
pub mod eventfd;
pub mod futex;
pub mod gro;
pub mod poll;
pub mod quickack;
pub mod semaphore;
pub mod sigio;
pub mod signalfd;
pub mod sigqueue;
pub mod spin;
pub mod sysv_semaphore;
pub mod uring;
pub mod uring_fixed;
pub mod uring_futex;
pub mod uring_message;
pub mod uring_multishot;
pub mod uring_sqpoll;
pub mod zc_receive;

use std::io;
use std::time::Duration;

use msgpath_sys::clock;

use crate::channel::{Channel, Limits, Polled, RingEnd};

/// What a wait returns when its slice is over.
fn slice_over() -> io::Error {
    io::Error::from(io::ErrorKind::WouldBlock)
}

/// Waits with `ready` (which returns false when the time is over), then receives with `receive`, which does not wait. A descriptor can be ready without a
/// byte: a zero-copy completion on the error queue wakes pollers as well. That is an empty receive call, and the wait
/// goes on.
#[inline(always)]
fn receive_when_ready<C: Polled>(
    channel: &mut C,
    buffer: &mut [u8],
    mut ready: impl FnMut(&C) -> io::Result<bool>,
    mut receive: impl FnMut(&mut C, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut since = None;
    loop {
        channel.counts().wait_calls += 1;
        if !ready(channel)? {
            return Err(slice_over());
        }
        channel.counts().recv_calls += 1;
        match receive(channel, buffer) {
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

/// Takes a message with `look`, asleep by `sleep` until one is there.
#[inline(always)]
fn receive_asleep<C: Channel>(
    channel: &mut C,
    mut look: impl FnMut(&mut C) -> io::Result<Option<usize>>,
    mut sleep: impl FnMut(&mut C, Option<Duration>) -> io::Result<()>,
) -> io::Result<usize> {
    if let Some(received) = look(channel)? {
        return Ok(received);
    }
    let Limits { slice, timed, .. } = *channel.limits();
    let timeout = timed.then_some(slice);
    let start = timeout.map(|_| clock::now());
    loop {
        sleep(channel, timeout)?;
        if let Some(received) = look(channel)? {
            return Ok(received);
        }
        // Without a limit in time the clock is part of no message, and whoever interrupts a sleep wants to be heard.
        if start.is_none_or(|start| clock::now() - start > slice.as_nanos() as u64) {
            return Err(slice_over());
        }
    }
}

/// Receives from a ring, asleep at its bell where no message is there.
#[inline(always)]
fn receive_at_bell(channel: &mut RingEnd, buffer: &mut [u8]) -> io::Result<usize> {
    receive_asleep(channel, |end| end.ring.try_recv(buffer), |end, timeout| end.ring.sleep_at_bell(timeout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::CallCounts;
    use msgpath_core::plan::ChannelOptions;
    use msgpath_core::schema::Granted;

    struct Nowhere {
        counts: CallCounts,
        limits: Limits,
    }

    impl Channel for Nowhere {
        fn counts(&mut self) -> &mut CallCounts {
            &mut self.counts
        }
        fn limits(&self) -> &Limits {
            &self.limits
        }
        fn framed(&self) -> bool {
            true
        }
        fn room(&self) -> Option<u64> {
            None
        }
        fn granted(&self, _: &str, _: &ChannelOptions) -> Vec<Granted> {
            Vec::new()
        }
    }

    #[test]
    fn a_sleep_in_vain_ends_the_wait_or_is_followed_by_another_until_the_slice_is_over() {
        let mut limits = Limits::new(Duration::from_secs(60), Duration::from_secs(60));
        limits.slice = Duration::from_secs(60);
        let mut channel = Nowhere { counts: CallCounts::default(), limits };
        let mut looks = 0;
        let look = |_: &mut Nowhere| {
            looks += 1;
            Ok((looks == 4).then_some(64))
        };
        let mut sleeps = 0;
        let mut all = Vec::new();
        let mut sleep = |_: &mut Nowhere, timeout: Option<Duration>| {
            sleeps += 1;
            all.push(timeout);
            Ok(())
        };
        assert_eq!(receive_asleep(&mut channel, look, &mut sleep).unwrap(), 64);
        channel.limits.slice = Duration::ZERO;
        let over = receive_asleep(&mut channel, |_| Ok(None), &mut sleep).unwrap_err();
        assert_eq!(over.kind(), slice_over().kind());
        // Whoever interrupts a sleep without a limit is heard at once: it is interrupted only then.
        (channel.limits.slice, channel.limits.timed) = (Duration::from_secs(60), false);
        let over = receive_asleep(&mut channel, |_| Ok(None), &mut sleep).unwrap_err();
        assert_eq!((over.kind(), sleeps), (slice_over().kind(), 5));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(all, [minute, minute, minute, Some(Duration::ZERO), None]);
    }
}
