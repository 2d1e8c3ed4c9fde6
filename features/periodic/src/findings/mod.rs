//! Computed sentences on periodic runs, one file each.

use msgpath_analyse::findings::{Detector, Input};
use msgpath_analyse::summary::CaseSummary;

use crate::analyse::{Engine, PeriodicSummary};

mod cold_first_call;
mod group;
mod group_answer;
mod late_receiver;
mod lost_at_a_receiver;
mod lost_by_all;
mod merged_signals;
mod missed_deadlines;
mod nothing_arrived;
mod run_queue_delay;
mod scheduler_test;
mod start_up_storm;

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[
    group_answer::DETECTOR,
    nothing_arrived::DETECTOR,
    lost_at_a_receiver::DETECTOR,
    lost_by_all::DETECTOR,
    start_up_storm::DETECTOR,
    run_queue_delay::DETECTOR,
    cold_first_call::DETECTOR,
    merged_signals::DETECTOR,
    scheduler_test::DETECTOR,
    late_receiver::DETECTOR,
    missed_deadlines::DETECTOR,
];

/// The engines of a periodic run that delivered something, with their cases.
pub(super) fn engines<'a>(input: &Input<'a>) -> impl Iterator<Item = (&'a CaseSummary, &'a Engine)> {
    let engines =
        input.summary.sections.get::<PeriodicSummary>().map_or(&[][..], |periodic| periodic.engines.as_slice());
    let cases = &input.summary.cases;
    engines
        .iter()
        .filter(|engine| engine.all.messages > 0)
        .filter_map(|engine| Some((cases.iter().find(|case| case.case.id == engine.case)?, engine)))
}
