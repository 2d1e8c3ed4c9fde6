//! Which requests have a row: all of them while there are few, else the slow ones and a sample.

use std::collections::BTreeMap;

use msgpath_core::watch::ServiceCounts;
use msgpath_sys::watch::Watch;

/// Rows between two calls that are not too many: 1000 a second.
const ENOUGH: u64 = 100;
/// One in so many, at most.
const LARGEST: u64 = 4096;
/// Requests from this quantile on have a row, so that those around p99 all have one.
const SLOW: f64 = 0.97;

/// Follows the load of each server.
pub(super) struct Sampling {
    /// From when on a request is slow, ns; 0: [`SLOW`].
    slow_ns: u64,
    before: BTreeMap<u32, u64>,
    /// By server: from when on a request is slow, and one in how many has a row.
    set: BTreeMap<u32, (u64, u64)>,
}

impl Sampling {
    pub(super) fn new(slow_ns: u64) -> Self {
        Self { slow_ns, before: BTreeMap::new(), set: BTreeMap::new() }
    }

    /// From when on a request of a server is slow, ns, and one in how many of the others has a row.
    pub(super) fn of(&self, service: u32) -> (u64, u64) {
        self.set.get(&service).copied().unwrap_or((u64::MAX, 1))
    }

    pub(super) fn set(&mut self, service: u32, slow: u64, every: u64) {
        self.set.insert(service, (slow, every));
    }

    /// Called every tenth of a second. `windows`: where no request was followed meanwhile, that says nothing of the load.
    pub(super) fn follow(&mut self, watch: &Watch, services: &[ServiceCounts], windows: bool) {
        for service in services {
            let before = self.before.insert(service.service, service.requests).unwrap_or(0);
            let came = service.requests.saturating_sub(before);
            if windows && came == 0 {
                continue;
            }
            let every = every(came);
            let slow = match (self.slow_ns, every) {
                (0, 1) => u64::MAX,
                (0, _) => service.times.quantile(SLOW).map_or(u64::MAX, |ns| ns as u64),
                (ns, _) => ns,
            };
            self.set(service.service, slow, every);
            watch.set_sampling(service.service, slow, every);
        }
    }
}

/// One in how many requests is enough where so many come between two calls: a power of two.
fn every(requests: u64) -> u64 {
    (requests / ENOUGH).next_power_of_two().min(LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_all_kept_and_many_are_sampled() {
        assert_eq!([0, 99, 100, 400, 10_000, u64::MAX >> 1].map(every), [1, 1, 1, 4, 128, 4096]);
    }
}
