//! What goes through the calls of a run holds a round of them, however many the run has.

use std::path::Path;

use msgpath_analyse::logs::SAMPLED;
use msgpath_analyse::testing::finished;
use msgpath_analyse::verify::verify_with;
use msgpath_analyse::{Logs, section, summarise_with};
use msgpath_calls::analyse::RpcSummary;
use msgpath_calls::log::log;
use msgpath_calls::present;
use msgpath_calls::record::{RpcFacts, RpcPair, RpcRow};
use msgpath_calls::section::SECTION;
use msgpath_core::plan::{Case, Plan};
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName};
use msgpath_present::html::{self, Scene};
use msgpath_record::{NO_MESSAGES, Run, RunWriter};

/// Calls of a round.
const ROUND: u64 = 2_000;

/// A run of calls between two machines, in so many rounds.
fn called(folder: &Path, rounds: u32) -> (Run, Logs) {
    let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
    let plan = Plan { rounds, message_log: 0, ..Plan::new(&msgpath_calls::workload::CALLS, vec![case]) };
    section::add(&SECTION);
    msgpath_present::section::add(&present::SECTION);
    msgpath_core::workload::add(&msgpath_calls::workload::CALLS);
    let mut header = RunHeader::new("long", "rpc", plan);
    let pair = RpcPair { client: "10.0.0.1".into(), server: "10.0.0.2".into(), same_machine: None };
    header.parts.set(RpcFacts { pairs: vec![pair], client_step_ns: 1, server_step_ns: 1, ..RpcFacts::default() });
    let mut writer = RunWriter::create(folder, &header).unwrap();
    let mut now = 0;
    for pass in 0..rounds {
        let start_ns = now;
        let mut histogram = Histogram::new();
        let mut rows = Vec::new();
        for sequence in 0..ROUND {
            let there = 60_000 + sequence * 7_919 % 40_000;
            let latency = there + 5_000 + 50_000 + sequence * 104_729 % 60_000;
            histogram.record(latency);
            rows.push(RpcRow {
                pass,
                rpcid: pass * ROUND as u32 + sequence as u32 + 1,
                start_ns: now,
                latency_ns: Some(latency),
                received_ns: Some(there as i64 - 3_000_000),
                replied_ns: Some(there as i64 - 2_995_000),
                waited_ns: Some(1_000),
                request_bytes: 64,
                reply_bytes: 64,
                ..RpcRow::default()
            });
            now += latency + 200;
        }
        let mut round =
            RoundRecord { pass, start_ns, batch: 1, latency: histogram.to_sparse(), ..RoundRecord::default() };
        let end = round.near_mut();
        (end.delivery.sent, end.delivery.received) = (ROUND, ROUND);
        (end.bytes_sent, end.bytes_received) = (ROUND * 64, ROUND * 64);
        (end.elapsed_ns, end.user_ns) = (now - start_ns, ROUND * 1_000);
        writer.round(&round, &[]).unwrap();
        writer.rows::<RpcRow>(&rows).unwrap();
    }
    let run = finished(writer, folder);
    let logs = Logs::of(&run).unwrap();
    (run, logs)
}

#[test]
fn four_times_the_calls_do_not_take_more_memory() {
    // Beyond the calls of which a sample is kept.
    let rounds = SAMPLED as u32 / ROUND as u32 + 2;
    let peaks = |rounds: u32| {
        let place = tempfile::tempdir().unwrap();
        let (run, logs) = called(place.path(), rounds);
        let peak = |work: &dyn Fn(&Logs)| {
            let of = |logs: &Logs| allocation_counter::measure(|| work(logs)).bytes_max;
            of(&logs).saturating_sub(of(&Logs::default()))
        };
        let stored = serde_json::to_vec(&summarise_with(&run, &logs)).unwrap();
        let verified = |logs: &Logs| {
            let check = verify_with(&run, &NO_MESSAGES, logs, Some(&stored), &run.header.version);
            let whole = if log(logs).is_empty() { 0 } else { 1 };
            assert_eq!(check.cases_from_messages, whole, "{:?}", check.disagreements);
        };
        let summary = summarise_with(&run, &logs);
        let kind = &summary.sections.get::<RpcSummary>().unwrap().kinds[0];
        assert_eq!((kind.calls, kind.bands.len()), (u64::from(rounds) * ROUND, 3));
        let reported = |logs: &Logs| {
            let messages = html::Messages { embed: 1_000, ..html::Messages::default() };
            let page = html::report(&Scene { messages, logs: Some(logs), ..Scene::new(&run, &summary) });
            assert_eq!(page.contains("id=\"calls-log\""), !log(logs).is_empty());
        };
        [("verify", peak(&verified)), ("report", peak(&reported))]
    };
    let added = 3 * u64::from(rounds) * ROUND;
    for ((what, few), (_, many)) in peaks(rounds).into_iter().zip(peaks(4 * rounds)) {
        let more = many.saturating_sub(few) as f64 / added as f64;
        assert!(more < 5.0, "{what}: {few} bytes became {many}, {more:.1} a call");
    }
}
