//! W103: what counted events cannot say
//!
//! * **Taking turns**: more events than counters: each counted for part of the time and was scaled. *Sure*.
//! * **User mode only**: the kernel refused to count itself, so system calls, copies and the network stack are missing.
//!   *Sure*.
//! * **Counting costs**: rounds counted because of `-o events=on` are slower than those beside them. Their times are in
//!   no result.
//!
//! ## What it rests on
//!
//! * **Taking turns**: `time_running` below 99 % of `time_enabled`.
//! * **User mode only**: `perf_event_open` failed with the kernel included and worked without; the kernel's share comes
//!   from getrusage(2).
//! * **Counting costs**: counted against uncounted round of a pass; the interval excludes 2 %, and both halves agree.
//!
//! ## What to do
//!
//! * **Taking turns**: stop other counters (a profiler, `sysctl kernel.nmi_watchdog=0`); else the counts are right on
//!   average, not in bursts.
//! * **User mode only**: `sysctl kernel.perf_event_paranoid=1`, or CAP_PERFMON.
//! * **Counting costs**: `-o events=auto`.

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
