//! Each receiver of a multicast group: what it lost, in what order messages came, how long they took.

use std::borrow::Cow;
use std::collections::BTreeMap;

use msgpath_core::explained::Explained;
use msgpath_core::schema::MessageRow;
use msgpath_core::{Histogram, SparseHistogram, explained};
use msgpath_stats::estimate::{Estimate, mean_estimate};
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{Quantile, estimate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Walk;
use crate::record::{JoinedGroup, PeriodicFacts};

/// One receiver of a multicast group, all its sessions together.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct GroupReceiver {
    /// Its number, from 1.
    pub receiver: u32,
    /// Its place (`--between`) or its host; empty: that of the sender.
    pub place: String,
    /// The device on which it joined the group.
    pub device: String,
    /// Messages that it received, each once.
    pub messages: u64,
    /// Messages that did not arrive.
    pub lost: u64,
    /// Share of the messages that were lost: the mean over rounds, with its interval.
    pub loss: Option<Estimate>,
    /// Most messages that were lost in a row.
    pub lost_in_a_row: u64,
    /// Messages that came behind a newer one.
    pub reordered: u64,
    /// Messages that came again.
    pub duplicated: u64,
    /// Median of the steady messages, with its range.
    pub p50: Option<Quantile>,
    /// 99th percentile of the steady messages, with its range.
    pub p99: Option<Quantile>,
    /// The slowest of the steady messages that arrived, ns.
    pub max_ns: Option<u64>,
    /// Receive buffer as granted, bytes, the kernel's own part included.
    pub buffer: u64,
    /// Datagrams for which the receive buffer had no room.
    pub overflowed: Option<u64>,
    /// Smallest and largest TTL or hop limit that arrived.
    pub hops: Option<(u8, u8)>,
    /// The device by which the last datagram came, where it is not the one on which it joined.
    pub came_by: Option<String>,
    /// Whether the kernel listed the membership at the end.
    pub member: Option<bool>,
    /// The version of IGMP that the kernel speaks on the device.
    pub igmp: Option<String>,
    /// The router between it and the sender.
    pub router: Option<String>,
    /// What was added to its clock, ns, where it reads another one than the sender: of its last session.
    pub clock_offset_ns: Option<i64>,
    /// How far from the truth its times can be because of that, ns: the widest of its sessions. The ranges of its quantiles have it.
    pub clock_within_ns: Option<u64>,
}

impl Explained for GroupReceiver {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "loss" | "p50" | "p99" | "max_ns" => "no message of this receiver is in the log",
            "overflowed" => "the kernel does not count it for a socket",
            "hops" => "nothing arrived",
            "came_by" => "datagrams came by the device on which it joined, or none came",
            "member" => "the kernel's list could not be read",
            "igmp" => "the group is one of IPv6, or the device is not listed",
            "router" => "no router is known to stand between",
            "clock_offset_ns" | "clock_within_ns" => "it reads the sender's clock",
            _ => "fewer than five rounds with messages",
        }
        .into()
    }
}

explained!(read GroupReceiver);

impl GroupReceiver {
    /// Messages that were to arrive.
    pub fn expected(&self) -> u64 {
        self.messages + self.lost
    }
}

/// What one receiver had in each round.
#[derive(Default)]
struct Rounds {
    histograms: Vec<SparseHistogram>,
    losses: Vec<f64>,
    max_ns: Option<u64>,
}

/// All receivers of a group in a case; empty: the run has no group.
pub(super) fn receivers(facts: &PeriodicFacts, case: u32, walk: Walk<'_>) -> Vec<GroupReceiver> {
    if facts.group.is_none() {
        return Vec::new();
    }
    let mut all: BTreeMap<u32, GroupReceiver> = BTreeMap::new();
    for session in facts.sessions.iter().filter(|session| session.case == case) {
        for (number, component) in session.components.iter().enumerate() {
            if let Some(joined) = &component.joined {
                add(all.entry(number as u32).or_default(), number as u32, joined);
            }
        }
    }
    let mut logged = logged(facts, walk);
    for (number, receiver) in &mut all {
        let Some(rounds) = logged.remove(number) else { continue };
        let histograms: Vec<_> = rounds.histograms.iter().collect();
        let pooled = Pooled::new(&histograms);
        let quantile = |p| estimate(&histograms, &pooled, p).map(|estimated| estimated.quantile);
        (receiver.p50, receiver.p99) = (quantile(0.5), quantile(0.99));
        if let Some(within) = receiver.clock_within_ns {
            [&mut receiver.p50, &mut receiver.p99].into_iter().flatten().for_each(|one| widen(one, within));
        }
        receiver.loss = mean_estimate(&rounds.losses).map(bounded);
        receiver.max_ns = rounds.max_ns;
    }
    all.into_values().collect()
}

/// A share is from 0 to 1, and so is its interval.
fn bounded(loss: Estimate) -> Estimate {
    let within = |end: Option<f64>| end.map(|end| end.clamp(0.0, 1.0));
    Estimate { value: loss.value, low: within(loss.low), high: within(loss.high) }
}

/// Makes a range wider by what is left open between two clocks.
pub(crate) fn widen(quantile: &mut Quantile, within_ns: u64) {
    quantile.lo_ns = quantile.lo_ns.map(|ns| ns.saturating_sub(within_ns));
    quantile.hi_ns = quantile.hi_ns.map(|ns| ns.saturating_add(within_ns));
}

fn add(receiver: &mut GroupReceiver, number: u32, joined: &JoinedGroup) {
    let hops = match (receiver.hops, joined.hops) {
        (Some((least, most)), Some((low, high))) => Some((least.min(low), most.max(high))),
        (before, now) => now.or(before),
    };
    let first = receiver.receiver == 0;
    *receiver = GroupReceiver {
        receiver: number,
        place: joined.place.clone(),
        device: joined.device.clone(),
        messages: receiver.messages + joined.delivered,
        lost: receiver.lost + joined.lost,
        lost_in_a_row: receiver.lost_in_a_row.max(joined.lost_in_a_row),
        reordered: receiver.reordered + joined.reordered,
        duplicated: receiver.duplicated + joined.duplicated,
        buffer: joined.buffer,
        overflowed: if first {
            joined.overflowed
        } else {
            receiver.overflowed.zip(joined.overflowed).map(|(a, b)| a + b)
        },
        hops,
        came_by: joined.came_by.clone().or_else(|| receiver.came_by.take()),
        member: if first { joined.member } else { receiver.member.zip(joined.member).map(|(a, b)| a && b) },
        igmp: joined.igmp.clone(),
        router: joined.router.clone(),
        clock_offset_ns: joined.clock.as_ref().map(|clock| clock.offset_ns),
        clock_within_ns: receiver.clock_within_ns.max(joined.clock.as_ref().map(|clock| clock.within_ns)),
        ..GroupReceiver::default()
    };
}

fn logged(facts: &PeriodicFacts, walk: Walk<'_>) -> BTreeMap<u32, Rounds> {
    let of = (facts.processes * facts.components).max(1);
    let mut all: BTreeMap<u32, Rounds> = BTreeMap::new();
    walk(&mut |rows| {
        let mut round: BTreeMap<u32, (Histogram, u64, u64)> = BTreeMap::new();
        for MessageRow { connection, sequence, latency_ns, .. } in rows {
            let (steady, lost, sent) = round.entry(connection / of).or_default();
            *sent += 1;
            *lost += u64::from(latency_ns.is_none());
            match latency_ns {
                _ if *sequence < facts.first => {}
                Some(ns) => steady.record(*ns),
                None => steady.record_lost(1),
            }
        }
        for (number, (steady, lost, sent)) in round {
            let rounds = all.entry(number).or_default();
            rounds.losses.push(lost as f64 / sent as f64);
            rounds.max_ns = rounds.max_ns.max(steady.max());
            rounds.histograms.push(steady.to_sparse());
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::testing::grouped;
    use crate::record::OtherClock;

    #[test]
    fn each_receiver_has_its_loss_order_and_delay() {
        let (facts, rows) = grouped();
        let walk = |each: &mut dyn FnMut(&[MessageRow])| rows.chunks(200).for_each(each);
        let all = receivers(&facts, 0, &walk);
        assert_eq!(
            all.iter().map(|one| (one.receiver, one.messages, one.lost)).collect::<Vec<_>>(),
            [(1, 1000, 0), (2, 900, 100)]
        );
        let loss = all[1].loss.clone().unwrap();
        assert!((loss.value - 0.1).abs() < 1e-9 && loss.low.unwrap() <= 0.1 && loss.high.unwrap() >= 0.1, "{loss:?}");
        let p50 = |at: usize| all[at].p50.as_ref().unwrap().clone();
        assert!((19_000..21_500).contains(&p50(0).ns.unwrap()) && p50(0).is_interval(), "{:?}", p50(0));
        assert!(p50(1).ns > p50(0).ns);
        assert!(all[0].p99.is_some() && all[0].max_ns.is_some());
        let mut apart = facts.clone();
        let joined = apart.sessions[0].components[1].joined.as_mut().unwrap();
        joined.clock = Some(OtherClock { offset_ns: -5_000_000, within_ns: 7_000 });
        let other = &receivers(&apart, 0, &walk)[0];
        let range = |p50: &Quantile| [p50.lo_ns.unwrap(), p50.hi_ns.unwrap()];
        let ([low, high], wide) = (range(&p50(0)), other.p50.as_ref().unwrap());
        assert_eq!((range(wide), wide.ns), ([low - 7_000, high + 7_000], p50(0).ns));
        assert_eq!((other.clock_offset_ns, other.clock_within_ns), (Some(-5_000_000), Some(7_000)));
        let none = PeriodicFacts { group: None, ..facts };
        assert!(receivers(&none, 0, &walk).is_empty());
    }
}
