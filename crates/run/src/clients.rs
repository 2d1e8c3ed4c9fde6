//! Several near ends of one round: what each is told, and what they report together and one by one.

use msgpath_agent::wire::{Own, RoundOrder, Timed};
use msgpath_core::plan::Plan;
use msgpath_core::schema::{ClientRound, EndReport, EndRound, KeptQuantiles, Slots, ThreadRecord};
use msgpath_core::{Case, Histogram};
use msgpath_paths::is_lossy;

use crate::pilot::Pace;
use crate::round::NearReport;

/// Slots of a round.
const SLOTS: u64 = 64;
/// Quantiles that are kept of the round trips of a near end in a round.
const QUANTILES: u32 = 64;
/// At the begin of a round this part of its time at least is not measured: connections start slowly, and not at one instant.
const LEAST_LEAD: u64 = 10;
/// No message over a socket takes less, ns: how many there is room for.
const LEAST_MESSAGE_NS: u64 = 200;
/// The counter of a namespace.
const TIMEOUTS: &str = "TcpExt.TCPTimeouts";

/// The time of a round of several near ends; `None`: there is one, or messages are counted.
pub(crate) fn timed(plan: &Plan, case: &Case, pace: &Pace) -> Option<Timed> {
    if plan.options.clients.len() < 2 {
        return None;
    }
    let spans = plan.spans(case, pace.settling)?;
    let ns = (spans.thrown + spans.measured).clamp(1_000_000, Timed::MOST_NS);
    let lead_ns = spans.thrown.max(ns / LEAST_LEAD).min(ns / 2);
    Some(Timed { ns, lead_ns, slot_ns: ns.div_ceil(SLOTS) })
}

/// More messages than any connection has in that time.
pub(crate) fn messages(timed: Timed) -> u64 {
    timed.ns / LEAST_MESSAGE_NS + 1
}

/// What near end number `at` of so many knows for itself: each begins with another CPU, and keeps its part of the rows.
pub(crate) fn own(own: &Own, (at, of): (usize, usize), threads: u32) -> Own {
    let mut own = Own { keep: own.keep / of.max(1), ..own.clone() };
    let by = (at * threads as usize) % own.cpus.len().max(1);
    own.cpus.rotate_left(by);
    own
}

/// What all near ends report, as if they were threads of one; `None`: there is none.
pub(crate) fn together(nears: Vec<NearReport>) -> Option<NearReport> {
    let several = nears.len() > 1;
    let threads_of = |end: &EndRound| match end.threads.as_slice() {
        [] => vec![ThreadRecord { report: end.report, events: end.events.clone(), ..ThreadRecord::default() }],
        threads => threads.to_vec(),
    };
    let mut nears = nears.into_iter();
    let mut all = nears.next()?;
    if several {
        all.end.threads = threads_of(&all.end);
    }
    for near in nears {
        all.end.threads.extend(threads_of(&near.end));
        all.end.report.add(&near.end.report);
        for (name, count) in &near.end.events {
            all.end.events.entry(name.clone()).or_default().add(count);
        }
        for (sum, own) in all.histograms.iter_mut().zip(&near.histograms) {
            sum.merge(own);
        }
        all.rows.extend(near.rows);
    }
    // Slots are those of each near end, and stand there.
    all.end.threads.iter_mut().for_each(|thread| thread.slots = None);
    Some(all)
}

/// Each near end by itself; none where there is one.
pub(crate) fn of(order: &RoundOrder, nears: &[NearReport], far: &EndRound, connects_ns: &[u64]) -> Vec<ClientRound> {
    if nears.len() < 2 {
        return Vec::new();
    }
    let share = far.threads.len() / nears.len();
    let of = |(at, near): (usize, &NearReport)| {
        let far = far.threads.get(at * share..(at + 1) * share).unwrap_or_default();
        let receivers = match order.workload.is_echoed() || order.reverse {
            true => near.end.threads.as_slice(),
            false => far,
        };
        let mut slots = Slots::default();
        receivers.iter().filter_map(|thread| thread.slots.as_ref()).for_each(|own| slots.merge(own));
        let senders: Vec<&EndReport> = match (order.workload.is_echoed(), order.reverse) {
            (true, _) => std::iter::once(&near.end.report).chain(far.iter().map(|thread| &thread.report)).collect(),
            (false, false) => vec![&near.end.report],
            (false, true) => far.iter().map(|thread| &thread.report).collect(),
        };
        let sum = |of: fn(&msgpath_core::schema::TcpInfo) -> Option<u64>| {
            senders.iter().map(|report| of(report.tcp.as_ref()?)).sum::<Option<u64>>()
        };
        let mut delivery = near.end.report.delivery;
        if !order.workload.is_echoed() && !order.reverse {
            delivery.received = far.iter().map(|thread| thread.report.delivery.received).sum();
            if !is_lossy(&order.path.transport) {
                delivery.sent = delivery.received;
            }
        }
        ClientRound {
            delivery,
            elapsed_ns: near.end.report.elapsed_ns,
            connect_ns: connects_ns.get(at).copied().unwrap_or(0),
            slots,
            timeouts: sum(|tcp| tcp.timeouts),
            retransmitted: sum(|tcp| Some(tcp.total_retrans)),
            namespace_timeouts: near.end.watched_ns.map(|_| near.end.kernel.0.get(TIMEOUTS).copied().unwrap_or(0)),
            latency: spread(&near.histograms[0]),
        }
    };
    nears.iter().enumerate().map(of).collect()
}

/// What stood in buffers when the time was over is no part of the round, where nothing is lost: what has arrived was sent.
pub(crate) fn settle(order: &RoundOrder, near: &mut EndReport, far: &mut EndReport) {
    if order.workload.is_echoed() || is_lossy(&order.path.transport) {
        return;
    }
    let (sender, receiver) = if order.reverse { (far, near) } else { (near, far) };
    sender.delivery.sent = receiver.delivery.received;
    sender.bytes_sent = sender.delivery.sent * order.pieces.total();
}

/// A distribution by its quantiles.
fn spread(latency: &Histogram) -> KeptQuantiles {
    let at = |p: f64| latency.quantile(p).flatten();
    if latency.total() == 0 {
        return KeptQuantiles::default();
    }
    let quantiles = (0..QUANTILES).map(|n| at((f64::from(n) + 0.5) / f64::from(QUANTILES)));
    KeptQuantiles {
        count: latency.total(),
        quantiles_ns: quantiles.collect(),
        p50_ns: at(0.5),
        p99_ns: at(0.99).filter(|_| latency.total() >= 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ends_begin_with_other_cpus() {
        let all = Own { near: true, cpus: vec![4, 5, 6], batch: 1, keep: 100, load: None };
        let first = |at, threads| own(&all, (at, 4), threads).cpus[0];
        assert_eq!(own(&all, (0, 4), 1).keep, 25);
        assert_eq!([first(0, 1), first(1, 1), first(2, 1), first(3, 1), first(1, 2)], [4, 5, 6, 4, 6]);
        assert!(own(&Own { cpus: Vec::new(), ..all }, (3, 4), 1).cpus.is_empty());
    }

    #[test]
    fn a_distribution_is_kept_by_its_quantiles() {
        let mut latency = Histogram::new();
        (1..=1000).for_each(|ns| latency.record(ns * 1000));
        let kept = spread(&latency);
        assert_eq!((kept.count, kept.quantiles_ns.len()), (1000, QUANTILES as usize));
        assert!(kept.p50_ns.unwrap().abs_diff(500_000) < 5_000 && kept.p99_ns.unwrap().abs_diff(990_000) < 9_000);
        assert_eq!(spread(&Histogram::new()), KeptQuantiles::default());
    }
}
