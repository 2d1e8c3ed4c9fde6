//! How long a plan will take, said before it starts.

use msgpath_core::Workload;
use msgpath_core::plan::{Extent, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_core::settling::LEAST_OF_TIME;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, CaseRole};

/// What rounds take on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Around the messages of a round, ns: orders, threads, connections, counters of the kernel and the record.
    pub around: u64,
    /// A round trip, ns.
    pub message: u64,
}

impl Pace {
    /// As seen on machines with two CPUs.
    pub const USUAL: Self = Self { around: 30_000_000, message: 25_000 };

    /// What it was in these rounds, by medians; `None`: there are too few.
    pub fn of(rounds: &[RoundRecord]) -> Option<Self> {
        let mut order: Vec<&RoundRecord> = rounds.iter().collect();
        order.sort_by_key(|round| round.start_ns);
        let lasted = |round: &RoundRecord| round.near().elapsed_ns.max(round.far().elapsed_ns);
        let pairs = order.windows(2).filter(|pair| pair[0].restart == pair[1].restart);
        let gaps = pairs.map(|pair| pair[1].start_ns.saturating_sub(pair[0].start_ns + lasted(pair[0]))).collect();
        let each = order.iter().map(|round| lasted(round) / round.near().delivery.received.max(1)).collect();
        let median = |mut values: Vec<u64>| {
            values.sort_unstable();
            (values.len() >= FEWEST).then(|| values[values.len() / 2])
        };
        Some(Self { around: median(gaps)?, message: median(each)? })
    }
}

/// A run of less than a second that is only to tell the [`Pace`].
pub fn probe() -> Plan {
    let path = "tcp:send".parse().expect("a path");
    let plan = Plan::new(Workload::ECHO, vec![Case::new(path, Pieces::whole(64))]);
    let rounds = FEWEST as u32 + 4;
    Plan { extent: Extent::Count(8 * u64::from(rounds)), rounds, warmup_ns: 0, ..plan }
}

/// Rounds tell when they are so many.
const FEWEST: usize = 20;
/// A message of a stream waits for no answer: it takes this part of a round trip.
const OF_A_STREAM: u64 = 3;
/// Where each piece of a message has a call of its own, each further one takes this part of a round trip.
const OF_A_CALL: u64 = 20;
/// A pilot: rounds of 8 messages, then four times as many until they take 10 ms, are about so many ...
const GROWING: u64 = 5;
/// ... slices of the warm-up, at least so many of 10 ms ...
const SLICES: u64 = 3;
const SLICE: u64 = 10_000_000;
/// ... and, where rounds are to hold a time, one of full length, at most so long, ns.
const WHOLE: u64 = 200_000_000;
/// A run, ns: the far end's process, what `doctor` looks at, the report.
const RUN: u64 = 500_000_000;
/// A restart, ns: another process.
const RESTART: u64 = 100_000_000;
/// What a round is trimmed by at most, ns, where a schedule says how long that takes.
const TRIM: u64 = 20_000_000;
/// Rounds of an ablation and of a traced replica are at most so long, ns.
const ABLATION: u64 = 10_000_000;
const TRACED: u64 = 30_000_000;
/// Events are counted in one of so many passes.
const COUNTED: u64 = 4;
/// Ablations of a single case whose ends sleep.
const ABLATIONS: u64 = 2;

/// How long a plan will take, ns. A time is what it says, unless pilots and all that is around the shortest rounds take longer. A count without a rate takes as long as its path makes it: a round trip for each message, or part of
/// it, a part for each further call, and 1 ns a byte. Sizes that are added near a crossing are not in it: nobody knows
/// whether there is one; nor are the rounds for which a run with too few calm ones goes on.
pub fn planned_ns(plan: &Plan, pace: Pace) -> u64 {
    let rounds = u64::from(plan.rounds);
    let around = pace.around;
    let stage = |longest: u64, case: &Case| rounds * (round_ns(plan, case, pace).min(longest) + around);
    let pilot = |case: &Case| {
        let warm_up = plan.warmup_ns.max(SLICES * (SLICE + around));
        let whole = match (plan.extent, case.load.rate()) {
            (Extent::Time(_), None) => round_ns(plan, case, pace).min(WHOLE) + around,
            _ => 0,
        };
        GROWING * around + SLICE + warm_up + whole
    };
    let of = |case: &Case| match case.role {
        CaseRole::Ablation => pilot(case) + stage(ABLATION, case),
        // It takes the pace of the case that it is held against.
        CaseRole::Control => stage(u64::MAX, case),
        CaseRole::Measured | CaseRole::Reference => pilot(case) + stage(u64::MAX, case),
    };
    let measured = || plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    let traced = |case: &Case| if plan.stages.is_some() { stage(TRACED, case) } else { 0 };
    let counted = |case: &Case| if plan.events_forced { stage(ABLATION, case) / COUNTED } else { 0 };
    let tried = |case: &Case| if plan.try_causes { ABLATIONS * (pilot(case) + stage(ABLATION, case)) } else { 0 };
    let least = RUN
        + u64::from(plan.restarts - 1) * RESTART
        + plan.cases.iter().map(of).sum::<u64>()
        + measured().map(|case| traced(case) + counted(case) + tried(case)).sum::<u64>();
    least.max(plan.wait_ns().map_or(0, |wait| RUN + wait))
}

/// The messages of a round, with those that are trimmed where they take long.
fn round_ns(plan: &Plan, case: &Case, pace: Pace) -> u64 {
    let rounds = u64::from(plan.rounds);
    let gap_ns = case.load.rate().map(|rate| rate.gap_ns());
    let messages = match (plan.extent, gap_ns) {
        (Extent::Time(ns), Some(_)) => ns / rounds,
        (Extent::Time(ns), None) => ns / LEAST_OF_TIME / rounds,
        (Extent::Count(count), Some(gap)) => (count as f64 * gap) as u64 / rounds,
        (Extent::Count(count), None) => {
            let message = if plan.workload.timed { pace.message } else { pace.message / OF_A_STREAM };
            let calls = if case.traits.apart { u64::from(case.pieces.count) } else { 1 };
            let calls = calls.saturating_sub(1).saturating_mul(pace.message) / OF_A_CALL;
            count.saturating_mul(message.saturating_add(calls).saturating_add(case.size)) / rounds
        }
    };
    // Of an open loop the queue is empty at first, so at least a tenth is trimmed.
    let trim = gap_ns.map_or(0, |gap| ((plan.trim as f64 * gap) as u64).min(TRIM).max(messages / 10));
    messages + trim
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Workload;
    use msgpath_core::plan::{Load, StageSet};
    use msgpath_core::schedule::{Arrivals, Rate};

    const SECOND: u64 = 1_000_000_000;

    fn plan(cases: usize) -> Plan {
        let case = |id| Case { id, ..Case::new("tcp:send".parse().unwrap(), Pieces::whole(64)) };
        let cases = (0..cases as u32).map(case).collect();
        let plan = Plan::new(Workload::ECHO, cases);
        Plan { extent: Extent::Time(SECOND), warmup_ns: SECOND / 10, rounds: 40, ..plan }
    }

    fn seconds(plan: &Plan) -> f64 {
        planned_ns(plan, Pace { around: 40_000_000, message: 30_000 }) as f64 / 1e9
    }

    #[test]
    fn rounds_pilots_and_the_start_are_counted() {
        // Half a second of messages, 40 rounds of 40 ms around them; the pilot has 5 growing rounds (0.21 s), three slices
        // that are longer than the 0.1 s of warm-up (0.15 s), and one round (0.0525 s); the run 0.5 s.
        assert!((seconds(&plan(1)) - (0.5 + 2.1 + 0.4125)).abs() < 1e-9);
        assert!((seconds(&plan(10)) - (0.5 + 21.0 + 4.125)).abs() < 1e-9);
        let long = Plan { extent: Extent::Time(10 * SECOND), ..plan(1) };
        assert!((seconds(&long) - 10.5).abs() < 1e-9, "the time that was asked for");
        let warm = Plan { warmup_ns: SECOND, ..plan(1) };
        assert!((seconds(&warm) - seconds(&plan(1)) - 0.85).abs() < 1e-9);
        let restarted = Plan { restarts: 5, ..plan(1) };
        assert!((seconds(&restarted) - seconds(&plan(1)) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_control_has_no_pilot_and_an_ablation_short_rounds() {
        let mut with = plan(2);
        with.cases[1].role = CaseRole::Control;
        assert!((seconds(&with) - seconds(&plan(1)) - 2.1).abs() < 1e-9);
        let ablations = Plan { try_causes: true, ..plan(1) };
        assert!((seconds(&ablations) - seconds(&plan(1)) - 2.0 * (0.4125 + 40.0 * 0.05)).abs() < 1e-9);
        let traced = Plan { stages: Some(StageSet::Light), ..plan(1) };
        assert!((seconds(&traced) - seconds(&plan(1)) - 40.0 * 0.0525).abs() < 1e-9, "no more than untraced");
    }

    #[test]
    fn what_a_schedule_trims_is_counted() {
        let mut open = plan(1);
        let at = |rate: f64| Load::Open { rate: Rate::per_second(rate).unwrap(), arrivals: Arrivals::Constant };
        open.cases[0].load = at(1_000.0);
        assert!(
            (seconds(&open) - seconds(&plan(1)) - (40.0 * (0.02 + 0.0125) - 0.0525)).abs() < 1e-9,
            "100 messages would be 100 ms"
        );
        open.cases[0].load = at(100_000.0);
        assert!(
            (seconds(&open) - seconds(&plan(1)) - (40.0 * (0.0025 + 0.0125) - 0.0525)).abs() < 1e-9,
            "a tenth of 25 ms"
        );
    }

    #[test]
    fn what_a_round_costs_is_what_rounds_cost() {
        let round = |pass: u64| {
            let mut round = RoundRecord { start_ns: pass * 30_000_000, ..RoundRecord::default() };
            (round.near_mut().elapsed_ns, round.far_mut().elapsed_ns) = (8_000_000, 10_000_000);
            round.near_mut().delivery.received = 500;
            // A restart takes its time, which is not a round's.
            round.restart = u32::from(pass >= 15);
            round.start_ns += u64::from(round.restart) * SECOND;
            round
        };
        let rounds: Vec<RoundRecord> = (0..30).rev().map(round).collect();
        let pace = Pace { around: 20_000_000, message: 20_000 };
        assert_eq!(Pace::of(&rounds), Some(pace));
        assert_eq!(Pace::of(&rounds[..20]), None);
        assert!(planned_ns(&plan(1), pace) < planned_ns(&plan(1), Pace::USUAL));
    }

    #[test]
    fn a_count_takes_what_its_messages_take() {
        let of = |workload| Plan { extent: Extent::Count(100_000), workload, ..plan(1) };
        let more = |workload| seconds(&of(workload)) - seconds(&Plan { extent: Extent::Count(0), ..of(workload) });
        // 30 µs and 64 bytes; a third of 30 µs.
        assert!((more(Workload::ECHO) - 3.0064).abs() < 1e-9, "{}", more(Workload::ECHO));
        assert!((more(Workload::STREAM) - 1.0064).abs() < 1e-9, "{}", more(Workload::STREAM));
        // In four calls: three twentieths of 30 µs more.
        let mut apart = of(Workload::STREAM);
        apart.cases[0].pieces = Pieces { count: 4, ..apart.cases[0].pieces };
        let whole = seconds(&apart);
        apart.cases[0].traits.apart = true;
        assert!((seconds(&apart) - whole - 0.45).abs() < 1e-9);
    }
}
