//! What several clients add to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::diff::Difference;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_core::parts::Part;
use msgpath_core::schema::RunHeader;
use msgpath_record::Run;

use crate::analyse::{FanSummary, summarise};
use crate::findings::DETECTORS;

pub static SECTION: Section = Section { summarise: add, detectors: DETECTORS, identity, ..NOTHING };

impl Part for FanSummary {
    const NAME: &'static str = "clients";
}

fn add(run: &Run, _: &Logs, summary: &mut Summary) {
    if let Some(fan) = summarise(&run.header, &run.rounds) {
        summary.sections.set(fan);
    }
}

/// Another number of clients is another question.
fn identity(a: &RunHeader, b: &RunHeader) -> Vec<Difference> {
    let count = |header: &RunHeader| header.plan.options.clients.len().max(1).to_string();
    let (a, b) = (count(a), count(b));
    if a == b {
        return Vec::new();
    }
    vec![Difference { what: "clients".into(), end: String::new(), a, b, refuses: true }]
}
