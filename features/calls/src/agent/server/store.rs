//! Keys and values, in the order of their keys, and how long everybody waited for them.
//!
//! All threads share one map under one lock, as in the lab: to see what waiting for a lock costs is one of its points.
//! Unlike there, nothing is copied and nothing is freed while the lock is held: values are handed out by reference.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use msgpath_sys::clock;

use super::memory::{Buffer, Memory, Room};

/// What an entry takes beside its bytes, about: its place in the map and two reference counts.
const ENTRY: usize = 128;
/// Buckets of the histogram of waits.
pub const BUCKETS: usize = 32;

/// A value that is kept, as the string it came as and is sent as: its length in four bytes, then its bytes.
#[derive(Clone)]
pub struct Value {
    within: Arc<Buffer>,
    string: Range<usize>,
}

impl Value {
    /// The part `string` of a buffer, length bytes included.
    pub fn new(buffer: Buffer, string: Range<usize>) -> Self {
        Self { within: Arc::new(buffer), string }
    }

    /// Length and bytes, as on the wire.
    pub fn as_string(&self) -> &[u8] {
        &self.within.bytes()[self.string.clone()]
    }

    pub fn bytes(&self) -> &[u8] {
        &self.as_string()[4..]
    }
}

struct Entry {
    value: Value,
    _room: Room,
}

struct Inner {
    entries: BTreeMap<Box<[u8]>, Entry>,
    waits: [u64; BUCKETS],
}

pub struct Store {
    inner: Mutex<Inner>,
    memory: Arc<Memory>,
}

/// What an operation found, and how long it waited for the lock, ns.
pub struct Found<T> {
    pub is: T,
    /// ns; 0 where nobody else held the lock.
    pub waited_ns: u64,
}

/// No room for a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// Bucket of a wait: floor(log2) of its microseconds, the first one for everything below 2 µs.
fn bucket(wait_ns: u64) -> usize {
    ((wait_ns / 1000).max(1).ilog2() as usize).min(BUCKETS - 1)
}

impl Store {
    /// An empty one that takes its room from `memory`.
    pub fn new(memory: Arc<Memory>) -> Self {
        Self { inner: Mutex::new(Inner { entries: BTreeMap::new(), waits: [0; BUCKETS] }), memory }
    }

    fn lock(&self) -> (MutexGuard<'_, Inner>, u64) {
        let (mut inner, waited_ns) = match self.inner.try_lock() {
            Ok(inner) => (inner, 0),
            Err(TryLockError::Poisoned(inner)) => (inner.into_inner(), 0),
            Err(TryLockError::WouldBlock) => {
                let begun = clock::now();
                let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                (inner, clock::now() - begun)
            }
        };
        inner.waits[bucket(waited_ns)] += 1;
        (inner, waited_ns)
    }

    /// Keeps a value. One that is there under the same key is replaced.
    ///
    /// # Errors
    /// No room for a new key; nothing has changed.
    pub fn write(&self, key: &[u8], value: Value) -> Found<Result<(), Full>> {
        let (mut inner, waited_ns) = self.lock();
        let (is, replaced) = match inner.entries.get_mut(key) {
            Some(entry) => (Ok(()), std::mem::replace(&mut entry.value, value)),
            None => match self.memory.reserve(key.len() + ENTRY) {
                Some(room) => {
                    inner.entries.insert(key.into(), Entry { value, _room: room });
                    return Found { is: Ok(()), waited_ns };
                }
                None => (Err(Full), value),
            },
        };
        drop(inner);
        drop(replaced); // long buffers are given back after the lock is
        Found { is, waited_ns }
    }

    pub fn read(&self, key: &[u8]) -> Found<Option<Value>> {
        let (inner, waited_ns) = self.lock();
        Found { is: inner.entries.get(key).map(|entry| entry.value.clone()), waited_ns }
    }

    /// Forgets a key. Whether it was there.
    pub fn delete(&self, key: &[u8]) -> Found<bool> {
        let (mut inner, waited_ns) = self.lock();
        let entry = inner.entries.remove(key);
        drop(inner);
        Found { is: entry.is_some(), waited_ns }
    }

    /// Forgets all keys.
    pub fn reset(&self) -> Found<()> {
        let (mut inner, waited_ns) = self.lock();
        let entries = std::mem::take(&mut inner.entries);
        drop(inner);
        drop(entries);
        Found { is: (), waited_ns }
    }

    /// How often the lock was waited for how long, this time included: bucket i counts 2^i to 2^(i+1) µs, the first one
    /// also what was shorter.
    pub fn waits(&self) -> Found<[u64; BUCKETS]> {
        let (inner, waited_ns) = self.lock();
        Found { is: inner.waits, waited_ns }
    }

    /// Holds the lock for a time, sleeping.
    pub fn hold(&self, time: std::time::Duration) {
        let _held = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(time);
    }

    pub fn keys(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn value(memory: &Arc<Memory>, bytes: &[u8]) -> Option<Value> {
        let string = [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
        memory.copy(&string).map(|buffer| Value::new(buffer, 0..string.len()))
    }

    #[test]
    fn waits_are_counted_by_their_logarithm() {
        for (ns, expected) in [(0, 0), (1999, 0), (2000, 1), (3999, 1), (4000, 2), (1_024_000, 10), (u64::MAX, 31)] {
            assert_eq!(bucket(ns), expected, "{ns}");
        }
        let memory = Memory::new(1 << 20);
        let store = Store::new(Arc::clone(&memory));
        assert_eq!(store.waits().is[0], 1);
        store.read(b"k");
        assert_eq!(store.waits().is[0], 3);
    }

    #[test]
    fn who_waits_for_the_lock_is_told_how_long() {
        let store = Arc::new(Store::new(Memory::new(1 << 20)));
        let held = store.inner.lock().unwrap();
        let (other, (started, waits)) = (Arc::clone(&store), std::sync::mpsc::channel());
        let thread = std::thread::spawn(move || {
            started.send(()).unwrap();
            other.read(b"k").waited_ns
        });
        waits.recv().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(held);
        let waited = thread.join().unwrap();
        assert!(waited > 0);
        assert_eq!(store.waits().is[bucket(waited)], if bucket(waited) == 0 { 2 } else { 1 });
    }

    #[test]
    fn a_value_that_is_read_outlives_its_key() {
        let memory = Memory::new(1 << 20);
        let store = Store::new(Arc::clone(&memory));
        store.write(b"k", value(&memory, b"old").unwrap()).is.unwrap();
        let old = store.read(b"k").is.unwrap();
        store.write(b"k", value(&memory, b"new").unwrap()).is.unwrap();
        assert!(store.delete(b"k").is && !store.delete(b"k").is && store.keys() == 0);
        assert_eq!((old.bytes(), old.as_string()), (&b"old"[..], &b"\x03\0\0\0old"[..]));
        drop(old);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn a_key_without_room_changes_nothing() {
        let memory = Memory::new(400);
        let store = Store::new(Arc::clone(&memory));
        store.write(b"first", value(&memory, &[1; 100]).unwrap()).is.unwrap();
        let second = value(&memory, &[2; 100]).unwrap();
        assert_eq!(store.write(b"second", second).is, Err(Full));
        assert_eq!((store.keys(), store.read(b"first").is.unwrap().bytes()), (1, &[1; 100][..]));
        let replacement = value(&memory, &[3; 100]).unwrap();
        assert_eq!(store.write(b"first", replacement).is, Ok(()), "a key that is there needs no more room");
        store.reset();
        assert_eq!(memory.taken(), 0);
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u8..4, 0_u8..6, any::<u8>()), 0..80)) {
            let memory = Memory::new(1 << 20);
            let (store, mut model) = (Store::new(Arc::clone(&memory)), BTreeMap::new());
            for (what, key, byte) in steps {
                let (key, bytes) = (vec![key; 3], vec![byte; usize::from(byte)]);
                match what {
                    0 | 1 => {
                        store.write(&key, value(&memory, &bytes).unwrap()).is.unwrap();
                        model.insert(key, bytes);
                    }
                    2 => prop_assert_eq!(store.delete(&key).is, model.remove(&key).is_some()),
                    _ => prop_assert_eq!(store.read(&key).is.map(|value| value.bytes().to_vec()), model.get(&key).cloned()),
                }
                prop_assert_eq!(store.keys(), model.len());
            }
            store.reset();
            prop_assert_eq!(memory.taken(), 0);
        }
    }
}
