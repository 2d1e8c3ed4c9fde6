//! What becomes of a frame that passes the relay, and when it is due: a pure structure. Frames and times go in, frames and
//! times come out; the same seed and frames give the same fates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use msgpath_core::shuffle::SplitMix64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::Shape;

/// Most frames that wait: 100 ms of a link with 1 Gbit/s and packets of 1500 bytes, twice.
const MOST_FRAMES: usize = 1 << 14;
/// Most bytes that wait.
const MOST_BYTES: usize = 64 << 20;
/// Buffers that are kept for the next frames.
const MOST_SPARE: usize = 1 << 10;

/// Frames by what became of them, since the relay was told what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RelayedPackets {
    /// Frames that arrived.
    pub arrived: u64,
    /// Frames dropped on purpose (`--loss`).
    pub lost: u64,
    /// Frames sent twice on purpose (`--duplicate`).
    pub duplicated: u64,
    /// Frames sent on without the delay, so that they overtook others, on purpose (`--reorder`).
    pub reordered: u64,
    /// Frames dropped because a queue or a socket was full.
    pub no_room: u64,
    /// Frames that a device did not take.
    pub refused: u64,
}

/// A frame on its way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    due: u64,
    /// Order of arrival: what is due at the same time keeps it.
    number: u64,
    /// Port by which it came.
    pub from: usize,
    pub bytes: Vec<u8>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The frames that wait, by when they are due.
pub(super) struct Queue {
    shape: Shape,
    /// One generator for each port: the fate of a frame depends on those before it in its own direction only.
    random: Vec<SplitMix64>,
    heap: BinaryHeap<Reverse<Waiting>>,
    bytes: usize,
    number: u64,
    spare: Vec<Vec<u8>>,
    pub counts: RelayedPackets,
}

impl Queue {
    /// An empty queue for so many ports. Of the shape, it does what netem does: not the rate.
    pub fn new(shape: Shape, seed: u64, ports: usize) -> Self {
        let mut seeds = SplitMix64::new(seed);
        Self {
            shape,
            random: (0..ports).map(|_| SplitMix64::new(seeds.next_u64())).collect(),
            heap: BinaryHeap::new(),
            bytes: 0,
            number: 0,
            spare: Vec::new(),
            counts: RelayedPackets::default(),
        }
    }

    /// A frame has arrived by port `from` at `now` (ns).
    pub fn arrive(&mut self, now: u64, from: usize, frame: &[u8]) {
        self.counts.arrived += 1;
        // Three numbers for each frame, whatever is asked: another loss does not change which are doubled.
        let random = &mut self.random[from];
        let mut happens = |ppm: Option<u32>| random.below(1_000_000) < ppm.unwrap_or(0) as usize;
        let lost = happens(self.shape.loss_ppm);
        let twice = happens(self.shape.duplicate_ppm);
        let at_once = happens(self.shape.reorder_ppm);
        if lost {
            self.counts.lost += 1;
            return;
        }
        let delay = self.shape.delay_ns.unwrap_or(0);
        let due = if at_once { now } else { now.saturating_add(delay) };
        self.counts.reordered += u64::from(at_once);
        self.counts.duplicated += u64::from(twice);
        for _ in 0..1 + u32::from(twice) {
            self.wait(due, from, frame);
        }
    }

    fn wait(&mut self, due: u64, from: usize, frame: &[u8]) {
        if self.heap.len() >= MOST_FRAMES || self.bytes + frame.len() > MOST_BYTES {
            self.counts.no_room += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(frame);
        self.bytes += bytes.len();
        self.heap.push(Reverse(Waiting { due, number: self.number, from, bytes }));
        self.number += 1;
    }

    /// A frame that is due at `now`, the earliest first.
    pub fn due(&mut self, now: u64) -> Option<Waiting> {
        if self.next()? > now {
            return None;
        }
        let Reverse(frame) = self.heap.pop()?;
        self.bytes -= frame.bytes.len();
        Some(frame)
    }

    /// When the next frame is due.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(frame)| frame.due)
    }

    /// Takes the buffer of a frame that was sent.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < MOST_SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frames that carry their number, into port `from`, `gap` ns apart; what comes out: when, and which.
    fn pass(shape: Shape, seed: u64, gaps: &[u64]) -> (Vec<(u64, u64)>, RelayedPackets, Vec<u64>) {
        let mut queue = Queue::new(shape, seed, 2);
        let (mut now, mut out, mut came) = (1_000, Vec::new(), Vec::new());
        let drain = |queue: &mut Queue, now: u64, out: &mut Vec<(u64, u64)>| {
            // As the relay does: woken when something is due, never before.
            while let Some(due) = queue.next().filter(|due| *due <= now) {
                let frame = queue.due(due).unwrap();
                out.push((due, u64::from_le_bytes(frame.bytes[..8].try_into().unwrap())));
                queue.recycle(frame.bytes);
            }
        };
        for (number, gap) in gaps.iter().enumerate() {
            now += gap;
            drain(&mut queue, now, &mut out);
            came.push(now);
            queue.arrive(now, 0, &(number as u64).to_le_bytes());
        }
        drain(&mut queue, u64::MAX, &mut out);
        (out, queue.counts, came)
    }

    proptest! {
        #[test]
        fn without_loss_and_reordering_all_come_in_order_and_in_time(
            gaps in proptest::collection::vec(0_u64..10_000, 0..300),
            delay in proptest::option::of(0_u64..1_000_000),
            seed: u64,
        ) {
            let (out, counts, came) = pass(Shape { delay_ns: delay, ..Shape::default() }, seed, &gaps);
            let expected: Vec<(u64, u64)> =
                came.iter().enumerate().map(|(number, at)| (at + delay.unwrap_or(0), number as u64)).collect();
            prop_assert_eq!(out, expected);
            prop_assert_eq!(counts, RelayedPackets { arrived: gaps.len() as u64, ..RelayedPackets::default() });
        }

        #[test]
        fn whatever_is_asked_each_frame_has_one_fate(
            gaps in proptest::collection::vec(0_u64..10_000, 0..300),
            loss_ppm in 0_u32..=1_000_000,
            duplicate_ppm in 0_u32..=1_000_000,
            reorder_ppm in 0_u32..=1_000_000,
            seed: u64,
        ) {
            let shape = Shape {
                delay_ns: Some(50_000),
                loss_ppm: Some(loss_ppm),
                duplicate_ppm: Some(duplicate_ppm),
                reorder_ppm: Some(reorder_ppm),
                ..Shape::default()
            };
            let (out, counts, came) = pass(shape.clone(), seed, &gaps);
            prop_assert_eq!(counts.arrived, gaps.len() as u64);
            prop_assert_eq!(out.len() as u64 + counts.lost, counts.arrived + counts.duplicated);
            prop_assert!(out.windows(2).all(|pair| pair[0].0 <= pair[1].0), "time runs forwards");
            for (at, number) in &out {
                let took = at - came[*number as usize];
                prop_assert!(took == 0 || took == 50_000, "{}", took);
            }
            prop_assert_eq!(pass(shape, seed, &gaps), (out, counts, came), "a seed gives its fates again");
        }
    }

    #[test]
    fn shares_are_kept_and_directions_are_apart() {
        let shape = Shape { loss_ppm: Some(100_000), ..Shape::default() };
        let lost = |seed| pass(shape.clone(), seed, &[10; 10_000]).1.lost;
        // 1000 expected, standard deviation 30.
        assert!((850..1150).contains(&lost(1)) && (850..1150).contains(&lost(2)), "{} {}", lost(1), lost(2));
        let mut queue = Queue::new(shape.clone(), 7, 2);
        let mut fates = [Vec::new(), Vec::new()];
        for port in [0, 1, 1, 0].repeat(500) {
            let before = queue.counts.lost;
            queue.arrive(0, port, b"frame");
            fates[port].push(queue.counts.lost - before);
        }
        assert_ne!(fates[0], fates[1]);
        let mut alone = Queue::new(shape, 7, 2);
        let again: Vec<u64> = (0..1000)
            .map(|_| {
                let before = alone.counts.lost;
                alone.arrive(0, 0, b"frame");
                alone.counts.lost - before
            })
            .collect();
        assert_eq!(fates[0], again, "the other direction changes nothing");
    }

    #[test]
    fn the_queue_is_bounded_and_says_so() {
        let mut queue = Queue::new(Shape { delay_ns: Some(u64::MAX), ..Shape::default() }, 0, 1);
        for _ in 0..MOST_FRAMES + 5 {
            queue.arrive(1, 0, b"small");
        }
        assert_eq!((queue.heap.len(), queue.counts.no_room), (MOST_FRAMES, 5));
        let mut queue = Queue::new(Shape { delay_ns: Some(1), ..Shape::default() }, 0, 1);
        for _ in 0..MOST_BYTES / 65_536 + 3 {
            queue.arrive(1, 0, &[0; 65_536]);
        }
        assert_eq!((queue.bytes, queue.counts.no_room), (MOST_BYTES, 3));
        while let Some(frame) = queue.due(2) {
            queue.recycle(frame.bytes);
        }
        assert_eq!((queue.bytes, queue.next()), (0, None));
    }
}
