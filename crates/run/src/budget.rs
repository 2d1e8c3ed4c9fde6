//! The time that the user waits: pilots, what-ifs and the work around rounds come out of it, not on top of it
//! (docs/method/rounds.md#the-time-you-wait).

use msgpath_core::Plan;
use msgpath_core::plan::Extent;
use msgpath_core::settling::LEAST_OF_TIME;

use crate::pilot::Pace;

/// The time is found to this share of it.
const STEPS: u32 = 12;

/// Of the time of each case what its rounds may take, ns, so that those of all cases, which have these paces, end within `left_ns`.
/// `None`: the rounds hold a number of messages, or schedules, which take all of it and are the same in every run.
pub fn rounds_ns(plan: &Plan, paces: &[Pace], left_ns: u64) -> Option<u64> {
    let Extent::Time(ns) = plan.extent else { return None };
    if plan.has_schedules() {
        return None;
    }
    let mut tried = plan.clone();
    let mut fits = |rounds_ns: u64| {
        tried.rounds_ns = Some(rounds_ns);
        all_rounds_ns(&tried, paces) <= left_ns
    };
    // What waits for a load in each round leaves less.
    let least = if plan.beside { 2 * LEAST_OF_TIME } else { LEAST_OF_TIME };
    let (mut short, mut long) = (ns / least, ns);
    if fits(long) {
        return Some(long);
    }
    for _ in 0..STEPS {
        let between = short.midpoint(long);
        *(if fits(between) { &mut short } else { &mut long }) = between;
    }
    Some(short)
}

/// How long all rounds of the cases take, which have these paces.
fn all_rounds_ns(plan: &Plan, paces: &[Pace]) -> u64 {
    let of = |(case, pace): (_, &Pace)| {
        let passes = (0..plan.rounds).filter(|pass| plan.measures_in(case, *pass)).count();
        pace.round_ns(plan, case).saturating_mul(passes as u64)
    };
    plan.cases.iter().zip(paces).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::plan::{Ablation, CaseRole, Change};
    use msgpath_core::settling::Settling;
    use msgpath_core::units::Pieces;
    use msgpath_core::{Case, Workload};

    const MS: u64 = 1_000_000;

    /// A plan of 10 s a case, in 40 rounds, whose load settles in 50 ms, with 2 ms around each round, and its paces.
    fn planned(cases: u32, what_ifs: u32) -> (Plan, Vec<Pace>) {
        let case = |id| Case { id, ..Case::new("tcp:send".parse().unwrap(), Pieces::whole(64)) };
        let what_if = |id| Case {
            role: CaseRole::Ablation,
            ablation: Some(Ablation { of: 0, change: Change::Spin }),
            ..case(id)
        };
        let cases: Vec<Case> = (0..cases).map(case).chain((cases..cases + what_ifs).map(what_if)).collect();
        let pace = Pace {
            message_ns: 20_000.0,
            trim: 0,
            settling: Some(Settling::WithinNs(50 * MS)),
            batch: 1,
            granted: Vec::new(),
            median_ns: Some(20_000),
            around_ns: 2 * MS,
        };
        let paces = vec![pace; cases.len()];
        (Plan { extent: Extent::Time(10_000 * MS), rounds: 40, ..Plan::new(Workload::ECHO, cases) }, paces)
    }

    #[test]
    fn pilots_and_what_ifs_come_out_of_the_time() {
        for (cases, what_ifs) in [(1, 0), (1, 2), (3, 0)] {
            let (plan, paces) = planned(cases, what_ifs);
            let wait = plan.wait_ns().unwrap();
            assert_eq!(wait, 10_000 * MS * u64::from(cases), "what-ifs bring no time");
            let left = wait - 2_000 * MS;
            let rounds_ns = rounds_ns(&plan, &paces, left);
            let took = all_rounds_ns(&Plan { rounds_ns, ..plan }, &paces) / MS;
            assert!((left / MS - 100..=left / MS).contains(&took), "{cases} and {what_ifs}: {took} ms");
        }
    }

    #[test]
    fn a_long_pilot_leaves_half_and_a_short_one_no_more_than_all() {
        let (plan, paces) = planned(1, 0);
        assert_eq!(rounds_ns(&plan, &paces, 0), Some(5_000 * MS));
        assert_eq!(rounds_ns(&plan, &paces, u64::MAX), Some(10_000 * MS));
        let counted = Plan { extent: Extent::Count(1_000), ..plan };
        assert_eq!((rounds_ns(&counted, &paces, 0), counted.wait_ns()), (None, None));
    }
}
