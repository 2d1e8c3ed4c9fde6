//! What processes have spent so far, read from outside: `/proc/PID/stat`, `/proc/PID/task/TID/status`, `/proc/PID/io`.

use std::collections::BTreeMap;
use std::fs;

use crate::process::cpu_time;
use crate::task_stat::TaskStat;

/// The field of /proc/PID/stat that has the number of threads, proc_pid_stat(5).
const THREADS: usize = 20;

/// What a process has spent since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Voluntary and involuntary context switches of each thread that it has now, by the thread's id.
    pub switches: BTreeMap<u32, (u64, u64)>,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Bytes fetched from and sent to block devices; `None`: only its owner may read them (proc_pid_io(5)).
    pub io: Option<(u64, u64)>,
}

impl Spent {
    /// Voluntary and involuntary context switches since `before`, of the threads that there are now: one that has ended
    /// took its own with it.
    pub fn switches_since(&self, before: &Spent) -> (u64, u64) {
        self.switches.iter().fold((0, 0), |sum, (thread, now)| {
            let then = before.switches.get(thread).copied().unwrap_or_default();
            (sum.0 + now.0.saturating_sub(then.0), sum.1 + now.1.saturating_sub(then.1))
        })
    }
}

/// What these processes have spent together; `None`: one of them is gone.
pub fn of(pids: &[u32]) -> Option<Spent> {
    let all: Option<Vec<Spent>> = pids.iter().map(|pid| one(*pid)).collect();
    all?.into_iter().reduce(|mut sum, mut one| Spent {
        cpu_ns: sum.cpu_ns + one.cpu_ns,
        switches: {
            sum.switches.append(&mut one.switches);
            sum.switches
        },
        minor_faults: sum.minor_faults + one.minor_faults,
        major_faults: sum.major_faults + one.major_faults,
        io: sum.io.zip(one.io).map(|(sum, one)| (sum.0 + one.0, sum.1 + one.1)),
    })
}

fn one(pid: u32) -> Option<Spent> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let stat = TaskStat::parse(&stat)?;
    Some(Spent {
        cpu_ns: cpu_time(pid)?,
        switches: switches_of_threads(pid)?,
        minor_faults: stat.number(10)?,
        major_faults: stat.number(12)?,
        io: fs::read_to_string(format!("/proc/{pid}/io")).ok().and_then(|text| io(&text)),
    })
}

/// Listings of a process's threads, at most.
const LISTINGS: usize = 5;

/// The switches of each thread. Where one ends while the threads are listed, the kernel passes over another, which would then look like
/// a new one the next time: they are listed until as many are known as there are.
fn switches_of_threads(pid: u32) -> Option<BTreeMap<u32, (u64, u64)>> {
    let mut known = BTreeMap::new();
    for _ in 0..LISTINGS {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        known.extend(tasks.filter_map(|task| {
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            Some((task.file_name().to_str()?.parse().ok()?, switches(&status)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_proc_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((switches(status), switches("")), ((12, 3), (0, 0)));
        let text = "rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!((io(text), io("read_bytes: x")), (Some((4096, 4096)), None));
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
        assert!(after.switches[&thread].0 > before.switches[&thread].0, "{before:?} {after:?}");
        assert!(after.switches_since(&before).0 > 0, "{before:?} {after:?}");
        assert_eq!(pages.iter().filter(|byte| **byte == 1).count(), pages.len());
        assert_eq!((of(&[std::process::id(), u32::MAX]), of(&[])), (None, None));
    }

    #[test]
    fn a_thread_that_ended_takes_nothing_from_the_others() {
        let with = |all: &[(u32, (u64, u64))]| Spent { switches: all.iter().copied().collect(), ..Spent::default() };
        let before = with(&[(1, (10, 1)), (2, (5_000, 50))]);
        assert_eq!(with(&[(1, (13, 2)), (3, (4, 0))]).switches_since(&before), (7, 1));
        assert_eq!(with(&[]).switches_since(&before), (0, 0));
    }
}
