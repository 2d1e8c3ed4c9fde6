//! V08: few slow messages take much of the time
//!
//! Which share of the wall time went into messages slower than ten medians (and than a hundred), and how few they were.
//! In a closed loop a stall delays one message instead of the many that would have been sent meanwhile, so percentiles
//! look better than what users with a schedule see.
//!
//! ## What it rests on
//!
//! The histogram: the sum of values above 10 (100) medians by the sum of all. It speaks from 20 % of the time on (above
//! a hundred medians: 1 %), for the worst case. *Sure* if at least 5 rounds hold such messages. Silent for streams and
//! open loops, and where more than 5 % of the messages are slow: then the median shows it.
//!
//! ## What to do
//!
//! Do not read p99 of a closed loop as what users wait; measure with `--rate`. Find the stalls by their start times:
//! `msgpath export --to messages-csv`.

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::workload::Answer;

use super::wording::{again_for, finding, measured, percent, prefix, seconds_measured, sentence};
use super::{Detector, Input, Sentence, wording};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "V08", detect };

/// From this share of the time on it is worth a sentence.
const TIME: f64 = 0.2;
/// The same of those over a hundred times the median.
const TIME_100: f64 = 0.1;
/// From this share of those over a hundred times the median on it is worth one as well, however little the rest takes: of
/// messages that come when they like 1 in 100 would meet such a stall, and it would be their p99.
const STALLED: f64 = 0.01;
/// More messages than this are not few.
const MESSAGES: f64 = 0.05;

fn detect(input: &Input) -> Vec<Sentence> {
    if input.plan.workload.answer == Answer::None {
        return Vec::new();
    }
    let shares = |case: &CaseSummary| Some((case.spread.time_share_over_10x?, case.spread.message_share_over_10x?));
    let mut affected: Vec<(&CaseSummary, f64, f64)> = measured(input)
        .filter_map(|case| shares(case).map(|(time, messages)| (case, time, messages)))
        .filter(|(case, time, messages)| {
            let stalled = case.spread.time_share_over_100x.is_some_and(|time| time >= STALLED);
            (*time >= TIME || stalled) && *messages <= MESSAGES
        })
        .collect();
    affected.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((case, time, messages)) = affected.first().copied() else { return Vec::new() };
    let median = case.latency.quantiles.iter().find(|q| q.p == 0.5).and_then(|q| q.ns).unwrap_or_default();
    // The part of it that hundreds of messages would have met in an open loop.
    let (time_100, messages_100) =
        (case.spread.time_share_over_100x.unwrap_or_default(), case.spread.message_share_over_100x.unwrap_or_default());
    let few = |messages, times, time| {
        format!(
            "{} % of the messages, those over {times} times the median, took {} % of the time",
            percent(messages),
            percent(time)
        )
    };
    let (over, part) =
        if time >= TIME { (10, few(messages, "ten", time)) } else { (100, few(messages_100, "a hundred", time_100)) };
    let mut text = format!("{}{part}", prefix(input, case));
    if over == 10 && time_100 >= TIME_100 {
        text.push_str(&format!(
            "; those over a hundred times the median, {} % of the messages, took {} %",
            percent(messages_100),
            percent(time_100)
        ));
    }
    let rounds = &input.rounds[case.case.id as usize];
    let slow_rounds = rounds.iter().filter(|round| round.latency.max().is_some_and(|max| max > over * median)).count();
    text.push_str(&wording::affected(affected.len()));
    let numbers = [
        ("message_share", messages),
        ("time_share", time),
        ("message_share_over_100x", messages_100),
        ("time_share_over_100x", time_100),
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
    use crate::testing::{Build, sentences};
    use msgpath_core::Histogram;

    fn with_stalls(every: usize) -> Vec<String> {
        with_stalls_of(40_000_000, every)
    }

    fn with_stalls_of(ns: u64, every: usize) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for round in run.rounds.iter_mut().step_by(every) {
            let mut histogram = Histogram::new();
            histogram.merge_sparse(&round.latency);
            histogram.record(ns);
            round.latency = histogram.to_sparse();
        }
        sentences(&run, "V08")
    }

    #[test]
    fn speaks_of_the_time() {
        let texts = with_stalls(1);
        assert!(
            texts[0]
                .starts_with("sure: 0.5 % of the messages, those over ten times the median, took 91 % of the time; "),
            "{texts:?}"
        );
        assert!(
            texts[0].ends_with("; those over a hundred times the median, 0.5 % of the messages, took 91 %."),
            "{texts:?}"
        );
        // 1.6 ms are eighty medians.
        let texts = with_stalls_of(1_600_000, 1);
        assert!(texts[0].starts_with("sure: ") && !texts[0].contains("hundred"), "{texts:?}");
        let texts = with_stalls(20);
        assert!(texts[0].starts_with("can't tell: ") && texts[0].contains("in 2 of 40 rounds"), "{texts:?}");
    }

    #[test]
    fn speaks_of_a_stall_that_one_message_in_a_hundred_would_meet() {
        // 8,000 messages of 20 µs are 160 ms; 4 ms of them is one stall.
        let texts = with_stalls_of(4_000_000, 40);
        assert!(
            texts[0].starts_with(
                "can't tell: 0.012 % of the messages, those over a hundred times the median, took 2.4 % of the time. \
                 They lie in 1 of 40 rounds"
            ),
            "{texts:?}"
        );
        assert!(with_stalls_of(1_800_000, 40).is_empty(), "ninety medians are not a stall");
    }

    #[test]
    fn is_silent_without_a_heavy_tail() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "V08").is_empty());
    }
}
