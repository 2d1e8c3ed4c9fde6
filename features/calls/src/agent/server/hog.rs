//! Troubles that are wanted: threads of the server that take its lock or its CPUs away from the calls, so that a client can
//! be shown what that looks like.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use super::options::LockHog;
use super::store::Store;

/// Most threads that spin.
pub const MOST_CPU_HOGS: u32 = 64;
/// Longest time for which the lock is held at once.
pub const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// Takes the lock until `over`.
pub(super) fn lock(hog: LockHog, store: &Store, over: &AtomicBool) {
    let pause = hog.every.saturating_sub(hog.hold);
    while !over.load(Ordering::Relaxed) {
        store.hold(hog.hold);
        let mut left = pause;
        // Short sleeps, so that the server's end is not waited for.
        while !left.is_zero() && !over.load(Ordering::Relaxed) {
            let now = left.min(Duration::from_millis(100));
            std::thread::sleep(now);
            left -= now;
        }
    }
}

/// Spins until `over`.
pub(super) fn cpu(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::memory::Memory;
    use super::*;

    #[test]
    fn whoever_comes_while_the_lock_is_held_waits() {
        let store = Arc::new(Store::new(Memory::new(1 << 20)));
        let over = Arc::new(AtomicBool::new(false));
        let hog = LockHog { hold: Duration::from_millis(20), every: Duration::from_millis(21) };
        let (theirs, ended) = (store.clone(), over.clone());
        let thread = std::thread::spawn(move || lock(hog, &theirs, &ended));
        // The lock is held nearly always: one of many readings comes while it is.
        let waited = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            store.read(b"k").waited_ns > 0
        });
        over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(waited);
    }
}
