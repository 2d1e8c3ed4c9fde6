//! CLOCK_MONOTONIC through the vDSO, and what a reading of it costs.

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline(always)]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to. CLOCK_MONOTONIC always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time that this thread has used, ns.
pub fn thread_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `now`; a thread always has a clock of its own.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Mean cost of one reading and the smallest non-zero step, both in ns, over `readings` readings.
pub fn measure(readings: u32) -> (f64, u64) {
    let start = now();
    let mut last = start;
    let mut step = u64::MAX;
    for _ in 0..readings {
        let time = now();
        if time > last {
            step = step.min(time - last);
        }
        last = time;
    }
    ((last - start) as f64 / f64::from(readings.max(1)), if step == u64::MAX { 0 } else { step })
}

/// What the local time is ahead of UTC at a moment (seconds since 1970), in seconds; 0 where it is not known.
pub fn utc_offset(unix_seconds: i64) -> i64 {
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: the first pointer is to a valid time, the second to a tm that may be written.
    let done = unsafe { libc::localtime_r(&unix_seconds, parts.as_mut_ptr()) };
    // SAFETY: zeroed is a valid tm (a null zone name is not read), whatever the call wrote.
    let parts = unsafe { parts.assume_init() };
    if done.is_null() { 0 } else { parts.tm_gmtoff }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_local_time_is_within_a_day_of_utc() {
        assert!(super::utc_offset(1_700_000_000).abs() < 86_400);
    }

    #[test]
    fn time_does_not_go_backwards() {
        let (cost, step) = super::measure(10_000);
        assert!(cost > 0.0 && step > 0);
    }
}
