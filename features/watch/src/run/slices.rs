//! The time in which programs are watched, in parts of the same length: what is known of each is the evidence for limits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use msgpath_core::watch::{ServiceCounts, Times};

use crate::record::Slice;

/// The first parts; they are doubled when there are too many.
const FIRST: Duration = Duration::from_millis(250);
const MOST: usize = 40;
/// While requests are followed in windows: each part has some.
const WITH_WINDOWS: Duration = Duration::from_secs(2);
/// Servers of which parts are kept, those with most requests.
const SERVERS: usize = 8;
/// A part at the end counts from this share of the others on.
const LEAST: f64 = 0.5;

pub(super) struct Slices {
    length: Duration,
    begin: Instant,
    /// Times, and requests that were not followed.
    before: BTreeMap<u32, (Times, u64)>,
    done: Vec<Slice>,
}

impl Slices {
    pub(super) fn new(begin: Instant) -> Self {
        Self { length: FIRST, begin, before: BTreeMap::new(), done: Vec::new() }
    }

    /// Called every tenth of a second.
    pub(super) fn follow(&mut self, services: &[ServiceCounts], now: Instant, windows: bool) {
        self.length = self.length.max(if windows { WITH_WINDOWS } else { FIRST });
        if now - self.begin >= self.length {
            self.close(services, now);
        }
    }

    pub(super) fn finish(mut self, services: &[ServiceCounts], now: Instant) -> Vec<Slice> {
        if (now - self.begin).as_secs_f64() >= LEAST * self.length.as_secs_f64() {
            self.close(services, now);
        }
        self.done
    }

    fn close(&mut self, services: &[ServiceCounts], now: Instant) {
        let mut busiest: Vec<&ServiceCounts> = services.iter().collect();
        busiest.sort_by_key(|service| std::cmp::Reverse(service.requests));
        let since = |service: &&ServiceCounts| {
            let all = (service.times.clone(), service.not_followed());
            let (times, not_followed) = self.before.insert(service.service, all).unwrap_or_default();
            let left = service.not_followed().saturating_sub(not_followed);
            ((service.service, service.times.since(&times)), (service.service, left))
        };
        let (times, not_followed): (Vec<_>, Vec<_>) = busiest.iter().take(SERVERS).map(since).unzip();
        let not_followed = not_followed.into_iter().filter(|(_, count)| *count > 0).collect();
        self.done.push(Slice { ns: (now - self.begin).as_nanos() as u64, times, not_followed });
        self.begin = now;
        if self.done.len() == MOST {
            self.done = self.done.chunks(2).map(joined).collect();
            self.length *= 2;
        }
    }
}

/// Parts that follow each other, as one.
fn joined(parts: &[Slice]) -> Slice {
    let mut all = BTreeMap::<u32, Times>::new();
    parts.iter().flat_map(|part| &part.times).for_each(|(service, times)| all.entry(*service).or_default().add(times));
    let mut left = BTreeMap::<u32, u64>::new();
    parts.iter().flat_map(|part| &part.not_followed).for_each(|(service, n)| *left.entry(*service).or_default() += n);
    let ns = parts.iter().map(|part| part.ns).sum();
    Slice { ns, times: all.into_iter().collect(), not_followed: left.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_one_length_and_hold_every_request() {
        let begin = Instant::now();
        let mut slices = Slices::new(begin);
        let counts = |tenth: u64| {
            vec![ServiceCounts {
                service: 1,
                requests: tenth,
                times: Times(vec![(7, tenth)]),
                ..ServiceCounts::default()
            }]
        };
        let at = |tenth: u64| begin + Duration::from_millis(100 * tenth);
        for tenth in 1..=600 {
            slices.follow(&counts(tenth), at(tenth), false);
        }
        let parts = slices.finish(&counts(610), at(610));
        assert!(parts.len() < MOST && parts.len() >= MOST / 2 - 1, "{}", parts.len());
        let total: u64 = parts.iter().flat_map(|part| &part.times).map(|(_, times)| times.total()).sum();
        assert_eq!(total, 610);
        assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), 61_000_000_000);
        let longest = parts.iter().map(|part| part.ns).max().unwrap();
        assert!(parts.iter().all(|part| part.ns * 3 >= longest));
        assert!(Slices::new(begin).finish(&[], begin).is_empty());
    }
}
