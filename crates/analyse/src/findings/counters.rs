//! Kernel counters of a case, and whether they fit its messages.
//!
//! The counters belong to a network namespace: every socket in it adds to them, and two ends in one namespace read the
//! same ones (docs/method/kernel.md#counters).

use msgpath_core::schema::{DeviceKind, FAR, KernelCounts, NEAR};

use super::Input;
use crate::series::sender;
use crate::summary::CaseSummary;

/// The share of the messages that a count must reach to fit them: 49 in 50.
const FIT: f64 = 49.0 / 50.0;

/// What the counters of these names rose by in all rounds of a case, together. `None`: none of them could be read.
/// Counts of the two ends are added only where the ends do not share a namespace; else they are the same events.
pub(super) fn rose(input: &Input, case: &CaseSummary, names: &[&str]) -> Option<u64> {
    let (near, far) = rose_at_ends(input, case, names);
    if near.is_none() && far.is_none() {
        return None;
    }
    let (near, far) = (near.unwrap_or(0), far.unwrap_or(0));
    // What softnet drops is counted by the machine, whatever the namespace.
    let machine = names.iter().all(|name| name.starts_with("softnet."));
    let apart = if machine { machines_differ(input) } else { namespaces_differ(input) };
    Some(if apart { near + far } else { near.max(far) })
}

/// The same at the near and at the far end, each `None` where none of the names could be read there.
fn rose_at_ends(input: &Input, case: &CaseSummary, names: &[&str]) -> (Option<u64>, Option<u64>) {
    let rounds = &input.all[case.case.id as usize];
    let sum = |known: &[String], of: &dyn Fn(usize) -> u64| {
        names.iter().any(|name| known.iter().any(|known| known == name)).then(|| (0..rounds.len()).map(of).sum())
    };
    let count = |counts: &KernelCounts| names.iter().filter_map(|name| counts.0.get(*name)).sum::<u64>();
    let header = &input.run.header;
    (
        sum(&header.end(NEAR).counters, &|at| count(&rounds[at].end(NEAR).kernel)),
        sum(&header.end(FAR).counters, &|at| count(&rounds[at].end(FAR).kernel)),
    )
}

fn machines_differ(input: &Input) -> bool {
    !input.run.header.one_machine()
}

/// Whether the two ends surely count different events: other machines, or a pair of devices between two namespaces.
pub(super) fn namespaces_differ(input: &Input) -> bool {
    let header = &input.run.header;
    let route = header.floors.as_ref().and_then(|floors| floors.route.as_ref());
    machines_differ(input) || route.is_some_and(|route| route.kind == DeviceKind::Veth)
}

/// Messages that were sent while the counters ran. Trimmed ones count in the kernel as well.
pub(super) struct Sent {
    /// The measured ones, and the trimmed ones where their number is recorded.
    pub(super) least: u64,
    /// With as many trimmed ones as the plan allows where it is not.
    pub(super) most: u64,
}

/// Messages of a case that were sent while its counters ran.
pub(super) fn sent(input: &Input, case: &CaseSummary) -> Sent {
    let trim = input.plan.trim * u64::from(case.case.connections);
    let mut sent = Sent { least: 0, most: 0 };
    for round in &input.all[case.case.id as usize] {
        let messages = sender(input.plan, round).delivery.sent;
        let trimmed = round.first.total();
        sent.least += messages + trimmed;
        sent.most += messages + if trimmed > 0 { trimmed } else { trim };
    }
    sent
}

/// Whether a count fits: not below 49 in 50 of the least events that must have been counted, and not above the most
/// that the messages can have caused by more than as much. What is above came from others in the namespace.
pub(super) fn fits(count: u64, least: u64, most: u64) -> bool {
    least > 0 && count as f64 >= least as f64 * FIT && count as f64 * FIT <= most as f64
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_count_fits_within_one_in_fifty() {
        assert!(fits(49, 50, 50) && fits(51, 50, 50) && fits(50, 50, 200));
        assert!(!fits(48, 50, 50) && !fits(52, 50, 50) && !fits(0, 0, 10) && !fits(300, 50, 200));
    }
}
