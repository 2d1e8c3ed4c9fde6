//! Hardware events of two runs: compared where both counted them, refused where one did not.

use std::collections::BTreeSet;

use msgpath_core::plan::{Case, MIN_ROUNDS_FOR_CLAIMS};
use msgpath_core::schema::{EndRound, FAR, NEAR, RoundRecord};
use msgpath_record::Run;
use msgpath_stats::level::{Level, of_values};

use super::level::cuts;
use crate::cost::handled;
use crate::events::{is_hardware, rounds_of};

/// For each hardware event that at least one of the runs counted, at each end: its name, and its level in both.
pub(super) fn levels((a, one): (&Run, &Case), (b, two): (&Run, &Case)) -> Vec<(String, [Result<Level, String>; 2])> {
    let mut out = Vec::new();
    for end in [NEAR, FAR] {
        let facts = |run: &Run| run.header.end(end).events.clone();
        let names: BTreeSet<String> =
            facts(a).counted.into_iter().chain(facts(b).counted).filter(|name| is_hardware(name)).collect();
        for name in names {
            let of = |run: &Run, case: &Case| {
                let facts = facts(run);
                if let Some((_, reason)) = facts.refused.iter().find(|(refused, _)| *refused == name) {
                    return Err(format!("{name} was not counted: {}", reason.why));
                }
                level(&rounds_of(run, case), end, &name)
            };
            out.push((format!("{name}, {}", a.header.end(end).name), [of(a, one), of(b, two)]));
        }
    }
    out
}

/// Logarithm of the count per message, over the rounds in which it was counted.
fn level(rounds: &[&RoundRecord], end: usize, name: &str) -> Result<Level, String> {
    let of = |round: &RoundRecord| {
        let EndRound { report, events, .. } = round.end(end);
        Some(events.get(name)?.count as f64 / handled(report) as f64)
    };
    let counted: Vec<(&RoundRecord, f64)> = rounds.iter().filter_map(|round| Some((*round, of(round)?))).collect();
    if counted.len() < MIN_ROUNDS_FOR_CLAIMS as usize {
        let have = counted.len();
        return Err(format!(
            "an interval needs at least {MIN_ROUNDS_FOR_CLAIMS} rounds with {name} counted, have {have}"
        ));
    }
    if counted.iter().any(|(_, each)| *each <= 0.0 || !each.is_finite()) {
        return Err(format!("{name} was 0 in some rounds"));
    }
    let (rounds, values): (Vec<&RoundRecord>, Vec<f64>) =
        counted.into_iter().map(|(round, each)| (round, each.ln())).unzip();
    Ok(of_values(&values, &cuts(&rounds)))
}

#[cfg(test)]
mod tests {
    use msgpath_core::Unavailable;
    use msgpath_core::schema::{EventCount, EventFacts, NEAR};
    use msgpath_record::Run;
    use msgpath_stats::verdict::Verdict;

    use crate::diff::{DiffRow, diff};
    use crate::testing::Build;

    fn counted(cycles: f64) -> Run {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.ends[NEAR].events.counted = vec!["context-switches".into(), "cycles".into()];
        for round in &mut run.rounds {
            let wave = 1.0 + 0.01 * f64::from(round.pass % 3);
            let count = (cycles * wave * round.near().delivery.sent as f64) as u64;
            round.end_mut(NEAR).events.insert("cycles".into(), EventCount { count, ..EventCount::default() });
            round
                .end_mut(NEAR)
                .events
                .insert("context-switches".into(), EventCount { count: 9, ..EventCount::default() });
        }
        run
    }

    fn rows(a: &Run, b: &Run) -> Vec<DiffRow> {
        diff(a, b, &[]).rows.into_iter().filter(|row| row.unit == "a message").collect()
    }

    #[test]
    fn what_both_counted_is_compared() {
        let rows = rows(&counted(1000.0), &counted(1500.0));
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.metric.as_str(), row.verdict), ("cycles, near", Verdict::Worse));
        assert!((row.ratio.unwrap() - 1.5).abs() < 0.01 && row.low.unwrap() > 1.4);
    }

    #[test]
    fn what_one_side_lacks_is_refused_by_name() {
        let mut other = counted(1000.0);
        other.rounds.iter_mut().for_each(|round| round.end_mut(NEAR).events.clear());
        other.header.ends[NEAR].events = EventFacts {
            refused: vec![("cycles".into(), Unavailable::new("no PMU driver: ENOENT", ""))],
            ..EventFacts::default()
        };
        let rows = rows(&counted(1000.0), &other);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.ratio, row.verdict), (None, Verdict::Undecided));
        assert_eq!(row.why.as_deref(), Some("in the second run cycles was not counted: no PMU driver: ENOENT"));
        assert_eq!(row.b, None, "no number where nothing was counted");
    }

    #[test]
    fn runs_without_a_pmu_have_no_such_rows() {
        let run = Build::echo(&["tcp:send"], &[64]).run();
        assert!(rows(&run, &run).is_empty());
    }
}
