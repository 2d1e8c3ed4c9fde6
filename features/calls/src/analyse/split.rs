//! Where the time of each kind of call goes.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::Case;

use super::{AbsentWire, PairClock, RpcBand, RpcExpected, RpcKind, RpcPart, RpcStage, RpcTimes, WireEstimate};
use crate::record::{Calls, RpcFacts, RpcRow, Wire};
use msgpath_stats::order::{OrderStatistics, Rank};

/// First calls of connections that are kept one by one.
const FIRST_KEPT: usize = 8;
/// Calls that a band of the tail needs, so that its means say something of more than one of them.
const TAIL_CALLS: usize = 10;
/// The two ways are told apart where the clocks leave a leg uncertain by at most this share of it
/// (docs/method/calls.md#parts-of-a-call).
const CERTAIN: f64 = 0.25;
/// Buckets of the lab's histogram.
const BUCKETS: usize = 32;

/// What adds up over the calls of a kind, whatever the clocks.
#[derive(Default)]
pub(super) struct Counts {
    calls: u64,
    answered: u64,
    /// Of the answered those that failed.
    failed: u64,
    unseen: u64,
    failed_unseen: u64,
    request_bytes: Lengths,
    reply_bytes: Lengths,
    response_ns: u64,
    log2_us: [u64; BUCKETS],
    /// First T1 and last T4 of each round.
    spans: BTreeMap<u32, (u64, u64)>,
}

/// Lengths of messages, as far as they are known: 0 stands for one that is not.
#[derive(Default)]
struct Lengths {
    sum: u128,
    known: u64,
}

impl Lengths {
    fn add(&mut self, bytes: u64) {
        self.sum += u128::from(bytes);
        self.known += u64::from(bytes > 0);
    }

    fn mean(&self) -> Option<f64> {
        (self.known > 0).then(|| self.sum as f64 / self.known as f64)
    }
}

impl Counts {
    /// Takes a call.
    pub(super) fn add(&mut self, row: &RpcRow, in_rounds: bool) {
        self.calls += 1;
        self.request_bytes.add(row.request_bytes);
        let failed = u64::from(row.status != 0);
        if let Some(latency) = row.latency_ns {
            self.answered += 1;
            self.failed += failed;
            if row.is_good() {
                self.response_ns = self.response_ns.saturating_add(latency);
                let bucket = (latency / 1000).max(1).ilog2() as usize;
                self.log2_us[bucket.min(BUCKETS - 1)] += 1;
            }
        } else if is_unseen(row) {
            self.unseen += 1;
            self.failed_unseen += failed;
        }
        if row.latency_ns.is_some() || is_unseen(row) {
            self.reply_bytes.add(row.reply_bytes);
        }
        let pass = if in_rounds { row.pass } else { 0 };
        let end = row.start_ns.saturating_add(row.latency_ns.unwrap_or(0));
        let span = self.spans.entry(pass).or_insert((row.start_ns, end));
        *span = (span.0.min(row.start_ns), span.1.max(end));
    }

    /// Whether there was no call.
    pub(super) fn is_empty(&self) -> bool {
        self.calls == 0
    }

    /// From the first T1 to the last T4, ns. Of our own runs each round for itself, summed: between two rounds the client reads
    /// counters and writes the record, which is not a part of the calls. Slices of an imported log have no such gaps.
    fn wall_ns(&self) -> u64 {
        self.spans.values().map(|(begin, end)| end - begin).sum()
    }
}

/// The calls of a case: those of each round in the order of time.
fn of_case(calls: &dyn Calls, case: u32, each: &mut dyn FnMut(&RpcRow)) {
    calls.rounds(&|own, _| own == case, &mut |rows| {
        let key = |row: &RpcRow| (row.start_ns, row.connection, row.rpcid);
        if rows.is_sorted_by_key(key) {
            rows.iter().for_each(&mut *each);
        } else {
            let mut order: Vec<&RpcRow> = rows.iter().collect();
            order.sort_unstable_by_key(|row| key(row));
            order.into_iter().for_each(&mut *each);
        }
    });
}

/// The numbers of one kind of call; `counts` has added up its `calls`, at least one, and `p50_ns` is the median of its case.
pub(super) fn kind(
    case: &Case,
    facts: &RpcFacts,
    clocks: &[PairClock],
    counts: &Counts,
    calls: &dyn Calls,
    p50_ns: Option<u64>,
) -> RpcKind {
    let step = facts.client_step_ns.saturating_add(facts.server_step_ns) as f64;
    let mut orders = Orders::new();
    let mut good = Good::default();
    let mut first_ns = Vec::new();
    while orders.is_open() {
        let begins = good.calls == 0;
        let mut seen = BTreeSet::new();
        of_case(calls, case.id, &mut |row| {
            let split = Call::of(row, clocks, step).filter(|_| row.is_good());
            let is_first = row.is_good() && seen.insert(row.connection);
            orders.add(row, split.is_some(), is_first);
            if begins && row.is_good() {
                good.add(facts, row, split.is_some());
                if is_first && first_ns.len() < FIRST_KEPT {
                    first_ns.extend(row.latency_ns);
                }
            }
        });
        orders.narrow();
    }
    let (bands, mut bands_why) = match orders.latency.count() {
        0 => (Vec::new(), Some(good.why_no_split().into())),
        _ => (
            bands(&orders.latency, good.known, &|each| {
                of_case(calls, case.id, &mut |row| {
                    if let Some(call) = Call::of(row, clocks, step).filter(|_| row.is_good()) {
                        each(&call);
                    }
                });
            }),
            None,
        ),
    };
    if good.calls == 0 && counts.failed > 0 {
        bands_why = Some("no call succeeded".into());
    }
    if good.calls == 0 && counts.unseen > 0 {
        bands_why = Some("T4 is not known: it is in the client's log only".into());
    }
    RpcKind {
        case: case.id,
        method: case.label.clone().unwrap_or_else(|| case.path.to_string()),
        calls: counts.calls,
        failed: counts.failed + counts.failed_unseen,
        unanswered: counts.calls - counts.answered - counts.unseen,
        unseen: counts.unseen,
        request_bytes: counts.request_bytes.mean(),
        reply_bytes: counts.reply_bytes.mean(),
        wall_ns: counts.wall_ns(),
        response_ns: counts.response_ns,
        first_ns,
        later_p50_ns: orders.later.value(0).map(i64::cast_unsigned),
        expected: expected(case, facts, p50_ns, &bands),
        wire_ns: good.wire(),
        absent_wire: good.absent_wire(facts),
        log2_us: counts.log2_us.to_vec(),
        served: times(&orders.served),
        received: times(&orders.received),
        first_byte: times(&orders.first_byte),
        failed_took: times(&orders.failed),
        bands,
        bands_why,
    }
}

/// The server has replied, and T4 is not known: in a server's log, or where the client's log lacks the call.
pub(crate) fn is_unseen(row: &RpcRow) -> bool {
    row.latency_ns.is_none() && row.replied_ns.is_some()
}

/// The value in the middle, and the largest.
const MIDDLE_AND_LAST: &[Rank] = &[|count| count.saturating_sub(1) / 2, |count| count];
/// The ranks of [`RpcTimes`] in its order.
const TIMES: &[Rank] = &[|_| 0, |count| share(0.5, count), |count| share(0.9, count), |count| share(0.99, count)];
/// The first and the last rank of the calls near the median, and of those near p99.
const EDGES: &[Rank] =
    &[|count| share(0.45, count), |count| last(0.55, count), |count| share(0.985, count), |count| last(0.995, count)];

fn share(p: f64, count: u64) -> u64 {
    (p * count as f64) as u64
}

fn last(p: f64, count: u64) -> u64 {
    ((p * count as f64).ceil() as u64).saturating_sub(1)
}

/// What the numbers of a kind need in order.
struct Orders {
    /// T3 - T2, T2 - T1, the time to the first byte.
    served: OrderStatistics,
    received: OrderStatistics,
    first_byte: OrderStatistics,
    /// T4 - T1 of the calls of a connection after its first.
    later: OrderStatistics,
    /// T4 - T1 of the calls that can be split.
    latency: OrderStatistics,
    /// T4 - T1 of the calls that failed.
    failed: OrderStatistics,
}

impl Orders {
    fn new() -> Self {
        let [served, received, first_byte, failed] = [TIMES; 4].map(OrderStatistics::new);
        let later = OrderStatistics::new(&MIDDLE_AND_LAST[..1]);
        Self { served, received, first_byte, later, latency: OrderStatistics::new(EDGES), failed }
    }

    fn add(&mut self, row: &RpcRow, is_split: bool, is_first: bool) {
        if let Some(ns) =
            row.replied_ns.zip(row.received_ns).map(|(replied, received)| replied.saturating_sub(received))
        {
            self.served.add(ns);
        }
        if let Some(ns) = row.received_ns {
            self.received.add(ns);
        }
        if let Some(ns) = row.first_ns.filter(|_| row.is_good()).and_then(|ns| i64::try_from(ns).ok()) {
            self.first_byte.add(ns);
        }
        if let Some(ns) = row.latency_ns.filter(|_| row.status != 0) {
            self.failed.add_unsigned(ns);
        }
        if let Some(ns) = row.latency_ns.filter(|_| row.status == 0) {
            if !is_first {
                self.later.add_unsigned(ns);
            }
            if is_split {
                self.latency.add_unsigned(ns);
            }
        }
    }

    fn all(&mut self) -> [&mut OrderStatistics; 6] {
        [
            &mut self.served,
            &mut self.received,
            &mut self.first_byte,
            &mut self.later,
            &mut self.latency,
            &mut self.failed,
        ]
    }

    fn is_open(&mut self) -> bool {
        self.all().iter().any(|order| order.is_open())
    }

    fn narrow(&mut self) {
        self.all().into_iter().for_each(OrderStatistics::narrow);
    }
}

/// Order statistics of a difference of two stamps; `None` where no call has both.
fn times(order: &OrderStatistics) -> Option<RpcTimes> {
    let at = |rank| order.value(rank);
    Some(RpcTimes { calls: order.count(), least_ns: at(0)?, p50_ns: at(1)?, p90_ns: at(2)?, p99_ns: at(3)? })
}

/// What adds up over the calls that the parts and the wire are told of.
#[derive(Default)]
struct Good {
    calls: u64,
    /// Calls with both stamps of the server.
    stamped: u64,
    known: Known,
    /// Calls that may have gone over a wire, and the time of their bytes on it, ns.
    networked: u64,
    timed: u64,
    wire_ns: WireEstimate,
    bytes: (u128, u128),
}

impl Good {
    fn add(&mut self, facts: &RpcFacts, row: &RpcRow, is_split: bool) {
        self.calls += 1;
        self.stamped += u64::from(row.received_ns.is_some() && row.replied_ns.is_some());
        if is_split {
            self.known.send |= row.sent_ns.is_some();
            self.known.wait |= row.waited_ns.is_some();
            self.known.lock |= row.lock_ns.is_some();
        }
        self.bytes.0 += u128::from(row.request_bytes);
        self.bytes.1 += u128::from(row.reply_bytes);
        if is_networked(facts, row) {
            self.networked += 1;
            if let Some((request, reply)) = speed(facts).and_then(|bits| wire(row, bits)) {
                self.timed += 1;
                self.wire_ns.request += request;
                self.wire_ns.reply += reply;
            }
        }
    }

    fn why_no_split(&self) -> &'static str {
        match (self.calls, self.stamped) {
            (0, _) => "no call was answered",
            (_, 0) => "the server gives no stamps",
            _ => "the server's stamps contradict the client's",
        }
    }

    /// Time of the bytes of request and reply on the wire at its speed, means in ns.
    fn wire(&self) -> Option<WireEstimate> {
        let WireEstimate { request, reply } = self.wire_ns;
        let mean = |sum: f64| sum / self.timed as f64;
        (self.timed > 0).then(|| WireEstimate { request: mean(request), reply: mean(reply) })
    }

    /// What a wire would take for the mean call, where no call went over one.
    fn absent_wire(&self, facts: &RpcFacts) -> Option<AbsentWire> {
        let is_known = self.calls > 0 && self.bytes.0 > 0 && self.bytes.1 > 0;
        let bits = speed(facts).filter(|_| self.networked == 0 && is_known)?;
        let of = |bytes: u128| bytes as f64 / self.calls as f64 * 8e9 / bits;
        Some(AbsentWire { request_ns: of(self.bytes.0), reply_ns: of(self.bytes.1) })
    }
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
    facts.wire.as_ref().map(|wire| wire.bits_per_s as f64).filter(|bits| *bits > 0.0)
}

/// Whether a call may have gone over a wire.
fn is_networked(facts: &RpcFacts, row: &RpcRow) -> bool {
    let shaped = facts.wire.as_ref().is_some_and(Wire::is_shaped);
    shaped || facts.pairs.get(row.pair as usize).is_none_or(|pair| pair.same_machine.is_none())
}

/// Time of the bytes of request and reply on the wire at its speed, bits per second: no more than the time outside the server,
/// so that it contradicts no stamp. ns.
fn wire(row: &RpcRow, bits: f64) -> Option<(f64, f64)> {
    let latency = row.latency_ns.filter(|_| row.request_bytes > 0 && row.reply_bytes > 0)? as f64;
    let served = row.received_ns.zip(row.replied_ns).map_or(0.0, |(from, to)| to as f64 - from as f64);
    let outside = (latency - served).max(0.0);
    let on_wire = |bytes: u64| bytes as f64 * 8e9 / bits;
    let (request, reply) = (on_wire(row.request_bytes), on_wire(row.reply_bytes));
    let scale = if request + reply > outside { outside / (request + reply) } else { 1.0 };
    Some((request * scale, reply * scale))
}

/// The parts of one call, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    latency_ns: u64,
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
            latency_ns: row.latency_ns?,
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

/// The call in the middle and the slowest of a case, of those that succeeded.
pub fn middle_and_slowest(calls: &dyn Calls, case: u32) -> Option<[RpcRow; 2]> {
    let mut order = OrderStatistics::new(MIDDLE_AND_LAST);
    while order.is_open() {
        of_case(calls, case, &mut |row| {
            row.latency_ns.filter(|_| row.is_good()).into_iter().for_each(|ns| order.add_unsigned(ns));
        });
        order.narrow();
    }
    let ((middle, below), slowest) = (order.at(0)?, order.value(1)?);
    let mut found = [None; 2];
    let mut ties = (order.count() - 1) / 2 - below;
    of_case(calls, case, &mut |row| {
        let good = row.latency_ns.filter(|_| row.is_good());
        let Some(ns) = good.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)) else { return };
        if ns == middle && found[0].is_none() {
            match ties.checked_sub(1) {
                Some(left) => ties = left,
                None => found[0] = Some(*row),
            }
        }
        if ns == slowest {
            found[1] = Some(*row);
        }
    });
    Some([found[0]?, found[1]?])
}

/// Gives all calls that can be split.
type Walk<'a> = dyn Fn(&mut dyn FnMut(&Call)) + 'a;

/// The means of all calls, of those near the median and of those near p99. `latency` knows the [`EDGES`] among them.
fn bands(latency: &OrderStatistics, known: Known, walk: &Walk<'_>) -> Vec<RpcBand> {
    let edge = |rank| latency.at(rank).unwrap_or_default();
    let count = latency.count();
    let near = |at: usize| {
        let from = EDGES[at](count).min(count - 1);
        Sums::between((from, EDGES[at + 1](count).clamp(from, count - 1)), (edge(at), edge(at + 1)))
    };
    let mut bands = [("all", Sums::default()), ("p50", near(0)), ("p99", near(2))];
    walk(&mut |call| bands.iter_mut().for_each(|(_, sums)| sums.add(call)));
    let few = |(name, sums): &(&str, Sums)| *name == "p99" && sums.calls < TAIL_CALLS as u64;
    bands.into_iter().filter(|band| !few(band)).map(|(name, sums)| sums.finish(name, known)).collect()
}

/// What somebody measured of at least one call.
#[derive(Clone, Copy, Default)]
struct Known {
    send: bool,
    wait: bool,
    lock: bool,
}

/// A latency at a rank, ns, and how many calls are below it.
type Edge = (i64, u64);

/// The calls of a band, added up.
#[derive(Default)]
struct Sums {
    /// First and last rank of those that belong to it, and the latencies at these ranks with the calls below each; `None`: all
    /// belong to it.
    edges: Option<((u64, u64), [Edge; 2])>,
    /// Calls as fast as either edge that passed.
    ties: [u64; 2],
    calls: u64,
    latency: f64,
    request_leg: f64,
    reply_leg: f64,
    within: f64,
    wait: f64,
    lock: f64,
    work: f64,
    /// The send call where the legs are not told apart, and where they are.
    send: [f64; 2],
}

impl Sums {
    fn between(ranks: (u64, u64), (low, high): (Edge, Edge)) -> Self {
        Self { edges: Some((ranks, [low, high])), ..Self::default() }
    }

    /// Calls that took the same time rank as they come.
    fn holds(&mut self, latency: i64) -> bool {
        let Some(((from, to), edges)) = &self.edges else { return true };
        let Some(edge) = edges.iter().position(|(value, _)| *value == latency) else {
            return (edges[0].0..edges[1].0).contains(&latency);
        };
        let rank = edges[edge].1 + self.ties[edge];
        self.ties[edge] += 1;
        (*from..=*to).contains(&rank)
    }

    fn add(&mut self, call: &Call) {
        if !self.holds(i64::try_from(call.latency_ns).unwrap_or(i64::MAX)) {
            return;
        }
        self.calls += 1;
        self.latency += call.latency;
        self.request_leg += call.request_leg;
        self.reply_leg += call.reply_leg;
        self.within += call.within;
        self.wait += call.wait;
        self.lock += call.lock;
        self.work += call.work;
        self.send[0] += call.send(false);
        self.send[1] += call.send(true);
    }

    fn finish(self, name: &str, known: Known) -> RpcBand {
        let mean = |sum: f64| sum / self.calls.max(1) as f64;
        let latency_ns = mean(self.latency);
        let (request_leg, reply_leg) = (mean(self.request_leg), mean(self.reply_leg));
        let within = mean(self.within);
        let (wait, lock, work) = (mean(self.wait), mean(self.lock), mean(self.work));
        let apart = within <= CERTAIN * request_leg.min(reply_leg)
            && request_leg - wait - mean(self.send[1]) >= 0.0
            && reply_leg >= 0.0;
        let send = mean(self.send[usize::from(apart)]);
        let mut parts = Vec::new();
        let mut part = |stage, ns, within_ns| parts.push(RpcPart { stage, ns, within_ns });
        if known.send {
            part(RpcStage::ClientSend, send, 0.0);
        }
        if apart {
            part(RpcStage::RequestPath, request_leg - wait - send, within);
        } else {
            // Outside the server both clocks measure durations only, and those do not depend on the offset.
            part(RpcStage::BothPaths, latency_ns - work - lock - wait - send, 0.0);
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
        RpcBand { name: name.into(), calls: self.calls, latency_ns, parts }
    }
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::logs::Pulled;

    use crate::analyse::RpcSummary;
    use proptest::prelude::*;

    use crate::analyse::{RpcBand, RpcStage, WireEstimate};
    use crate::record::Wire;
    use crate::testing::{Calls, MS, S, US};

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
        let rpc = msgpath_analyse::summarise_with(&run, &logs).sections.remove::<RpcSummary>().unwrap();
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
        calls.facts.wire = Some(Wire { bits_per_s: 1_000_000_000, from: "--wire".into() });
        let WireEstimate { request, reply } = calls.rpc().kinds[0].wire_ns.unwrap();
        assert!((request - 8.000_808 * MS).abs() < 1.0 && (reply - 704.0).abs() < 1.0, "{request} {reply}");
        // A wire said to be slower than the calls were.
        calls.facts.wire = Some(Wire { bits_per_s: 100_000_000, from: "--wire".into() });
        let kind = &calls.rpc().kinds[0];
        let WireEstimate { request, reply } = kind.wire_ns.unwrap();
        let outside = kind.bands[0].latency_ns - parts(&kind.bands[0]).last().unwrap().1;
        assert!((request + reply - outside).abs() < 2.0 * US, "{request} {reply} {outside}");
        assert_eq!(kind.absent_wire, None);
        let mut calls = calls.same_machine();
        let here = calls.rpc();
        let absent = here.kinds[0].absent_wire.unwrap();
        assert_eq!(here.kinds[0].wire_ns, None);
        assert!((absent.request_ns - 80.008_08 * MS).abs() < 1.0, "{absent:?}");
        // A link that the run has shaped is one, on one machine as well.
        calls.facts.wire = Some(Wire::shaped(1_000_000_000));
        let across = calls.rpc();
        assert!((across.kinds[0].wire_ns.unwrap().request - 8.000_808 * MS).abs() < 1.0, "{across:?}");
        assert_eq!(across.kinds[0].absent_wire, None);
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
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let expected = summary.sections.get::<RpcSummary>().unwrap().kinds[0].expected.unwrap();
        assert_eq!(Some(expected.measured_ns as u64), summary.cases[0].latency.quantiles[0].ns);
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
                calls.rows.push(crate::record::RpcRow {
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
            calls.facts.wire = Some(Wire { bits_per_s: 1, from: "hostile".into() });
            let (run, _) = Calls::new(1, 0.0, 0.0).pings(5, S).run(&["a", "b"], 1);
            let logs = msgpath_analyse::Logs::default().with(Pulled::from(calls.rows.clone()));
            let mut run = run;
            run.header.parts.set(calls.facts.clone());
            let summary = msgpath_analyse::summarise_with(&run, &logs);
            let text = serde_json::to_string(&summary).unwrap();
            prop_assert!(!text.contains("not a finite number"), "a number that JSON does not have");
        }
    }
}
