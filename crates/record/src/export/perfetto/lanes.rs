//! Slots in flight: slices on one track of a trace must not overlap, messages in flight do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The slots of one connection. A message takes the lowest that is free when it starts.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Slots that are taken, with the end of their message, ns; the first to end on top.
    busy: BinaryHeap<Reverse<(u64, u32)>>,
    free: BinaryHeap<Reverse<u32>>,
    opened: u32,
    latest: u64,
}

impl Lanes {
    /// The slot of a message from `start` to `end`, ns. Where a message starts before its predecessor, which only a
    /// damaged record has, all slots used so far are left alone.
    pub fn take(&mut self, start: u64, end: u64) -> u32 {
        if start < self.latest {
            self.busy.clear();
            self.free.clear();
        }
        self.latest = start;
        while let Some(Reverse((_, lane))) = self.busy.peek().filter(|Reverse((ended, _))| *ended <= start) {
            self.free.push(Reverse(*lane));
            self.busy.pop();
        }
        let lane = self.free.pop().map_or_else(
            || {
                self.opened += 1;
                self.opened - 1
            },
            |Reverse(lane)| lane,
        );
        self.busy.push(Reverse((end, lane)));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_message_at_a_time_needs_one_slot() {
        let mut lanes = Lanes::default();
        assert_eq!([(0, 5), (5, 9), (9, 9), (9, 20)].map(|(start, end)| lanes.take(start, end)), [0; 4]);
        assert_eq!([(10, 12), (11, 30), (12, 13), (20, 21)].map(|(start, end)| lanes.take(start, end)), [1, 2, 1, 0]);
    }

    proptest! {
        #[test]
        fn slots_never_overlap(messages in prop::collection::vec((0_u64..300, 0_u64..80), 1..120), sorted: bool) {
            let mut messages = messages;
            if sorted {
                messages.sort_unstable();
            }
            let mut lanes = Lanes::default();
            let mut taken: Vec<(u32, u64, u64)> = Vec::new();
            for (start, length) in messages {
                let lane = lanes.take(start, start + length);
                for (_, from, to) in taken.iter().filter(|(other, ..)| *other == lane) {
                    prop_assert!(*to <= start, "{from}..{to} and {start} on slot {lane}");
                }
                taken.push((lane, start, start + length));
            }
        }
    }
}
