//! Computed sentences on latency under load, one file each.

use msgpath_analyse::findings::{Detector, Input};

use crate::analyse::LoadedSummary;
use crate::mix::analyse::MixSummary;

mod least;
pub(crate) mod mixed;
mod stands;
mod unsteady;

/// Code of the sentence that answers what was asked.
pub(crate) const ANSWER: &str = stands::CODE;

/// Those that answer what was asked of a mix.
pub(crate) const MIX_ANSWERS: [&str; 2] = [mixed::CODE, least::CODE];

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[stands::DETECTOR, unsteady::DETECTOR, mixed::DETECTOR, least::DETECTOR];

/// Latency under load of a run that has it.
fn loaded<'a>(input: &Input<'a>) -> Option<&'a LoadedSummary> {
    input.summary.sections.get::<LoadedSummary>()
}

/// What went on beside the cases of a run that has it.
fn mix<'a>(input: &Input<'a>) -> Option<&'a MixSummary> {
    input.summary.sections.get::<MixSummary>()
}
