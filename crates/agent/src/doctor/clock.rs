//! The clock: what it is made of, what it costs, whether CPUs and processes agree on it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use msgpath_core::remedy::Setting;
use msgpath_core::schema::Environment;
use msgpath_core::units::Glyphs;
use msgpath_sys::{affinity, clock as sys};

use super::verdict::Verdict;
use super::{Context, read};

const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// A reading that costs more than this goes through a system call, ns.
const COST_NS: f64 = 200.0;

/// Check 1.
pub(super) fn clock(context: &Context) -> Verdict {
    let (readings, limit) = if context.order.full { (1_000_000, 200_000_000) } else { (20_000, 20_000_000) };
    let (cost, step) = sys::measure(readings);
    let order = match context.pair() {
        // The near end looks at the same two CPUs, and both at a time would disturb each other.
        Some(_) if context.order.end == "far" && context.order.other_cpu.is_some() => None,
        None => Some(Verdict::none("order between CPUs: one measuring CPU")),
        Some((a, b)) if a == b => Some(Verdict::none("order between CPUs: both ends are on one CPU")),
        Some((a, b)) => Some(judge_order(a, b, hand_over(a, b, 20_000, limit))),
    };
    let available = read::line(SOURCES).unwrap_or_default();
    let read =
        [Verdict::read(read::line(&Setting::ClockTsc.path()), |now| source(&now, &available)), price(cost, step)];
    Verdict::all(read.into_iter().chain(order))
}

fn source(now: &str, available: &str) -> Verdict {
    let good = [Setting::ClockTsc, Setting::ClockArch];
    let better = good.into_iter().find(|good| available.split_whitespace().any(|name| name == good.value()));
    Verdict::warn_if(
        good.iter().all(|good| good.value() != now),
        format!("clock source {now}"),
        "tsc, where the machine has a stable one: other sources are slower to read or coarser",
    )
    .fix(better.and_then(|better| better.remedy(now)))
}

fn price(cost: f64, step: u64) -> Verdict {
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let step = if step == 0 { "no step seen".into() } else { format!("smallest step {}", time(step as f64)) };
    Verdict::warn_if(
        cost > COST_NS,
        format!("a reading costs {}, {step}", time(cost)),
        "short round trips are measured in batches; a clock source that needs no system call is cheaper",
    )
    .with("clock_cost_ns", cost)
}

/// Stamps that went from one CPU to the other and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Handed {
    stamps: u64,
    backwards: u64,
    /// Furthest that the clock went backwards, ns.
    furthest_ns: u64,
}

impl Handed {
    /// `now` was read after `stamp` had been read on the other CPU.
    fn note(&mut self, stamp: u64, now: u64) {
        self.stamps += 1;
        if now < stamp {
            self.backwards += 1;
            self.furthest_ns = self.furthest_ns.max(stamp - now);
        }
    }
}

/// Two threads read the clock in turn, each after it has seen the other's stamp; `None` where one may not run there.
fn hand_over(a: u32, b: u32, most: u32, limit_ns: u64) -> Option<Handed> {
    const OVER: u32 = u32::MAX;
    let (turn, stamp) = (AtomicU32::new(0), AtomicU64::new(0));
    let deadline = sys::now() + limit_ns;
    let side = |cpu: u32, parity: u32| {
        if affinity::pin(&[cpu]).is_err() {
            turn.store(OVER, Ordering::Release);
            return None;
        }
        let mut seen = Handed::default();
        let mut looks = 0_u32;
        loop {
            match turn.load(Ordering::Acquire) {
                OVER => return Some(seen),
                at if at >= most => return Some(seen),
                at if at % 2 == parity => {
                    let now = sys::now();
                    if at > 0 {
                        seen.note(stamp.load(Ordering::Relaxed), now);
                    }
                    stamp.store(now, Ordering::Relaxed);
                    // Not a plain store: the other side may have said meanwhile that it cannot run.
                    let _ = turn.compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Relaxed);
                }
                _ => std::hint::spin_loop(),
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(1024) && sys::now() > deadline {
                turn.store(OVER, Ordering::Release);
            }
        }
    };
    std::thread::scope(|scope| {
        // The first one alone ends at its deadline.
        let start = |cpu, parity| std::thread::Builder::new().spawn_scoped(scope, move || side(cpu, parity)).ok();
        let (far, near) = (start(b, 1), start(a, 0));
        let (near, far) = (near?.join().ok().flatten()?, far?.join().ok().flatten()?);
        Some(Handed {
            stamps: near.stamps + far.stamps,
            backwards: near.backwards + far.backwards,
            furthest_ns: near.furthest_ns.max(far.furthest_ns),
        })
    })
}

fn judge_order(a: u32, b: u32, handed: Option<Handed>) -> Verdict {
    let Some(handed) = handed else {
        return Verdict::none(format!("order between CPUs: this process may not run on {a} and {b}"));
    };
    let Handed { stamps, backwards, furthest_ns } = handed;
    let verdict = if stamps == 0 {
        return Verdict::none("order between CPUs: the machine is too busy");
    } else if backwards > 0 {
        let furthest = Glyphs::Unicode.time(furthest_ns as f64);
        Verdict::stop(
            format!(
                "the clock went backwards {backwards} times in {stamps} between CPU {a} and {b}, by up to {furthest}"
            ),
            "no one-way time is certain here: one CPU for both ends, or round trips only",
        )
    } else {
        Verdict::ok(format!("{stamps} stamps between CPU {a} and {b} in order"))
    };
    verdict.with("stamps", stamps as f64).with("backwards", backwards as f64)
}

/// Check 2 of one end.
pub(super) fn namespace(_: &Context) -> Verdict {
    let own = std::fs::read_link("/proc/self/ns/time")
        .map_err(|error| read::reason("/proc/self/ns/time", &error))
        .map(|link| link.to_string_lossy().into_owned());
    let offsets = read::text("/proc/self/timens_offsets").unwrap_or_default();
    Verdict::read(own, |own| match offset(&offsets) {
        Some((seconds, ns)) => Verdict::ok(format!("{own}, CLOCK_MONOTONIC is moved by {seconds} s {ns} ns")),
        None => Verdict::ok(own),
    })
}

/// What is added to CLOCK_MONOTONIC in this namespace, where it is not 0.
fn offset(text: &str) -> Option<(i64, i64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut words = line.split_whitespace().map(str::parse::<i64>);
    let offset = (words.next()?.ok()?, words.next()?.ok()?);
    (offset != (0, 0)).then_some(offset)
}

/// Check 2 of both ends: whether they read the same clock.
pub(super) fn together(near: &Environment, far: &Environment) -> Verdict {
    if near.boot_id.starts_with("n/a") || far.boot_id.starts_with("n/a") {
        return Verdict::none("one end does not tell its boot id");
    }
    if near.boot_id != far.boot_id || near.boot_id.is_empty() {
        return Verdict::ok("two machines: each has its own clock, one-way times come with a bound");
    }
    match (near.time_namespace(), far.time_namespace()) {
        (Some(a), Some(b)) if a == b => Verdict::ok("one machine, one boot, one time namespace: one CLOCK_MONOTONIC"),
        (Some(a), Some(b)) => Verdict::warn(
            format!("the ends are in different time namespaces ({a}, {b})"),
            "one-way times come with a bound; without one where both ends are in the same time namespace",
        ),
        // A kernel without time namespaces has one clock.
        (None, None) => Verdict::ok("one machine, one boot, no time namespaces: one CLOCK_MONOTONIC"),
        _ => Verdict::none("one end does not tell its time namespace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;
    use msgpath_core::schema::TIME_NAMESPACE;

    #[test]
    fn another_clock_source_warns_and_can_be_changed_where_there_is_a_better_one() {
        assert_eq!(source("tsc", "tsc hpet").state, CheckState::Ok);
        assert_eq!(source("arch_sys_counter", "").state, CheckState::Ok);
        let slow = source("hpet", "tsc hpet acpi_pm");
        assert_eq!(slow.state, CheckState::Warn);
        assert_eq!(slow.remedies, [Setting::ClockTsc.remedy("hpet").unwrap()]);
        assert!(source("kvm-clock", "kvm-clock acpi_pm").remedies.is_empty());
        assert_eq!(price(50.0, 1).state, CheckState::Ok);
        assert_eq!(price(700.0, 0).state, CheckState::Warn);
    }

    #[test]
    fn a_clock_that_goes_backwards_between_cpus_stops() {
        let mut handed = Handed::default();
        for (stamp, now) in [(10, 12), (20, 20), (30, 25), (40, 38)] {
            handed.note(stamp, now);
        }
        assert_eq!(handed, Handed { stamps: 4, backwards: 2, furthest_ns: 5 });
        assert_eq!(judge_order(0, 1, Some(handed)).state, CheckState::Stop);
        assert_eq!(judge_order(0, 1, Some(Handed { stamps: 9, ..Handed::default() })).state, CheckState::Ok);
        assert_eq!(judge_order(0, 1, Some(Handed::default())).state, CheckState::NotAvailable);
        assert_eq!(judge_order(0, 1, None).state, CheckState::NotAvailable);
    }

    #[test]
    fn stamps_are_handed_over_between_real_cpus() {
        let cpus = affinity::allowed();
        if let [a, b, ..] = cpus[..] {
            let handed = hand_over(a, b, 100, 2_000_000_000).unwrap();
            assert!(handed.stamps <= 99);
        }
        assert_eq!(hand_over(cpus[0], 100_000, 100, 1_000_000_000), None);
        assert_eq!(affinity::allowed(), cpus);
    }

    #[test]
    fn one_machine_and_one_namespace_have_one_clock() {
        let environment = |boot: &str, namespace: Option<&str>| Environment {
            boot_id: boot.into(),
            facts: namespace.map(|name| (TIME_NAMESPACE.to_owned(), name.to_owned())).into_iter().collect(),
            ..Environment::default()
        };
        let a = environment("a", Some("time:[1]"));
        assert_eq!(together(&a, &a).state, CheckState::Ok);
        assert_eq!(together(&a, &environment("a", Some("time:[2]"))).state, CheckState::Warn);
        assert!(together(&a, &environment("b", Some("time:[1]"))).what.starts_with("two machines"));
        assert_eq!(together(&a, &environment("a", None)).state, CheckState::NotAvailable);
        assert_eq!(together(&environment("a", None), &environment("a", Some("n/a: x"))).state, CheckState::Ok);
        assert_eq!(together(&a, &environment("n/a: x", None)).state, CheckState::NotAvailable);
    }

    #[test]
    fn offsets_of_a_time_namespace() {
        assert_eq!(offset("monotonic           0         0\nboottime 0 0\n"), None);
        assert_eq!(offset("monotonic  86400  5\n"), Some((86_400, 5)));
        assert_eq!(offset("monotonic x"), None);
    }
}
