//! The one number per round that comparisons are made of, by pass.

use std::collections::BTreeMap;

use msgpath_core::plan::{Case, Plan, Workload};
use msgpath_core::schema::{EndReport, RoundRecord};

/// Metric of a case by pass number. Only finite, positive values.
pub type Series = BTreeMap<u32, f64>;

/// The end that receives a stream.
pub fn receiver<'a>(plan: &Plan, round: &'a RoundRecord) -> &'a EndReport {
    if plan.reverse { &round.near } else { &round.far }
}

/// The end that sends a stream.
pub fn sender<'a>(plan: &Plan, round: &'a RoundRecord) -> &'a EndReport {
    if plan.reverse { &round.far } else { &round.near }
}

/// Events per second from a count and a time in ns; `None` where either is 0.
pub fn per_second(count: f64, elapsed_ns: u64) -> Option<f64> {
    (elapsed_ns > 0 && count > 0.0).then(|| count * 1e9 / elapsed_ns as f64)
}

/// p50 of the round, ns (echo), or the receiver's payload bits per second on the receiver's clock (stream).
pub fn metric(plan: &Plan, round: &RoundRecord) -> Option<f64> {
    match plan.workload {
        Workload::Echo => round.latency.quantile(0.5).flatten().map(|ns| ns as f64).filter(|ns| *ns > 0.0),
        Workload::Stream => {
            let end = receiver(plan, round);
            per_second(end.bytes_received as f64 * 8.0, end.elapsed_ns)
        }
    }
}

/// [`metric`] of each of the rounds that has one.
pub fn series(plan: &Plan, rounds: &[&RoundRecord]) -> Series {
    rounds.iter().filter_map(|round| Some((round.pass, metric(plan, round)?))).collect()
}

/// Logarithms of `case / baseline` for the passes that both have, by pass: the pairing of method.md 3.4.
pub fn log_ratios(case: &Series, baseline: &Series) -> Vec<(u32, f64)> {
    case.iter().filter_map(|(pass, value)| Some((*pass, (value / baseline.get(pass)?).ln()))).collect()
}

/// Whether two cases differ in nothing but the path.
pub fn same_cell(a: &Case, b: &Case) -> bool {
    cell(a) == cell(b)
}

/// What two cases must share to be compared; orders cells by size, pieces, then threads.
pub(crate) fn cell(case: &Case) -> (u64, u32, u64, u32, u32, u32) {
    (case.size, case.pieces.count, case.reply, case.threads, case.connections, case.inflight)
}
