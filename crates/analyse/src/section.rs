//! What a feature adds to the analysis of a run: its logs, its section of the summary, its sentences, its part of the check. The
//! base asks every section of every run; one whose run it is not has nothing to say.

use std::sync::RwLock;

use msgpath_core::schema::RunHeader;
use msgpath_record::{RecordError, Run};

use crate::diff::Difference;
use crate::findings::Detector;
use crate::logs::Logs;
use crate::summary::Summary;
use crate::verify::Rebuilt;

/// What a feature adds.
pub struct Section {
    /// Opens its logs.
    pub logs: fn(&Run, &mut Logs) -> Result<(), RecordError>,
    /// Adds its part to the sections of a summary that has all but findings.
    pub summarise: fn(&Run, &Logs, &mut Summary),
    /// Its sentences. They stand behind those of the base.
    pub detectors: &'static [Detector],
    /// What must be the same of two runs that are compared, as far as it is not.
    pub identity: fn(&RunHeader, &RunHeader) -> Vec<Difference>,
    /// Builds again from its logs what the rounds hold.
    pub verify: fn(&Run, &Logs, &mut Rebuilt<'_, '_>),
}

/// Of a feature that has nothing of it.
pub const NOTHING: Section = Section {
    logs: |_, _| Ok(()),
    summarise: |_, _, _| {},
    detectors: &[],
    identity: |_, _| Vec::new(),
    verify: |_, _, _| {},
};

static ADDED: RwLock<Vec<&'static Section>> = RwLock::new(Vec::new());

/// Lists a section, before anything is analysed; a second time changes nothing.
pub fn add(section: &'static Section) {
    let mut added = ADDED.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !added.iter().any(|known| std::ptr::eq(*known, section)) {
        added.push(section);
    }
}

/// All sections of this program.
pub(crate) fn all() -> Vec<&'static Section> {
    ADDED.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}
