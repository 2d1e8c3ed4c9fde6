//! Where the time of each kind of call goes.

use std::collections::BTreeMap;

use msgpath_core::Case;
use msgpath_core::schema::{RpcFacts, RpcRow};

use super::{AbsentWire, PairClock, RpcBand, RpcExpected, RpcKind, RpcPart, RpcStage, RpcTimes};

/// First calls of connections that are kept one by one.
const FIRST_KEPT: usize = 8;
/// Calls that a band of the tail needs, so that its means say something of more than one of them.
const TAIL_CALLS: usize = 10;
/// The two ways are told apart where the clocks leave a leg uncertain by at most this share of it
/// (docs/method/calls.md#parts-of-a-call).
const CERTAIN: f64 = 0.25;
/// Buckets of the lab's histogram.
const BUCKETS: usize = 32;

/// From the first T1 to the last T4, ns. Of our own runs each round for itself, summed: between two rounds the client reads
/// counters and writes the record, which is not a part of the calls. Slices of an imported log have no such gaps.
fn wall(facts: &RpcFacts, rows: &[&RpcRow]) -> u64 {
    let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let pass = if facts.imported.is_empty() { row.pass } else { 0 };
        let end = row.start_ns.saturating_add(row.latency_ns.unwrap_or(0));
        let span = spans.entry(pass).or_insert((row.start_ns, end));
        *span = (span.0.min(row.start_ns), span.1.max(end));
    }
    spans.values().map(|(begin, end)| end - begin).sum()
}

/// The numbers of one kind of call; `rows` are its calls, at least one, and `p50_ns` the median of its case.
pub(super) fn kind(
    case: &Case,
    facts: &RpcFacts,
    clocks: &[PairClock],
    mut rows: Vec<&RpcRow>,
    p50_ns: Option<u64>,
) -> RpcKind {
    rows.sort_unstable_by_key(|row| (row.start_ns, row.connection, row.rpcid));
    let answered: Vec<&RpcRow> = rows.iter().copied().filter(|row| row.latency_ns.is_some()).collect();
    // The server has replied; when that came only the client's log could tell.
    let unseen: Vec<&RpcRow> = rows.iter().copied().filter(|row| is_unseen(row)).collect();
    let fails = |rows: &[&RpcRow]| rows.iter().filter(|row| row.status != 0).count();
    let failed = fails(&answered) + fails(&unseen);
    // Failed calls are often short; they are apart unless there is nothing else.
    let good: Vec<&RpcRow> = match fails(&answered) == answered.len() {
        true => answered.clone(),
        false => answered.iter().copied().filter(|row| row.status == 0).collect(),
    };
    let latency = |row: &RpcRow| row.latency_ns.unwrap_or_default();
    let wall_ns = wall(facts, &rows);
    let (first_ns, later_p50_ns) = first(&good);
    let (bands, mut bands_why) = bands(facts, clocks, &good);
    if good.is_empty() && !unseen.is_empty() {
        bands_why = Some("T4 is not known: it is in the client's log only".into());
    }
    let mut log2_us = vec![0; BUCKETS];
    for row in &answered {
        let bucket = (latency(row) / 1000).max(1).ilog2() as usize;
        log2_us[bucket.min(BUCKETS - 1)] += 1;
    }
    RpcKind {
        case: case.id,
        method: case.label.clone().unwrap_or_else(|| case.path.to_string()),
        calls: rows.len() as u64,
        failed: failed as u64,
        unanswered: (rows.len() - answered.len() - unseen.len()) as u64,
        unseen: unseen.len() as u64,
        request_bytes: mean(rows.iter().map(|row| row.request_bytes as f64)).unwrap_or(0.0),
        reply_bytes: mean(answered.iter().chain(&unseen).map(|row| row.reply_bytes as f64)).unwrap_or(0.0),
        wall_ns,
        response_ns: answered.iter().fold(0, |sum: u64, row| sum.saturating_add(latency(row))),
        first_ns,
        later_p50_ns,
        expected: expected(case, facts, p50_ns, &bands),
        wire_ns: wire(facts, &good),
        absent_wire: absent_wire(facts, &good),
        log2_us,
        served: times(rows.iter().filter_map(|row| Some(row.replied_ns?.saturating_sub(row.received_ns?)))),
        received: times(rows.iter().filter_map(|row| row.received_ns)),
        first_byte: times(good.iter().filter_map(|row| i64::try_from(row.first_ns?).ok())),
        bands,
        bands_why,
    }
}

/// The server has replied, and T4 is not known: in a server's log, or where the client's log lacks the call.
pub(crate) fn is_unseen(row: &RpcRow) -> bool {
    row.latency_ns.is_none() && row.replied_ns.is_some()
}

/// Order statistics of a difference of two stamps; `None` where no call has both.
fn times(values: impl Iterator<Item = i64>) -> Option<RpcTimes> {
    let mut all: Vec<i64> = values.collect();
    all.sort_unstable();
    let last = all.len().checked_sub(1)?;
    let at = |p: f64| all[((p * all.len() as f64) as usize).min(last)];
    Some(RpcTimes { calls: all.len() as u64, least_ns: all[0], p50_ns: at(0.5), p90_ns: at(0.9), p99_ns: at(0.99) })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    let at = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(at).1)
}

/// T4 - T1 of the first call of each connection, and the median of the others.
fn first(rows: &[&RpcRow]) -> (Vec<u64>, Option<u64>) {
    let mut seen = BTreeMap::new();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for row in rows {
        let new = seen.insert(row.connection, ()).is_none();
        let kept = if new { &mut first } else { &mut later };
        kept.extend(row.latency_ns);
    }
    first.truncate(FIRST_KEPT);
    (first, median(later))
}

fn expected(case: &Case, facts: &RpcFacts, p50_ns: Option<u64>, bands: &[RpcBand]) -> Option<RpcExpected> {
    let estimate_ns = *facts.expect.get(&case.id).filter(|ns| **ns > 0)? as f64;
    let measured_ns = p50_ns? as f64;
    let near = bands.iter().find(|band| band.name == "p50").or(bands.first());
    let largest = near.and_then(|band| band.parts.iter().max_by(|a, b| a.ns.total_cmp(&b.ns)));
    Some(RpcExpected {
        estimate_ns,
        measured_ns,
        factor: measured_ns / estimate_ns,
        largest: largest.map(|part| (part.stage, part.ns)),
    })
}

/// Bits per second of the wire.
fn speed(facts: &RpcFacts) -> Option<f64> {
    facts.wire.as_ref().map(|(bits, _)| *bits as f64).filter(|bits| *bits > 0.0)
}

/// Whether a call may have gone over a wire.
fn is_networked(facts: &RpcFacts, row: &RpcRow) -> bool {
    facts.pairs.get(row.pair as usize).is_none_or(|pair| pair.same_machine.is_none())
}

/// What a wire would take for the mean call, where no call went over one.
fn absent_wire(facts: &RpcFacts, rows: &[&RpcRow]) -> Option<AbsentWire> {
    let bits = speed(facts).filter(|_| !rows.iter().any(|row| is_networked(facts, row)))?;
    let of = |bytes: fn(&RpcRow) -> u64| mean(rows.iter().map(|row| bytes(row) as f64 * 8e9 / bits));
    Some(AbsentWire { request_ns: of(|row| row.request_bytes)?, reply_ns: of(|row| row.reply_bytes)? })
}

/// Time of the bytes of request and reply on the wire at its speed, means in ns. In no call more than the time outside the
/// server, so that it contradicts no stamp.
fn wire(facts: &RpcFacts, rows: &[&RpcRow]) -> Option<(f64, f64)> {
    let bits = speed(facts)?;
    let each = rows.iter().filter(|row| is_networked(facts, row)).filter_map(|row| {
        let latency = row.latency_ns? as f64;
        let served = row.received_ns.zip(row.replied_ns).map_or(0.0, |(from, to)| to as f64 - from as f64);
        let outside = (latency - served).max(0.0);
        let on_wire = |bytes: u64| bytes as f64 * 8e9 / bits;
        let (request, reply) = (on_wire(row.request_bytes), on_wire(row.reply_bytes));
        let scale = if request + reply > outside { outside / (request + reply) } else { 1.0 };
        Some((request * scale, reply * scale))
    });
    let (sum, count) = each.fold(((0.0, 0.0), 0u64), |(sum, count), (a, b)| ((sum.0 + a, sum.1 + b), count + 1));
    (count > 0).then(|| (sum.0 / count as f64, sum.1 / count as f64))
}

/// The parts of one call, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    latency: f64,
    /// T2 - T1 and T4 - T3, as far as the clocks tell.
    request_leg: f64,
    reply_leg: f64,
    within: f64,
    sent: f64,
    wait: f64,
    lock: f64,
    work: f64,
}

impl Call {
    /// `None` without stamps of the server, and where they contradict the client's.
    fn of(row: &RpcRow, clocks: &[PairClock], step: f64) -> Option<Self> {
        let latency = row.latency_ns? as f64;
        let read = (row.received_ns? as f64, row.replied_ns? as f64);
        let served = read.1 - read.0;
        if served < -step || served > latency + step {
            return None;
        }
        let aligned = clocks.get(row.pair as usize).and_then(|clock| clock.aligned(row));
        let (received, replied, within) = aligned.unwrap_or((read.0, read.1, f64::INFINITY));
        let lock = (row.lock_ns.unwrap_or(0) as f64).min(served.max(0.0));
        Some(Self {
            latency,
            request_leg: received,
            reply_leg: latency - replied,
            within,
            sent: row.sent_ns.unwrap_or(0) as f64,
            // What the server says of itself counts as far as there is room for it.
            wait: (row.waited_ns.unwrap_or(0) as f64).min((latency - served).max(0.0)),
            lock,
            work: served - lock,
        })
    }

    /// The send call, until it returned or until the request could be read, whichever came first.
    fn send(&self, apart: bool) -> f64 {
        let room = if apart { self.request_leg } else { self.request_leg + self.reply_leg };
        self.sent.min((room - self.wait).max(0.0))
    }
}

/// The means of all calls, of those near the median and of those near p99; or why there is none.
fn bands(facts: &RpcFacts, clocks: &[PairClock], rows: &[&RpcRow]) -> (Vec<RpcBand>, Option<String>) {
    let step = facts.client_step_ns.saturating_add(facts.server_step_ns) as f64;
    let mut calls: Vec<(&RpcRow, Call)> =
        rows.iter().filter_map(|row| Some((*row, Call::of(row, clocks, step)?))).collect();
    if calls.is_empty() {
        let why = if rows.is_empty() {
            "no call was answered"
        } else if rows.iter().all(|row| row.received_ns.is_none() || row.replied_ns.is_none()) {
            "the server gives no stamps"
        } else {
            "the server's stamps contradict the client's"
        };
        return (Vec::new(), Some(why.into()));
    }
    calls.sort_by(|a, b| a.1.latency.total_cmp(&b.1.latency));
    let known = |field: fn(&RpcRow) -> Option<u64>| calls.iter().any(|(row, _)| field(row).is_some());
    let known =
        Known { send: known(|row| row.sent_ns), wait: known(|row| row.waited_ns), lock: known(|row| row.lock_ns) };
    let count = calls.len();
    let between = |from: f64, to: f64| {
        let (from, to) = ((from * count as f64) as usize, (to * count as f64).ceil() as usize);
        &calls[from.min(count - 1)..to.clamp(from.min(count - 1) + 1, count)]
    };
    let mut bands = vec![band("all", &calls, known), band("p50", between(0.45, 0.55), known)];
    let tail = between(0.985, 0.995);
    if tail.len() >= TAIL_CALLS {
        bands.push(band("p99", tail, known));
    }
    (bands, None)
}

/// What somebody measured of at least one call.
#[derive(Clone, Copy)]
struct Known {
    send: bool,
    wait: bool,
    lock: bool,
}

fn band(name: &str, calls: &[(&RpcRow, Call)], known: Known) -> RpcBand {
    let mean = |of: &dyn Fn(&Call) -> f64| calls.iter().map(|(_, call)| of(call)).sum::<f64>() / calls.len() as f64;
    let latency_ns = mean(&|call| call.latency);
    let (request_leg, reply_leg) = (mean(&|call| call.request_leg), mean(&|call| call.reply_leg));
    let within = mean(&|call| call.within);
    let (wait, lock, work) = (mean(&|call| call.wait), mean(&|call| call.lock), mean(&|call| call.work));
    let apart = within <= CERTAIN * request_leg.min(reply_leg)
        && request_leg - wait - mean(&|call| call.send(true)) >= 0.0
        && reply_leg >= 0.0;
    let send = mean(&|call| call.send(apart));
    let mut parts = Vec::new();
    let mut part = |stage, ns, within_ns| parts.push(RpcPart { stage, ns, within_ns });
    if known.send {
        part(RpcStage::ClientSend, send, 0.0);
    }
    match apart {
        true => part(RpcStage::RequestPath, request_leg - wait - send, within),
        // Outside the server both clocks measure durations only, and those do not depend on the offset.
        false => part(RpcStage::BothPaths, latency_ns - work - lock - wait - send, 0.0),
    }
    if known.wait {
        part(RpcStage::ServerWait, wait, 0.0);
    }
    if known.lock {
        part(RpcStage::LockWait, lock, 0.0);
    }
    part(RpcStage::ServerWork, work, 0.0);
    if apart {
        part(RpcStage::ReplyPath, reply_leg, within);
    }
    RpcBand { name: name.into(), calls: calls.len() as u64, latency_ns, parts }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::rpc::{RpcBand, RpcStage};
    use crate::testing_rpc::{Calls, MS, S, US};

    fn parts(band: &RpcBand) -> Vec<(RpcStage, f64)> {
        band.parts.iter().map(|part| (part.stage, part.ns)).collect()
    }

    #[track_caller]
    fn adds_up(band: &RpcBand) {
        let sum: f64 = band.parts.iter().map(|part| part.ns).sum();
        assert!((sum - band.latency_ns).abs() <= 1e-9 * band.latency_ns.abs() + 1e-6, "{band:?}");
    }

    #[test]
    fn every_part_is_where_it_was_put() {
        let mut calls = Calls::with(1, 1, |_| 0.0).same_machine();
        for _ in 0..2_000 {
            let row = calls.call(MS, 100.0 * US, 50.0 * US, 80.0 * US);
            (row.sent_ns, row.waited_ns, row.lock_ns) = (Some(10_000), Some(30_000), Some(5_000));
        }
        let kind = &calls.rpc().kinds[0];
        let names: Vec<_> = kind.bands.iter().map(|band| (band.name.as_str(), band.calls)).collect();
        assert_eq!(names, [("all", 2_000), ("p50", 200), ("p99", 20)]);
        for band in &kind.bands {
            adds_up(band);
            let expected = [
                (RpcStage::ClientSend, 10_000.0),
                (RpcStage::RequestPath, 60_000.0),
                (RpcStage::ServerWait, 30_000.0),
                (RpcStage::LockWait, 5_000.0),
                (RpcStage::ServerWork, 45_000.0),
                (RpcStage::ReplyPath, 80_000.0),
            ];
            for ((stage, ns), (known, truth)) in parts(band).into_iter().zip(expected) {
                assert!(stage == known && (ns - truth).abs() < 2.0, "{band:?}");
            }
            assert!(band.parts.len() == 6 && band.parts.iter().all(|part| part.within_ns == 0.0));
        }
        assert_eq!((kind.calls, kind.failed, kind.unanswered), (2_000, 0, 0));
        assert_eq!((kind.log2_us[7], kind.log2_us.len(), kind.response_ns), (2_000, 32, 2_000 * 230_000));
    }

    #[test]
    fn a_send_call_that_outlasts_the_request_path_is_cut_there() {
        // On one machine the server may have read all before the client's call returns.
        let mut calls = Calls::with(1, 1, |_| 0.0).same_machine();
        calls.call(MS, 20.0 * US, 5.0 * US, 20.0 * US).sent_ns = Some(30_000);
        let band = &calls.rpc().kinds[0].bands[0];
        adds_up(band);
        let parts = parts(band);
        assert_eq!((parts[0].0, parts[1].0), (RpcStage::ClientSend, RpcStage::RequestPath));
        assert!((parts[0].1 - 20_000.0).abs() < 2.0 && parts[1].1.abs() < 2.0, "{band:?}");
    }

    #[test]
    fn legs_are_told_apart_where_the_clocks_are_known_well_enough() {
        let mut calls = Calls::new(3, 3.0 * MS, 20e-6).pings(200, S);
        for _ in 0..50 {
            calls.call(MS, 4.0 * MS, MS, 3.0 * MS).case = 1;
        }
        let (run, logs) = calls.run(&["ping", "write"], 10);
        let rpc = crate::summarise_with(&run, &logs).rpc.unwrap();
        let stages =
            |kind: usize| parts(&rpc.kinds[kind].bands[0]).into_iter().map(|(stage, _)| stage).collect::<Vec<_>>();
        assert_eq!(stages(0), [RpcStage::BothPaths, RpcStage::ServerWork]);
        assert_eq!(stages(1), [RpcStage::RequestPath, RpcStage::ServerWork, RpcStage::ReplyPath]);
        let band = &rpc.kinds[1].bands[0];
        adds_up(band);
        for (part, truth) in band.parts.iter().zip([4.0 * MS, MS, 3.0 * MS]) {
            assert!((part.ns - truth).abs() <= part.within_ns + 2.0 * US, "{band:?}");
        }
        assert!(band.parts[0].within_ns > 0.0 && band.parts[1].within_ns == 0.0);
    }

    #[test]
    fn without_stamps_of_the_server_there_is_no_split() {
        let mut calls = Calls::new(4, 0.0, 0.0).pings(20, S);
        calls.rows.iter_mut().for_each(|row| (row.received_ns, row.replied_ns) = (None, None));
        let kind = &calls.rpc().kinds[0];
        assert!(kind.bands.is_empty() && kind.calls == 20);
        assert_eq!(kind.bands_why.as_deref(), Some("the server gives no stamps"));
        calls.rows.iter_mut().for_each(|row| row.latency_ns = None);
        let kind = &calls.rpc().kinds[0];
        assert_eq!((kind.unanswered, kind.bands_why.as_deref()), (20, Some("no call was answered")));
    }

    #[test]
    fn the_wire_takes_no_more_than_there_is() {
        let mut calls = Calls::new(5, 0.0, 0.0).writes(20);
        calls.facts.wire = Some((1_000_000_000, "--wire".into()));
        let (request, reply) = calls.rpc().kinds[0].wire_ns.unwrap();
        assert!((request - 8.000_808 * MS).abs() < 1.0 && (reply - 704.0).abs() < 1.0, "{request} {reply}");
        // A wire said to be slower than the calls were.
        calls.facts.wire = Some((100_000_000, "--wire".into()));
        let kind = &calls.rpc().kinds[0];
        let (request, reply) = kind.wire_ns.unwrap();
        let outside = kind.bands[0].latency_ns - parts(&kind.bands[0]).last().unwrap().1;
        assert!((request + reply - outside).abs() < 2.0 * US, "{request} {reply} {outside}");
        assert_eq!(kind.absent_wire, None);
        let here = calls.same_machine().rpc();
        let absent = here.kinds[0].absent_wire.unwrap();
        assert_eq!(here.kinds[0].wire_ns, None);
        assert!((absent.request_ns - 80.008_08 * MS).abs() < 1.0, "{absent:?}");
    }

    #[test]
    fn first_calls_and_estimates() {
        let mut calls = Calls::with(6, 1, |_| 0.0).same_machine();
        for at in 0..60 {
            let more = if at < 12 { 800.0 * US } else { 0.0 };
            calls.call(MS, 100.0 * US + more, 10.0 * US, 100.0 * US).connection = at % 12;
        }
        calls.facts.expect.insert(0, 21_000);
        let kind = &calls.rpc().kinds[0];
        assert_eq!((kind.first_ns.len(), kind.later_p50_ns), (8, Some(210_000)));
        assert!(kind.first_ns.iter().all(|ns| ns.abs_diff(1_010_000) < 2), "{kind:?}");
        let expected = kind.expected.unwrap();
        assert!((expected.factor - 10.0).abs() < 0.01 && expected.largest.is_some(), "{expected:?}");
    }

    #[test]
    fn the_estimate_is_beside_the_median_of_the_case() {
        // Rounds of 3, 3 and 1 calls count alike: 4 of 7 calls are fast, but 4/9 of the rounds.
        let mut calls = Calls::with(7, 1, |_| 0.0).same_machine();
        for work in [10.0, 10.0, 10.0, 10.0, 400.0, 400.0, 400.0] {
            calls.call(MS, 100.0 * US, work * US, 100.0 * US);
        }
        calls.facts.expect.insert(0, 21_000);
        let (run, logs) = calls.run(&["ping"], 3);
        assert_eq!(run.rounds.iter().map(|round| round.latency.total()).collect::<Vec<_>>(), [3, 3, 1]);
        let summary = crate::summarise_with(&run, &logs);
        let expected = summary.rpc.as_ref().unwrap().kinds[0].expected.unwrap();
        assert_eq!(Some(expected.measured_ns as u64), summary.cases[0].quantiles[0].ns);
        assert_eq!(expected.factor, expected.measured_ns / 21_000.0);
        assert!(expected.measured_ns > 500_000.0, "{expected:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn parts_always_add_up(seed: u64, offset in -1e9..1e9f64, count in 1..200usize, same: bool) {
            let mut calls = Calls::with(seed, 1_000, move |_| if same { 0.0 } else { offset });
            if same {
                calls = calls.same_machine();
            }
            for _ in 0..count {
                let (there, work, back) =
                    (calls.delay(5e3, 5e4), calls.delay(0.0, 3e4), calls.delay(5e3, 5e4));
                let numbers: Vec<u64> = (0..6).map(|_| calls.random.u64(0..200_000)).collect();
                let row = calls.call(1e5, there, work, back);
                row.sent_ns = (!numbers[3].is_multiple_of(3)).then_some(numbers[0]);
                row.waited_ns = (!numbers[4].is_multiple_of(3)).then_some(numbers[1]);
                row.lock_ns = (!numbers[5].is_multiple_of(3)).then_some(numbers[2]);
                row.status = u32::from(numbers[0].is_multiple_of(10));
            }
            for band in &calls.rpc().kinds[0].bands {
                adds_up(band);
                for part in &band.parts {
                    // Up to the resolution of the stamps.
                    prop_assert!(part.ns >= -4_000.0 && part.within_ns.is_finite(), "{:?}", band);
                }
            }
        }

        #[test]
        fn hostile_rows_do_no_harm(rows in prop::collection::vec(any::<(u64, u64, i64, i64, u64, u64, u32)>(), 0..40)) {
            let mut calls = Calls::new(1, 0.0, 0.0).pings(5, S);
            for (start, latency, received, replied, a, b, id) in rows {
                calls.rows.push(msgpath_core::schema::RpcRow {
                    rpcid: id,
                    pair: id % 3,
                    case: id % 2,
                    status: id % 5,
                    start_ns: start,
                    latency_ns: (id % 7 > 0).then_some(latency),
                    received_ns: (id % 11 > 0).then_some(received),
                    replied_ns: Some(replied),
                    waited_ns: Some(a),
                    lock_ns: Some(b),
                    sent_ns: Some(a),
                    request_bytes: a,
                    reply_bytes: b,
                    ..Default::default()
                });
            }
            calls.facts.wire = Some((1, "hostile".into()));
            let (run, _) = Calls::new(1, 0.0, 0.0).pings(5, S).run(&["a", "b"], 1);
            let logs = crate::Logs { rpcs: calls.rows.clone(), ..Default::default() };
            let mut run = run;
            run.header.rpc = Some(calls.facts.clone());
            let summary = crate::summarise_with(&run, &logs);
            let text = serde_json::to_string(&summary).unwrap();
            prop_assert!(serde_json::from_str::<crate::Summary>(&text).is_ok(), "a number that JSON does not have");
        }
    }
}
