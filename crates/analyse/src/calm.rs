//! The calm rounds are a stratum of their own: the headline is theirs, the others stand beside it. Which rounds are calm
//! their conditions tell ([`msgpath_core::calm`]), never their latency; none is dropped.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::calm::{Disturbed, Ends, Watch, classify};
use msgpath_core::plan::{Case, CaseRole, MIN_ROUNDS_FOR_CLAIMS};
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile;

use crate::summary::{Beside, CalmRounds};

/// With fewer calm rounds than this share the headline is that of all rounds. Where most rounds are disturbed, what is
/// left of them is what the machine seldom is, and it says less than all rounds do.
pub const LEAST: f64 = 1.0 / 3.0;

/// What disturbed the rounds of a run, and which of them make the headline.
#[derive(Clone, Debug, Default)]
pub struct Calm {
    rounds: BTreeMap<(u32, u32), Ends>,
    /// The headline is that of the calm rounds; else of all.
    used: bool,
}

impl Calm {
    /// Of all rounds of a run.
    pub fn of(run: &Run) -> Self {
        let plan = &run.header.plan;
        let watch = Watch::new(&run.header);
        let seen: Vec<_> = run.rounds.iter().map(|round| watch.conditions(round)).collect();
        let rounds = seen.iter().map(|seen| (seen.case, seen.pass)).zip(classify(&seen)).collect();
        let mut calm = Self { rounds, used: false };
        // A server's log and a set of components that exchange messages have no rounds to choose from; those of an open loop
        // are one schedule, of which a part that is left out would take its waits along.
        let to_choose = plan.workload.in_rounds && !plan.has_schedules();
        let share = calm.share(run);
        calm.used = to_choose && share.calm as f64 >= LEAST * share.rounds as f64;
        calm
    }

    /// What disturbed the two ends in a round.
    pub fn disturbed(&self, round: &RoundRecord) -> Ends {
        self.rounds.get(&(round.case, round.pass)).copied().unwrap_or_default()
    }

    /// Whether nothing did.
    pub fn is_calm(&self, round: &RoundRecord) -> bool {
        !self.disturbed(round).into_iter().any(Disturbed::any)
    }

    /// The rounds that make the headline, out of all of a case: the calm ones, or all where there are too few. All cases
    /// of a run are treated alike, so that pairs are fair; only a case of which hardly a round is calm keeps all.
    pub fn headline<'a>(&self, rounds: &[&'a RoundRecord]) -> Vec<&'a RoundRecord> {
        let calm: Vec<&RoundRecord> = rounds.iter().copied().filter(|round| self.is_calm(round)).collect();
        if self.used && calm.len() >= MIN_ROUNDS_FOR_CLAIMS as usize { calm } else { rounds.to_vec() }
    }

    /// How many rounds of the cases that were asked for are calm, and what disturbed the others.
    pub fn share(&self, run: &Run) -> CalmRounds {
        let measured = |round: &&RoundRecord| {
            run.header.plan.cases.get(round.case as usize).is_some_and(|case| case.role == CaseRole::Measured)
        };
        let rounds: Vec<&RoundRecord> = run.rounds.iter().filter(measured).collect();
        let by = |what: fn(&Disturbed) -> bool| {
            rounds.iter().filter(|round| self.disturbed(round).iter().any(what)).count() as u64
        };
        CalmRounds {
            rounds: rounds.len() as u64,
            calm: rounds.iter().filter(|round| self.is_calm(round)).count() as u64,
            stolen: by(|end| end.stolen),
            throttled: by(|end| end.throttled),
            shared: by(|end| end.shared),
            used: self.used,
        }
    }

    /// The rounds of a case that its headline leaves out, in numbers; `None`: it leaves out none.
    pub(crate) fn beside(&self, rounds: &[&RoundRecord]) -> Option<Beside> {
        let calm = self.headline(rounds).len();
        if calm == rounds.len() {
            return None;
        }
        let others: Vec<_> = rounds.iter().filter(|round| !self.is_calm(round)).map(|round| &round.latency).collect();
        let pooled = Pooled::new(&others);
        let quantiles = [0.5, 0.99].iter().filter_map(|p| quantile::estimate(&others, &pooled, *p));
        Some(Beside {
            rounds: others.len() as u64,
            quantiles: quantiles.map(|estimated| estimated.quantile).collect(),
            slowest_ns: pooled.max(),
        })
    }
}

/// All rounds of one case in the order of their passes.
pub(crate) fn all_rounds<'a>(run: &'a Run, case: &Case) -> Vec<&'a RoundRecord> {
    let mut own: Vec<&RoundRecord> = run.rounds.iter().filter(|round| round.case == case.id).collect();
    own.sort_by_key(|round| round.pass);
    own
}

/// The rounds of one case that make its headline, in the order of their passes: what every number of a level, a ratio or
/// a verdict is made of.
pub fn rounds_of<'a>(run: &'a Run, case: &Case) -> Vec<&'a RoundRecord> {
    Calm::of(run).headline(&all_rounds(run, case))
}

/// Passes of a case that its headline leaves out: its messages are split without theirs, too.
pub fn left_out(run: &Run, case: &Case) -> BTreeSet<u32> {
    let passes = |rounds: Vec<&RoundRecord>| rounds.into_iter().map(|round| round.pass).collect::<BTreeSet<_>>();
    &passes(all_rounds(run, case)) - &passes(rounds_of(run, case))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::summary::{CaseSummary, Comparison};
    use crate::testing::{Build, slow_down};
    use msgpath_core::plan::Placement;
    use msgpath_core::schema::{FAR, NEAR};
    use msgpath_stats::verdict::Verdict;

    /// Two equal paths, a third that takes 0.8 of their time, and the control, each in 60 rounds.
    fn paths() -> Build {
        let paths = Build::echo(&["tcp:send", "tcp:sendmsg", "tcp:writev"], &[64]).control(64).rounds(60).noise(0.005);
        paths.factor(|case| if case.path.method.as_str() == "writev" { 0.8 } else { 1.0 })
    }

    /// The hypervisor takes 3 ticks of these rounds, which take 2.5 times as long.
    fn storm(run: &mut Run, which: impl Fn(usize) -> bool) {
        slow_down(run, 2.5, &which);
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.steal_ticks = Some(if which(at) { 3 } else { 0 });
        }
    }

    /// It lasts 14 of 35 rounds, which is 40 % and no whole number of passes.
    fn stormy(at: usize) -> bool {
        at / 7 % 5 < 2
    }

    /// How many of these rounds are of the three paths, and not of the control.
    fn of_paths(run: &Run, which: impl Fn(usize) -> bool) -> u64 {
        let asked = |case: u32| run.header.plan.cases[case as usize].role == CaseRole::Measured;
        (0..run.rounds.len()).filter(|at| which(*at) && asked(run.rounds[*at].case)).count() as u64
    }

    fn p50(case: &CaseSummary) -> f64 {
        case.latency.quantiles[0].ns.unwrap() as f64
    }

    fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
        comparison.ratios.iter().map(|ratio| ratio.verdict).collect()
    }

    /// What is counted beyond a percentile is of the rounds that it is made of.
    #[test]
    fn the_times_that_percentiles_count_are_those_of_their_rounds() {
        let mut run = Build::echo(&["tcp:send"], &[64]).rounds(40).run();
        run.rounds.iter_mut().step_by(4).for_each(|round| round.steal_ticks = Some(9));
        let case = &summarise(&run).cases[0];
        assert_eq!((case.rounds, case.messages), (40, 8_000));
        assert_eq!((case.latency.of_rounds, case.latency.of_times), (30, 6_000));
        let p50 = &case.latency.quantiles[0];
        assert!(p50.beyond.abs_diff(3_000) < 60 && p50.bursts == 30, "{p50:?}");
    }

    #[test]
    fn a_storm_does_not_spoil_the_answer() {
        let quiet = summarise(&paths().run());
        let mut run = paths().run();
        storm(&mut run, stormy);
        let summary = summarise(&run);
        let calm = summary.calm.unwrap();
        let stolen = of_paths(&run, stormy);
        assert_eq!((calm.rounds, calm.calm, calm.stolen, calm.shared, calm.used), (180, 180 - stolen, stolen, 0, true));
        for (case, before) in summary.cases.iter().zip(&quiet.cases) {
            assert!((p50(case) / p50(before) - 1.0).abs() < 0.01, "{:?}", case.latency.quantiles[0]);
            let beside = case.latency.beside.as_ref().unwrap();
            assert_eq!((case.rounds, case.latency.round_medians.len() as u64), (60, 60 - beside.rounds));
            let slow = beside.quantiles[0].ns.unwrap() as f64;
            assert!((slow / p50(case) - 2.5).abs() < 0.05, "{beside:?}");
            assert_eq!(case.messages, 12_000, "none is dropped");
            assert!(case.latency.slowest_ns >= beside.slowest_ns, "the slowest is the slowest of all");
        }
        let (before, after) = (quiet.comparison.unwrap(), summary.comparison.unwrap());
        assert_eq!(verdicts(&after), verdicts(&before));
        assert_eq!(after.ratios[1].verdict, Verdict::Better);
        assert!(after.margin < 0.03 && !after.control_failed, "{after:?}");
    }

    #[test]
    fn where_all_rounds_are_disturbed_all_make_the_headline() {
        let mut run = paths().run();
        storm(&mut run, |at| at % 10 != 0);
        let summary = summarise(&run);
        let calm = summary.calm.unwrap();
        assert_eq!((calm.calm, calm.used), (24, false));
        assert!(
            summary.cases.iter().all(|case| case.latency.beside.is_none() && case.latency.round_medians.len() == 60)
        );
        assert!(summary.cases[0].latency.quantiles[0].ns.is_some(), "widened, never withheld");
    }

    #[test]
    fn latency_alone_disturbs_nothing() {
        let mut run = paths().run();
        slow_down(&mut run, 100.0, |at| at % 3 == 0);
        let calm = Calm::of(&run);
        assert!(run.rounds.iter().all(|round| calm.is_calm(round)));
        // And a round in a storm is not calm because it was fast.
        run.rounds[4].steal_ticks = Some(9);
        assert!(!Calm::of(&run).is_calm(&run.rounds[4]));
    }

    #[test]
    fn a_pass_counts_for_a_pair_where_both_rounds_are_calm() {
        let mut run = Build::echo(&["tcp:send", "tcp:writev"], &[64]).run();
        for round in &mut run.rounds {
            let disturbed = (round.case == 0 && round.pass < 10) || (round.case == 1 && (5..20).contains(&round.pass));
            round.steal_ticks = Some(if disturbed { 3 } else { 0 });
        }
        let plan = &run.header.plan;
        let of = |case: usize| crate::series::series(plan, plan.metric(), &rounds_of(&run, &plan.cases[case]));
        let pairs: Vec<u32> =
            msgpath_stats::paired::log_ratios(&of(1), &of(0)).into_iter().map(|(pass, _)| pass).collect();
        assert_eq!(pairs, (20..40).collect::<Vec<_>>());
    }

    #[test]
    fn others_on_the_measuring_cpus_are_told_from_the_usual() {
        let mut build = Build::echo(&["tcp:send"], &[64]);
        build.plan.placement = Placement::pair(vec![0], vec![1]);
        let hogged = |which: fn(u32) -> bool, ticks: u64, cpu: u32| {
            let mut run = build.run();
            let (busy, steal) = (msgpath_core::calm::busy_of(cpu), msgpath_core::calm::steal_of(cpu));
            run.header.ends[NEAR].counters = vec![busy.clone(), steal, "stat.steal".into()];
            for round in run.rounds.iter_mut() {
                // 10 ms of 40 are its own.
                round.near_mut().user_ns = 10_000_000;
                let foreign = if which(round.pass) { ticks } else { 0 };
                round.end_mut(NEAR).kernel.0.insert(busy.clone(), 1 + foreign);
            }
            Calm::of(&run).share(&run)
        };
        assert_eq!(hogged(|pass| pass % 4 == 0, 3, 0).shared, 10);
        assert_eq!(hogged(|pass| pass % 4 == 0, 1, 0).shared, 0, "one tick is rounding");
        assert_eq!(hogged(|_| true, 3, 0).shared, 0, "what always runs is the usual");
        assert_eq!(hogged(|pass| pass % 4 == 0, 3, 2).shared, 0, "another CPU");
    }

    #[test]
    fn theft_from_other_cpus_is_not_ours_where_it_is_known() {
        let mut build = Build::echo(&["tcp:send"], &[64]);
        build.plan.placement = Placement::pair(vec![0], vec![1]);
        let mut run = build.run();
        let each = [0, 1].map(msgpath_core::calm::steal_of);
        run.header.ends[NEAR].counters = vec![each[0].clone(), "stat.steal".into()];
        run.header.ends[FAR].counters = vec![each[1].clone(), "stat.steal".into()];
        run.rounds.iter_mut().for_each(|round| round.steal_ticks = Some(5));
        run.rounds[3].end_mut(FAR).kernel.0.insert(each[1].clone(), 4);
        assert_eq!(Calm::of(&run).share(&run).stolen, 1);
    }
}
