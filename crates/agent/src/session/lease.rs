//! A session's sign of life.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use msgpath_sys::clock;

/// The longest lease that is given.
const LONGEST_MS: u64 = 60_000;

/// A session's sign of life: when the last frame came, and how long silence may last.
#[derive(Debug)]
pub struct Lease {
    last: AtomicU64,
    pub(super) ns: AtomicU64,
    /// Something was ordered.
    worked: AtomicBool,
}

impl Lease {
    /// A lease that begins now.
    pub fn new(length: Duration) -> Self {
        let lease = Self {
            last: AtomicU64::new(0),
            ns: AtomicU64::new(length.as_nanos() as u64),
            worked: AtomicBool::new(false),
        };
        lease.renew();
        lease
    }

    /// The near end orders something.
    pub(crate) fn begins_to_work(&self) {
        self.worked.store(true, Ordering::Relaxed);
    }

    /// Whether the near end has ordered anything since it greeted.
    pub fn has_worked(&self) -> bool {
        self.worked.load(Ordering::Relaxed)
    }

    /// Whether the near end has been silent for too long.
    pub fn is_over(&self) -> bool {
        self.is_over_by(1)
    }

    /// So long may silence last from now on, within bounds; nothing: for ever.
    pub(super) fn lasts(&self, ms: Option<u64>) {
        self.ns.store(ms.map_or(0, |ms| ms.clamp(100, LONGEST_MS) * 1_000_000), Ordering::Relaxed);
    }

    /// Whether nothing was heard for so many leases.
    pub(super) fn is_over_by(&self, leases: u64) -> bool {
        let ns = self.ns.load(Ordering::Relaxed);
        ns > 0 && clock::now().saturating_sub(self.last.load(Ordering::Relaxed)) > ns * leases
    }

    /// The near end has been heard, or keeps quiet because it waits for this end.
    pub(super) fn renew(&self) {
        self.last.store(clock::now(), Ordering::Relaxed);
    }
}
