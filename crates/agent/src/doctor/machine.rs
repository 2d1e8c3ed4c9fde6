//! The machine itself: hypervisor and steal, performance counters, power and heat.

use std::path::Path;

use msgpath_core::units::three_digits;

use super::stat::Ticks;
use super::verdict::Verdict;
use super::{Context, read, stat};

/// Steal that warns, %.
const STEAL_PERCENT: f64 = 0.5;
/// Fewer ticks than this say too little of steal: one would be half a percent.
const FEWEST_TICKS: u64 = 200;

/// The time of all CPUs as it stands now.
pub(super) fn ticks() -> Option<Ticks> {
    stat::ticks(&read::text("/proc/stat").ok()?)
}

/// Check 9.
pub(super) fn hypervisor(context: &Context) -> Verdict {
    let cpuinfo = read::text("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine =
        read::field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|one| one == "hypervisor"));
    let name = read::line("/sys/hypervisor/type")
        .or_else(|_| read::line("/sys/class/dmi/id/sys_vendor"))
        .unwrap_or_else(|_| "of unknown make".into());
    let host = if virtual_machine { format!("virtual machine ({name})") } else { "no hypervisor seen".into() };
    let pmu = read::names("/sys/bus/event_source/devices");
    let pmu = if pmu.iter().any(|name| name.starts_with("cpu") || name.starts_with("armv")) {
        let paranoid = read::line("/proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|reason| reason);
        format!("performance counters, perf_event_paranoid {paranoid}")
    } else {
        "no performance counters".into()
    };
    let steal = match (context.ticks, ticks()) {
        (Some(before), Some(now)) => steal(before, now),
        _ => Verdict::none("steal: /proc/stat does not tell"),
    };
    Verdict::all([steal, Verdict::ok(host), Verdict::ok(pmu)])
}

fn steal(before: Ticks, now: Ticks) -> Verdict {
    let all = now.all.saturating_sub(before.all);
    let (stolen, of, when) = if all >= FEWEST_TICKS {
        (now.steal.saturating_sub(before.steal), all, "during these checks")
    } else {
        (now.steal, now.all.max(1), "since boot")
    };
    let percent = 100.0 * stolen as f64 / of as f64;
    Verdict::warn_if(
        percent > STEAL_PERCENT,
        format!("steal {} % {when}", three_digits(percent)),
        "a machine with CPUs of its own: the hypervisor runs others meanwhile, which looks like a tail of the program",
    )
    .with("steal_percent", percent)
}

/// How often the measuring CPUs were slowed down because of heat so far.
pub(super) fn throttle_count(cpus: &[u32]) -> Option<u64> {
    let count = |cpu: &u32| {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
        let core = read::number(&format!("{folder}/core_throttle_count")).ok()?;
        Some(core + read::number(&format!("{folder}/package_throttle_count")).unwrap_or(0))
    };
    cpus.iter().map(count).sum::<Option<u64>>().filter(|_| !cpus.is_empty())
}

/// Check 18.
pub(super) fn power(context: &Context) -> Verdict {
    let folder = Path::new("/sys/class/power_supply");
    let supplies: Vec<(String, String)> = read::names(&folder.to_string_lossy())
        .iter()
        .filter_map(|name| {
            let file = |file: &str| read::line(&folder.join(name).join(file).to_string_lossy());
            // The batteries of mice and headsets power their device, not this machine.
            let is_ours = !file("scope").is_ok_and(|scope| scope == "Device");
            is_ours.then(|| {
                (file("type").unwrap_or_default(), file("status").or_else(|_| file("online")).unwrap_or_default())
            })
        })
        .collect();
    Verdict::all([judge_power(&supplies), judge_heat(context.hot, throttle_count(&context.cpus))])
}

/// Type of each supply, with the status of a battery or whether another one is online.
fn judge_power(supplies: &[(String, String)]) -> Verdict {
    let battery = supplies.iter().any(|(kind, status)| kind == "Battery" && status == "Discharging");
    if battery {
        Verdict::warn("on battery", "plug it in: on battery the CPU is slower")
    } else if supplies.iter().any(|(kind, online)| kind == "Mains" && online == "1") {
        Verdict::ok("on mains")
    } else {
        Verdict::ok("no battery in use")
    }
}

fn judge_heat(before: Option<u64>, now: Option<u64>) -> Verdict {
    match (before, now) {
        (Some(before), Some(now)) => Verdict::warn_if(
            now > before,
            match now.saturating_sub(before) {
                0 => format!("slowed down by heat {now} times since boot, not during these checks"),
                times => format!("slowed down by heat {times} times during these checks"),
            },
            "let it cool down, or fewer rounds at a time: the cooler case would look faster",
        )
        .with("throttled_by_heat", now as f64),
        _ => Verdict::none("heat: no thermal_throttle in sysfs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn steal_is_judged_over_the_checks_if_they_were_long_enough() {
        let ticks = |all, steal| Ticks { all, steal };
        assert_eq!(steal(ticks(1_000, 0), ticks(1_400, 1)).state, CheckState::Ok);
        assert_eq!(steal(ticks(1_000, 0), ticks(1_400, 10)).state, CheckState::Warn);
        let short = steal(ticks(1_000, 0), ticks(1_010, 1));
        assert!(short.state == CheckState::Ok && short.what.ends_with("since boot"), "{}", short.what);
    }

    #[test]
    fn a_battery_and_heat_warn() {
        let supply = |kind: &str, status: &str| (kind.to_owned(), status.to_owned());
        assert_eq!(judge_power(&[supply("Mains", "0"), supply("Battery", "Discharging")]).state, CheckState::Warn);
        assert_eq!(judge_power(&[supply("Mains", "1"), supply("Battery", "Charging")]).what, "on mains");
        assert_eq!(judge_power(&[]).state, CheckState::Ok);
        assert_eq!(judge_heat(Some(4), Some(4)).state, CheckState::Ok);
        assert_eq!(judge_heat(Some(4), Some(5)).state, CheckState::Warn);
        assert_eq!(judge_heat(None, Some(5)).state, CheckState::NotAvailable);
    }
}
