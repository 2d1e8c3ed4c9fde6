//! How much memory the server may take for what others send, and the buffers that are used again.
//!
//! Whatever grows with what a client sends is reserved here first: values and keys that are kept, and long messages
//! in progress. Fresh memory costs a page fault for every 4 KiB, which is a good part of the time of a 1 MB write, so
//! long buffers that are given back are kept for the next message.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers from this size on are used again, bytes.
const WORTH_KEEPING: usize = 16 * 1024;
/// The most buffers that lie ready.
const MOST_READY: usize = 16;

/// The budget, and the buffers that lie ready. What lies ready counts as taken, and is given up when room is needed.
pub struct Memory {
    limit: usize,
    taken: AtomicUsize,
    ready: Mutex<Vec<Box<[u8]>>>,
}

impl Memory {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicUsize::new(0), ready: Mutex::default() })
    }

    /// Bytes that are reserved, those of buffers that lie ready included.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// The budget, bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Reserves `bytes`; `None` where the budget does not have them.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        if !self.try_take(bytes) {
            // What lies ready is given up before anybody is told that there is no room.
            let idle = std::mem::take(&mut *self.ready());
            self.taken.fetch_sub(idle.iter().map(|buffer| buffer.len()).sum(), Ordering::Relaxed);
            drop(idle);
            if !self.try_take(bytes) {
                return None;
            }
        }
        Some(Room { memory: Arc::clone(self), bytes })
    }

    fn try_take(&self, bytes: usize) -> bool {
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, Vec<Box<[u8]>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for `bytes`; `None` where the budget does not have them. What it contains is not specified.
    pub fn buffer(self: &Arc<Self>, bytes: usize) -> Option<Buffer> {
        if bytes >= WORTH_KEEPING {
            let fits = bytes..=bytes + bytes / 4 + 4096;
            let mut ready = self.ready();
            // The newest first: it is the likeliest to lie in a cache.
            if let Some(at) = ready.iter().rposition(|buffer| fits.contains(&buffer.len())) {
                let store = ready.swap_remove(at);
                let room = Room { memory: Arc::clone(self), bytes: store.len() };
                return Some(Buffer { store, used: bytes, room });
            }
        }
        let size = if bytes >= WORTH_KEEPING { bytes.next_multiple_of(4096) } else { bytes };
        let room = self.reserve(size)?;
        Some(Buffer { store: vec![0; size].into_boxed_slice(), used: bytes, room })
    }

    /// A buffer with these bytes.
    pub fn copy(self: &Arc<Self>, bytes: &[u8]) -> Option<Buffer> {
        if bytes.len() >= WORTH_KEEPING {
            let mut buffer = self.buffer(bytes.len())?;
            buffer.bytes_mut().copy_from_slice(bytes);
            return Some(buffer);
        }
        let room = self.reserve(bytes.len())?;
        Some(Buffer { store: bytes.into(), used: bytes.len(), room })
    }
}

/// A reservation, given back when dropped.
pub struct Room {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes within the budget. A long one lies ready for the next message when it is dropped.
pub struct Buffer {
    store: Box<[u8]>,
    used: usize,
    room: Room,
}

impl Buffer {
    pub fn bytes(&self) -> &[u8] {
        &self.store[..self.used]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.store[..self.used]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let store = std::mem::take(&mut self.store);
        if store.len() < WORTH_KEEPING {
            return;
        }
        let memory = Arc::clone(&self.room.memory);
        let mut ready = memory.ready();
        // At most an eighth of the budget lies idle.
        let idle: usize = ready.iter().map(|buffer| buffer.len()).sum();
        if ready.len() < MOST_READY && idle + store.len() <= memory.limit / 8 {
            self.room.bytes = 0; // the bytes stay reserved for as long as they lie there
            ready.push(store);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_buffer_is_used_again_and_counts_all_the_time() {
        let memory = Memory::new(8 << 20);
        let mut first = memory.buffer(500_000).unwrap();
        first.bytes_mut().fill(7);
        let taken = memory.taken();
        assert!((500_000..504_096).contains(&taken));
        drop(first);
        assert_eq!(memory.taken(), taken);
        let again = memory.buffer(490_000).unwrap();
        assert_eq!((again.bytes().len(), again.bytes()[489_999], memory.taken()), (490_000, 7, taken));
        let other = memory.buffer(490_000).unwrap();
        assert_eq!(other.bytes()[0], 0, "two users never share one");
    }

    #[test]
    fn what_lies_ready_is_given_up_before_a_reservation_fails() {
        let memory = Memory::new(8 << 20);
        let buffers: Vec<_> = (0..2).map(|_| memory.buffer(400_000).unwrap()).collect();
        drop(buffers);
        assert!(memory.taken() >= 800_000);
        let all = memory.reserve(8 << 20).expect("everything is free");
        assert!(memory.reserve(1).is_none() && memory.buffer(100_000).is_none() && memory.copy(b"x").is_none());
        drop(all);
        assert_eq!(memory.taken(), 0);
        assert!(memory.reserve(usize::MAX).is_none());
    }

    proptest! {
        #[test]
        fn nothing_leaks_and_the_limit_is_kept(sizes in prop::collection::vec((0_usize..300_000, any::<bool>()), 1..60)) {
            let memory = Memory::new(1 << 20);
            let mut kept = Vec::new();
            for (size, keep) in sizes {
                if let Some(buffer) = memory.buffer(size) {
                    prop_assert_eq!(buffer.bytes().len(), size);
                    if keep { kept.push(buffer) }
                }
                prop_assert!(memory.taken() <= memory.limit());
            }
            drop(kept);
            prop_assert!(memory.taken() <= memory.limit() / 8, "only what lies ready is left");
            prop_assert!(memory.reserve(1 << 20).is_some());
        }
    }
}
