//! Cases of closed-loop echoes, round by round.

use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::threads::arrangement;
use msgpath_core::plan::{Case, Load, Workload};
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::size;
use msgpath_stats::estimate::{Estimate, log_estimate};

use crate::answers::Part;

/// A case of a closed-loop echo with its rounds.
pub(super) struct Measured<'a> {
    pub(super) part: Part<'a>,
    pub(super) summary: &'a CaseSummary,
    pub(super) rounds: Vec<&'a RoundRecord>,
}

impl Measured<'_> {
    pub(super) fn case(&self) -> &Case {
        &self.summary.case
    }

    /// `tcp:send, 64 B, 4 connections, a thread each`.
    pub(super) fn name(&self) -> String {
        format!("{}, {}, {}", self.case().path, size(self.case().size), arrangement(self.case()))
    }

    /// Each round's value of `of`.
    pub(super) fn over_rounds(&self, of: impl Fn(&RoundRecord) -> Option<f64>) -> Option<Estimate> {
        log_estimate(&self.rounds.iter().filter_map(|round| of(round)).collect::<Vec<_>>())
    }

    pub(super) fn rate(&self) -> Option<f64> {
        self.summary.rate_per_s.as_ref().map(|rate| rate.value)
    }
}

/// Every such case of these runs.
pub(super) fn echoes<'a>(parts: &[Part<'a>]) -> Vec<Measured<'a>> {
    let timed = parts.iter().filter(|part| part.workload() == Workload::Echo);
    let cases = timed.flat_map(|part| part.measured().map(|summary| (*part, summary)).collect::<Vec<_>>());
    let closed = cases.filter(|(_, summary)| summary.case.load == Load::Closed);
    closed.map(|(part, summary)| Measured { part, summary, rounds: part.rounds(&summary.case) }).collect()
}

/// Every measured case of these runs.
pub(super) fn all<'a>(parts: &[Part<'a>]) -> impl Iterator<Item = (Part<'a>, &'a CaseSummary)> {
    parts.iter().flat_map(|part| part.measured().map(move |case| (*part, case)))
}

/// Switches of both ends.
pub(super) fn switches(round: &RoundRecord) -> u64 {
    [round.near(), round.far()].iter().map(|end| end.voluntary_switches + end.involuntary_switches).sum()
}
