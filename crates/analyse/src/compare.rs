//! Cases against the baseline, paired by pass (docs/method/comparison.md).

use msgpath_core::plan::{CaseRole, Metric};
use msgpath_core::{Case, PathName};
use msgpath_stats::control::Control;
use msgpath_stats::describe::mean;
use msgpath_stats::verdict::{Evidence, Verdict, holm_levels, judge, rounds_needed};

use crate::control;
use crate::crossover;
use crate::results::Results;
use crate::series::{Cell, cell, same_cell};
use crate::standing::standing;
use crate::summary::{CaseSummary, Comparison, Ratio, Winner};

/// Cases that can be compared: those that were asked for, but not at a rate that was not sustained, since there a time only
/// tells for how long the queue grew.
fn compared<'a>(results: &Results<'a>) -> Vec<&'a Case> {
    let overloaded = |case: &Case| results.cases.get(case.id as usize).is_some_and(CaseSummary::is_overloaded);
    results.plan.cases.iter().filter(|case| case.role == CaseRole::Measured && !overloaded(case)).collect()
}

/// A case, its counterpart, and what is known about their ratio.
pub(crate) struct Compared<'a> {
    pub(crate) case: &'a Case,
    pub(crate) base: &'a Case,
    pub(crate) evidence: Box<dyn Evidence>,
}

/// Everything about the paths of one plan against each other. `None` with a single path.
pub fn compare(results: &Results) -> Option<Comparison> {
    let plan = results.plan;
    let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    let paths: std::collections::BTreeSet<&PathName> = measured.map(|case| &case.path).collect();
    if paths.len() < 2 {
        return None;
    }
    let metric = plan.metric();
    let cases = compared(results);
    let control = control::control(results, metric);
    let compared = against_baseline(results, metric, &cases);
    let ratios = ratios(&compared, &control, metric.larger_is_better());
    Some(Comparison {
        baseline: plan.baseline.clone(),
        metric: metric.name().into(),
        tails: tails(results, &cases),
        winners: winners(results, &cases, &ratios, control.margin()),
        standing: standing(results, &cases),
        crossovers: crossover::crossovers(plan, &compared, &ratios),
        ratios,
        resolution: control.resolution,
        control_failed: control.failed,
        margin: control.margin(),
    })
}

/// The medians of each case against those of its own counterpart: a family of its own.
pub(crate) fn steps(results: &Results, pairs: &[(&Case, &Case)]) -> Vec<Ratio> {
    let evidence = |(case, base): &(&'_ Case, &'_ Case)| results.evidence(Metric::P50, case, base, pairs.len());
    let compared: Vec<Compared> = pairs
        .iter()
        .filter_map(|pair| Some(Compared { case: pair.0, base: pair.1, evidence: evidence(pair)? }))
        .collect();
    ratios(&compared, &control::control(results, Metric::P50), false)
}

/// Every case of another path with the baseline's case of the same cell.
fn against_baseline<'a>(results: &Results, metric: Metric, cases: &[&'a Case]) -> Vec<Compared<'a>> {
    let baseline = &results.plan.baseline;
    let pairs: Vec<(&'a Case, &'a Case)> = cases
        .iter()
        .filter(|case| case.path != *baseline)
        .filter_map(|case| {
            let base = cases.iter().find(|base| base.path == *baseline && same_cell(case, base))?;
            Some((*case, *base))
        })
        .collect();
    let evidence = |(case, base): &(&'a Case, &'a Case)| {
        Some(Compared { case, base, evidence: results.evidence(metric, case, base, pairs.len())? })
    };
    pairs.iter().filter_map(evidence).collect()
}

/// One family of ratios, judged together.
fn ratios(compared: &[Compared], control: &Control, larger_is_better: bool) -> Vec<Ratio> {
    let levels = holm_levels(&compared.iter().map(|pair| pair.evidence.p()).collect::<Vec<_>>());
    let ratio = |(pair, level): (&Compared, Option<f64>)| {
        let evidence = pair.evidence.as_ref();
        let judged = judge(evidence, level, control.margin(), larger_is_better);
        Ratio {
            case: pair.case.id,
            baseline: pair.base.id,
            ratio: evidence.center().exp(),
            low: judged.low,
            high: judged.high,
            p: evidence.p(),
            holm: level.is_some(),
            verdict: judged.verdict,
            rounds_needed: (judged.verdict == Verdict::Undecided)
                .then(|| rounds_needed(evidence, control.margin(), control.resolution, compared.len()))
                .flatten(),
        }
    };
    compared.iter().zip(levels).map(ratio).collect()
}

/// The p99 beside a metric that is not about tails. They are a family of their own and have a margin of their own: what
/// the control resolves at p99. Where its p99 differs from its baseline's, no difference is claimed.
fn tails(results: &Results, cases: &[&Case]) -> Vec<Ratio> {
    if !results.plan.workload.timed || results.plan.metric() == Metric::P99 {
        return Vec::new();
    }
    let control = control::control(results, Metric::P99);
    let mut tails = ratios(&against_baseline(results, Metric::P99, cases), &control, false);
    if control.failed {
        tails.iter_mut().for_each(|ratio| ratio.verdict = Verdict::Undecided);
    }
    tails
}

/// The best path of every cell of the first phase: the second measures some paths only. It wins where it is better than
/// every other path of the cell, after Holm over all these tests of the run. What the ratios show to be worse than the
/// baseline, or the baseline where they show another path to be better, is beaten as well.
fn winners(results: &Results, cases: &[&Case], ratios: &[Ratio], margin: f64) -> Vec<Winner> {
    let metric = results.plan.metric();
    // Log of the time; for rates its negative. The geometric mean of the rounds, as in the ratios.
    let level = |case: &Case| {
        let logs: Vec<f64> = match metric {
            Metric::P99 => vec![results.typical(case)?.ln()],
            _ => results.series.get(case.id as usize)?.values().map(|value| value.ln()).collect(),
        };
        (!logs.is_empty()).then(|| if metric.larger_is_better() { -mean(&logs) } else { mean(&logs) })
    };
    let mut cells: Vec<Cell> = cases.iter().filter(|case| case.phase == 0).map(|case| cell(case)).collect();
    cells.sort_unstable();
    cells.dedup();
    // Per cell: the cases from best to worst.
    let ranked: Vec<Vec<(f64, &Case)>> = cells
        .iter()
        .map(|of| {
            let own = cases.iter().filter(|case| cell(case) == *of);
            let mut own: Vec<(f64, &Case)> = own.filter_map(|case| Some((level(case)?, *case))).collect();
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            own
        })
        .filter(|own| own.len() > 1)
        .collect();
    let family: usize = ranked.iter().map(|own| own.len() - 1).sum();
    let against = |own: &'_ [(f64, &Case)]| -> Vec<_> {
        own[1..].iter().map(|(_, other)| results.evidence(metric, own[0].1, other, family)).collect()
    };
    let tests: Vec<Option<Box<dyn Evidence>>> = ranked.iter().flat_map(|own| against(own)).collect();
    let levels = holm_levels(&tests.iter().map(|test| test.as_ref()?.p()).collect::<Vec<_>>());
    let mut won = tests.iter().zip(levels).map(|(test, level)| {
        let verdict = test.as_ref().map(|test| judge(test.as_ref(), level, margin, metric.larger_is_better()).verdict);
        verdict == Some(Verdict::Better)
    });
    ranked
        .iter()
        .map(|own| {
            let best = own[0].1;
            let tests: Vec<bool> = won.by_ref().take(own.len() - 1).collect();
            let wins = tests.iter().all(|better| *better);
            let in_cell = |ratio: &&Ratio| own.iter().any(|(_, case)| case.id == ratio.case);
            let beaten = |case: &Case| {
                ratios.iter().filter(in_cell).any(|ratio| match ratio.verdict {
                    Verdict::Better => ratio.baseline == case.id,
                    Verdict::Worse => ratio.case == case.id,
                    Verdict::Equivalent | Verdict::Undecided => false,
                })
            };
            let ties = own[1..].iter().zip(&tests).filter(|((_, case), better)| !**better && !beaten(case));
            let ties = ties.map(|((_, case), _)| *case);
            let unbeaten = std::iter::once(best).chain(ties).map(|case| case.path.clone()).collect();
            Winner {
                size: best.size,
                pieces: best.pieces.to_string(),
                threads: best.threads,
                path: wins.then(|| best.path.clone()),
                best: best.path.clone(),
                margin: Some((own[1].0 - own[0].0).exp()),
                unbeaten,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::Build;
    use msgpath_core::plan::Change;
    use msgpath_core::schema::RoundRecord;
    use msgpath_stats::crossover::CrossoverKind;
    use msgpath_stats::paired::Series;
    use msgpath_stats::simulate::round_effects;

    const SIZES: [u64; 4] = [64, 1024, 16_384, 262_144];

    #[test]
    fn equal_paths_are_rarely_called_different() {
        let plan = Build::echo(&["tcp:send", "tcp:writev", "tcp:sendmsg"], &SIZES).plan;
        let false_claims = (0..40).filter(|seed| {
            let level = |case: u64| round_effects(seed * 100 + case, 20, 20_000.0, 0.05);
            let by_pass = |values: Vec<f64>| values.into_iter().zip(0..).map(|(value, pass)| (pass, value)).collect();
            let series: Vec<Series> = (0..12).map(|case| by_pass(level(case))).collect();
            let comparison = compare(&Results { plan: &plan, cases: &[], rounds: &[], series: &series }).unwrap();
            let claimed = |kind| !matches!(kind, CrossoverKind::Undecided | CrossoverKind::Equivalent);
            comparison.ratios.iter().any(|ratio| matches!(ratio.verdict, Verdict::Better | Verdict::Worse))
                || comparison.winners.iter().any(|winner| winner.path.is_some())
                || comparison.crossovers.iter().any(|crossover| claimed(crossover.crossing.kind))
        });
        let false_claims = false_claims.count();
        assert!(false_claims <= 4, "{false_claims} of 40");
    }

    #[test]
    fn what_another_path_is_shown_to_beat_does_not_tie() {
        // Pass by pass the second path has the best mean and one bad pass, so that it beats nothing; the third beats the
        // baseline.
        let plan = Build::echo(&["tcp:send", "unix:send", "pipe:write"], &[64]).plan;
        let by_pass =
            |value: fn(u32) -> f64| (0..10).map(|pass| (pass, value(pass) + f64::from(pass * 7 % 10))).collect();
        let series: [Series; 3] =
            [by_pass(|_| 20_000.0), by_pass(|pass| if pass == 3 { 40_000.0 } else { 15_000.0 }), by_pass(|_| 18_000.0)];
        let comparison = compare(&Results { plan: &plan, cases: &[], rounds: &[], series: &series }).unwrap();
        let verdicts: Vec<Verdict> = comparison.ratios.iter().map(|ratio| ratio.verdict).collect();
        assert_eq!(verdicts, [Verdict::Undecided, Verdict::Better]);
        let unbeaten: Vec<String> = comparison.winners[0].unbeaten.iter().map(ToString::to_string).collect();
        assert_eq!(unbeaten, ["unix:send", "pipe:write"]);
    }

    #[test]
    fn the_metric_decides_what_is_compared() {
        // The second path takes half the time and twice the CPU.
        let mut build = Build::echo(&["tcp:send", "shm:ring/spin"], &[64]).factor(|case| 1.0 / f64::from(case.id + 1));
        let mut ratio = |metric| {
            build.plan.metric = Some(metric);
            let mut run = build.run();
            for round in &mut run.rounds {
                round.far_mut().user_ns = 1_000_000 * u64::from(round.case + 1) + u64::from(round.pass);
            }
            let comparison = summarise(&run).comparison.unwrap();
            (
                comparison.metric,
                comparison.ratios[0].ratio,
                comparison.ratios[0].verdict,
                comparison.winners[0].path.clone(),
            )
        };
        let shm = Some("shm:ring/spin".parse::<PathName>().unwrap());
        for metric in [Metric::P50, Metric::P99, Metric::Mean] {
            let (name, ratio, verdict, winner) = ratio(metric);
            assert!((ratio - 0.5).abs() < 0.02 && name == metric.name(), "{name} {ratio}");
            assert_eq!((verdict, &winner), (Verdict::Better, &shm), "{name}");
        }
        let (name, cpu, verdict, winner) = ratio(Metric::Cpu);
        assert!(name == "cpu" && (cpu - 2.0).abs() < 0.01, "{cpu}");
        assert_eq!((verdict, winner), (Verdict::Worse, Some("tcp:send".parse().unwrap())));
    }

    #[test]
    fn tails_stand_beside_the_medians_where_both_are_claims() {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64, 4096]).control(64).factor(|case| match case.id {
            3 => 1.3,
            _ => 1.0,
        });
        let comparison = summarise(&build.run()).comparison.unwrap();
        assert_eq!((comparison.ratios.len(), comparison.tails.len()), (2, 2));
        let (same, slow) = (&comparison.tails[0], &comparison.tails[1]);
        assert!((slow.ratio - 1.3).abs() < 0.05 && slow.holm && slow.verdict == Verdict::Worse, "{slow:?}");
        assert!(slow.low.unwrap() < 1.3 && 1.3 < slow.high.unwrap());
        assert!(!matches!(same.verdict, Verdict::Better | Verdict::Worse), "{same:?}");
        // 20 messages a round say nothing about p99.
        let few = Build::echo(&["tcp:send", "tcp:writev"], &[64]).messages(5).rounds(20);
        assert!(summarise(&few.run()).comparison.unwrap().tails.is_empty());
        assert!(
            summarise(&Build::stream(&["tcp:send", "tcp:writev"], &[64]).run()).comparison.unwrap().tails.is_empty()
        );
    }

    #[test]
    fn a_control_whose_tail_differs_leaves_the_tails_undecided() {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64]).control(64).factor(|case| f64::from(case.id + 1));
        let comparison = summarise(&build.run()).comparison.unwrap();
        assert!(comparison.control_failed);
        assert_eq!(comparison.tails[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn a_second_phase_has_ratios_and_no_winner() {
        let mut build = Build::echo(&["tcp:send", "tcp:writev"], &[64, 4096]).ablation(0, Change::Spin);
        for (path, like) in [("tcp:writev", 2), ("tcp:send", 0)] {
            let id = build.plan.cases.len() as u32;
            let like: &Case = &build.plan.cases[like];
            assert_eq!(like.path.to_string(), path);
            build.plan.cases.push(Case { id, size: 512, reply: 512, phase: 1, ..like.clone() });
        }
        let mut run = build.run();
        let rounds = build.plan.rounds;
        run.rounds.iter_mut().filter(|round| round.case >= 5).for_each(|round| round.pass += rounds);
        let comparison = summarise(&run).comparison.unwrap();
        let cases: Vec<u32> = comparison.ratios.iter().map(|ratio| ratio.case).collect();
        assert_eq!(cases, [2, 3, 5]);
        assert_eq!(comparison.winners.iter().map(|winner| winner.size).collect::<Vec<_>>(), [64, 4096]);
        assert!(comparison.crossovers[0].crossing.refined);
    }

    #[test]
    fn rates_that_were_not_sustained_are_not_compared() {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64]);
        let run = build.run();
        let rounds: Vec<Vec<&RoundRecord>> =
            (0..2).map(|case| run.rounds.iter().filter(|round| round.case == case).collect()).collect();
        let series: Vec<Series> =
            rounds.iter().map(|rounds| crate::series::series(&build.plan, Metric::P50, rounds)).collect();
        let mut cases = summarise(&run).cases;
        cases[1].open = Some(overloaded());
        let comparison =
            compare(&Results { plan: &build.plan, cases: &cases, rounds: &rounds, series: &series }).unwrap();
        assert!(comparison.ratios.is_empty() && comparison.winners.is_empty() && comparison.tails.is_empty());
    }

    fn overloaded() -> crate::summary::OpenLoop {
        crate::summary::OpenLoop {
            asked_per_s: 1e6,
            offered_per_s: 1e6,
            achieved_per_s: Default::default(),
            sustained: Some(false),
            why: Some("the backlog grew".into()),
            backlog_per_s: None,
            service: Vec::new(),
            lateness: Vec::new(),
            late_share: 0.0,
            blocked_share: 0.0,
            not_running_share: 0.0,
            own_share: 0.0,
            mean_in_flight: 0.0,
            most_in_flight: 0,
            little: None,
            client_busy: None,
        }
    }
}
