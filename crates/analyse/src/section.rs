//! What a feature adds to the analysis of a run: its logs, its section of the summary, its sentences, its part of the check. The
//! base asks every section of every run; one whose run it is not has nothing to say.

use msgpath_core::plugged::Plugged;
use msgpath_core::schema::RunHeader;
use msgpath_record::{RecordError, Run};

use crate::clocks::Stamps;
use crate::diff::Difference;
use crate::findings::{Detector, Input};
use crate::logs::Logs;
use crate::summary::Summary;
use crate::verify::Rebuilt;

/// What a feature adds.
pub struct Section {
    /// It reads what the kernel of an end was traced for (`Plan::stages`); a program without such a section traces none.
    pub traced: bool,
    /// Opens its logs. They are there before anything else is made of logs.
    pub logs: fn(&Run, &mut Logs) -> Result<(), RecordError>,
    /// Adds its part to the sections of a summary that has all but findings.
    pub summarise: fn(&Run, &Logs, &mut Summary),
    /// What it knows of two clocks: messages stamped closer to their way than by the programs at its ends.
    pub exchanges: fn(&Run, &Logs, &mut dyn FnMut(Stamps)),
    /// Who else held a CPU that a measuring thread waited for, as a clause of a sentence; `None`: it does not know.
    pub holder: fn(&Input<'_>) -> Option<String>,
    /// Its sentences. They stand behind those of the base.
    pub detectors: &'static [Detector],
    /// What must be the same of two runs that are compared, as far as it is not.
    pub identity: fn(&RunHeader, &RunHeader) -> Vec<Difference>,
    /// Builds again from its logs what the rounds hold.
    pub verify: fn(&Run, &Logs, &mut Rebuilt<'_, '_>),
}

/// Of a feature that has nothing of it.
pub const NOTHING: Section = Section {
    traced: false,
    logs: |_, _| Ok(()),
    summarise: |_, _, _| {},
    exchanges: |_, _, _| (),
    holder: |_| None,
    detectors: &[],
    identity: |_, _| Vec::new(),
    verify: |_, _, _| {},
};

static ADDED: Plugged<Section> = Plugged::new();

/// Lists a section, before anything is analysed; a second time changes nothing.
pub fn add(section: &'static Section) {
    ADDED.add(section);
}

/// All sections of this program.
pub(crate) fn all() -> impl Iterator<Item = &'static Section> {
    ADDED.all()
}

/// Whether this program makes something of a kernel that was traced.
pub fn reads_traces() -> bool {
    all().any(|section| section.traced)
}
