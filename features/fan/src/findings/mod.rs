//! Computed sentences on several clients, one file each.

use msgpath_analyse::findings::{Detector, Input};

use crate::analyse::FanSummary;

mod answer;
mod slow;
mod timeouts;

/// Codes of the sentences that answer what was asked.
pub(crate) const ANSWERS: &[&str] = &[answer::CODE, slow::CODE, timeouts::CODE];

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[answer::DETECTOR, slow::DETECTOR, timeouts::DETECTOR];

fn fan<'a>(input: &Input<'a>) -> Option<&'a FanSummary> {
    input.summary.sections.get::<FanSummary>().filter(|fan| fan.rounds > 0)
}
