//! Computed sentences on connections, one file each.

use msgpath_analyse::findings::{Detector, Input};
use msgpath_analyse::summary::CaseSummary;

use crate::section::{ConnectSummary, Connections};

mod failed;
mod syn_retransmitted;
#[cfg(test)]
pub(crate) mod testing;

/// All of them, in the order in which they are printed.
pub static DETECTORS: &[Detector] = &[failed::DETECTOR, syn_retransmitted::DETECTOR];

/// The cases of a run of connections.
fn cases<'a>(input: &Input<'a>) -> impl Iterator<Item = (&'a CaseSummary, &'a Connections)> {
    let summary = input.summary;
    let connections = summary.sections.get::<ConnectSummary>().map_or(&[][..], |connect| connect.cases.as_slice());
    connections.iter().filter_map(|own| Some((summary.cases.iter().find(|case| case.case.id == own.case)?, own)))
}
