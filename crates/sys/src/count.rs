//! Counting events of the calling thread by perf_event_open(2): no samples, no ring. What they count is said by
//! `perf_event_attr` (`linux/perf_event.h`).
//!
//! A counter is made stopped. [`switch`] lets all counters go, or stops them, that the calling thread has made
//! (PR_TASK_PERF_EVENTS_ENABLE): one system call, whatever their number, so that a measured span has the same cost at both
//! of its ends.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as perf;
use perf_event_open_sys::perf_event_open;

use crate::check_int;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `type` of the attributes: one of the constants below, or that of a PMU (`/sys/bus/event_source/devices/*/type`).
    pub kind: u32,
    /// `config` of the attributes. [`HARDWARE`] and [`CACHE`] take the type of a PMU in the upper 32 bits.
    pub config: u64,
    /// In user mode only.
    pub user_only: bool,
}

/// Kind of the events that every PMU is to have: `PERF_TYPE_HARDWARE`.
pub const HARDWARE: u32 = perf::PERF_TYPE_HARDWARE;
/// Kind of events of caches: `PERF_TYPE_HW_CACHE`.
pub const CACHE: u32 = perf::PERF_TYPE_HW_CACHE;
/// Kind of events that the kernel counts itself: `PERF_TYPE_SOFTWARE`.
pub const SOFTWARE: u32 = perf::PERF_TYPE_SOFTWARE;
/// Hardware: cycles of the core while it does not halt, at whatever speed it runs.
pub const CYCLES: u64 = perf::PERF_COUNT_HW_CPU_CYCLES as u64;
/// Hardware: instructions that retired.
pub const INSTRUCTIONS: u64 = perf::PERF_COUNT_HW_INSTRUCTIONS as u64;
/// Cache: reads that missed the first level for data.
pub const L1D_READ_MISSES: u64 = read_misses(perf::PERF_COUNT_HW_CACHE_L1D);
/// Cache: reads that missed the last level.
pub const LAST_READ_MISSES: u64 = read_misses(perf::PERF_COUNT_HW_CACHE_LL);
/// Software: page faults.
pub const PAGE_FAULTS: u64 = perf::PERF_COUNT_SW_PAGE_FAULTS as u64;
/// Software: the thread left a CPU.
pub const CONTEXT_SWITCHES: u64 = perf::PERF_COUNT_SW_CONTEXT_SWITCHES as u64;
/// Software: the thread went to another CPU.
pub const MIGRATIONS: u64 = perf::PERF_COUNT_SW_CPU_MIGRATIONS as u64;

const fn read_misses(cache: u32) -> u64 {
    cache as u64
        | (perf::PERF_COUNT_HW_CACHE_OP_READ as u64) << 8
        | (perf::PERF_COUNT_HW_CACHE_RESULT_MISS as u64) << 16
}

/// What a counter holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// How often, while it counted.
    pub count: u64,
    /// Time for which it was let go while the thread ran, ns.
    pub enabled_ns: u64,
    /// The part of this time in which it really counted, ns.
    pub running_ns: u64,
}

/// A counter of one thread.
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// Makes a counter of the calling thread, on whatever CPU it runs; stopped.
    ///
    /// # Errors
    /// As perf_event_open(2).
    pub fn open(event: Event) -> io::Result<Self> {
        let mut attributes = perf::perf_event_attr::default();
        attributes.size = size_of::<perf::perf_event_attr>() as u32;
        attributes.type_ = event.kind;
        attributes.config = event.config;
        attributes.read_format = (perf::PERF_FORMAT_TOTAL_TIME_ENABLED | perf::PERF_FORMAT_TOTAL_TIME_RUNNING) as u64;
        attributes.set_disabled(1);
        attributes.set_exclude_kernel(event.user_only.into());
        attributes.set_exclude_hv(event.user_only.into());
        // SAFETY: `attributes` is a whole attribute block whose size field is its size; the kernel writes only into it.
        let fd = unsafe { perf_event_open(&raw mut attributes, 0, -1, -1, perf::PERF_FLAG_FD_CLOEXEC.into()) };
        let fd = check_int(fd)?;
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Reads it: one read(2).
    ///
    /// # Errors
    /// As read(2); `UnexpectedEof` where the PMU has taken the event away (its CPU went offline, or another process has
    /// pinned the counter).
    pub fn read(&self) -> io::Result<Value> {
        let mut words = [0_u8; 24];
        if rustix::io::read(&self.0, &mut words)? != words.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |at: usize| u64::from_ne_bytes(words[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        Ok(Value { count: word(0), enabled_ns: word(1), running_ns: word(2) })
    }
}

/// Lets all counters that the calling thread has made go, or stops them.
///
/// # Errors
/// As prctl(2).
pub fn switch(on: bool) -> io::Result<()> {
    let what = if on { libc::PR_TASK_PERF_EVENTS_ENABLE } else { libc::PR_TASK_PERF_EVENTS_DISABLE };
    // SAFETY: these two options of prctl take no further argument and touch no memory of the caller.
    check_int(unsafe { libc::prctl(what, 0, 0, 0, 0) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_between_go_and_stop_are_counted_and_no_others() {
        let counter = match Counter::open(Event { kind: SOFTWARE, config: CONTEXT_SWITCHES, user_only: false }) {
            Ok(counter) => counter,
            Err(error) => {
                println!("skipped: perf_event_open: {error}");
                return;
            }
        };
        let sleep = |times: u32| (0..times).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(100)));
        sleep(50);
        assert_eq!(counter.read().unwrap(), Value::default(), "it was not let go");
        switch(true).unwrap();
        sleep(20);
        switch(false).unwrap();
        let value = counter.read().unwrap();
        sleep(50);
        assert_eq!(counter.read().unwrap(), value, "it was stopped");
        // Other work may take the CPU from this thread as well: there is no most.
        assert!(value.count >= 20, "{value:?}");
        assert!(value.running_ns > 0 && value.running_ns <= value.enabled_ns);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(Counter::open(Event { kind: u32::MAX, config: 0, user_only: true }).is_err());
    }
}
