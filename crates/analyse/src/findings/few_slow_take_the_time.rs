//! V08: few slow messages take much of the time. In a closed loop a stall delays one message instead of the many that
//! would have been sent meanwhile; by time it is seen (method.md, decision 5).

use msgpath_core::Workload;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;

use super::wording::{again_for, finding, measured, percent, prefix, seconds_measured, sentence};
use super::{Detector, Input, Said};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "V08", detect };

/// From this share of the time on it is worth a sentence.
const TIME: f64 = 0.2;
/// More messages than this are not few.
const MESSAGES: f64 = 0.05;

fn detect(input: &Input) -> Vec<Said> {
    if input.plan.workload != Workload::Echo {
        return Vec::new();
    }
    let shares = |case: &CaseSummary| Some((case.time_share_over_10x?, case.message_share_over_10x?));
    let mut affected: Vec<(&CaseSummary, f64, f64)> = measured(input)
        .filter_map(|case| shares(case).map(|(time, messages)| (case, time, messages)))
        .filter(|(_, time, messages)| *time >= TIME && *messages <= MESSAGES)
        .collect();
    affected.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((case, time, messages)) = affected.first().copied() else { return Vec::new() };
    let median = case.quantiles.iter().find(|q| q.p == 0.5).and_then(|q| q.ns).unwrap_or_default();
    let rounds = &input.rounds[case.case.id as usize];
    let slow_rounds = rounds.iter().filter(|round| round.latency.max().is_some_and(|max| max > 10 * median)).count();
    let mut text = format!(
        "{}{} % of the messages, those over ten times the median, took {} % of the time",
        prefix(input, case),
        percent(messages),
        percent(time)
    );
    if affected.len() > 1 {
        text.push_str(&format!("; it is like this in {} cases", affected.len()));
    }
    let numbers = [
        ("message_share", messages),
        ("time_share", time),
        ("rounds_with_slow_messages", slow_rounds as f64),
        ("cases", affected.len() as f64),
    ];
    let text = sentence(&text);
    vec![if slow_rounds >= MIN_ROUNDS_FOR_CLAIMS as usize {
        finding("V08", Confidence::Sure, text + ".", numbers, vec![])
    } else {
        let text = format!(
            "{text}. They lie in {slow_rounds} of {} rounds: a longer run would tell whether that is usual.",
            rounds.len()
        );
        let seconds = 5.0 * seconds_measured(input, case);
        finding("V08", Confidence::CantTell, text, numbers, vec![again_for(&input.run.header, seconds)])
    }]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, said};
    use msgpath_core::Histogram;

    fn with_stalls(every: usize) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for round in run.rounds.iter_mut().step_by(every) {
            let mut histogram = Histogram::new();
            histogram.merge_sparse(&round.latency);
            histogram.record(40_000_000);
            round.latency = histogram.to_sparse();
        }
        said(&run, "V08")
    }

    #[test]
    fn speaks_of_the_time() {
        let texts = with_stalls(1);
        assert!(
            texts[0]
                .starts_with("sure: 0.5 % of the messages, those over ten times the median, took 91 % of the time."),
            "{texts:?}"
        );
        let texts = with_stalls(20);
        assert!(texts[0].starts_with("can't tell: ") && texts[0].contains("in 2 of 40 rounds"), "{texts:?}");
    }

    #[test]
    fn is_silent_without_a_heavy_tail() {
        assert!(said(&Build::echo(&["tcp:send"], &[64]).run(), "V08").is_empty());
    }
}
