//! TEST DATA: calls of a key-value server on another machine, whose clock is behind.

use msgpath_analyse::Summary;
use msgpath_analyse::logs::{Logs, Pulled};
use msgpath_core::plan::*;
use msgpath_core::schema::*;
use msgpath_record::Run;

use crate::analyse::*;
use crate::record::{RpcFacts, RpcPair, RpcRow, Wire};
pub use msgpath_present::fixture::*;

/// The log of these calls.
pub(crate) fn logs(rows: &[RpcRow]) -> Logs {
    Logs::default().with(Pulled::from(rows.to_vec()))
}

/// How far the server's clock is behind, ns.
const BEHIND: i64 = 2_978_000;
/// Half of the width of what the clocks leave open, ns.
const WITHIN: f64 = 120_000.0;

/// A kind of call: name, bytes of request and reply, and its usual parts in ns: send call, request path, server wait,
/// lock, work, reply path.
const KINDS: [(&str, u64, u64, [u64; 6]); 3] = [
    ("ping", 156, 156, [6_000, 110_000, 4_000, 0, 2_000, 128_000]),
    ("write", 1_000_101, 88, [310_000, 8_100_000, 12_000, 40_000, 1_060_000, 60_000]),
    ("read", 97, 1_000_092, [7_000, 105_000, 6_000, 15_000, 640_000, 8_450_000]),
];

/// One call: the first of a connection works longer, one in 40 waits for the lock.
fn call(kind: usize, n: u64) -> RpcRow {
    let (_, request_bytes, reply_bytes, [send, path, wait, lock, work, reply]) = KINDS[kind];
    let wobble = |ns: u64, salt: u64| ns + ns * ((n * 7 + salt * 13) % 10) / 40;
    let lock = if n % 40 == 17 { lock + 3_000_000 } else { lock };
    let work = if n < 2 { work + 1_000_000 } else { wobble(work, 4) };
    let received = wobble(send, 1) + wobble(path, 2) + wobble(wait, 3);
    let replied = received + lock + work;
    let mut key = [0; 16];
    key[..5].copy_from_slice(b"kkkkk");
    let unanswered = kind == 0 && n == 30;
    RpcRow {
        case: kind as u32,
        pass: (n / 10) as u32,
        pair: 0,
        connection: (n % 2) as u32,
        rpcid: 8_192 + (n as u32 * 3 + kind as u32) * 977,
        parent: if kind == 2 && n % 9 == 4 { 8_192 + (n as u32 * 3 + 1) * 977 } else { 0 },
        status: u32::from(kind == 2 && n % 25 == 11),
        request_bytes,
        reply_bytes,
        lengths_estimated: false,
        key,
        start_ns: 1_000_000 + n * 24_000_000 + kind as u64 * 700_000 + if kind == 2 { 11_000_000 } else { 0 },
        latency_ns: (!unanswered).then_some(replied + wobble(reply, 5)),
        received_ns: (!unanswered).then_some(received as i64 - BEHIND),
        replied_ns: (!unanswered).then_some(replied as i64 - BEHIND),
        sent_ns: Some(wobble(send, 1)),
        first_ns: (!unanswered).then_some(replied + wobble(reply, 5) / 3),
        waited_ns: Some(wobble(wait, 3)),
        lock_ns: Some(lock),
        ..RpcRow::default()
    }
}

fn band(name: &str, calls: u64, parts: [(RpcStage, f64); 6]) -> RpcBand {
    let within = |stage| match stage {
        RpcStage::RequestPath | RpcStage::ReplyPath => WITHIN,
        _ => 0.0,
    };
    RpcBand {
        name: name.into(),
        calls,
        latency_ns: parts.iter().map(|(_, ns)| ns).sum(),
        parts: parts.into_iter().map(|(stage, ns)| RpcPart { stage, ns, within_ns: within(stage) }).collect(),
    }
}

fn kind(at: usize, rows: &[RpcRow]) -> RpcKind {
    use RpcStage::{ClientSend, LockWait, ReplyPath, RequestPath, ServerWait, ServerWork};
    let (method, request, reply, parts) = KINDS[at];
    let rows: Vec<&RpcRow> = rows.iter().filter(|row| row.case == at as u32).collect();
    let stages = [ClientSend, RequestPath, ServerWait, LockWait, ServerWork, ReplyPath];
    let split = |factor: f64, lock: f64| {
        let mut split = [(ClientSend, 0.0); 6];
        for (slot, (stage, ns)) in split.iter_mut().zip(stages.into_iter().zip(parts)) {
            *slot = (stage, ns as f64 * factor + if stage == LockWait { lock } else { 0.0 });
        }
        split
    };
    let times: Vec<u64> = rows.iter().filter_map(|row| row.latency_ns).collect();
    let mut log2_us = vec![0; 32];
    times.iter().for_each(|ns| log2_us[(ns / 1_000).max(1).ilog2() as usize] += 1);
    let p50: u64 = parts.iter().sum();
    let mut later = times.clone();
    later.sort_unstable();
    RpcKind {
        case: at as u32,
        method: method.into(),
        calls: rows.len() as u64,
        failed: rows.iter().filter(|row| row.status != 0).count() as u64,
        unanswered: rows.iter().filter(|row| row.latency_ns.is_none()).count() as u64,
        request_bytes: Some(request as f64),
        reply_bytes: Some(reply as f64),
        wall_ns: 2_880_000_000,
        response_ns: times.iter().sum(),
        first_ns: times[..2].to_vec(),
        later_p50_ns: Some(later[later.len() / 2]),
        expected: (at > 0).then(|| RpcExpected {
            estimate_ns: 10_100_000.0,
            measured_ns: p50 as f64,
            factor: p50 as f64 / 10_100_000.0,
            largest: None,
        }),
        bands: vec![
            band("all", times.len() as u64, split(1.06, 75_000.0)),
            band("p50", 40, split(1.0, 0.0)),
            band("p99", 8, split(1.2, 3_000_000.0)),
        ],
        wire_ns: Some(WireEstimate { request: request as f64 * 8.0, reply: reply as f64 * 8.0 }),
        log2_us,
        ..RpcKind::default()
    }
}

/// Three kinds of calls over a wire of 1 Gbit/s.
pub(crate) fn rpc() -> (Run, Summary, Vec<RpcRow>) {
    let mut rows: Vec<RpcRow> = (0..120).flat_map(|n| (0..3).map(move |kind| call(kind, n))).collect();
    rows.sort_by_key(|row| row.start_ns);
    let cases = KINDS.iter().enumerate().map(|(at, (method, request, reply, parts))| {
        let case = Case { reply: *reply, label: Some((*method).into()), ..case(at as u32, "tcp:send", *request, 1) };
        (Case { connections: 2, ..case }, parts.iter().sum::<u64>() as f64)
    });
    let (mut run, mut summary) = build("rpc", &crate::workload::CALLS, cases.collect());
    run.header.floors = Some(Floors {
        route: Some(Route {
            to: "10.9.0.2".into(),
            from: "10.9.0.1".into(),
            device: "eth0".into(),
            kind: DeviceKind::Nic,
            mtu: Some(1_500),
            bits_per_s: Some(1_000_000_000),
        }),
        ..Floors::default()
    });
    let facts = RpcFacts {
        protocol: "lab".into(),
        server: "msgpath".into(),
        begin_unix_us: 1_700_000_000_000_000,
        client_step_ns: 1,
        server_step_ns: 1_000,
        pairs: vec![RpcPair { client: "10.9.0.1".into(), server: "10.9.0.2".into(), same_machine: None }],
        wire: Some(Wire { bits_per_s: 1_000_000_000, from: "link speed of eth0".into() }),
        ..RpcFacts::default()
    };
    run.header.parts.set(facts.clone());
    summary.sections.set(RpcSummary {
        facts,
        kinds: (0..KINDS.len()).map(|at| kind(at, &rows)).collect(),
        clocks: vec![PairClock {
            pair: 0,
            same: false,
            pieces: vec![ClockPiece {
                from_ns: 0,
                to_ns: 2_900_000_000,
                offset_ns: BEHIND as f64,
                within_ns: WITHIN,
                drift: 0.0,
                drift_known: false,
                ..ClockPiece::default()
            }],
            text: "offset +2.98 ms, within ±120 µs; drift not determined, taken as 0".into(),
            contradicting: 0,
        }],
        ..RpcSummary::default()
    });
    (run, summary, rows)
}

/// The same on one machine, without stamps of the client's send call, imported.
pub(crate) fn rpc_here() -> (Run, Summary, Vec<RpcRow>) {
    let (mut run, mut summary, mut rows) = rpc();
    run.header.floors = None;
    run.header.imported = vec!["client.log".into(), "server.log".into()];
    if let Some(facts) = run.header.parts.get_mut::<RpcFacts>() {
        facts.wire = None;
        facts.server.clear();
        facts.pairs = vec![RpcPair {
            client: "127.0.0.1".into(),
            server: "127.0.0.1".into(),
            same_machine: Some("both addresses are the same".into()),
        }];
    }
    if let Some(rpc) = summary.sections.get_mut::<RpcSummary>() {
        rpc.clocks = vec![PairClock { same: true, text: "one clock".into(), ..PairClock::default() }];
        for kind in &mut rpc.kinds {
            (kind.wire_ns, kind.expected) = (None, None);
            for part in kind.bands.iter_mut().flat_map(|band| &mut band.parts) {
                part.within_ns = 0.0;
            }
        }
    }
    for row in &mut rows {
        let aligned = |ns: Option<i64>| ns.map(|ns| ns + BEHIND);
        (row.received_ns, row.replied_ns) = (aligned(row.received_ns), aligned(row.replied_ns));
        (row.sent_ns, row.first_ns, row.waited_ns, row.lock_ns) = (None, None, None, None);
    }
    (run, summary, rows)
}

/// [`rpc`] with text of others wherever a call carries some.
pub(crate) fn hostile_rpc() -> (Run, Summary, Vec<RpcRow>) {
    let (mut run, mut summary, mut rows) = rpc();
    for row in &mut rows {
        row.key.copy_from_slice(&b"</script><img sr"[..16]);
    }
    for case in run.header.plan.cases.iter_mut().chain(summary.cases.iter_mut().map(|case| &mut case.case)) {
        case.label = Some(HOSTILE.into());
    }
    if let Some(rpc) = summary.sections.get_mut::<RpcSummary>() {
        rpc.kinds.iter_mut().for_each(|kind| kind.method = HOSTILE.into());
        rpc.kinds.iter_mut().flat_map(|kind| &mut kind.bands).for_each(|band| band.name = HOSTILE.into());
        rpc.clocks.iter_mut().for_each(|clock| clock.text = HOSTILE.into());
    }
    if let Some(facts) = run.header.parts.get_mut::<RpcFacts>() {
        (facts.protocol, facts.server) = (HOSTILE.into(), HOSTILE.into());
        facts.wire = Some(Wire { bits_per_s: 1_000_000_000, from: HOSTILE.into() });
        facts.pairs = vec![RpcPair { client: HOSTILE.into(), server: HOSTILE.into(), same_machine: None }];
    }
    (run, summary, rows)
}
