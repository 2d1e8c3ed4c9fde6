//! The measuring CPUs: frequency, idle states, and how two of them are related.

use msgpath_core::remedy::{Cpu, Setting};
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_sys::clock;

use super::verdict::Verdict;
use super::{Context, noise, read};
use crate::{floors, speed};

/// Change of speed that warns, %.
const DRIFT_PERCENT: f64 = 1.0;
/// Median wake-up after a few idle milliseconds that warns, ns.
const WAKE_NS: u64 = 100_000;

fn folder(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}")
}

/// Check 3.
pub(super) fn speed(context: &Context) -> Verdict {
    let mut parts: Vec<Verdict> = Vec::new();
    for cpu in &context.cpus {
        let file = |name: &str| read::line(&format!("{}/cpufreq/{name}", folder(*cpu)));
        if let Ok(now) = file("scaling_governor") {
            parts.push(governor(*cpu, &now, &file("scaling_available_governors").unwrap_or_default()));
        }
        if let Ok(now) = file("energy_performance_preference") {
            parts.push(Verdict::ok(format!("CPU {cpu} energy preference {now}")));
        }
    }
    if parts.is_empty() {
        parts.push(Verdict::none("governor: no cpufreq, the hypervisor or the firmware sets the frequency"));
    }
    if let Ok(no_turbo) = read::line("/sys/devices/system/cpu/intel_pstate/no_turbo") {
        parts.push(Verdict::ok(if no_turbo == "1" { "turbo off" } else { "turbo on" }));
    } else if let Ok(boost) = read::line("/sys/devices/system/cpu/cpufreq/boost") {
        parts.push(Verdict::ok(if boost == "1" { "boost on" } else { "boost off" }));
    }
    let busy_ns = if context.order.full { 200_000_000 } else { 5_000_000 };
    parts.push(match context.cpus.first().and_then(|cpu| floors::pinned(*cpu, || before_and_after(busy_ns))) {
        Some((before, after)) => drift(before, after),
        None => Verdict::none("speed: this process may not run on its first measuring CPU"),
    });
    Verdict::all(parts)
}

/// Time of the fixed piece of computing, best of many, before and after the CPU was kept busy.
fn before_and_after(busy_ns: u64) -> (u64, u64) {
    let best = || (0..10).map(|_| speed::probe()).min().unwrap_or(0);
    let before = best();
    let start = clock::now();
    while clock::now() - start < busy_ns {
        std::hint::spin_loop();
    }
    (before, best())
}

fn drift(before: u64, after: u64) -> Verdict {
    if before == 0 || after == 0 {
        return Verdict::none("speed: the clock did not move");
    }
    let percent = 100.0 * (before as f64 / after as f64 - 1.0);
    let direction = if percent < 0.0 { "slower" } else { "faster" };
    let what = if percent.abs() < 0.0005 {
        "the CPU is as fast idle as busy".to_owned()
    } else {
        format!("the CPU became {} % {direction} while busy", three_digits(percent.abs()))
    };
    Verdict::warn_if(
        percent.abs() > DRIFT_PERCENT,
        what,
        "the governor performance, or a longer warm-up; rounds at another speed are flagged",
    )
    .with("speed_change_percent", percent)
}

fn governor(cpu: u32, now: &str, available: &str) -> Verdict {
    let setting = Cpu::try_from(cpu).map(Setting::Governor).ok();
    let setting = setting.filter(|best| available.split_whitespace().any(|name| name == best.value()));
    Verdict::warn_if(
        now != "performance",
        format!("CPU {cpu} governor {now}"),
        "the governor performance: another one lowers the frequency of a CPU that waits",
    )
    .fix(setting.and_then(|setting| setting.remedy(now)))
}

/// Check 4.
pub(super) fn idle(context: &Context) -> Verdict {
    let Some(cpu) = context.cpus.first().copied() else { return Verdict::none("no measuring CPU") };
    let states = format!("{}/cpuidle", folder(cpu));
    let states: Vec<State> = read::names(&states)
        .into_iter()
        .filter_map(|name| {
            let file = |file: &str| read::line(&format!("{states}/{name}/{file}"));
            Some(State {
                name: file("name").ok()?,
                exit_us: file("latency").ok()?.parse().ok()?,
                off: file("disable").is_ok_and(|off| off == "1"),
            })
        })
        .collect();
    let (count, every) = if context.order.full { (100, 4_000_000) } else { (10, 2_000_000) };
    let wake = match noise::wake_ups(cpu, count, every, 1_000_000_000, context.stop) {
        Some(late) if !late.is_empty() => judge_wake(late, every),
        _ => Verdict::none(format!("wake test: this process may not run on CPU {cpu}")),
    };
    Verdict::all([judge_states(&states), wake])
}

struct State {
    name: String,
    exit_us: u64,
    off: bool,
}

fn judge_states(states: &[State]) -> Verdict {
    let Some(deepest) = states.iter().filter(|state| !state.off).max_by_key(|state| state.exit_us) else {
        return Verdict::none("idle states: no cpuidle, the hypervisor or the kernel's default idles");
    };
    // Whether waking from it is slow is what the wake test shows.
    Verdict::ok(format!("deepest idle state {} (exit {} µs)", deepest.name, deepest.exit_us))
        .with("idle_exit_us", deepest.exit_us as f64)
}

fn judge_wake(mut late: Vec<u64>, idle_ns: u64) -> Verdict {
    late.sort_unstable();
    let middle = late[late.len() / 2];
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    Verdict::warn_if(
        middle > WAKE_NS,
        format!("waking after {} idle takes {}", time(idle_ns), time(middle)),
        "hold /dev/cpu_dma_latency open with 0 in it, or boot with cpuidle.off=1: low rates look slower than high ones",
    )
    .with("wake_after_idle_ns", middle as f64)
}

/// What two CPUs share.
#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    core: Vec<u32>,
    l2: Vec<u32>,
    l3: Vec<u32>,
    socket: Option<u64>,
    node: Option<String>,
}

fn place(cpu: u32) -> Option<Place> {
    let folder = folder(cpu);
    let list = |path: String| read::line(&path).map(|text| read::cpu_list(&text)).unwrap_or_default();
    let cache = |level: &str| {
        let caches = format!("{folder}/cache");
        let index = read::names(&caches).into_iter().find(|index| {
            let file = |name: &str| read::line(&format!("{caches}/{index}/{name}")).unwrap_or_default();
            file("level") == level && file("type") != "Instruction"
        });
        index.map(|index| list(format!("{caches}/{index}/shared_cpu_list"))).unwrap_or_default()
    };
    let core = list(format!("{folder}/topology/thread_siblings_list"));
    (!core.is_empty()).then(|| Place {
        core,
        l2: cache("2"),
        l3: cache("3"),
        socket: read::number(&format!("{folder}/topology/physical_package_id")).ok(),
        node: read::names(&folder).into_iter().find(|name| name.starts_with("node")),
    })
}

/// Check 5.
pub(super) fn topology(context: &Context) -> Verdict {
    match context.pair() {
        None => Verdict::ok("one measuring CPU on this machine"),
        Some((a, b)) => match place(a) {
            Some(place) => judge_relation(a, b, &place, self::place(b).as_ref()),
            None => Verdict::none(format!("no topology of CPU {a} in sysfs")),
        },
    }
}

/// How CPU `b` is related to the one whose place is given.
fn relation(b: u32, place: &Place, other: Option<&Place>) -> &'static str {
    let same_node = other.is_none_or(|other| other.node == place.node);
    if place.core.contains(&b) {
        "two threads of one core (SMT)"
    } else if place.l2.contains(&b) {
        "two cores, same L2"
    } else if place.l3.contains(&b) {
        "two cores, same L3"
    } else if other.is_some_and(|other| other.socket != place.socket) {
        "two sockets"
    } else if place.l3.is_empty() {
        "two cores, caches not known"
    } else if same_node {
        "two cores of one socket, no shared L3"
    } else {
        "two NUMA nodes of one socket"
    }
}

fn judge_relation(a: u32, b: u32, place: &Place, other: Option<&Place>) -> Verdict {
    if a == b {
        return Verdict::warn(
            format!("both ends are on CPU {a}: every message is also a task switch"),
            "two CPUs with --cpu, unless this is what you want to know",
        );
    }
    let relation = relation(b, place, other);
    Verdict::warn_if(
        place.core.contains(&b),
        format!("CPU {a} and {b}: {relation}"),
        "CPUs of two cores with --cpu: threads of one core slow each other down while they spin",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn a_governor_that_saves_power_warns_with_its_way_back() {
        assert_eq!(governor(0, "performance", "performance powersave").state, CheckState::Ok);
        let slow = governor(2, "schedutil", "performance schedutil");
        assert_eq!((slow.state, slow.what.as_str()), (CheckState::Warn, "CPU 2 governor schedutil"));
        assert_eq!(slow.remedies, [Setting::Governor(Cpu::try_from(2).unwrap()).remedy("schedutil").unwrap()]);
        assert!(governor(2, "userspace", "userspace").remedies.is_empty());
    }

    #[test]
    fn a_change_of_speed_of_more_than_a_percent_warns() {
        assert_eq!(drift(20_000, 20_150).state, CheckState::Ok);
        let slower = drift(20_000, 22_000);
        assert_eq!(slower.state, CheckState::Warn);
        assert!(slower.what.contains("9.09 % slower"), "{}", slower.what);
        assert!(drift(22_000, 20_000).what.contains("10.0 % faster"));
        assert_eq!(drift(20_000, 20_000).what, "the CPU is as fast idle as busy");
        assert_eq!(drift(0, 1).state, CheckState::NotAvailable);
    }

    #[test]
    fn idle_states_are_named_and_slow_waking_warns() {
        let state = |name: &str, exit_us, off| State { name: name.into(), exit_us, off };
        let states = [state("POLL", 0, false), state("C1", 2, false), state("C6", 133, true)];
        assert_eq!(judge_states(&states).what, "deepest idle state C1 (exit 2 µs)");
        assert_eq!(judge_states(&[]).state, CheckState::NotAvailable);
        assert_eq!(judge_wake(vec![60_000, 1, 90_000], 1_000_000).state, CheckState::Ok);
        assert_eq!(judge_wake(vec![160_000, 1, 190_000], 1_000_000).state, CheckState::Warn);
    }

    #[test]
    fn cpus_are_related_by_what_they_share() {
        let place = Place {
            core: vec![0, 4],
            l2: vec![0, 1, 4],
            l3: vec![0, 1, 2, 4],
            socket: Some(0),
            node: Some("node0".into()),
        };
        let other =
            |socket, node: &str| Some(Place { socket: Some(socket), node: Some(node.into()), ..Place::default() });
        assert_eq!(judge_relation(0, 4, &place, None).state, CheckState::Warn);
        assert_eq!(judge_relation(0, 0, &place, None).state, CheckState::Warn);
        assert_eq!(judge_relation(0, 1, &place, None).state, CheckState::Ok);
        assert_eq!(relation(1, &place, None), "two cores, same L2");
        assert_eq!(relation(2, &place, None), "two cores, same L3");
        assert_eq!(relation(7, &place, other(0, "node0").as_ref()), "two cores of one socket, no shared L3");
        assert_eq!(relation(7, &place, other(0, "node1").as_ref()), "two NUMA nodes of one socket");
        assert_eq!(relation(7, &Place { l3: vec![], ..place.clone() }, None), "two cores, caches not known");
        assert_eq!(relation(7, &place, other(1, "node1").as_ref()), "two sockets");
    }
}
