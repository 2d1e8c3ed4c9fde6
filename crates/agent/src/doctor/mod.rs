//! What on this machine will spoil a measurement: the checks of one end (docs/method/doctor.md).
//!
//! A check reads, judges and says what helps; it changes nothing and prints nothing. What it read is judged by pure
//! functions over the kernel's text, so that every state is tested without the machine that has it.

pub mod cgroup;
mod clock;
mod cpu;
mod kernel;
mod machine;
mod memory;
mod network;
mod noise;
mod processes;
pub mod read;
mod scheduling;
mod self_check;
pub mod stat;
mod tcp;
mod uring;
mod verdict;

use msgpath_core::doctor::{Check, CheckState, Examine};
use msgpath_core::schema::Environment;
use msgpath_sys::affinity;

use stat::Process;
use verdict::Verdict;

/// One check: its number, its name, and what examines it.
struct Entry(u8, &'static str, fn(&Context) -> Verdict);

/// All checks of one end, in the order in which they are made: those that need the machine untouched first, then the
/// noise floor, then those that look at what has changed meanwhile. Check 21, the A/A resolution, is a measurement.
const CHECKS: [Entry; 20] = [
    Entry(8, "runnable tasks", scheduling::runnable),
    Entry(19, "other benchmarks", processes::benchmarks),
    Entry(10, "OS jitter", noise::gap_meter),
    Entry(11, "timer lateness", noise::timer),
    Entry(1, "clock", clock::clock),
    Entry(2, "time namespace", clock::namespace),
    Entry(3, "cpu speed", cpu::speed),
    Entry(4, "idle states", cpu::idle),
    Entry(5, "cpu topology", cpu::topology),
    Entry(6, "isolation, interrupts", scheduling::isolation),
    Entry(7, "limits", scheduling::limits),
    Entry(9, "hypervisor, steal", machine::hypervisor),
    Entry(12, "memory", memory::memory),
    Entry(13, "kernel", kernel::kernel),
    Entry(14, "route", network::route),
    Entry(15, "packet path", network::packet_path),
    Entry(16, "tcp settings", tcp::settings),
    Entry(17, "io_uring", uring::uring),
    Entry(18, "power, throttling", machine::power),
    Entry(20, "own build", self_check::build),
];

/// What the checks share: the order, and counters as they stood at the beginning.
struct Context<'a> {
    order: &'a Examine,
    cpus: Vec<u32>,
    processes: Vec<Process>,
    throttled: Option<u64>,
    ticks: Option<stat::Ticks>,
    hot: Option<u64>,
    interrupts: Option<String>,
    started_ns: u64,
}

impl Context<'_> {
    fn new(order: &Examine) -> Context<'_> {
        let allowed = affinity::allowed();
        let cpus = if order.cpus.is_empty() { allowed.into_iter().take(1).collect() } else { order.cpus.clone() };
        Context {
            order,
            processes: processes::scan(),
            throttled: scheduling::throttled(),
            ticks: machine::ticks(),
            hot: machine::throttle_count(&cpus),
            interrupts: read::text("/proc/interrupts").ok(),
            started_ns: msgpath_sys::clock::now(),
            cpus,
        }
    }

    /// The CPU of the other end on this machine, or another measuring CPU of this one.
    fn pair(&self) -> Option<(u32, u32)> {
        let first = *self.cpus.first()?;
        let other = self.order.other_cpu.or_else(|| self.cpus.get(1).copied())?;
        Some((first, other))
    }
}

/// Makes the checks 1 to 20 of this end, in the order of their numbers: less than 4 s in full, a fifth of a second
/// otherwise.
pub fn examine(order: &Examine) -> Vec<Check> {
    let context = Context::new(order);
    let mut checks: Vec<Check> = CHECKS
        .iter()
        .map(|Entry(number, name, examine)| examine(&context).into_check(*number, name, &order.end))
        .collect();
    checks.sort_by_key(|check| check.number);
    checks
}

/// The checks that need both ends: whether they share a clock (2), and whether they are the same program (20).
pub fn both(near: &[Check], far: &[Check], near_env: &Environment, far_env: &Environment) -> Vec<Check> {
    let mut checks = vec![
        clock::together(near_env, far_env).into_check(2, "time namespace", "both"),
        self_check::together(near_env, far_env).into_check(20, "own build", "both"),
    ];
    // A clock that goes backwards between CPUs at either end spoils what needs both.
    let backwards = |checks: &[Check]| checks.iter().any(|check| check.number == 1 && check.state == CheckState::Stop);
    if backwards(near) || backwards(far) {
        let verdict = Verdict::stop("the clock goes backwards between CPUs of one end: no one-way time", "see check 1");
        checks.insert(0, verdict.into_check(1, "clock", "both"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_what_it_saw() {
        let order =
            Examine { end: "near".into(), peer: Some([127, 0, 0, 1].into()), other_cpu: Some(1), ..Examine::default() };
        let start = std::time::Instant::now();
        let checks = examine(&order);
        assert!(start.elapsed().as_secs() < 60);
        assert_eq!(checks.iter().map(|check| check.number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        for check in &checks {
            assert!(!check.what.is_empty() && check.end == "near", "{check:?}");
            assert_eq!(check.state == CheckState::NotAvailable, check.what.starts_with("n/a: "), "{check:?}");
            assert!(check.state < CheckState::Warn || !check.cure.is_empty(), "a warning without a cure: {check:?}");
            assert!(check.state >= CheckState::Warn || check.cure.is_empty(), "a cure without a warning: {check:?}");
            assert!(check.commands.iter().all(|fix| !fix.run.is_empty()));
            assert!(check.evidence.values().all(|value| value.is_finite()), "{check:?}");
        }
        if cfg!(debug_assertions) {
            assert_eq!(checks[19].state, CheckState::Stop, "a debug build makes no claims");
        }
    }

    #[test]
    fn nothing_is_asked_of_a_machine_that_has_nothing() {
        let order = Examine { cpus: vec![100_000], other_cpu: Some(100_001), ..Examine::default() };
        let checks = examine(&order);
        assert_eq!(checks.len(), 20);
        assert_eq!(checks[9].state, CheckState::NotAvailable, "{:?}", checks[9]);
        assert!(checks[6].state >= CheckState::Warn, "a CPU that is not allowed: {:?}", checks[6]);
    }
}
