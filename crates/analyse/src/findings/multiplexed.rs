//! W103: what counted events cannot say
//!
//! ## What it says
//!
//! **Taking turns**: More events were counted than the CPU has counters for, so each was counted for a part of the time and its count scaled to
//! all of it. *Sure*: the kernel tells both times.
//!
//! **User mode only**: At one end or at both the kernel refuses to count what it does itself. System calls, copies and the network stack are in
//! none of the counts there. *Sure*: the kernel said so when the events were opened.
//!
//! **Counting costs**: The rounds in which events of CPU and kernel were counted, because `-o events=on` asked for it, are slower than the rounds
//! beside them. Their times are in no result; but what was counted was counted of slower messages.
//!
//! ## What it is computed from
//!
//! **Taking turns**: The time for which each event was to be counted and the time for which it was (`time_enabled` and `time_running` of
//! perf_event_open(2)), summed over the rounds of a case. On cores of several types the times of one event on all types are
//! taken together: a thread that runs on the other type is no lack of counters.
//!
//! **User mode only**: `perf_event_open` was refused (EACCES, EPERM) with the kernel included and worked without. The share of the kernel comes from
//! getrusage(2), which counts CPU time in both modes.
//!
//! **Counting costs**: The metric of each counted round against that of the uncounted round of the same pass, as a logarithm; the mean over all of
//! them with its 95 % t interval.
//!
//! ## When it stays silent
//!
//! **Taking turns**: Every event was counted for 99 % of its time or more, or none was counted.
//!
//! **User mode only**: Both modes are counted, or nothing is.
//!
//! **Counting costs**: `-o events=on` was not given; the interval does not exclude a difference of 2 %, or the halves of the run disagree.
//!
//! ## What to do
//!
//! **Taking turns**: Other programs that count (a profiler, the NMI watchdog: `sysctl kernel.nmi_watchdog=0`) give their counters back when
//! they end. Otherwise take the share as it is: the counts are right on average, and in bursts they are not.
//!
//! **User mode only**: `sysctl kernel.perf_event_paranoid=1`, or CAP_PERFMON for the program.
//!
//! **Counting costs**: Read the counts as those of slightly slower messages, or leave `-o events` at `auto`: then nothing is counted where no CPU
//! counts.

use super::wording::{finding, list, measured, percent, prefix};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence, EventRate};
use msgpath_core::schema::{FAR, NEAR};

pub(super) const DETECTOR: Detector = Detector { code: "W103", detect };

/// A share of the time above this is the whole time: opening and closing are not at one moment.
const WHOLE: f64 = 0.99;

fn detect(input: &Input) -> Vec<Sentence> {
    let worst = measured(input).filter_map(|case| Some((least(case)?, case)));
    let Some((share, case)) = worst.min_by(|a, b| a.0.total_cmp(&b.0)) else { return Vec::new() };
    let shared = case.ends.iter().filter_map(|end| {
        let shared = end.events.iter().filter(|rate| is_shared(rate));
        let names: Vec<String> = shared.map(|rate| rate.name.clone()).collect();
        (!names.is_empty()).then(|| format!("{} at the {} end", list(&names), end.name))
    });
    let text = format!(
        "{}More events than the CPU has counters: {} were counted for a part of the time, the least of them for {} % of \
         it, and scaled to all of it. That is right on average and wrong for what comes in bursts.",
        prefix(input, case),
        list(&shared.collect::<Vec<_>>()),
        percent(share)
    );
    vec![finding("W103", Confidence::Sure, text, [("least_share", share)], Vec::new())]
}

fn is_shared(rate: &EventRate) -> bool {
    rate.per_message.is_some() && rate.running_share.is_some_and(|share| share < WHOLE)
}

fn least(case: &CaseSummary) -> Option<f64> {
    let rates = case.end(NEAR).events.iter().chain(&case.end(FAR).events).filter(|rate| is_shared(rate));
    rates.filter_map(|rate| rate.running_share).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::{EventCount, FAR};

    use crate::testing::{Build, sentences};

    fn texts(running_ns: u64) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.ends[FAR].events.counted = vec!["cycles".into()];
        for round in &mut run.rounds {
            let count = EventCount { count: 5_000, user: None, enabled_ns: 1_000, running_ns };
            round.end_mut(FAR).events.insert("cycles".into(), count);
        }
        sentences(&run, &super::DETECTOR)
    }

    #[test]
    fn speaks_of_counters_that_are_shared() {
        let texts = texts(400);
        assert_eq!(texts.len(), 1);
        assert!(
            texts[0].contains("cycles at the far end were counted") && texts[0].contains("for 40 % of it"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_where_every_event_has_its_counter() {
        assert!(texts(1_000).is_empty() && texts(995).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
