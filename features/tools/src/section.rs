//! What measuring tools of others add to the analysis of a run: what they said, for whoever shows it.

use msgpath_analyse::Logs;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_record::{RecordError, Run};

use crate::log::{ToolRun, tool_runs};

pub static SECTION: Section = Section { logs, detectors: crate::findings::DETECTORS, ..NOTHING };

/// What the tools said between the rounds of a run.
#[derive(Default)]
pub struct Said(pub Vec<ToolRun>);

/// What the tools said; empty where nobody read it.
pub fn said(logs: &Logs) -> &[ToolRun] {
    logs.own::<Said>().map_or(&[], |said| &said.0)
}

fn logs(run: &Run, logs: &mut Logs) -> Result<(), RecordError> {
    // A run that was made in memory is in no folder.
    if !run.folder.as_os_str().is_empty() {
        logs.add(Said(tool_runs(&run.folder)?));
    }
    Ok(())
}
