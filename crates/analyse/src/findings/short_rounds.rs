//! Of W133: rounds measured less time than was planned.

use msgpath_core::plan::Load;
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;
use msgpath_stats::describe::median;

use super::wording::{measured, prefix, so_in_others, warning};
use super::{Detector, Input, Sentence};
use crate::settled;
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W133", detect };

/// A round that measures less than this share of what was planned is another one than the pilot saw.
const SHORT: f64 = 0.5;

/// A case whose rounds are too short.
struct Short<'a> {
    case: &'a CaseSummary,
    /// Median of what a round measured, ns.
    lasted: f64,
    planned: f64,
    /// Median of the messages of a round.
    messages: f64,
}

fn detect(input: &Input) -> Vec<Sentence> {
    let mut short: Vec<Short> = measured(input).filter_map(|case| of(input, case)).collect();
    short.sort_by(|a, b| (a.lasted / a.planned).total_cmp(&(b.lasted / b.planned)));
    let Some(worst) = short.first() else { return Vec::new() };
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let others = so_in_others(short.len());
    let text = format!(
        "{}a round measured {} where {} were planned (medians; {} messages a round){others}",
        prefix(input, worst.case),
        time(worst.lasted),
        time(worst.planned),
        worst.messages
    );
    let why = "the number of messages of a round is that of the pilot, in which a message took longer, as where other work has the CPUs; the \
               numbers rest on less time than was asked for, and are those of its beginning";
    let fix = "measure again when the CPUs are idle, or ask for messages (-c) instead of a time";
    let numbers = [
        ("lasted_ns", worst.lasted),
        ("planned_ns", worst.planned),
        ("messages_a_round", worst.messages),
        ("cases", short.len() as f64),
    ];
    vec![warning("W133", text, why, fix, numbers)]
}

fn of<'a>(input: &Input, case: &'a CaseSummary) -> Option<Short<'a>> {
    if case.case.load != Load::Closed {
        return None; // a schedule lasts as long as it was made for
    }
    let planned = settled::planned_ns(&input.run.header, &case.case)? as f64;
    let lasted = |round: &&RoundRecord| {
        let near = round.near().elapsed_ns;
        (if input.plan.workload.timed { near } else { near.max(round.far().elapsed_ns) }) as f64
    };
    let rounds = &input.all[case.case.id as usize];
    let spans: Vec<f64> = rounds.iter().map(lasted).filter(|ns| *ns > 0.0).collect();
    let messages: Vec<f64> =
        rounds.iter().map(|round| round.near().delivery.sent.max(round.far().delivery.sent) as f64).collect();
    if spans.is_empty() {
        return None;
    }
    let lasted = median(&spans);
    (lasted < SHORT * planned).then(|| Short { case, lasted, planned, messages: median(&messages) })
}

#[cfg(test)]
mod tests {
    use msgpath_core::plan::Extent;
    use msgpath_core::resume::Pilot;

    use crate::testing::{Build, sentences};

    /// 40 rounds of so long were planned, of which each measured so much.
    fn of(build: Build, planned_ms: u64, lasted_ns: u64) -> Vec<String> {
        let mut run = build.run();
        run.header.plan.extent = Extent::Time(40 * planned_ms * 1_000_000);
        run.header.pilots = vec![Pilot::default()];
        for round in &mut run.rounds {
            round.near_mut().elapsed_ns = lasted_ns;
            round.near_mut().delivery.sent = 12;
            round.far_mut().delivery.sent = 12;
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn rounds_shorter_than_planned_are_named_with_both_times() {
        let texts = of(Build::echo(&["shm:ring/spin"], &[64]), 100, 150_000);
        assert_eq!(texts, ["a round measured 150 µs where 100 ms were planned (medians; 12 messages a round)"]);
    }

    #[test]
    fn is_silent_where_rounds_lasted_or_a_count_was_asked_for() {
        assert!(of(Build::echo(&["shm:ring/spin"], &[64]), 100, 80_000_000).is_empty());
        let mut run = Build::echo(&["shm:ring/spin"], &[64]).run();
        run.header.plan.extent = Extent::Count(480);
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
