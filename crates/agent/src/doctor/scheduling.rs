//! Who runs: runnable tasks and pressure, isolation and interrupts, quotas and limits.

use std::time::Duration;

use msgpath_core::units::{Glyphs, size, three_digits};
use msgpath_sys::{affinity, clock, schedstat};

use super::verdict::Verdict;
use super::{Context, cgroup, processes, read, stat};

/// Interrupts of devices on a measuring CPU that warn, per second.
const INTERRUPTS_A_SECOND: f64 = 1_000.0;
/// Share of the last ten seconds in which some task waited for a CPU that warns, %.
const PRESSURE_PERCENT: f64 = 5.0;

/// Check 8. What runs is looked at five times; this program's own threads are not counted.
pub(super) fn runnable(context: &Context) -> Verdict {
    let own = processes::own(&context.processes, std::process::id());
    let sample = || {
        let text = read::text("/proc/loadavg")?;
        let running: u64 = own.iter().map(|id| running_threads(*id)).sum();
        runnable_field(&text).map(|all| all.saturating_sub(running)).ok_or("/proc/loadavg: not as expected".to_owned())
    };
    let mut samples = Vec::new();
    for _ in 0..5 {
        match sample() {
            Ok(others) => samples.push(others),
            Err(reason) => return Verdict::none(reason),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    samples.sort_unstable();
    let online = read::line("/sys/devices/system/cpu/online").map(|text| read::cpu_list(&text).len());
    let cpus = online.unwrap_or_else(|_| affinity::allowed().len());
    let measuring = context.cpus.len() + usize::from(context.order.other_cpu.is_some());
    let pressure = match read::text("/proc/pressure/cpu") {
        Ok(text) => pressure(&text),
        Err(reason) => Verdict::none(reason),
    };
    let judged = judge_runnable(samples[2], cpus as u64, measuring as u64, context.order.spin);
    Verdict::all([judged, pressure, run_delay()])
}

/// The fourth field of loadavg: runnable tasks of the whole machine.
fn runnable_field(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

fn running_threads(process: u32) -> u64 {
    let tasks = format!("/proc/{process}/task");
    let stat = |task: &String| stat::process(&read::text(&format!("{tasks}/{task}/stat")).ok()?);
    read::names(&tasks).iter().filter_map(stat).filter(|task| task.state == 'R').count() as u64
}

fn judge_runnable(others: u64, cpus: u64, measuring: u64, spin: bool) -> Verdict {
    let tasks = if others == 1 { "task" } else { "tasks" };
    let what = format!("{others} other runnable {tasks} on {cpus} CPUs");
    let cure = "stop what else runs: a task that spins takes turns with it and is slower than one that sleeps";
    let verdict = if others > cpus && spin {
        Verdict::stop(format!("{what}: spin waits cannot be measured"), cure)
    } else if others > cpus {
        Verdict::warn(format!("{what}: no spin wait can be measured now"), cure)
    } else {
        Verdict::warn_if(others + measuring > cpus, what, cure)
    };
    verdict.with("other_runnable_tasks", others as f64).with("cpus", cpus as f64)
}

fn pressure(text: &str) -> Verdict {
    let value = text.lines().find_map(|line| line.strip_prefix("some avg10=")?.split(' ').next()?.parse::<f64>().ok());
    match value {
        Some(percent) => Verdict::warn_if(
            percent > PRESSURE_PERCENT,
            format!("tasks waited for a CPU in {} % of the last 10 s", three_digits(percent)),
            "find who waits and who runs: top, pidstat -w 1",
        )
        .with("cpu_pressure_percent", percent),
        None => Verdict::none("/proc/pressure/cpu: not as expected"),
    }
}

/// How long this very thread waited for a CPU while it was kept busy for 5 ms.
fn run_delay() -> Verdict {
    let delay = || schedstat::run_delay().map_err(|error| format!("/proc/thread-self/schedstat: {error}"));
    let before = delay();
    let start = clock::now();
    while clock::now() - start < 5_000_000 {
        std::hint::spin_loop();
    }
    match (before, delay()) {
        (Ok(before), Ok(after)) => {
            let waited = after.saturating_sub(before) as f64;
            Verdict::ok(format!("a busy thread waited {} in 5 ms", Glyphs::Unicode.time(waited)))
                .with("run_delay_ns", waited)
        }
        (Err(reason), _) | (_, Err(reason)) => Verdict::none(reason),
    }
}

/// Check 6.
pub(super) fn isolation(context: &Context) -> Verdict {
    let span_ns = clock::now().saturating_sub(context.started_ns);
    let interrupts = match (&context.interrupts, read::text("/proc/interrupts")) {
        (Some(before), Ok(after)) => judge_interrupts(&context.cpus, before, &after, span_ns),
        (None, _) => Verdict::none("/proc/interrupts: not readable"),
        (_, Err(reason)) => Verdict::none(reason),
    };
    let isolated = match read::text("/proc/cmdline") {
        Ok(line) => Verdict::ok(isolated(&context.cpus, &line)),
        Err(reason) => Verdict::none(reason),
    };
    let balance = context.processes.iter().any(|process| process.name == "irqbalance");
    let balance = if balance { "irqbalance runs: interrupts may move" } else { "no irqbalance" };
    Verdict::all([interrupts, isolated, Verdict::ok(balance)])
}

fn isolated(cpus: &[u32], cmdline: &str) -> String {
    let given: Vec<String> = ["isolcpus", "nohz_full", "rcu_nocbs"]
        .iter()
        .filter_map(|option| {
            let list = cmdline.split_whitespace().find_map(|word| word.strip_prefix(option)?.strip_prefix('='))?;
            let listed = read::cpu_list(list);
            let all = cpus.iter().all(|cpu| listed.contains(cpu));
            Some(format!("{option}={list}{}", if all { "" } else { " (without the measuring CPUs)" }))
        })
        .collect();
    if given.is_empty() { "no CPU is isolated".into() } else { given.join(" ") }
}

/// Interrupts of devices per measuring CPU; those of the scheduler and the timer belong to running there at all.
fn judge_interrupts(cpus: &[u32], before: &str, after: &str, span_ns: u64) -> Verdict {
    let mut worst: Option<(f64, u32, String)> = None;
    for cpu in cpus {
        let Some(column) = column(after, *cpu) else { continue };
        for line in after.lines().skip(1) {
            let Some((number, rest)) = line.split_once(':') else { continue };
            if number.trim().parse::<u32>().is_err() {
                continue;
            }
            let count = |rest: &str| rest.split_whitespace().nth(column)?.parse::<u64>().ok();
            let old = before.lines().find_map(|old| count(old.strip_prefix(number)?.strip_prefix(':')?)).unwrap_or(0);
            let new = count(rest).unwrap_or(0).saturating_sub(old);
            let rate = new as f64 * 1e9 / span_ns.max(1) as f64;
            if new > 0 && worst.as_ref().is_none_or(|(most, ..)| rate > *most) {
                let name = rest.split_whitespace().last().unwrap_or_default();
                worst = Some((rate, *cpu, format!("{} {name}", number.trim())));
            }
        }
    }
    match worst {
        None => Verdict::ok("no device interrupts on the measuring CPUs meanwhile"),
        Some((rate, cpu, name)) => Verdict::warn_if(
            rate > INTERRUPTS_A_SECOND,
            format!("{rate:.0} interrupts a second of {name} on CPU {cpu}"),
            "another CPU with --cpu, or move the interrupt (/proc/irq/*/smp_affinity_list)",
        )
        .with("device_interrupts_per_s", rate),
    }
}

fn column(interrupts: &str, cpu: u32) -> Option<usize> {
    let wanted = format!("CPU{cpu}");
    interrupts.lines().next()?.split_whitespace().position(|name| name == wanted)
}

/// Times throttled so far.
pub(super) fn throttled() -> Option<u64> {
    let times = |group: &cgroup::Group| {
        cgroup::throttling(&std::fs::read_to_string(group.stat()).ok()?).map(|(times, _)| times)
    };
    cgroup::all().ok()?.iter().map(times).sum()
}

/// Check 7.
pub(super) fn limits(context: &Context) -> Verdict {
    let quota = match cgroup::all() {
        Ok(groups) => {
            let least = cgroup::tightest(&groups).map(|(_, quota)| quota.cpus());
            judge_quota(least, context.throttled, throttled())
        }
        Err(reason) => Verdict::none(reason),
    };
    let locked = match read::text("/proc/self/limits") {
        Ok(text) => memlock(&text),
        Err(reason) => Verdict::none(reason),
    };
    let realtime = match read::line("/proc/sys/kernel/sched_rt_runtime_us") {
        Ok(now) => Verdict::ok(format!("sched_rt_runtime_us {now}")),
        Err(reason) => Verdict::none(reason),
    };
    Verdict::all([judge_affinity(&context.cpus, &affinity::allowed()), quota, locked, realtime])
}

fn judge_affinity(cpus: &[u32], allowed: &[u32]) -> Verdict {
    let refused: Vec<String> = cpus.iter().filter(|cpu| !allowed.contains(cpu)).map(u32::to_string).collect();
    if refused.is_empty() {
        Verdict::ok(format!("{} CPUs allowed", allowed.len()))
    } else {
        let what = format!("this process may not run on CPU {}", refused.join(", "));
        Verdict::warn(what, "other CPUs with --cpu; see taskset and the cpuset of the control group")
    }
}

fn judge_quota(cpus: Option<f64>, before: Option<u64>, after: Option<u64>) -> Verdict {
    let grown = before.zip(after).map_or(0, |(before, after)| after.saturating_sub(before));
    let quota = cpus.map_or("no CPU quota".into(), |cpus| format!("quota of {} CPUs", three_digits(cpus)));
    let cure = "a control group without cpu.max: a throttled one stands still for the rest of its period";
    let verdict = if grown > 0 {
        Verdict::warn(format!("{quota}, throttled {grown} times during these checks"), cure)
    } else {
        // Both ends and the kernel's work for them need two whole CPUs.
        Verdict::warn_if(cpus.is_some_and(|cpus| cpus < 2.0), quota, cure)
    };
    match after {
        Some(times) => verdict.with("throttled", times as f64),
        None => verdict,
    }
}

fn memlock(limits: &str) -> Verdict {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => Verdict::ok("memory lock unlimited"),
        Some(bytes) => match bytes.parse() {
            Ok(bytes) => Verdict::ok(format!("memory lock {}", size(bytes))),
            Err(_) => Verdict::none("/proc/self/limits: not as expected"),
        },
        None => Verdict::none("/proc/self/limits: not as expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn more_runnable_tasks_than_cpus_stop_spin_waits_only() {
        assert_eq!(runnable_field("0.13 0.23 0.58 3/94 23017\n"), Some(3));
        assert_eq!(runnable_field("0.13 0.23 0.58\n"), None);
        assert_eq!(judge_runnable(0, 2, 2, true).state, CheckState::Ok);
        assert_eq!(judge_runnable(1, 2, 2, true).state, CheckState::Warn);
        assert_eq!(judge_runnable(1, 4, 2, true).state, CheckState::Ok);
        assert_eq!(judge_runnable(3, 2, 2, true).state, CheckState::Stop);
        assert_eq!(judge_runnable(3, 2, 2, false).state, CheckState::Warn);
    }

    #[test]
    fn own_threads_are_seen_running() {
        assert!(running_threads(std::process::id()) >= 1);
        assert_eq!(running_threads(u32::MAX), 0);
    }

    #[test]
    fn pressure_of_the_cpu() {
        assert_eq!(pressure("some avg10=0.42 avg60=0.86 total=1\nfull").state, CheckState::Ok);
        assert_eq!(pressure("some avg10=25.10 avg60=0.86 total=1\n").state, CheckState::Warn);
        assert_eq!(pressure("some\n").state, CheckState::NotAvailable);
    }

    #[test]
    fn isolation_is_read_from_the_command_line() {
        assert_eq!(isolated(&[2], "quiet"), "no CPU is isolated");
        assert_eq!(
            isolated(&[2, 3], "isolcpus=2-3 nohz_full=2"),
            "isolcpus=2-3 nohz_full=2 (without the measuring CPUs)"
        );
    }

    #[test]
    fn device_interrupts_on_a_measuring_cpu_warn() {
        let text = |nic: u64, timer: u64| {
            format!("     CPU0 CPU2\n 24: 1 {nic} IO-APIC eth0-rx\nLOC: 1 {timer} Local timer interrupts\nERR: 1\n")
        };
        let judge = |cpu, before: String, after: String| judge_interrupts(&[cpu], &before, &after, 1_000_000_000);
        assert_eq!(judge(2, text(5, 0), text(5, 100_000)).state, CheckState::Ok);
        let busy = judge(2, text(5, 0), text(2_005, 0));
        assert_eq!(
            (busy.state, busy.what.as_str()),
            (CheckState::Warn, "2000 interrupts a second of 24 eth0-rx on CPU 2")
        );
        assert_eq!(judge(0, text(5, 0), text(2_005, 0)).state, CheckState::Ok);
        assert_eq!(judge(7, String::new(), String::new()).state, CheckState::Ok);
    }

    #[test]
    fn limits_warn_when_they_bite() {
        assert_eq!(judge_affinity(&[0, 1], &[0, 1]).state, CheckState::Ok);
        assert_eq!(judge_affinity(&[0, 9], &[0, 1]).what, "this process may not run on CPU 9");
        assert_eq!(judge_quota(None, Some(3), Some(3)).state, CheckState::Ok);
        assert_eq!(judge_quota(Some(8.0), Some(3), Some(5)).state, CheckState::Warn);
        assert_eq!(judge_quota(Some(1.5), None, None).state, CheckState::Warn);
        assert_eq!(judge_quota(Some(8.0), None, None).state, CheckState::Ok);
        assert_eq!(memlock("Max locked memory   8388608  8388608  bytes\n").what, "memory lock 8 MiB");
        assert_eq!(memlock("Max locked memory   x\n").state, CheckState::NotAvailable);
        assert_eq!(memlock("").state, CheckState::NotAvailable);
    }
}
