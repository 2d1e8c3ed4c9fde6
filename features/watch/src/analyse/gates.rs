//! Gates of watched programs (`--fail-if`): judged as those of a run, with parts of the time in the place of rounds.

use msgpath_analyse::gates::{Outcome, RunGate, gathered, scaled, settle};
use msgpath_core::gate::{Gate, Limit, Watched};
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::watch::Times;
use msgpath_core::{Histogram, SparseHistogram};
use msgpath_stats::level::{Level, cuts, of_quantiles, of_values};

use super::WatchedServer;
use crate::record::Slice;

/// Resampling draws the same every time.
const SEED: u64 = 83;

/// What the gates come to for each server, by its number.
pub(super) fn judge(gates: &[Gate], slices: &[Slice], servers: &[(u32, &WatchedServer)]) -> Vec<RunGate> {
    let gates: Vec<&Gate> = gates.iter().filter(|gate| !gate.is_relative()).collect();
    let pairs = gates.iter().flat_map(|gate| servers.iter().map(move |(number, server)| (*gate, *number, *server)));
    let mut outcomes: Vec<Outcome> =
        pairs.map(|(gate, number, server)| outcome(gate, slices, number, server)).collect();
    settle(&mut outcomes);
    let mut outcomes = outcomes.into_iter();
    let name = |server: &WatchedServer| {
        server.port.map_or_else(|| server.name.clone(), |port| format!("{}:{port}", server.name))
    };
    let named: Vec<(u32, String)> = servers.iter().map(|(number, server)| (*number, name(server))).collect();
    gates.iter().map(|gate| gathered(gate, &named, outcomes.by_ref().take(named.len()))).collect()
}

fn outcome(gate: &Gate, slices: &[Slice], number: u32, server: &WatchedServer) -> Outcome {
    let Limit::Value(value) = gate.limit else { return Outcome::default() };
    let limit = scaled(value, gate.watched);
    if gate.watched != Watched::Rate
        && let Some(why) = &server.not_split
    {
        return Outcome::unknown(why.clone());
    }
    match level(gate.watched, slices, number) {
        Ok(level) => {
            Outcome::of(level, gate, limit, limit, "the range has the limit in it: a longer time would decide")
        }
        Err(why) => Outcome::unknown(why),
    }
}

/// The requests of a server in each part; parts without any have no latency.
fn level(watched: Watched, slices: &[Slice], number: u32) -> Result<Level, String> {
    let of =
        |slice: &Slice| slice.times.iter().find(|(service, _)| *service == number).map(|(_, times)| histogram(times));
    let left = |slice: &Slice| slice.not_followed.iter().find(|(service, _)| *service == number).map_or(0, |(_, n)| *n);
    let parts: Vec<(u64, SparseHistogram, u64)> =
        slices.iter().map(|slice| (slice.ns, of(slice).unwrap_or_default(), left(slice))).collect();
    let timed: Vec<&SparseHistogram> =
        parts.iter().map(|(_, times, _)| times).filter(|times| times.total() > 0).collect();
    let count = if watched == Watched::Rate { parts.len() } else { timed.len() };
    if count < MIN_ROUNDS_FOR_CLAIMS as usize {
        return Err(format!(
            "it takes requests in at least {MIN_ROUNDS_FOR_CLAIMS} parts of a quarter of a second, have {count}"
        ));
    }
    let cuts = cuts(&vec![0; count]);
    let values: Option<Vec<f64>> = match watched {
        Watched::Quantile(p) => return of_quantiles(&timed, &cuts, &[p], SEED).remove(0),
        Watched::Mean => timed.iter().map(|times| times.mean().map(f64::ln)).collect(),
        Watched::Rate => {
            let rate = |(ns, times, left): &(u64, SparseHistogram, u64)| {
                ((times.total() + left) as f64 / (*ns).max(1) as f64 * 1e9).max(1e-3)
            };
            Some(parts.iter().map(|part| rate(part).ln()).collect())
        }
        _ => None,
    };
    values.map(|values| of_values(&values, &cuts)).ok_or_else(|| format!("watched programs have no {watched}"))
}

fn histogram(times: &Times) -> SparseHistogram {
    let mut histogram = Histogram::new();
    for (bucket, count) in &times.0 {
        let (from, to) = Times::range(*bucket);
        histogram.record_n((from + to) / 2, *count);
    }
    histogram.to_sparse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::gates::GateState::{self, Failed, Passed, Undecided};

    fn states(slices: usize, gates: &[&str]) -> Vec<GateState> {
        // 1000 requests of 19 to 21 µs in each part.
        let part = |part: usize| Slice {
            ns: 250_000_000,
            times: vec![(2, Times((0..40).map(|n| (Times::bucket(19_000 + n * 50), 25 + part as u64 % 3)).collect()))],
            ..Slice::default()
        };
        let slices: Vec<Slice> = (0..slices).map(part).collect();
        let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        let server = WatchedServer { name: "redis-server".into(), port: Some(6379), ..WatchedServer::default() };
        let judged = judge(&gates, &slices, &[(2, &server)]);
        assert!(judged.iter().all(|gate| gate.cases.len() == 1 && gate.cases[0].name == "redis-server:6379"));
        judged.iter().map(|gate| gate.state).collect()
    }

    #[test]
    fn limits_are_judged_by_parts_of_the_time() {
        let gates = ["p90 > 1us", "p90 > 1ms", "mean > 10us", "mean > 30us", "rate < 100k msg/s", "rate < 10 msg/s"];
        assert_eq!(states(40, &gates), [Failed, Passed, Failed, Passed, Failed, Passed]);
        assert_eq!(states(3, &["p50 > 1us", "rate < 1 msg/s"]), [Undecided; 2]);
    }

    #[test]
    fn what_is_not_split_is_not_decided() {
        let server = WatchedServer { not_split: Some("several in flight".into()), ..WatchedServer::default() };
        let judged = judge(&["p99 > 1ms".parse().unwrap()], &[], &[(0, &server)]);
        assert_eq!((judged[0].state, judged[0].cases[0].because.as_deref()), (Undecided, Some("several in flight")));
    }
}
