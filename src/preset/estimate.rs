//! How long a preset will take, said before it starts.

use msgpath_core::plan::{Extent, Plan};
use msgpath_core::preset::Preset;
use msgpath_core::{Case, CaseRole, Problem};

use crate::cli;

/// Around the messages of a round, ns: orders, threads, connections, counters of the kernel and the record, as seen on
/// machines with two CPUs.
const ROUND: u64 = 40_000_000;
/// A pilot before its warm-up, ns: about half a dozen short rounds.
const PILOT: u64 = 6 * ROUND + 10_000_000;
/// A run, ns: the far end's process, what `doctor` looks at, the report.
const RUN: u64 = 500_000_000;
/// A restart, ns: another process.
const RESTART: u64 = 100_000_000;
/// What a round is trimmed by at most, ns, where a schedule says how long that takes.
const TRIM: u64 = 20_000_000;
/// Rounds of a trial and of a traced twin are at most so long, ns.
const TRIAL: u64 = 10_000_000;
const TRACED: u64 = 30_000_000;
/// Events are counted in one of so many passes.
const COUNTED: u64 = 4;
/// Trials of a single case whose ends sleep.
const TRIALS: u64 = 2;

/// What a preset will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Runs.
    pub(crate) runs: u64,
    /// Cases of those runs that say how many they have.
    pub(crate) cases: u64,
    /// Time that they are planned for, ns.
    pub(crate) ns: u64,
    /// Runs whose length depends on what answers them.
    pub(crate) unknown: u64,
}

/// Adds up what the runs of a preset are planned for.
///
/// # Errors
/// A run that cannot be planned: what was typed does not fit.
pub(crate) fn estimate(preset: &Preset, typed: &[String]) -> Result<Estimate, Problem> {
    let mut sum = Estimate { runs: preset.runs.len() as u64, ..Estimate::default() };
    for run in &preset.runs {
        match cli::planned(&run.command(&super::by_long_names(&run.verb, typed)))? {
            Some(cli::Planned::Plan(plan)) => {
                sum.cases += plan.cases.len() as u64;
                sum.ns += planned_ns(&plan);
            }
            Some(cli::Planned::Time { cases, ns }) => {
                sum.cases += cases;
                sum.ns += ns;
            }
            None => sum.unknown += 1,
        }
    }
    Ok(sum)
}

/// Counts without a rate take as long as the path makes them; a case of a count is held for 1 s. Sizes that are added near
/// a crossing are not in it: nobody knows whether there is one.
fn planned_ns(plan: &Plan) -> u64 {
    let rounds = u64::from(plan.rounds);
    let stage = |longest: u64, case: &Case| rounds * (round_ns(plan, case).min(longest) + ROUND);
    let of = |case: &Case| match case.role {
        CaseRole::Trial => PILOT + plan.warmup_ns + stage(TRIAL, case),
        // It takes the pace of the case that it is held against.
        CaseRole::Control => stage(u64::MAX, case),
        CaseRole::Measured | CaseRole::Yardstick => PILOT + plan.warmup_ns + stage(u64::MAX, case),
    };
    let measured = || plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    let traced = |case: &Case| if plan.stages.is_some() { stage(TRACED, case) } else { 0 };
    let counted = |case: &Case| if plan.events_forced { stage(TRIAL, case) / COUNTED } else { 0 };
    let tried = |case: &Case| if plan.try_causes { TRIALS * (PILOT + plan.warmup_ns + stage(TRIAL, case)) } else { 0 };
    RUN + u64::from(plan.restarts - 1) * RESTART
        + plan.cases.iter().map(of).sum::<u64>()
        + measured().map(|case| traced(case) + counted(case) + tried(case)).sum::<u64>()
}

/// The messages of a round, with those that are trimmed where they take long.
fn round_ns(plan: &Plan, case: &Case) -> u64 {
    let rounds = u64::from(plan.rounds);
    let gap_ns = case.load.rate().map(|rate| rate.gap_ns());
    let messages = match (plan.extent, gap_ns) {
        (Extent::Time(ns), _) => ns / rounds,
        (Extent::Count(count), Some(gap)) => (count as f64 * gap) as u64 / rounds,
        (Extent::Count(_), None) => 1_000_000_000 / rounds,
    };
    // Of an open loop the queue is empty at first, so at least a tenth is trimmed.
    let trim = gap_ns.map_or(0, |gap| ((plan.trim as f64 * gap) as u64).min(TRIM).max(messages / 10));
    messages + trim
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::plan::{Load, StageSet, Workload};
    use msgpath_core::schedule::{Arrivals, Rate};
    use msgpath_core::units::Pieces;

    const SECOND: u64 = 1_000_000_000;

    fn plan(cases: usize) -> Plan {
        let case = |id| Case { id, ..Case::new("tcp:send".parse().unwrap(), Pieces::whole(64)) };
        let cases = (0..cases as u32).map(case).collect();
        let plan = Plan::new(Workload::Echo, cases);
        Plan { extent: Extent::Time(SECOND), warmup_ns: SECOND / 10, rounds: 40, ..plan }
    }

    fn seconds(plan: &Plan) -> f64 {
        planned_ns(plan) as f64 / 1e9
    }

    #[test]
    fn rounds_pilots_and_the_start_are_counted() {
        // 1 s of messages, 40 rounds of 40 ms around them, 0.1 s of warm-up, 0.25 s of pilot; the run 0.5 s.
        assert!((seconds(&plan(1)) - (0.5 + 2.95)).abs() < 1e-9);
        assert!((seconds(&plan(10)) - (0.5 + 29.5)).abs() < 1e-9);
        let restarted = Plan { restarts: 5, ..plan(1) };
        assert!((seconds(&restarted) - seconds(&plan(1)) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_control_has_no_pilot_and_a_trial_short_rounds() {
        let mut with = plan(2);
        with.cases[1].role = CaseRole::Control;
        assert!((seconds(&with) - seconds(&plan(1)) - 2.6).abs() < 1e-9);
        let trials = Plan { try_causes: true, ..plan(1) };
        assert!((seconds(&trials) - seconds(&plan(1)) - 2.0 * (0.35 + 40.0 * 0.05)).abs() < 1e-9);
        let traced = Plan { stages: Some(StageSet::Light), ..plan(1) };
        assert!((seconds(&traced) - seconds(&plan(1)) - 40.0 * 0.065).abs() < 1e-9, "25 ms, no more than untraced");
    }

    #[test]
    fn what_a_schedule_trims_is_counted() {
        let mut open = plan(1);
        let at = |rate: f64| Load::Open { rate: Rate::per_second(rate).unwrap(), arrivals: Arrivals::Constant };
        open.cases[0].load = at(1_000.0);
        assert!((seconds(&open) - seconds(&plan(1)) - 40.0 * 0.02).abs() < 1e-9, "100 messages would be 100 ms");
        open.cases[0].load = at(100_000.0);
        assert!((seconds(&open) - seconds(&plan(1)) - 40.0 * 0.0025).abs() < 1e-9, "a tenth of 25 ms");
    }
}
