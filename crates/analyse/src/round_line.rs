//! One finished round in numbers, for programs that follow a run while it goes on (`--jsonl`). What the run comes to, only all
//! of its rounds tell.

use std::collections::BTreeMap;

use msgpath_core::carried::Carried;
use msgpath_core::plan::{CaseRole, Plan};
use msgpath_core::schema::RoundRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::name;
use crate::series::{per_second, receiver, sender};

/// The version of [`RoundLine`] as JSON.
pub const SCHEMA: &str = "msgpath/round/1";

/// A round that was recorded, with `--jsonl`: a line each, in the order in which they were measured.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "Round")]
pub struct RoundLine {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Name of the run.
    pub run: String,
    /// Rounds recorded, this one included.
    pub done: u64,
    /// Rounds planned so far; a run may go on.
    pub of: u64,
    /// Id of the case.
    pub case: u32,
    /// The case, as it is printed.
    pub name: String,
    /// Why the case is measured: the numbers of a control or an ablation are not those that were asked for.
    pub role: CaseRole,
    /// Pass, from 0.
    pub pass: u32,
    /// Restart, from 0.
    pub restart: u32,
    /// When it began, ns since the start of the run.
    pub start_ns: u64,
    /// How long it took, ns: by the clock of the near end, of a stream by that of the receiver.
    pub elapsed_ns: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages that arrived: round trips, of a stream at the receiver.
    pub received: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Messages that arrived, a second.
    pub messages_per_s: Option<f64>,
    /// Payload bits a second on the receiver's clock; streams only.
    pub bits_per_s: Option<f64>,
    /// Fastest message, ns.
    pub fastest_ns: Option<u64>,
    /// Median, ns. Of one round: it has no interval.
    pub p50_ns: Option<u64>,
    /// 90 of 100 messages were at most as slow, ns.
    pub p90_ns: Option<u64>,
    /// 99 of 100 messages were at most as slow, ns.
    pub p99_ns: Option<u64>,
    /// Slowest message that arrived, ns.
    pub slowest_ns: Option<u64>,
    /// Conditions that were lost during the round.
    pub flags: Vec<String>,
    /// For each null: why it is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub why: BTreeMap<String, String>,
}

/// A round of the run `run`, number `done` of `of`. `None`: the plan has no such case.
pub fn round_line(run: &str, plan: &Plan, round: &RoundRecord, done: u64, of: u64) -> Option<RoundLine> {
    let case = plan.cases.get(round.case as usize)?;
    let timed = plan.workload.timed;
    let (elapsed_ns, sent, received, lost, bits) = if timed {
        let near = round.near();
        (near.elapsed_ns, near.delivery.sent, near.delivery.received, near.delivery.lost, None)
    } else {
        let end = receiver(plan, round);
        let sent = sender(plan, round).delivery.sent;
        let received = end.delivery.received;
        let lost = end.delivery.lost.max(sent.saturating_sub(received));
        let carried = Carried::of(plan, round);
        (carried.ns, sent, received, lost, carried.bits_per_s())
    };
    let latency = &round.latency;
    let quantile = |p| latency.quantile(p).flatten();
    let mut line = RoundLine {
        schema: SCHEMA.into(),
        run: run.into(),
        done,
        of,
        case: case.id,
        name: name(case),
        role: case.role,
        pass: round.pass,
        restart: round.restart,
        start_ns: round.start_ns,
        elapsed_ns,
        sent,
        received,
        lost,
        messages_per_s: per_second(received as f64, elapsed_ns),
        bits_per_s: bits,
        fastest_ns: latency.min(),
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        slowest_ns: latency.max(),
        flags: round.flags.clone(),
        why: BTreeMap::new(),
    };
    let arrived = received > 0;
    let untimed = "the messages of a stream are not timed one by one";
    let bits_why = if timed { "messages that are timed one by one are not a stream" } else { "nothing arrived" };
    let times = [
        ("fastest_ns", line.fastest_ns),
        ("p50_ns", line.p50_ns),
        ("p90_ns", line.p90_ns),
        ("p99_ns", line.p99_ns),
        ("slowest_ns", line.slowest_ns),
    ];
    let missing = times.into_iter().filter(|(_, value)| value.is_none()).map(|(field, _)| {
        let why = match (timed, arrived) {
            (false, _) => untimed,
            (true, true) => "it is a lost message",
            (true, false) => "nothing arrived",
        };
        (field, why)
    });
    let rates = [("messages_per_s", line.messages_per_s, "nothing arrived"), ("bits_per_s", line.bits_per_s, bits_why)];
    let rates = rates.into_iter().filter(|(_, value, _)| value.is_none()).map(|(field, _, why)| (field, why));
    line.why = missing.chain(rates).map(|(field, why)| (field.to_owned(), why.to_owned())).collect();
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;
    use msgpath_core::Histogram;

    #[test]
    fn an_echo_has_times_and_a_stream_has_bits() {
        let run = Build::echo(&["tcp:send"], &[64]).run();
        let line = round_line("calm-heron", &run.header.plan, &run.rounds[3], 4, 40).unwrap();
        assert_eq!((line.done, line.of, line.pass, line.name.as_str()), (4, 40, 3, "tcp:send 64 B"));
        assert!(line.p50_ns <= line.p99_ns && line.p50_ns.is_some() && line.bits_per_s.is_none(), "{line:?}");
        assert_eq!(line.why.keys().collect::<Vec<_>>(), ["bits_per_s"], "{line:?}");
        let run = Build::stream(&["tcp:send"], &[1000]).run();
        let line = round_line("calm-heron", &run.header.plan, &run.rounds[0], 1, 40).unwrap();
        assert!((line.bits_per_s.unwrap() / 1e9 - 1.0).abs() < 0.1 && line.messages_per_s.is_some(), "{line:?}");
        assert_eq!(line.why.len(), 5, "{line:?}");
        assert!(line.why["p50_ns"].contains("not timed"));
        let stranger = RoundRecord { case: 9, ..RoundRecord::default() };
        assert_eq!(round_line("calm-heron", &run.header.plan, &stranger, 1, 1), None);
    }

    #[test]
    fn a_lost_message_is_no_time() {
        let mut run = Build::echo(&["udp:send"], &[64]).run();
        let mut histogram = Histogram::new();
        histogram.record_n(20_000, 9);
        histogram.record_lost(1);
        run.rounds[0].latency = histogram.to_sparse();
        let line = round_line("calm-heron", &run.header.plan, &run.rounds[0], 1, 40).unwrap();
        assert_eq!((line.p50_ns.is_some(), line.p99_ns), (true, None));
        assert_eq!(line.why["p99_ns"], "it is a lost message");
    }
}
