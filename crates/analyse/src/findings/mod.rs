//! Computed sentences: the condition, the sentence, a test where it must speak and a test where it must stay silent. Files whose
//! sentences say the same of different things share a code; the comment of one of them is its page in `docs/findings`.
//!
//! `sure`: the interval over rounds excludes what the sentence excludes, in a comparison
//! beyond the margin and after Holm, and both halves of the run agree. `likely` names one mechanism that fits.
//! `can't tell` says what would settle it.

use crate::section;
use crate::summary::{Finding, Warning};

pub use detector::{Detector, Input, Sentence};

mod at_line_rate;
mod autocorking;
mod batch_means;
mod better_or_worse;
mod capacity;
mod client_saturated;
mod clock_changed;
mod conditions;
mod control_differed;
mod copied_zero_copy;
mod counters;
mod counting_costs;
mod cpu_speed;
mod crossover_size;
mod debug_build;
mod delayed_acks;
mod detector;
mod doctor_stops;
mod doctor_warns;
mod equivalent;
mod fastest_path;
mod few_slow_take_the_time;
mod first_messages;
mod fragments;
mod full_core;
mod generator_late;
mod headline;
mod held_cork;
mod hidden_waiting;
mod ignored_zero_copy;
mod in_cache;
mod interrupts;
mod joined_datagrams;
pub mod knee;
mod layer_adds;
mod lent_pages;
mod limited_stream;
mod littles_law;
mod local_route;
mod loss_by_place;
mod lost_messages;
mod mapped_share;
pub mod modes;
mod multiplexed;
mod nagle;
mod neighbours;
mod never_settled;
mod no_difference;
mod not_granted;
mod not_redirected;
mod not_settled;
mod not_sustained;
mod one_core;
mod other_device;
mod other_size;
mod oversubscribed;
mod paced_congestion;
mod page_faults;
mod path_mtu;
mod polled_queue;
pub mod queueing;
mod receiver_copies;
mod restarts;
mod resumed;
mod short_rounds;
mod slow_start_after_idle;
mod spinning;
mod spinning_in_a_crowd;
mod steady_halves;
mod steady_levels;
mod steal;
mod stood_still;
mod stretches;
mod swallowed;
mod taken_cpus;
pub mod throttled;
mod timer_lines;
mod too_few_to_say;
pub mod trying;
mod unfair_threads;
mod user_mode_only;
mod waking;
pub mod wording;

/// Every detector, in the order in which the sentences are printed. A new one is a row of one that is there, or one file and one line here.
pub const DETECTORS: &[Detector] = &[
    headline::DETECTOR,
    steady_halves::DETECTOR,
    steady_levels::DETECTOR,
    layer_adds::DETECTOR,
    equivalent::DETECTOR,
    better_or_worse::DETECTOR,
    crossover_size::DETECTOR,
    fastest_path::DETECTOR,
    no_difference::DETECTOR,
    knee::DETECTOR,
    capacity::DETECTOR,
    hidden_waiting::DETECTOR,
    few_slow_take_the_time::DETECTOR,
    first_messages::DETECTOR,
    restarts::DETECTOR,
    resumed::DETECTOR,
    nagle::DETECTOR,
    too_few_to_say::DETECTOR,
    copied_zero_copy::DETECTOR,
    receiver_copies::DETECTOR,
    not_granted::DETECTOR,
    control_differed::DETECTOR,
    never_settled::DETECTOR,
    not_settled::DETECTOR,
    short_rounds::DETECTOR,
    swallowed::DETECTOR,
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
    other_device::DETECTOR,
    paced_congestion::DETECTOR,
    delayed_acks::DETECTOR,
    loss_by_place::DETECTOR,
    fragments::DETECTOR,
    path_mtu::DETECTOR,
    autocorking::DETECTOR,
    limited_stream::DETECTOR,
    not_redirected::DETECTOR,
    lent_pages::DETECTOR,
    joined_datagrams::DETECTOR,
    mapped_share::DETECTOR,
    polled_queue::DETECTOR,
    timer_lines::DETECTOR,
    steal::DETECTOR,
    throttled::DETECTOR,
    stood_still::DETECTOR,
    clock_changed::DETECTOR,
    taken_cpus::DETECTOR,
    cpu_speed::DETECTOR,
    one_core::DETECTOR,
    neighbours::DETECTOR,
    interrupts::DETECTOR,
    spinning_in_a_crowd::DETECTOR,
    doctor_stops::DETECTOR,
    in_cache::DETECTOR,
    page_faults::DETECTOR,
    multiplexed::DETECTOR,
    user_mode_only::DETECTOR,
    counting_costs::DETECTOR,
    waking::DETECTOR,
    // Several threads.
    oversubscribed::DETECTOR,
    queueing::DETECTOR,
    unfair_threads::DETECTOR,
    full_core::DETECTOR,
    doctor_warns::DETECTOR,
];

/// Asks every detector.
pub(crate) fn detect(input: &Input) -> (Vec<Finding>, Vec<Warning>) {
    let base = DETECTORS.iter().flat_map(|detector| (detector.detect)(input)).map(|mut sentence| {
        // The verb of a workload with a server has a grammar of its own: no option of the base's verbs is put there. What was
        // imported is measured again by whoever wrote it.
        let header = &input.run.header;
        let is_other = input.plan.workload.has_server() || !header.imported.is_empty();
        if let (true, Sentence::Finding(finding), Some(verb)) = (is_other, &mut sentence, header.command.get(1)) {
            finding.next.retain(|command| !command.starts_with(&format!("msgpath {verb} ")));
        }
        sentence
    });
    let added = section::all().flat_map(|section| section.detectors).flat_map(|detector| (detector.detect)(input));
    sorted(base.chain(added))
}

/// Findings and warnings apart.
pub(crate) fn sorted(sentences: impl Iterator<Item = Sentence>) -> (Vec<Finding>, Vec<Warning>) {
    let (mut findings, mut warnings) = (Vec::new(), Vec::new());
    for sentence in sentences {
        match sentence {
            Sentence::Finding(finding) => findings.push(finding),
            Sentence::Warning(warning) => warnings.push(warning),
        }
    }
    #[cfg(test)]
    findings.iter().map(|one| &one.text).chain(warnings.iter().map(|one| &one.text)).for_each(|text| {
        assert!(!crate::testing::claims_beyond_this_run(text), "a quantile is that of this run: {text}");
    });
    (findings, warnings)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, claims_beyond_this_run};

    #[test]
    fn a_quantile_is_that_of_this_run() {
        for good in [
            "In this run p50 is 20.0 µs (95 %: 19.9 µs to 20.1 µs).",
            "Tried here: spin brings p50 from 20.0 µs to 8.00 µs",
            "Waking is most of the time: p50 is 20 % higher",
            "The others wait 40.0 ms. Their p99 is not known",
            "p99: drift; about 20 s would do",
        ] {
            assert!(!claims_beyond_this_run(good), "{good}");
        }
        for bad in ["p50 is 20.0 µs", "tcp:send: p99 is 1.20 ms, which is long", "In this run it is. So p50 (20 ns) is"]
        {
            assert!(claims_beyond_this_run(bad), "{bad}");
        }
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
