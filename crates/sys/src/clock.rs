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

/// Readings whose time is taken together: a few µs, so that a thread that is taken off its CPU spoils few of them.
const TOGETHER: u32 = 100;

/// Cost of one reading and the smallest non-zero step, both in ns, over `readings` readings.
pub fn measure(readings: u32) -> (f64, u64) {
    measured(now, readings)
}

/// The cost is the median over stretches of [`TOGETHER`] readings; that of all together where the clock is so coarse that it
/// stands still for a stretch.
fn measured(mut now: impl FnMut() -> u64, readings: u32) -> (f64, u64) {
    let first = now();
    let (mut last, mut step) = (first, u64::MAX);
    let mut stretches: Vec<u64> = (0..readings.div_ceil(TOGETHER).max(1))
        .map(|_| {
            let start = last;
            for _ in 0..TOGETHER {
                let time = now();
                if time > last {
                    step = step.min(time - last);
                }
                last = time;
            }
            last - start
        })
        .collect();
    let all = (last - first) as f64 / stretches.len() as f64;
    let middle = stretches.len() / 2;
    let median = *stretches.select_nth_unstable(middle).1;
    let stretch = if median == 0 { all } else { median as f64 };
    (stretch / f64::from(TOGETHER), if step == u64::MAX { 0 } else { step })
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

    /// A reading takes 25 ns. After every 2 ms the thread loses its CPU for 4.
    #[test]
    fn preemption_is_no_cost_of_the_clock() {
        let mut readings = 0_u64;
        let busy = || {
            readings += 1;
            readings * 25 + readings / 80_000 * 4_000_000
        };
        assert_eq!(super::measured(busy, 1_000_000), (25.0, 25));
    }

    #[test]
    fn a_coarse_clock_has_its_cost_from_all_readings() {
        let mut readings = 0_u64;
        let (cost, step) = super::measured(
            || {
                readings += 1;
                readings * 25 / 4_000_000 * 4_000_000
            },
            1_000_000,
        );
        assert!((cost - 24.0).abs() < 1.0 && step == 4_000_000, "{cost} {step}");
    }

    #[test]
    fn time_does_not_go_backwards() {
        let (cost, step) = super::measure(10_000);
        assert!(cost > 0.0 && step > 0);
    }
}
