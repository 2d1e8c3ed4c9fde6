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

use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::doctor::{Check, CheckState, Examine, Observation};
use msgpath_core::schema::Environment;
use msgpath_sys::affinity;

use stat::Process;
use verdict::Verdict;

/// One check: its number and what examines it.
struct Entry(u8, fn(&Context) -> Verdict);

/// All checks of one end, in the order in which they are made: those that need the machine untouched first, then the
/// noise floor, then those that look at what has changed meanwhile. Check 21, the A/A resolution, is a measurement.
const CHECKS: [Entry; 20] = [
    Entry(8, scheduling::runnable),
    Entry(19, processes::benchmarks),
    Entry(10, noise::gap_meter),
    Entry(11, noise::timer),
    Entry(1, clock::clock),
    Entry(2, clock::namespace),
    Entry(3, cpu::speed),
    Entry(4, cpu::idle),
    Entry(5, cpu::topology),
    Entry(6, scheduling::isolation),
    Entry(7, scheduling::limits),
    Entry(9, machine::hypervisor),
    Entry(12, memory::memory),
    Entry(13, kernel::kernel),
    Entry(14, network::route),
    Entry(15, network::packet_path),
    Entry(16, tcp::settings),
    Entry(17, uring::uring),
    Entry(18, machine::power),
    Entry(20, self_check::build),
];

/// What the checks share: the order, and counters as they stood at the beginning.
struct Context<'a> {
    order: &'a Examine,
    /// Nobody waits for the checks any more.
    stop: &'a AtomicBool,
    cpus: Vec<u32>,
    processes: Vec<Process>,
    throttled: Option<u64>,
    ticks: Option<stat::Ticks>,
    hot: Option<u64>,
    interrupts: Option<String>,
    started_ns: u64,
}

impl<'a> Context<'a> {
    fn new(order: &'a Examine, stop: &'a AtomicBool) -> Self {
        let allowed = affinity::allowed();
        let cpus = if order.cpus.is_empty() { allowed.into_iter().take(1).collect() } else { order.cpus.clone() };
        Self {
            order,
            stop,
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
/// otherwise. Those that were not begun when `stop` is set are left out.
pub fn examine(order: &Examine, stop: &AtomicBool) -> Vec<Observation> {
    let context = Context::new(order, stop);
    let mut observations: Vec<Observation> = CHECKS
        .iter()
        .take_while(|_| !stop.load(Ordering::Relaxed))
        .map(|Entry(number, examine)| examine(&context).observed(*number))
        .collect();
    observations.sort_by_key(|observation| observation.number);
    observations
}

/// The checks that need both ends: whether they share a clock (2), and whether they are the same program (20).
pub fn both(near: &[Observation], far: &[Observation], near_env: &Environment, far_env: &Environment) -> Vec<Check> {
    let check = |verdict: Verdict, number| Check::new("both", verdict.observed(number));
    let mut checks =
        vec![check(clock::together(near_env, far_env), 2), check(self_check::together(near_env, far_env), 20)];
    // A clock that goes backwards between CPUs at either end spoils what needs both.
    let backwards =
        |checks: &[Observation]| checks.iter().any(|check| check.number == 1 && check.state == CheckState::Stop);
    if backwards(near) || backwards(far) {
        let verdict = Verdict::stop("the clock goes backwards between CPUs of one end: no one-way time", "see check 1");
        checks.insert(0, check(verdict, 1));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::parse_report;

    #[test]
    fn every_check_says_what_it_saw() {
        let order = Examine {
            end: "near".into(),
            peer: Some(([127, 0, 0, 1], 0).into()),
            other_cpu: Some(1),
            ..Examine::default()
        };
        let start = std::time::Instant::now();
        let checks = examine(&order, &AtomicBool::new(false));
        assert!(start.elapsed().as_secs() < 60);
        assert_eq!(checks.iter().map(|check| check.number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        for check in &checks {
            assert!(!check.what.is_empty() && !check.what.contains('\n'), "{check:?}");
            assert_eq!(check.state == CheckState::NotAvailable, check.what.starts_with("n/a: "), "{check:?}");
            assert!(check.state < CheckState::Warn || !check.cure.is_empty(), "a warning without a cure: {check:?}");
            assert!(check.state >= CheckState::Warn || check.cure.is_empty(), "a cure without a warning: {check:?}");
            assert!(check.remedies.iter().all(|remedy| remedy.check() == check.number), "{check:?}");
            assert!(check.evidence.values().all(|value| value.is_finite()), "{check:?}");
        }
        assert_eq!(parse_report(checks.clone()), Ok(checks.clone()), "it is a report");
        if cfg!(debug_assertions) {
            assert_eq!(checks[19].state, CheckState::Stop, "a debug build makes no claims");
        }
    }

    #[test]
    fn nothing_is_asked_of_a_machine_that_has_nothing() {
        let order = Examine { cpus: vec![100_000], other_cpu: Some(100_001), ..Examine::default() };
        let checks = examine(&order, &AtomicBool::new(false));
        assert_eq!(checks.len(), 20);
        assert_eq!(checks[9].state, CheckState::NotAvailable, "{:?}", checks[9]);
        assert!(checks[6].state >= CheckState::Warn, "a CPU that is not allowed: {:?}", checks[6]);
    }
}
