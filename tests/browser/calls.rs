//! TEST DATA: the report of calls that nobody made, as large as wanted.

use std::path::{Path, PathBuf};

use msgpath_analyse::Summary;
use msgpath_analyse::logs::{Logs, Pulled};
use msgpath_calls::analyse::{ClockPiece, PairClock, RpcKind, RpcSummary, WireEstimate};
use msgpath_calls::record::{RpcFacts, RpcPair, RpcRow, Wire};
use msgpath_core::schema::{RunHeader, Status};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, PathName, Plan};
use msgpath_present::html::{self, Messages, Scene};
use msgpath_record::Run;

/// Names of the kinds of calls; the last one is not nice.
pub(crate) const METHODS: [&str; 3] = ["write", "read", "<b>&'\""];

/// Writes `calls.html` with so many calls, a third of each kind, into a folder: call n has the id n + 1, takes n mod 1000
/// and 20 µs, failed where n mod 100 is 7, has no reply where n is 9, and was made by its predecessor where n mod 10 is 3.
pub(crate) fn page(folder: &Path, count: u32) -> PathBuf {
    let path = PathName::new("tcp", "send", "block");
    let cases = (0..).zip(METHODS).map(|(id, method)| Case {
        id,
        connections: 4,
        label: Some(method.into()),
        ..Case::new(path.clone(), Pieces::whole(100))
    });
    let plan = Plan::new(&msgpath_calls::workload::CALLS, cases.collect());
    let mut header = RunHeader::new("test-data", "rpc", plan);
    header.parts.set(RpcFacts {
        protocol: "lab".into(),
        pairs: vec![RpcPair { client: "10.9.0.1".into(), server: "10.9.0.2".into(), same_machine: None }],
        wire: Some(Wire { bits_per_s: 1_000_000_000, from: "TEST DATA".into() }),
        ..RpcFacts::default()
    });
    let rows: Vec<RpcRow> = (0..count).map(row).collect();
    let mut summary = Summary::empty("test-data", "rpc", Status::Ok);
    let kind = |(case, method): (u32, &str)| RpcKind {
        case,
        method: method.into(),
        calls: rows.iter().filter(|row| row.case == case).count() as u64,
        request_bytes: Some(100.0),
        reply_bytes: Some(100.0),
        wire_ns: Some(WireEstimate { request: 800.0, reply: 800.0 }),
        ..RpcKind::default()
    };
    summary.sections.set(RpcSummary {
        kinds: (0..).zip(METHODS).map(kind).collect(),
        clocks: vec![PairClock {
            pieces: vec![ClockPiece { offset_ns: 5e6, within_ns: 3_000.0, ..ClockPiece::default() }],
            text: "offset +5.00 ms, within ±3.00 µs".into(),
            ..PairClock::default()
        }],
        ..RpcSummary::default()
    });
    let run = Run { folder: folder.into(), header, rounds: Vec::new(), end: None, damage: None };
    let messages = Messages { embed: count as usize, ..Messages::default() };
    let file = folder.join("calls.html");
    let logs = Logs::default().with(Pulled::from(rows.clone()));
    msgpath_present::section::add(&msgpath_calls::present::SECTION);
    let html = html::report(&Scene { messages, logs: Some(&logs), ..Scene::new(&run, &summary) });
    std::fs::write(&file, html).expect("a folder that can be written");
    file
}

fn row(n: u32) -> RpcRow {
    let latency = u64::from(n % 1_000 + 20) * 1_000;
    let mut key = [0; 16];
    let text = format!("key{:05}", n % 5_000);
    key[..text.len()].copy_from_slice(text.as_bytes());
    let answered = n != 9;
    RpcRow {
        case: n % 3,
        connection: n % 4,
        rpcid: n + 1,
        parent: if n % 10 == 3 { n } else { 0 },
        status: u32::from(n % 100 == 7),
        request_bytes: 100,
        reply_bytes: 100,
        key,
        start_ns: u64::from(n) * 30_000,
        latency_ns: answered.then_some(latency),
        received_ns: answered.then_some(latency as i64 / 3 - 5_000_000),
        replied_ns: answered.then_some(latency as i64 / 2 - 5_000_000),
        lock_ns: Some(latency / 12),
        waited_ns: Some(latency / 10),
        ..RpcRow::default()
    }
}
