//! What processes have spent so far, read from outside: `/proc/PID/stat`, `status` and `io`, `/proc/PID/task/TID/status` and `schedstat`.

use std::collections::BTreeMap;
use std::fs;

use crate::process::cpu_time;
use crate::schedstat;
use crate::task_stat::TaskStat;

/// The field of /proc/PID/stat that has the number of threads, proc_pid_stat(5).
const THREADS: usize = 20;

/// What a thread has spent since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSpent {
    /// Voluntary and involuntary context switches.
    pub switches: (u64, u64),
    /// Time runnable and not running, ns; `None`: a kernel without scheduler statistics.
    pub run_delay_ns: Option<u64>,
}

/// Memory of a process, bytes (proc_pid_status(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`). The kernel may be some dozens of pages behind for each CPU.
    pub resident: u64,
    /// Mapped for heap and other private data, whether it was ever touched or not (`VmData`).
    pub data: u64,
    /// The most that was ever resident (`VmHWM`).
    pub peak: u64,
}

/// What a process has spent since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Each thread that it has now, by the thread's id.
    pub threads: BTreeMap<u32, ThreadSpent>,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Bytes fetched from and sent to block devices; `None`: only its owner may read them (proc_pid_io(5)).
    pub io: Option<(u64, u64)>,
    /// Memory; of several processes the sum, pages that they share counted in each. `None`: the kernel does not say.
    pub memory: Option<Memory>,
}

impl Spent {
    /// Voluntary and involuntary context switches since `before`, of the threads that there are now: one that has ended
    /// took its own with it.
    pub fn switches_since(&self, before: &Spent) -> (u64, u64) {
        self.threads.iter().fold((0, 0), |sum, (thread, now)| {
            let then = before.threads.get(thread).copied().unwrap_or_default();
            let since = |now: u64, then: u64| now.saturating_sub(then);
            (sum.0 + since(now.switches.0, then.switches.0), sum.1 + since(now.switches.1, then.switches.1))
        })
    }

    /// Time for which the threads were runnable and did not run since `before`, ns; `None`: one of them has ended and took its own
    /// with it, or the kernel has no scheduler statistics.
    pub fn run_delay_since(&self, before: &Spent) -> Option<u64> {
        if !before.threads.keys().all(|thread| self.threads.contains_key(thread)) {
            return None;
        }
        let since = |(thread, now): (&u32, &ThreadSpent)| {
            let then = before.threads.get(thread).map_or(Some(0), |then| then.run_delay_ns)?;
            Some(now.run_delay_ns?.saturating_sub(then))
        };
        self.threads.iter().map(since).sum()
    }
}

/// What these processes have spent together; `None`: one of them is gone.
pub fn of(pids: &[u32]) -> Option<Spent> {
    let all: Option<Vec<Spent>> = pids.iter().map(|pid| one(*pid)).collect();
    all?.into_iter().reduce(|mut sum, mut one| Spent {
        cpu_ns: sum.cpu_ns + one.cpu_ns,
        threads: {
            sum.threads.append(&mut one.threads);
            sum.threads
        },
        minor_faults: sum.minor_faults + one.minor_faults,
        major_faults: sum.major_faults + one.major_faults,
        io: sum.io.zip(one.io).map(|(sum, one)| (sum.0 + one.0, sum.1 + one.1)),
        memory: sum.memory.zip(one.memory).map(|(sum, one)| Memory {
            resident: sum.resident + one.resident,
            data: sum.data + one.data,
            peak: sum.peak + one.peak,
        }),
    })
}

fn one(pid: u32) -> Option<Spent> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let stat = TaskStat::parse(&stat)?;
    Some(Spent {
        cpu_ns: cpu_time(pid)?,
        threads: threads(pid)?,
        minor_faults: stat.number(10)?,
        major_faults: stat.number(12)?,
        io: fs::read_to_string(format!("/proc/{pid}/io")).ok().and_then(|text| io(&text)),
        memory: fs::read_to_string(format!("/proc/{pid}/status")).ok().and_then(|text| memory(&text)),
    })
}

/// Listings of a process's threads, at most.
const LISTINGS: usize = 5;

/// What each thread has spent. Where one ends while the threads are listed, the kernel passes over another, which would then look like
/// a new one the next time: they are listed until as many are known as there are.
fn threads(pid: u32) -> Option<BTreeMap<u32, ThreadSpent>> {
    let mut known = BTreeMap::new();
    for _ in 0..LISTINGS {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        known.extend(tasks.filter_map(|task| {
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let delay = fs::read_to_string(task.path().join("schedstat")).ok();
            let run_delay_ns = delay.and_then(|text| schedstat::waited_if_counted(&text));
            let spent = ThreadSpent { switches: switches(&status), run_delay_ns };
            Some((task.file_name().to_str()?.parse().ok()?, spent))
        }));
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        if known.len() as u64 >= TaskStat::parse(&stat)?.number(THREADS)? {
            break;
        }
    }
    Some(known)
}

/// The number after `name:` at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

/// Voluntary and involuntary switches of a task, by its status.
pub fn switches(status: &str) -> (u64, u64) {
    let of = |name| number(status, name).unwrap_or(0);
    (of("voluntary_ctxt_switches"), of("nonvoluntary_ctxt_switches"))
}

/// Bytes read and written of `/proc/PID/io`: what was written and then dropped from the cache never went out.
pub fn io(text: &str) -> Option<(u64, u64)> {
    let written = number(text, "write_bytes")?.saturating_sub(number(text, "cancelled_write_bytes").unwrap_or(0));
    Some((number(text, "read_bytes")?, written))
}

/// Memory of a process, by its status.
pub fn memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory { resident: bytes("VmRSS")?, data: bytes("VmData")?, peak: bytes("VmHWM")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_proc_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((switches(status), switches("")), ((12, 3), (0, 0)));
        let text = "rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!((io(text), io("read_bytes: x")), (Some((4096, 4096)), None));
        let status = "VmPeak:\t  900 kB\nVmHWM:\t  16 kB\nVmRSS:\t   12 kB\nVmData:\t  256 kB\n";
        assert_eq!(memory(status), Some(Memory { resident: 12 << 10, data: 256 << 10, peak: 16 << 10 }));
        // A task of the kernel has none; what does not fit is none.
        assert_eq!((memory("Name:\tkthreadd\n"), memory(&status.replace("12", "99999999999999999"))), (None, None));
    }

    #[test]
    fn what_this_process_spends_grows() {
        let own = [std::process::id()];
        let thread = u32::try_from(crate::affinity::thread_id()).unwrap();
        let before = of(&own).unwrap();
        // Pages that were never touched: the allocator takes so much from the kernel each time.
        let pages = vec![1_u8; 64 << 20];
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = of(&own).unwrap();
        assert!(after.cpu_ns > before.cpu_ns && after.minor_faults > before.minor_faults, "{before:?} {after:?}");
        // Threads of other tests come and go; this one stays, and it has slept.
        assert!(after.threads[&thread].switches.0 > before.threads[&thread].switches.0, "{before:?} {after:?}");
        assert!(after.switches_since(&before).0 > 0, "{before:?} {after:?}");
        // All of the pages were touched, and are there.
        let memory = after.memory.unwrap();
        assert!(memory.data >= 64 << 20 && memory.resident >= 60 << 20 && memory.peak >= memory.resident, "{memory:?}");
        assert_eq!(pages.iter().filter(|byte| **byte == 1).count(), pages.len());
        assert_eq!((of(&[std::process::id(), u32::MAX]), of(&[])), (None, None));
    }

    #[test]
    fn a_thread_that_ended_takes_nothing_from_the_others() {
        let with = |all: &[(u32, (u64, u64))]| {
            let thread =
                |(id, switches): &(u32, (u64, u64))| (*id, ThreadSpent { switches: *switches, ..Default::default() });
            Spent { threads: all.iter().map(thread).collect(), ..Spent::default() }
        };
        let before = with(&[(1, (10, 1)), (2, (5_000, 50))]);
        assert_eq!(with(&[(1, (13, 2)), (3, (4, 0))]).switches_since(&before), (7, 1));
        assert_eq!(with(&[]).switches_since(&before), (0, 0));
    }

    #[test]
    fn a_run_delay_is_that_of_all_threads_or_not_known() {
        let with = |all: &[(u32, Option<u64>)]| {
            let thread = |(id, run_delay_ns): &(u32, Option<u64>)| {
                (*id, ThreadSpent { run_delay_ns: *run_delay_ns, ..Default::default() })
            };
            Spent { threads: all.iter().map(thread).collect(), ..Spent::default() }
        };
        let before = with(&[(1, Some(100)), (2, Some(50))]);
        assert_eq!(with(&[(1, Some(130)), (2, Some(50)), (3, Some(5))]).run_delay_since(&before), Some(35));
        assert_eq!(with(&[(1, Some(130))]).run_delay_since(&before), None, "the second has ended");
        assert_eq!(with(&[(1, Some(130)), (2, None)]).run_delay_since(&before), None);
        assert_eq!(with(&[(1, Some(130)), (2, Some(60))]).run_delay_since(&with(&[(1, None)])), None);
    }
}
