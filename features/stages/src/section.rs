//! What stages add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_record::Run;

use crate::analyse::{Attribution, attribute, exchanges};
use crate::findings::{DETECTORS, holder};
use crate::log;

pub static SECTION: Section =
    Section { traced: true, logs: log::open, summarise: add, exchanges, holder, detectors: DETECTORS, ..NOTHING };

fn add(run: &Run, logs: &Logs, summary: &mut Summary) {
    let stages = attribute(run, logs, &summary.ablations);
    if !stages.is_empty() {
        summary.sections.set(Attribution(stages));
    }
}
