//! Who was slow to whom: the logged messages of each sender and receiver.

use std::collections::BTreeMap;

use msgpath_record::Messages;

use msgpath_stats::order::{OrderStatistics, Rank};

use crate::record::PeriodicFacts;

/// The median and the slowest.
const RANKS: &[Rank] = &[|count| count.saturating_sub(1) / 2, |count| count];

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
    pub slowest_ns: Option<u64>,
}

/// Every pair of which the log has a message, by sender and receiver.
pub fn pairs(logged: &dyn Messages, case: u32, facts: &PeriodicFacts) -> Vec<Pair> {
    let of = (facts.processes * facts.components).max(1);
    let mut all: BTreeMap<(u32, u32), (OrderStatistics, u64)> = BTreeMap::new();
    let mut begins = true;
    while begins || all.values().any(|(times, _)| times.is_open()) {
        logged.rounds(&|own, _| own == case, &mut |rows| {
            for row in rows {
                let pair = (row.connection % of, row.connection / of);
                let (times, lost) = all.entry(pair).or_insert_with(|| (OrderStatistics::new(RANKS), 0));
                match row.latency_ns {
                    Some(ns) => times.add_unsigned(ns),
                    None => *lost += u64::from(begins),
                }
            }
        });
        all.values_mut().for_each(|(times, _)| times.narrow());
        begins = false;
    }
    let pair = |((sender, receiver), (times, lost)): ((u32, u32), (OrderStatistics, u64))| {
        let [p50_ns, slowest_ns] = [0, 1].map(|rank| times.value(rank).map(i64::cast_unsigned));
        Pair { sender, receiver, messages: times.count(), lost, p50_ns, slowest_ns }
    };
    all.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::MessageRow;

    use super::*;

    #[test]
    fn a_connection_is_a_receiver_and_a_sender() {
        let facts = PeriodicFacts { processes: 3, components: 1, ..PeriodicFacts::default() };
        let row = |connection, latency_ns| MessageRow { connection, latency_ns, ..MessageRow::default() };
        // Receiver 1 of sender 2.
        let rows = [row(5, Some(30)), row(5, Some(10)), row(5, Some(20)), row(5, None), row(1, Some(7))];
        let pairs = pairs(&rows, 0, &facts);
        assert_eq!(pairs.len(), 2);
        assert_eq!((pairs[0].sender, pairs[0].receiver, pairs[0].p50_ns), (1, 0, Some(7)));
        let last = pairs[1];
        assert_eq!((last.sender, last.receiver, last.messages, last.lost), (2, 1, 3, 1));
        assert_eq!((last.p50_ns, last.slowest_ns), (Some(20), Some(30)));
    }
}
