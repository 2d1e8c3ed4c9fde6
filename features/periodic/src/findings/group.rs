//! What the findings about a multicast group share.

use msgpath_analyse::findings::Input;
use msgpath_analyse::summary::CaseSummary;
use msgpath_core::group::Group;

use crate::analyse::{Engine, PeriodicSummary};
use crate::record::{Component, PeriodicFacts};

/// `239.1.1.1 on v0`: the group, and the device that it is sent by; `None`: the run has no group.
pub(super) fn name(input: &Input<'_>) -> Option<String> {
    let facts = input.run.header.parts.get::<PeriodicFacts>()?;
    let group: Group = facts.group.as_ref()?.group.parse().ok()?;
    let device = senders(facts).next().and_then(|sender| sender.sends.as_ref()).map(|sends| sends.device.clone());
    Some(match device {
        Some(device) => format!("{} on {device}", group.address),
        None => group.address.to_string(),
    })
}

/// The components that send to the group, one a session.
pub(super) fn senders(facts: &PeriodicFacts) -> impl Iterator<Item = &Component> {
    facts.sessions.iter().flat_map(|session| &session.components).filter(|component| component.sends.is_some())
}

/// The engines that have receivers of a group, with their cases.
pub(super) fn engines<'a>(input: &Input<'a>) -> impl Iterator<Item = (&'a CaseSummary, &'a Engine)> {
    let engines =
        input.summary.sections.get::<PeriodicSummary>().map_or(&[][..], |periodic| periodic.engines.as_slice());
    let cases = &input.summary.cases;
    engines
        .iter()
        .filter(|engine| !engine.receivers.is_empty())
        .filter_map(|engine| Some((cases.iter().find(|case| case.case.id == engine.case)?, engine)))
}
