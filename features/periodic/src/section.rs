//! What periodic messages add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_core::parts::Part;
use msgpath_record::{MessageLog, RecordError, Run};

use crate::analyse::{PeriodicSummary, summarise, widen};
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
        for engine in &periodic.engines {
            let within = engine.receivers.iter().filter_map(|one| one.clock_within_ns).max();
            let case = summary.cases.iter_mut().find(|case| case.case.id == engine.case);
            if let (Some(within), Some(case)) = (within, case) {
                case.latency.quantiles.iter_mut().for_each(|one| widen(one, within));
            }
        }
        summary.sections.set(periodic);
    }
}
