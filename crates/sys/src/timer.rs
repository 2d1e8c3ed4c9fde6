//! Waiting for a point in time: absolute sleeps and the slack that the kernel takes with them.

use std::io;
use std::num::NonZeroU64;

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute, set_current_timer_slack};

/// PR_SET_TIMERSLACK of the calling thread, ns: how much later than asked the kernel may wake it, so that wake-ups can
/// be brought together. The default is 50 µs; 0 goes back to the default. Threads that are started later inherit it.
///
/// # Errors
/// As prctl(2).
pub fn set_timer_slack(ns: u64) -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(ns))?)
}

/// Sleeps until CLOCK_MONOTONIC shows `monotonic_ns` ([`crate::clock::now`]); a signal does not end the sleep. Returns
/// at once where that time is over.
///
/// # Errors
/// As clock_nanosleep(2), without `EINTR`.
#[inline]
pub fn sleep_until(monotonic_ns: u64) -> io::Result<()> {
    let until =
        Timespec { tv_sec: (monotonic_ns / 1_000_000_000) as i64, tv_nsec: (monotonic_ns % 1_000_000_000) as _ };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &until) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_sleep_never_ends_early() {
        set_timer_slack(1).unwrap();
        let start = clock::now();
        for millisecond in 1..=5 {
            let until = start + millisecond * 1_000_000;
            sleep_until(until).unwrap();
            assert!(clock::now() >= until);
        }
        sleep_until(start).unwrap();
    }

    #[test]
    fn the_slack_is_the_threads_own() {
        std::thread::spawn(|| {
            set_timer_slack(1).unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
            set_timer_slack(0).unwrap();
            assert_ne!(rustix::thread::current_timer_slack().unwrap(), 1);
        })
        .join()
        .unwrap();
    }
}
