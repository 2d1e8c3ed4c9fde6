//! A receiver that was late once makes many messages slow: they all wait for it, the first the longest. In the order of
//! arrival their times fall, each by the time that passed between the sends, and all arrive at nearly one time.

use std::collections::BTreeMap;

use msgpath_core::schema::{MessageRow, PeriodicFacts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stall has at least so many messages.
const LEAST: usize = 5;
/// Each is slower than so many medians.
const SLOW: u64 = 10;
/// All arrive within this part of the longest wait.
const TOGETHER: u64 = 5;

/// When a message arrived, when it was made, and how long it took, ns.
type Arrival = (u64, u64, u64);

/// One time that a receiver was late.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Stall {
    /// Restart.
    pub restart: u32,
    /// Number of the receiving component.
    pub receiver: u32,
    /// When the first of the messages was made, ns since the start of the run.
    pub at_ns: u64,
    /// Messages that waited.
    pub messages: u64,
    /// The longest wait, ns.
    pub longest_ns: u64,
    /// The shortest, ns.
    pub shortest_ns: u64,
    /// No message waited longer than one that was made before it.
    pub falling: bool,
}

/// Stalls among the logged messages of one case, the longest wait first. `median_ns` is what is usual.
pub fn stalls(rows: &[&MessageRow], facts: &PeriodicFacts, median_ns: u64) -> Vec<Stall> {
    let of = (facts.processes * facts.components).max(1);
    let rounds = rows.iter().map(|row| row.pass).max().map_or(1, |pass| pass + 1);
    let restarts = facts.sessions.iter().map(|session| session.restart).max().map_or(1, |restart| restart + 1);
    let slices = (rounds / restarts).max(1);
    let mut receivers: BTreeMap<(u32, u32), Vec<Arrival>> = BTreeMap::new();
    for row in rows {
        if let Some(latency) = row.latency_ns {
            let arrived = row.start_ns.saturating_add(row.far_ns.unwrap_or(latency));
            let receiver = (row.pass / slices, row.connection / of);
            receivers.entry(receiver).or_default().push((arrived, row.start_ns, latency));
        }
    }
    let slow = SLOW * median_ns.max(1);
    let mut found = Vec::new();
    for ((restart, receiver), mut own) in receivers {
        own.sort_unstable();
        for run in own.split(|(_, _, latency)| *latency <= slow) {
            let mut rest = run;
            // One late receiver empties its queue at once; what arrives later belongs to another time.
            while let Some((first, _, _)) = rest.first() {
                let longest = rest.iter().take(LEAST).map(|(.., latency)| *latency).max().unwrap_or(0);
                let together = rest.iter().take_while(|(arrived, ..)| arrived - first <= longest / TOGETHER).count();
                let (own, after) = rest.split_at(together.max(1));
                rest = after;
                if own.len() >= LEAST {
                    found.push(Stall {
                        restart,
                        receiver,
                        at_ns: own.iter().map(|(_, start, _)| *start).min().unwrap_or(0),
                        messages: own.len() as u64,
                        longest_ns: own.iter().map(|(.., latency)| *latency).max().unwrap_or(0),
                        shortest_ns: own.iter().map(|(.., latency)| *latency).min().unwrap_or(0),
                        falling: own.windows(2).all(|pair| pair[0].1 > pair[1].1 || pair[0].2 >= pair[1].2),
                    });
                }
            }
        }
    }
    found.sort_by_key(|stall| (std::cmp::Reverse(stall.longest_ns), stall.restart, stall.receiver, stall.at_ns));
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{facts, row};
    use super::*;

    /// Receiver 1 of four: message `at` made at `at` ms, delivered at once, but for those that wait until `until`.
    fn series(until: u64, waiting: std::ops::Range<u64>) -> Vec<MessageRow> {
        (0..100)
            .map(|at| {
                let start = at * 1_000_000;
                let latency = if waiting.contains(&at) { until - start + 100 * at } else { 20_000 };
                row(1, 0, at, start, latency)
            })
            .collect()
    }

    #[test]
    fn messages_that_wait_for_one_receiver_are_one_stall() {
        let rows = series(31_000_000, 22..31);
        let found = stalls(&rows.iter().collect::<Vec<_>>(), &facts(), 20_000);
        assert_eq!(found.len(), 1, "{found:?}");
        let stall = &found[0];
        assert_eq!((stall.receiver, stall.messages, stall.at_ns, stall.falling), (1, 9, 22_000_000, true));
        assert!(stall.longest_ns > 9_000_000 && stall.shortest_ns < 1_100_000);
    }

    #[test]
    fn slow_messages_that_arrive_apart_are_none() {
        let rows: Vec<MessageRow> = (0..50).map(|at| row(1, 0, at, at * 10_000_000, 5_000_000)).collect();
        assert!(stalls(&rows.iter().collect::<Vec<_>>(), &facts(), 20_000).is_empty());
        let few = series(31_000_000, 28..31);
        assert!(stalls(&few.iter().collect::<Vec<_>>(), &facts(), 20_000).is_empty());
        assert!(stalls(&[], &facts(), 0).is_empty());
    }
}
