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

mod batch_means;
mod better_or_worse;
mod busy_poll_without_queue;
mod control_differed;
mod copied_zero_copy;
mod crossover_size;
mod debug_build;
mod equivalent;
mod fastest_path;
mod few_slow_take_the_time;
mod headline;
mod lost_messages;
mod nagle;
mod no_difference;
mod not_granted;
mod receiver_copies;
mod spinning;
mod steady_halves;
mod stretches;
mod too_few_to_say;
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
    equivalent::DETECTOR,
    better_or_worse::DETECTOR,
    crossover_size::DETECTOR,
    fastest_path::DETECTOR,
    no_difference::DETECTOR,
    few_slow_take_the_time::DETECTOR,
    nagle::DETECTOR,
    too_few_to_say::DETECTOR,
    copied_zero_copy::DETECTOR,
    receiver_copies::DETECTOR,
    not_granted::DETECTOR,
    busy_poll_without_queue::DETECTOR,
    control_differed::DETECTOR,
    lost_messages::DETECTOR,
    batch_means::DETECTOR,
    spinning::DETECTOR,
    debug_build::DETECTOR,
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
