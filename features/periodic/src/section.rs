//! What periodic messages add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_core::parts::Part;
use msgpath_record::{MessageLog, RecordError, Run};

use crate::analyse::{PeriodicSummary, summarise};
use crate::findings::DETECTORS;
use crate::log::Sent;
use crate::record::PeriodicFacts;

pub static SECTION: Section = Section { logs, summarise: add, detectors: DETECTORS, ..NOTHING };

impl Part for PeriodicSummary {
    const NAME: &str = "periodic";
}

fn logs(run: &Run, logs: &mut Logs) -> Result<(), RecordError> {
    if run.header.parts.get::<PeriodicFacts>().is_some() {
        logs.add(Sent(MessageLog::open(run)?.into()));
    }
    Ok(())
}

fn add(run: &Run, logs: &Logs, summary: &mut Summary) {
    if let Some(periodic) = summarise(run, logs) {
        summary.sections.set(periodic);
    }
}
