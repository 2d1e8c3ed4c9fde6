//! Computed sentences on latency under load, one file each.

use msgpath_analyse::findings::{Detector, Input};

use crate::analyse::LoadedSummary;

mod stands;
mod unsteady;

/// Code of the sentence that answers what was asked.
pub(crate) const ANSWER: &str = stands::CODE;

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[stands::DETECTOR, unsteady::DETECTOR];

/// Latency under load of a run that has it.
fn loaded<'a>(input: &Input<'a>) -> Option<&'a LoadedSummary> {
    input.summary.sections.get::<LoadedSummary>()
}
