//! Computed sentences. One file each: the condition, the sentence, a test where it must speak and a test where it
//! must stay silent.
//!
//! `sure` follows presentation.md 5.1: the round-based interval excludes what the sentence excludes, in a comparison
//! beyond the margin and after Holm, and both halves of the run agree. `likely` names one mechanism that fits.
//! `can't tell` says what would settle it.

use msgpath_core::Plan;
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;

use crate::series::Series;
use crate::summary::{Finding, Summary, Warning};

mod at_line_rate;
mod autocorking;
mod batch_means;
mod better_or_worse;
mod busy_poll_without_queue;
mod client_saturated;
mod conditions;
mod control_differed;
mod copied_zero_copy;
mod counters;
mod cpu_speed;
mod crossover_size;
mod debug_build;
mod delayed_acks;
mod doctor_stops;
mod doctor_warns;
mod equivalent;
mod fastest_path;
mod few_slow_take_the_time;
mod first_messages;
mod generator_late;
mod headline;
mod held_cork;
mod hidden_waiting;
mod ignored_zero_copy;
mod in_cache;
mod interrupts;
mod knee;
mod limited_stream;
mod littles_law;
mod local_route;
mod loss_by_place;
mod lost_messages;
mod modes;
mod nagle;
mod neighbours;
mod never_settled;
mod no_difference;
mod not_granted;
mod not_sustained;
mod one_core;
mod other_size;
mod paced_congestion;
mod page_faults;
mod periodic;
mod receiver_copies;
mod restarts;
mod slow_start_after_idle;
mod spinning;
mod spinning_in_a_crowd;
mod steady_halves;
mod steady_levels;
mod steal;
mod stretches;
mod throttled;
mod too_few_to_say;
mod trying;
mod waking;
mod wording;

/// What a detector looks at. `summary` has everything but findings and warnings.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its plan.
    pub plan: &'a Plan,
    /// Its numbers.
    pub summary: &'a Summary,
    /// The rounds of each case of the plan, by pass.
    pub rounds: &'a [Vec<&'a RoundRecord>],
    /// The metric of each case of the plan, by pass.
    pub series: &'a [Series],
}

/// One computed sentence.
pub enum Said {
    /// A finding.
    Finding(Finding),
    /// A warning.
    Warning(Warning),
}

/// One kind of sentence.
pub struct Detector {
    /// Its stable code: `V..` findings, `W..` things that change what the numbers mean.
    pub code: &'static str,
    /// What it has to say about a run; nothing where it does not apply.
    pub detect: fn(&Input) -> Vec<Said>,
}

/// Every detector, in the order in which the sentences are printed. A new one is one file and one line here.
pub const DETECTORS: &[Detector] = &[
    headline::DETECTOR,
    steady_halves::DETECTOR,
    steady_levels::DETECTOR,
    equivalent::DETECTOR,
    better_or_worse::DETECTOR,
    crossover_size::DETECTOR,
    fastest_path::DETECTOR,
    no_difference::DETECTOR,
    knee::DETECTOR,
    hidden_waiting::DETECTOR,
    few_slow_take_the_time::DETECTOR,
    first_messages::DETECTOR,
    restarts::DETECTOR,
    nagle::DETECTOR,
    too_few_to_say::DETECTOR,
    copied_zero_copy::DETECTOR,
    receiver_copies::DETECTOR,
    not_granted::DETECTOR,
    busy_poll_without_queue::DETECTOR,
    control_differed::DETECTOR,
    never_settled::DETECTOR,
    lost_messages::DETECTOR,
    batch_means::DETECTOR,
    spinning::DETECTOR,
    debug_build::DETECTOR,
    // Load.
    not_sustained::DETECTOR,
    generator_late::DETECTOR,
    client_saturated::DETECTOR,
    littles_law::DETECTOR,
    at_line_rate::DETECTOR,
    // TCP, UDP and sockets.
    ignored_zero_copy::DETECTOR,
    held_cork::DETECTOR,
    slow_start_after_idle::DETECTOR,
    local_route::DETECTOR,
    other_size::DETECTOR,
    paced_congestion::DETECTOR,
    delayed_acks::DETECTOR,
    loss_by_place::DETECTOR,
    autocorking::DETECTOR,
    limited_stream::DETECTOR,
    periodic::DETECTOR,
    steal::DETECTOR,
    throttled::DETECTOR,
    cpu_speed::DETECTOR,
    one_core::DETECTOR,
    neighbours::DETECTOR,
    interrupts::DETECTOR,
    spinning_in_a_crowd::DETECTOR,
    doctor_stops::DETECTOR,
    in_cache::DETECTOR,
    page_faults::DETECTOR,
    waking::DETECTOR,
    doctor_warns::DETECTOR,
];

/// Asks every detector.
pub(crate) fn detect(input: &Input) -> (Vec<Finding>, Vec<Warning>) {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    for said in DETECTORS.iter().flat_map(|detector| (detector.detect)(input)) {
        match said {
            Said::Finding(finding) => findings.push(finding),
            Said::Warning(warning) => warnings.push(warning),
        }
    }
    (findings, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<_> = DETECTORS.iter().map(|detector| detector.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), DETECTORS.len());
    }

    #[test]
    fn a_run_without_rounds_claims_nothing() {
        for build in [Build::echo(&["tcp:send", "tcp:writev"], &[64, 4096]), Build::stream(&["tcp:send"], &[64])] {
            let mut run = build.run();
            run.rounds.clear();
            run.end = None;
            let summary = crate::summarise(&run);
            assert!(summary.findings.is_empty() && summary.warnings.is_empty(), "{:?}", summary.findings);
        }
    }
}
