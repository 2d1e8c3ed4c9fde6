//! Who was slow to whom: the logged messages of each sender and receiver.

use std::collections::BTreeMap;

use msgpath_core::schema::{MessageRow, PeriodicFacts};

/// What the messages of one component to another took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Number of the sending component.
    pub sender: u32,
    /// Number of the receiving component.
    pub receiver: u32,
    /// Messages that arrived.
    pub messages: u64,
    /// Messages that did not.
    pub lost: u64,
    /// Median of those that arrived, ns.
    pub p50_ns: Option<u64>,
    /// The slowest, ns.
    pub slowest_ns: Option<u64>,
}

/// Every pair of which the log has a message, by sender and receiver.
pub fn pairs<'a>(rows: impl Iterator<Item = &'a MessageRow>, facts: &PeriodicFacts) -> Vec<Pair> {
    let of = (facts.processes * facts.components).max(1);
    let mut all: BTreeMap<(u32, u32), (Vec<u64>, u64)> = BTreeMap::new();
    for row in rows {
        let (times, lost) = all.entry((row.connection % of, row.connection / of)).or_default();
        match row.latency_ns {
            Some(ns) => times.push(ns),
            None => *lost += 1,
        }
    }
    let pair = |((sender, receiver), (mut times, lost)): ((u32, u32), (Vec<u64>, u64))| {
        times.sort_unstable();
        let p50_ns = times.get(times.len().saturating_sub(1) / 2).copied();
        Pair { sender, receiver, messages: times.len() as u64, lost, p50_ns, slowest_ns: times.last().copied() }
    };
    all.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_a_receiver_and_a_sender() {
        let facts = PeriodicFacts { processes: 3, components: 1, ..PeriodicFacts::default() };
        let row = |connection, latency_ns| MessageRow { connection, latency_ns, ..MessageRow::default() };
        // Receiver 1 of sender 2.
        let rows = [row(5, Some(30)), row(5, Some(10)), row(5, Some(20)), row(5, None), row(1, Some(7))];
        let pairs = pairs(rows.iter(), &facts);
        assert_eq!(pairs.len(), 2);
        assert_eq!((pairs[0].sender, pairs[0].receiver, pairs[0].p50_ns), (1, 0, Some(7)));
        let last = pairs[1];
        assert_eq!((last.sender, last.receiver, last.messages, last.lost), (2, 1, 3, 1));
        assert_eq!((last.p50_ns, last.slowest_ns), (Some(20), Some(30)));
    }
}
