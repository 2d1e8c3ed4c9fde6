//! The modules of `msgpath-namespaces` alone, for a fuzz target.

#[path = "../../../features/namespaces/src/lab/relay/order.rs"]
pub mod order;
#[path = "../../../features/namespaces/src/lab/relay/queue.rs"]
mod queue;

use queue::Queue;

use super::Shape;

/// Frames that arrive and leave, as the bytes say: none leaves before it is due, and none comes from nowhere.
pub fn pass(shape: Shape, bytes: &[u8]) {
    let (mut queue, mut now) = (Queue::new(shape, 7, 2), 0_u64);
    let mut left = 0_u64;
    for step in bytes.chunks(3) {
        now += u64::from(step[0]) * 1_000;
        queue.arrive(now, usize::from(step[0] & 1), step);
        while let Some(frame) = queue.due(now) {
            left += 1;
            assert!(frame.from < 2 && frame.bytes.len() <= 3);
            queue.recycle(frame.bytes);
        }
    }
    let counts = queue.counts;
    assert!(left + counts.lost + counts.no_room <= counts.arrived + counts.duplicated + counts.no_room);
}
