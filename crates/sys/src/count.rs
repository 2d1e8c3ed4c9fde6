//! Counting events of the calling thread, and system calls of other processes, by perf_event_open(2): no samples, no ring. What they
//! count is said by `perf_event_attr` (`linux/perf_event.h`).
//!
//! A counter of the calling thread is made stopped. [`switch`] lets all counters go, or stops them, that the calling thread has made
//! (PR_TASK_PERF_EVENTS_ENABLE): one system call, whatever their number, so that a measured span has the same cost at both
//! of its ends.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings as perf;
use perf_event_open_sys::perf_event_open;

use crate::{check_int, spent, tracefs};

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
        Self::of_task(event, 0, false)
    }

    /// Of a task, 0 for the calling one. `at_once`: it counts from now on, also in every thread and process that the task starts.
    fn of_task(event: Event, task: libc::pid_t, at_once: bool) -> io::Result<Self> {
        let mut attributes = perf::perf_event_attr::default();
        attributes.size = size_of::<perf::perf_event_attr>() as u32;
        attributes.type_ = event.kind;
        attributes.config = event.config;
        attributes.read_format = (perf::PERF_FORMAT_TOTAL_TIME_ENABLED | perf::PERF_FORMAT_TOTAL_TIME_RUNNING) as u64;
        attributes.set_disabled((!at_once).into());
        attributes.set_inherit(at_once.into());
        attributes.set_exclude_kernel(event.user_only.into());
        attributes.set_exclude_hv(event.user_only.into());
        // SAFETY: `attributes` is a whole attribute block whose size field is its size; the kernel writes only into it.
        let fd = unsafe { perf_event_open(&raw mut attributes, task, -1, -1, perf::PERF_FLAG_FD_CLOEXEC.into()) };
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

/// Most threads whose system calls are counted: a descriptor each.
const MOST_THREADS: usize = 256;

/// Counts the system calls of processes, with those of the threads and processes that they start meanwhile.
///
/// As long as it lives, every system call on this machine takes the longer way in on which tracepoints are, about 0.1 µs.
#[derive(Debug)]
pub struct SystemCalls(Vec<Counter>);

impl SystemCalls {
    /// Of these processes, from now on.
    ///
    /// # Errors
    /// `NotFound`: tracefs is not mounted, or a process is gone. `PermissionDenied`: tracefs or perf_event_open(2) is not for this user.
    /// `OutOfMemory`: more than 256 threads.
    pub fn of(pids: &[u32]) -> io::Result<Self> {
        let config = tracefs::read(&tracefs::events()?, "raw_syscalls", "sys_enter")?.id.into();
        let event = Event { kind: perf::PERF_TYPE_TRACEPOINT, config, user_only: false };
        let mut counters = Vec::new();
        // All are listed before the first is counted: what a counted thread starts is counted with it.
        for task in spent::of(pids).ok_or(io::ErrorKind::NotFound)?.threads.into_keys() {
            if counters.len() == MOST_THREADS {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            match Counter::of_task(event, task as libc::pid_t, true) {
                // A thread that has just ended makes no calls.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                counter => counters.push(counter?),
            }
        }
        Ok(Self(counters))
    }

    /// System calls so far.
    ///
    /// # Errors
    /// As [`Counter::read`].
    pub fn count(&self) -> io::Result<u64> {
        self.0.iter().map(|counter| counter.read().map(|value| value.count)).sum()
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
    fn system_calls_of_a_process_are_counted_with_those_of_its_threads_and_children() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, Stdio};
        // It waits for a line, starts a process, and says when that has ended.
        let mut shell = Command::new("sh")
            .args(["-c", "while read line; do cat </dev/null; echo done; done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap()).lines();
        let mut turn = || {
            shell.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
            said.next().unwrap().unwrap();
        };
        // Its program runs from here on.
        turn();
        let counted = SystemCalls::of(&[shell.id()]);
        if let Ok(calls) = &counted {
            let before = calls.count().unwrap();
            turn();
            let once = calls.count().unwrap() - before;
            // The shell forks, waits, reads and writes; `cat` is loaded, reads, and ends.
            assert!(once >= 15, "{once}");
            (0..3).for_each(|_| turn());
            assert!(calls.count().unwrap() - before >= 4 * 15, "{once}");
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        match counted {
            Err(error) => println!("skipped: {error}"),
            Ok(_) => assert!(SystemCalls::of(&[shell.id()]).is_err(), "it is gone"),
        }
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(Counter::open(Event { kind: u32::MAX, config: 0, user_only: true }).is_err());
    }
}
