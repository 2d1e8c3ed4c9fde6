//! CLOCK_MONOTONIC through the vDSO, and what a reading of it costs.

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline(always)]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to. CLOCK_MONOTONIC always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
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

#[cfg(test)]
mod tests {
    #[test]
    fn time_does_not_go_backwards() {
        let (cost, step) = super::measure(10_000);
        assert!(cost > 0.0 && step > 0);
    }
}
