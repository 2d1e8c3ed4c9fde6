//! What periodic messages add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::logs::Pulled;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_core::parts::Part;
use msgpath_core::schema::MessageRow;
use msgpath_record::{MessageLog, RecordError, Run};

use crate::analyse::{PeriodicSummary, summarise};
use crate::findings::DETECTORS;
use crate::record::PeriodicFacts;

/// All of it.
pub static SECTION: Section = Section { logs, summarise: add, detectors: DETECTORS, ..NOTHING };

/// The messages of a periodic run.
#[derive(Default)]
pub struct Sent(pub Pulled<MessageRow>);

/// The messages of a periodic run; empty where nobody read them.
pub fn log(logs: &Logs) -> &Pulled<MessageRow> {
    static NONE: Pulled<MessageRow> = Pulled::Here(Vec::new());
    logs.own::<Sent>().map_or(&NONE, |sent| &sent.0)
}

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
