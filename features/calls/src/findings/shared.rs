//! What the sentences on calls share.

use msgpath_analyse::findings::Input;
use msgpath_analyse::logs::Pulled;

use crate::analyse::{RpcKind, RpcSummary};
use crate::log;
use crate::record::{RpcFacts, RpcPair, RpcRow};
use msgpath_analyse::summary::Confidence;
use msgpath_stats::quantile::Quantile;

/// Facts and summary of a run of calls.
pub(super) fn calls<'a>(input: &Input<'a>) -> Option<(&'a RpcFacts, &'a RpcSummary)> {
    Some((input.run.header.parts.get::<RpcFacts>()?, input.summary.sections.get::<RpcSummary>()?))
}

/// The log of calls; empty where nobody read one.
pub(super) fn log<'a>(input: &Input<'a>) -> &'a Pulled<RpcRow> {
    log::log(input.logs)
}

/// The kinds of calls of a run.
pub(super) fn kinds<'a>(input: &Input<'a>) -> impl Iterator<Item = &'a RpcKind> {
    calls(input).into_iter().flat_map(|(_, rpc)| &rpc.kinds)
}

/// `write: ` where the run has several kinds of calls, else nothing.
pub(super) fn of(input: &Input, kind: &RpcKind) -> String {
    if kinds(input).count() > 1 { format!("{}: ", kind.method) } else { String::new() }
}

/// `10.9.0.1 and 10.9.0.2`.
pub(super) fn ends(pair: &RpcPair) -> String {
    format!("{} and {}", pair.client, pair.server)
}

/// `1 call`, `12 calls`.
pub(super) fn counted(count: u64) -> String {
    if count == 1 { "1 call".into() } else { format!("{} calls", count) }
}

/// The answered calls of a case that succeeded, in the order of time: of a long log a sample of them.
pub(super) fn good<'a>(input: &Input<'a>, case: u32) -> Vec<&'a RpcRow> {
    let mut rows: Vec<&RpcRow> = log(input).sample().iter().filter(|row| row.case == case && row.is_good()).collect();
    rows.sort_unstable_by_key(|row| row.start_ns);
    rows
}

/// Fewer calls in a half of the run prove nothing.
const HALF: usize = 10;

/// `sure` where what is said holds in both halves of the run, each with some calls; else `likely`.
pub(super) fn in_halves(rows: &[&RpcRow], holds: impl Fn(&[&RpcRow]) -> bool) -> Confidence {
    let (first, second) = rows.split_at(rows.len() / 2);
    let both = first.len() >= HALF && holds(first) && holds(second);
    if both { Confidence::Sure } else { Confidence::Likely }
}

/// Share of the calls' time that a part of them takes, 0 to 1; `None` where nobody measured the part.
pub(super) fn share(rows: &[&RpcRow], part: fn(&RpcRow) -> Option<u64>) -> Option<f64> {
    let known = rows.iter().filter_map(|row| Some((part(row)? as f64, row.latency_ns? as f64)));
    let (part, all) = known.fold((0.0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    (all > 0.0).then(|| part / all)
}

/// The median among quantiles, ns.
pub(super) fn median_of(quantiles: &[Quantile]) -> Option<u64> {
    quantiles.iter().find(|quantile| quantile.p == 0.5)?.ns
}

/// Median of T4 - T1, ns.
pub(super) fn median(rows: &[&RpcRow]) -> Option<f64> {
    let mut values: Vec<u64> = rows.iter().filter_map(|row| row.latency_ns).collect();
    let at = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(at).1 as f64)
}
