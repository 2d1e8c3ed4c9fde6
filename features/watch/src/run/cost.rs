//! What watching costs: the kernel counts the time of the programs in short windows while requests come, because counting costs as well,
//! and what they cost while nothing happens is nobody's question.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use msgpath_core::watch::ServiceCounts;
use msgpath_sys::watch::{Watch, count_run_time};

use crate::record::WatchCost;

/// A window, the least between two, and all of them together.
const WINDOW: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1800);
const ALL: Duration = Duration::from_secs(1);

pub(super) struct Counting {
    /// Without the right to count there are no windows.
    allowed: bool,
    seen: u64,
    next: Duration,
    open: Option<Window>,
    sum: WatchCost,
}

struct Window {
    begun: Instant,
    requests: u64,
    /// CPU time of the programs and how often they ran, up to its beginning.
    before: (u64, u64),
    _counting: OwnedFd,
}

impl Counting {
    pub(super) fn new() -> Self {
        let allowed = count_run_time().is_ok();
        Self { allowed, seen: 0, next: Duration::ZERO, open: None, sum: WatchCost::default() }
    }

    /// Called every tenth of a second. `windows`: not every request is followed, and the cost is measured otherwise.
    pub(super) fn follow(&mut self, watch: &mut Watch, services: &[ServiceCounts], elapsed: Duration, windows: bool) {
        let requests = turns(services);
        let came = requests > std::mem::replace(&mut self.seen, requests);
        if windows {
            self.open = None;
        } else if self.open.as_ref().is_some_and(|window| window.begun.elapsed() >= WINDOW) {
            self.close(watch, requests);
            self.next = elapsed + PAUSE;
        } else if self.allowed && self.open.is_none() && came && elapsed >= self.next && self.left() {
            self.open = window(watch, requests);
        }
    }

    fn left(&self) -> bool {
        Duration::from_nanos(self.sum.window_ns) < ALL
    }

    fn close(&mut self, watch: &mut Watch, requests: u64) {
        let Some(Window { begun, requests: before, before: (ns, runs), _counting }) = self.open.take() else { return };
        let window_ns = begun.elapsed().as_nanos() as u64;
        let came = requests.saturating_sub(before);
        let Ok((ns_now, runs_now)) = watch.run_time() else { return };
        // One in which the load has ended says nothing of the load.
        if came > 0 {
            self.sum.programs_ns += ns_now.saturating_sub(ns);
            self.sum.runs += runs_now.saturating_sub(runs);
            self.sum.requests += came;
            self.sum.window_ns += window_ns;
        }
    }

    /// `None`: the kernel did not let it be counted.
    pub(super) fn finish(mut self, watch: &mut Watch, services: &[ServiceCounts]) -> Option<WatchCost> {
        self.close(watch, turns(services));
        self.allowed.then_some(self.sum)
    }
}

fn window(watch: &mut Watch, requests: u64) -> Option<Window> {
    let _counting = count_run_time().ok()?;
    let before = watch.run_time().ok()?;
    Some(Window { begun: Instant::now(), requests, before, _counting })
}

fn turns(services: &[ServiceCounts]) -> u64 {
    services.iter().map(|service| service.requests + service.in_flight + service.torn).sum()
}
