//! Other processes: benchmarks that run meanwhile, and which processes are this program's own.

use super::stat::Process;
use super::verdict::Verdict;
use super::{Context, read, stat};

/// What people measure and load machines with, as the kernel cuts the names (15 bytes).
const BENCHMARKS: [&str; 22] = [
    "cyclictest",
    "fio",
    "hackbench",
    "iperf",
    "iperf3",
    "memtier_benchma",
    "msgpath",
    "netperf",
    "netserver",
    "nuttcp",
    "perf",
    "pgbench",
    "qperf",
    "redis-benchmark",
    "rtla",
    "sockperf",
    "stress",
    "stress-ng",
    "sysbench",
    "uperf",
    "wrk",
    "wrk2",
];
/// Most processes that are looked at.
const MOST: usize = 10_000;

/// All processes that this one sees, without those that have ended.
pub(super) fn scan() -> Vec<Process> {
    let ids = read::names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    ids.take(MOST)
        .filter_map(|id| stat::process(&read::text(&format!("/proc/{id}/stat")).ok()?))
        .filter(|process| !matches!(process.state, 'Z' | 'X'))
        .collect()
}

/// The processes of this run: this one, and those of the same name above and below it. The agent is a child of the near
/// end; a launcher may stand in between.
pub(super) fn own(all: &[Process], this: u32) -> Vec<u32> {
    let find = |id: u32| all.iter().find(|process| process.id == id);
    let Some(name) = find(this).map(|process| process.name.clone()) else { return vec![this] };
    let above = |id: u32| {
        std::iter::successors(find(id), |process| find(process.parent).filter(|parent| parent.id != process.id))
            .take(64)
    };
    let top = above(this).filter(|process| process.name == name).last().map_or(this, |process| process.id);
    let is_own = |process: &&Process| process.name == name && above(process.id).any(|one| one.id == top);
    all.iter().filter(is_own).map(|process| process.id).collect()
}

/// Check 19.
pub(super) fn benchmarks(context: &Context) -> Verdict {
    if context.processes.is_empty() {
        return Verdict::none("/proc shows no processes");
    }
    let own = own(&context.processes, std::process::id());
    // `msgpath serve` measures only when it is asked, and then it may be this run's far end.
    let serves = |id: u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"serve")
    };
    let others: Vec<&Process> = context
        .processes
        .iter()
        .filter(|process| BENCHMARKS.contains(&process.name.as_str()) && !own.contains(&process.id))
        .filter(|process| process.name != "msgpath" || !serves(process.id))
        .collect();
    judge(&others, context.processes.len())
}

fn judge(others: &[&Process], seen: usize) -> Verdict {
    if others.is_empty() {
        return Verdict::ok(format!("none among {} processes", (seen as u64)));
    }
    let names: Vec<String> = others.iter().take(6).map(|one| format!("{} ({})", one.name, one.id)).collect();
    let more = if others.len() > 6 { format!(" and {} more", others.len() - 6) } else { String::new() };
    Verdict::warn(format!("{}{more}", names.join(", ")), "wait until they have ended, or stop them")
        .with("benchmarks", others.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    fn process(id: u32, parent: u32, name: &str) -> Process {
        Process { id, parent, name: name.into(), state: 'S' }
    }

    #[test]
    fn this_process_is_among_them() {
        assert!(scan().iter().any(|process| process.id == std::process::id()));
    }

    #[test]
    fn the_family_is_own_and_its_namesakes_are_not() {
        let all = [
            process(1, 0, "init"),
            process(10, 1, "msgpath"),
            process(11, 10, "sudo"),
            process(12, 11, "msgpath"),
            process(13, 12, "perf"),
            process(20, 1, "msgpath"),
            process(30, 30, "loop"),
        ];
        assert_eq!(own(&all, 12), [10, 12]);
        assert_eq!(own(&all, 10), [10, 12]);
        assert_eq!(own(&all, 20), [20]);
        assert_eq!(own(&all, 30), [30], "a process that is its own parent");
        assert_eq!(own(&[], 5), [5]);
    }

    #[test]
    fn other_benchmarks_are_named() {
        assert_eq!(judge(&[], 5).state, CheckState::Ok);
        let (a, b) = (process(7, 1, "iperf3"), process(8, 1, "stress-ng"));
        let verdict = judge(&[&a, &b], 5);
        assert_eq!((verdict.state, verdict.what.as_str()), (CheckState::Warn, "iperf3 (7), stress-ng (8)"));
    }
}
