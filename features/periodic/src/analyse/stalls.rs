//! A receiver that was late once makes many messages slow: they all wait for it, the first the longest. In the order of
//! arrival their times fall, each by the time that passed between the sends, and all arrive at nearly one time.

use std::collections::BTreeMap;

use msgpath_core::schema::MessageRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::PeriodicFacts;

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
    /// Number of the restart, from 0.
    pub restart: u32,
    /// Number of the receiving component.
    pub receiver: u32,
    /// When the first of the messages was made, ns since the start of the run.
    pub at_ns: u64,
    /// Number of messages that waited.
    pub messages: u64,
    /// The longest wait, ns.
    pub longest_ns: u64,
    /// The shortest wait, ns.
    pub shortest_ns: u64,
    /// No message waited longer than one that was made before it.
    pub falling: bool,
}

/// The stalls among the logged messages of one case, which come round by round.
pub(super) struct Stalls<'a> {
    facts: &'a PeriodicFacts,
    /// Rounds of a restart.
    slices: u32,
    /// Messages that took no longer are not slow, ns.
    slow: u64,
    /// By restart and component.
    receivers: BTreeMap<(u32, u32), Receiver>,
    longest: Vec<Stall>,
    /// How many there are, and how many messages waited in them.
    pub(super) found: u64,
    pub(super) messages: u64,
}

/// What one receiver got.
#[derive(Default)]
struct Receiver {
    /// Messages before which others may still have arrived.
    ahead: Vec<Arrival>,
    /// Slow messages in a row of which is not known yet whether they waited together, fewer than [`LEAST`].
    head: Vec<Arrival>,
    group: Option<Group>,
}

/// Messages that waited together.
struct Group {
    stall: Stall,
    /// The last arrival that belongs to it, and the last that came.
    until: u64,
    last: Arrival,
}

impl<'a> Stalls<'a> {
    /// None yet. `rounds`: rounds of the case; `median_ns` is what is usual.
    pub(super) fn new(facts: &'a PeriodicFacts, rounds: u32, median_ns: u64) -> Self {
        let restarts = facts.sessions.iter().map(|session| session.restart).max().map_or(1, |restart| restart + 1);
        Self {
            facts,
            slices: (rounds / restarts).max(1),
            slow: SLOW * median_ns.max(1),
            receivers: BTreeMap::new(),
            longest: Vec::new(),
            found: 0,
            messages: 0,
        }
    }

    /// Takes the messages of a round; none of a later one was made before these.
    pub(super) fn round(&mut self, rows: &[MessageRow]) {
        let of = (self.facts.processes * self.facts.components).max(1);
        self.settle(rows.iter().map(|row| row.start_ns).min().unwrap_or(0));
        for row in rows {
            if let Some(latency) = row.latency_ns {
                let arrived = row.start_ns.saturating_add(row.far_ns.unwrap_or(latency));
                let receiver = (row.pass / self.slices, row.connection / of);
                self.receivers.entry(receiver).or_default().ahead.push((arrived, row.start_ns, latency));
            }
        }
    }

    /// The stalls, the longest wait first, at most [`super::STALLS`].
    pub(super) fn finish(&mut self) -> Vec<Stall> {
        self.settle(u64::MAX);
        self.keep_longest();
        std::mem::take(&mut self.longest)
    }

    /// What arrived before a time is in order: nothing that is made later comes between.
    fn settle(&mut self, before: u64) {
        let mut receivers = std::mem::take(&mut self.receivers);
        let slow = self.slow;
        for ((restart, number), receiver) in &mut receivers {
            receiver.ahead.sort_unstable();
            let certain = match before {
                u64::MAX => receiver.ahead.len(),
                before => receiver.ahead.partition_point(|(arrived, ..)| *arrived < before),
            };
            let mut found = |stall: Stall| self.add(Stall { restart: *restart, receiver: *number, ..stall });
            for arrival in receiver.ahead.drain(..certain).collect::<Vec<_>>() {
                receiver.take(arrival, slow).into_iter().for_each(&mut found);
            }
            if before == u64::MAX {
                receiver.group.take().into_iter().for_each(|group| found(group.stall));
            }
        }
        self.receivers = receivers;
    }

    fn add(&mut self, stall: Stall) {
        self.found += 1;
        self.messages += stall.messages;
        self.longest.push(stall);
        if self.longest.len() > 4 * super::STALLS {
            self.keep_longest();
        }
    }

    fn keep_longest(&mut self) {
        let key = |stall: &Stall| (std::cmp::Reverse(stall.longest_ns), stall.restart, stall.receiver, stall.at_ns);
        self.longest.sort_by_key(key);
        self.longest.truncate(super::STALLS);
    }
}

impl Receiver {
    /// Takes the next arrival; the stall that ends with it.
    fn take(&mut self, arrival: Arrival, slow: u64) -> Option<Stall> {
        if arrival.2 <= slow {
            // Fewer than make a stall are none.
            self.head.clear();
            return self.group.take().map(|group| group.stall);
        }
        if let Some(group) = self.group.as_mut().filter(|group| arrival.0 <= group.until) {
            group.add(arrival);
            return None;
        }
        let ended = self.group.take().map(|group| group.stall);
        self.head.push(arrival);
        if self.head.len() == LEAST {
            // One late receiver empties its queue at once; what arrives later belongs to another time.
            let longest = self.head.iter().map(|(.., latency)| *latency).max().unwrap_or(0);
            let until = self.head[0].0.saturating_add(longest / TOGETHER);
            let together = self.head.iter().take_while(|(arrived, ..)| *arrived <= until).count().max(1);
            let own: Vec<Arrival> = self.head.drain(..together).collect();
            self.group = (own.len() == LEAST).then(|| Group::new(&own, until));
        }
        ended
    }
}

impl Group {
    fn new(own: &[Arrival], until: u64) -> Self {
        let stall = Stall { shortest_ns: u64::MAX, at_ns: u64::MAX, falling: true, ..Stall::default() };
        let mut group = Self { stall, until, last: own[0] };
        own.iter().for_each(|arrival| group.add(*arrival));
        group
    }

    fn add(&mut self, arrival: Arrival) {
        let (_, start, latency) = arrival;
        self.stall.messages += 1;
        self.stall.at_ns = self.stall.at_ns.min(start);
        self.stall.longest_ns = self.stall.longest_ns.max(latency);
        self.stall.shortest_ns = self.stall.shortest_ns.min(latency);
        self.stall.falling &= self.last.1 > start || self.last.2 >= latency;
        self.last = arrival;
    }
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

    fn stalls(rows: &[MessageRow], median_ns: u64) -> Vec<Stall> {
        let facts = facts();
        let mut stalls = Stalls::new(&facts, 1, median_ns);
        stalls.round(rows);
        let found = stalls.finish();
        // As many small rounds say the same.
        let mut apart = Stalls::new(&facts, 1, median_ns);
        rows.chunks(7).for_each(|rows| apart.round(rows));
        assert_eq!((apart.finish(), apart.found), (found.clone(), stalls.found));
        found
    }

    #[test]
    fn messages_that_wait_for_one_receiver_are_one_stall() {
        let rows = series(31_000_000, 22..31);
        let found = stalls(&rows, 20_000);
        assert_eq!(found.len(), 1, "{found:?}");
        let stall = &found[0];
        assert_eq!((stall.receiver, stall.messages, stall.at_ns, stall.falling), (1, 9, 22_000_000, true));
        assert!(stall.longest_ns > 9_000_000 && stall.shortest_ns < 1_100_000);
    }

    #[test]
    fn slow_messages_that_arrive_apart_are_none() {
        let rows: Vec<MessageRow> = (0..50).map(|at| row(1, 0, at, at * 10_000_000, 5_000_000)).collect();
        assert!(stalls(&rows, 20_000).is_empty());
        let few = series(31_000_000, 28..31);
        assert!(stalls(&few, 20_000).is_empty());
        assert!(stalls(&[], 0).is_empty());
    }
}
