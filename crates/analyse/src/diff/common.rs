//! What all cases of two runs have in common: a shift of a whole machine, which no single case has to show after Holm over
//! dozens of rows.
//!
//! The cases of a pass followed each other, so they share what the machine did. The value of a pass is the mean over the cases of the
//! logarithm of their rounds, and the level of a run is that of its passes, with the error of `level.rs`.

use std::collections::BTreeMap;

use msgpath_core::gate::Watched;
use msgpath_core::plan::{Case, MIN_ROUNDS_FOR_CLAIMS, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_stats::describe::mean;
use msgpath_stats::level::{self, Level, of_values};
use msgpath_stats::verdict::{Verdict, holm, verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::level::round_value;

/// With fewer cases there is nothing that they have in common.
const FEWEST: usize = 3;

/// One metric of all cases together.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CommonShift {
    /// As in the rows.
    pub metric: String,
    /// Cases that have it in both runs.
    pub cases: u64,
    /// Those of them whose value went up, whether or not that is shown of each.
    pub up: u64,
    /// Second divided by first: geometric mean over the cases.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub low: f64,
    /// 95 % interval of the ratio.
    pub high: f64,
    /// Whether it stands after Holm over the metrics.
    pub holm: bool,
    /// What it means.
    pub verdict: Verdict,
}

/// The rounds of one case of a run, in the order of their passes.
pub(super) type CaseRounds<'a> = Vec<&'a RoundRecord>;

/// The common shift of each of these metrics, of cases that were brought together. `rounds`: of the cases of each run.
pub(super) fn shifts(
    plans: [&Plan; 2],
    pairs: &[(&Case, &Case)],
    rounds: [&[CaseRounds]; 2],
    metrics: &[Watched],
    margin: f64,
) -> Vec<CommonShift> {
    let one = |watched: Watched| {
        let values =
            [0, 1].map(|run| rounds[run].iter().map(|own| of_case(plans[run], own, watched)).collect::<Vec<_>>());
        let both: Vec<usize> = (0..pairs.len()).filter(|at| values.iter().all(|own| enough(&own[*at]))).collect();
        if both.len() < FEWEST {
            return None;
        }
        let levels = [0, 1].map(|run| of_run(&both.iter().map(|at| &values[run][*at]).collect::<Vec<_>>()));
        let [Some(a), Some(b)] = levels else { return None };
        let center = |run: usize, at: usize| mean(&values[run][at].values().map(|value| value.1).collect::<Vec<_>>());
        let up = both.iter().filter(|at| center(1, **at) > center(0, **at)).count();
        Some((watched, both.len() as u64, up as u64, b.minus(a)))
    };
    let found: Vec<(Watched, u64, u64, Level)> = metrics.iter().filter_map(|watched| one(*watched)).collect();
    let stands = holm(&found.iter().map(|(.., shift)| Some(shift.p(0.0))).collect::<Vec<_>>());
    let shift = |((watched, cases, up, shift), holm): ((Watched, u64, u64, Level), bool)| {
        let (low, high) = shift.interval();
        CommonShift {
            metric: watched.to_string(),
            cases,
            up,
            ratio: shift.at.exp(),
            low: low.exp(),
            high: high.exp(),
            holm,
            verdict: verdict((low, high), holm, margin, watched.unit() != "ns"),
        }
    };
    found.into_iter().zip(stands).map(shift).collect()
}

/// By pass: the restart, and the logarithm of the metric.
type ByPass = BTreeMap<u32, (u32, f64)>;

fn of_case(plan: &Plan, rounds: &CaseRounds, watched: Watched) -> ByPass {
    let value = |round: &&RoundRecord| Some((round.pass, (round.restart, round_value(plan, round, watched)?)));
    rounds.iter().filter_map(value).collect()
}

fn enough(own: &ByPass) -> bool {
    own.len() >= MIN_ROUNDS_FOR_CLAIMS as usize
}

/// The level of a run. A pass in which a case has no value has that of the others: each is taken against its own mean.
fn of_run(cases: &[&ByPass]) -> Option<Level> {
    let mut passes: BTreeMap<u32, (u32, Vec<f64>)> = BTreeMap::new();
    let mut centers = Vec::new();
    for own in cases {
        let center = mean(&own.values().map(|(_, value)| *value).collect::<Vec<_>>());
        centers.push(center);
        for (pass, (restart, value)) in *own {
            let entry = passes.entry(*pass).or_insert((*restart, Vec::new()));
            entry.1.push(value - center);
        }
    }
    let center = mean(&centers);
    let values: Vec<f64> = passes.values().map(|(_, own)| center + mean(own)).collect();
    let restarts: Vec<u32> = passes.values().map(|(restart, _)| *restart).collect();
    (values.len() >= MIN_ROUNDS_FOR_CLAIMS as usize).then(|| of_values(&values, &level::cuts(&restarts)))
}

#[cfg(test)]
mod tests {
    use super::super::diff;
    use crate::testing::Build;
    use msgpath_record::Run;
    use msgpath_stats::verdict::Verdict;

    /// 30 cases of 40 rounds whose levels differ from round to round by a quarter.
    fn run(seed: u64, factor: f64) -> Run {
        let sizes: Vec<u64> = (0..30).map(|at| 64 + at).collect();
        let mut build = Build::echo(&["tcp:send"], &sizes).noise(0.25).messages(400).factor(move |_| factor);
        build.plan.seed = seed;
        build.run()
    }

    #[test]
    fn a_shift_of_all_cases_is_found_though_no_case_shows_it() {
        let found = diff(&run(1, 1.0), &run(2, 1.12), &[]);
        let shown = found.rows.iter().filter(|row| row.metric == "p50" && row.verdict == Verdict::Worse).count();
        assert!(shown < 10, "{shown}");
        let p50 = found.common.iter().find(|shift| shift.metric == "p50").unwrap();
        assert_eq!((p50.cases, p50.verdict, p50.holm), (30, Verdict::Worse, true), "{p50:?}");
        assert!(p50.low < 1.12 && 1.12 < p50.high && p50.up > 25, "{p50:?}");
        assert!(found.common.iter().any(|shift| shift.metric == "p99" && shift.verdict == Verdict::Worse));
    }

    #[test]
    fn equal_runs_have_no_shift_in_common() {
        let claims = (0..20).filter(|seed| {
            let found = diff(&run(100 + 2 * seed, 1.0), &run(101 + 2 * seed, 1.0), &[]);
            found.common.iter().any(|shift| matches!(shift.verdict, Verdict::Better | Verdict::Worse))
        });
        assert!(claims.count() <= 1);
    }

    #[test]
    fn two_cases_have_nothing_in_common() {
        let two = Build::echo(&["tcp:send"], &[64, 128]).run();
        assert!(diff(&two, &two, &[]).common.is_empty());
    }
}
