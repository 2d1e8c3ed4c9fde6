//! Windows of time in which requests are followed, where there are more than can be paid for. Between them servers are only counted.
//!
//! Both kinds of time alternate, so that what watching takes of the servers' throughput is measured, and not estimated.

use std::time::{Duration, Instant};

use msgpath_core::watch::ServiceCounts;
use msgpath_sys::bpf::Missing;
use msgpath_sys::watch::Watch;

use crate::record::Windows as Kept;

/// Requests a second that can be followed for a few percent of a CPU.
const PAYABLE: f64 = 8_000.0;
/// Windows begin above so many times that rate, and end below this share of it.
const BEGINS: f64 = 1.25;
const ENDS: f64 = 0.75;
/// One in so many, at most.
const LARGEST: f64 = 100.0;
/// A window, and the time from one to the next where it can be as long.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(50);
const CYCLE: Duration = Duration::from_millis(500);
/// Requests that take longer may be missed at the end of a window.
pub(crate) const FOLLOWED_TO_ITS_END: Duration = Duration::from_millis(250);
/// How often one looks whether all are over.
const LOOK: Duration = Duration::from_millis(2);
/// Rates from less data than this say nothing.
const ENOUGH: u64 = 50;
/// The programs that only count are compared with none: so often at most, every so many windows, for so long.
const BARE: u64 = 12;
const BARE_EVERY: u64 = 3;
const BARE_LENGTH: Duration = Duration::from_millis(150);
/// Pairs of windows that are kept.
const MOST: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Every request is followed.
    Whole,
    Open,
    Closing,
    Shut,
    /// As `Shut`, without the programs that follow requests.
    Bare,
}

/// Times that servers received data, in all.
fn received(services: &[ServiceCounts]) -> u64 {
    services.iter().map(|service| service.followed + service.missed).sum()
}

fn turns(services: &[ServiceCounts]) -> u64 {
    services.iter().map(|one| one.requests + one.in_flight + one.torn + one.incomplete).sum()
}

pub(super) struct Windows {
    allowed: bool,
    state: State,
    /// When the state began, with what had been counted, and when it is to end.
    since: Instant,
    received: u64,
    turns: u64,
    until: Instant,
    one_in: f64,
    random: u64,
    /// When windows began for the first time.
    first: Option<Instant>,
    open: Duration,
    count: u64,
    /// How often a second servers received data: before the last window, and in it.
    before: Option<f64>,
    within: Option<f64>,
    kept: Vec<f64>,
    /// The same of the time without the programs, and the time before it.
    bare: Option<f64>,
    idle: Option<f64>,
    kept_idle: Vec<f64>,
    tried: u64,
}

impl Windows {
    /// `all`: every request is to be followed.
    pub(super) fn new(all: bool, now: Instant) -> Self {
        Self {
            allowed: !all,
            state: State::Whole,
            since: now,
            received: 0,
            turns: 0,
            until: now,
            one_in: 1.0,
            random: 0x9e37_79b9_7f4a_7c15,
            first: None,
            open: Duration::ZERO,
            count: 0,
            before: None,
            within: None,
            kept: Vec::new(),
            bare: None,
            idle: None,
            kept_idle: Vec::new(),
            tried: 0,
        }
    }

    /// Not every request is followed now.
    pub(super) fn are_on(&self) -> bool {
        self.state != State::Whole
    }

    /// When something is to be done here; `None`: at the next call of [`follow`](Self::follow).
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Whole => None,
            State::Closing => Some(LOOK),
            State::Open | State::Shut | State::Bare => Some(self.until.saturating_duration_since(now)),
        }
    }

    /// Called every tenth of a second: whether there are more requests than can be followed.
    pub(super) fn follow(&mut self, watch: &Watch, services: &[ServiceCounts], now: Instant) {
        if self.state != State::Whole {
            return;
        }
        let rate = self.rate(turns(services), self.turns, now);
        self.enter(State::Whole, services, now);
        if self.allowed && rate > BEGINS * PAYABLE && watch.has_windows() {
            self.one_in = (rate / PAYABLE).ceil().min(LARGEST);
            self.first.get_or_insert(now);
            (self.before, self.within) = (None, None);
            watch.close_window();
            self.enter(State::Closing, services, now);
        }
    }

    /// Called when [`next`](Self::next) says so.
    ///
    /// Returned: programs that could not be attached again, and why.
    pub(super) fn step(&mut self, watch: &mut Watch, services: impl FnOnce(&Watch) -> Vec<ServiceCounts>) -> Missing {
        let now = Instant::now();
        match self.state {
            State::Shut if now >= self.until && self.tried < BARE && self.count > self.tried * BARE_EVERY => {
                let services = services(watch);
                self.tried += 1;
                self.idle = self.data_rate(&services, now);
                watch.detach();
                self.enter(State::Bare, &services, Instant::now());
            }
            State::Bare if now >= self.until => {
                let services = services(watch);
                self.bare = self.data_rate(&services, now);
                let missing = watch.attach();
                self.enter(State::Shut, &services, Instant::now());
                return missing;
            }
            State::Closing if watch.under_way() == 0 || now >= self.until => {
                watch.shut_window();
                self.enter(State::Shut, &services(watch), now);
            }
            State::Shut if now >= self.until => {
                let services = services(watch);
                let rate = self.data_rate(&services, now);
                self.pair(rate);
                watch.open_window();
                self.count += 1;
                let state = if watch.has_windows() { State::Open } else { State::Whole };
                self.enter(state, &services, now);
            }
            State::Open if now >= self.until => {
                let services = services(watch);
                self.open += now - self.since;
                self.within = self.data_rate(&services, now);
                let rate = self.rate(turns(&services), self.turns, now);
                if rate < ENDS * PAYABLE {
                    self.enter(State::Whole, &services, now);
                    return Missing::new();
                }
                self.one_in = (rate / PAYABLE).ceil().clamp(2.0, LARGEST);
                watch.close_window();
                self.enter(State::Closing, &services, now);
            }
            _ => {}
        }
        Missing::new()
    }

    /// Data received a second since the state began; `None`: too little of it.
    fn data_rate(&self, services: &[ServiceCounts], now: Instant) -> Option<f64> {
        let received = received(services);
        (received.saturating_sub(self.received) >= ENOUGH).then(|| self.rate(received, self.received, now))
    }

    /// What was counted a second since the state began.
    fn rate(&self, now: u64, before: u64, at: Instant) -> f64 {
        now.saturating_sub(before) as f64 / (at - self.since).as_secs_f64().max(1e-6)
    }

    /// The time without following around a window against that window.
    fn pair(&mut self, after: Option<f64>) {
        if let (Some(before), Some(within), Some(after)) = (self.before, self.within.take(), after)
            && self.kept.len() < MOST
        {
            self.kept.push(within / ((before + after) / 2.0));
        }
        if let (Some(before), Some(bare), Some(after)) = (self.idle.take(), self.bare.take(), after) {
            self.kept_idle.push((before + after) / 2.0 / bare);
        }
        self.before = after;
    }

    fn enter(&mut self, state: State, services: &[ServiceCounts], now: Instant) {
        let length = length(self.one_in);
        let lasts = match state {
            State::Whole => Duration::ZERO,
            State::Open => length,
            State::Closing => FOLLOWED_TO_ITS_END,
            State::Bare => BARE_LENGTH,
            // Of changing length: what comes in beats of its own is not always met, or always missed.
            State::Shut => length.mul_f64((self.one_in - 1.0).max(1.0)).mul_f64(0.5 + self.draw()),
        };
        (self.state, self.since, self.until) = (state, now, now + lasts);
        (self.received, self.turns) = (received(services), turns(services));
    }

    /// Between 0 and 1.
    fn draw(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `None`: every request was followed.
    pub(super) fn finish(mut self, now: Instant) -> Option<Kept> {
        let first = self.first?;
        if self.state == State::Open {
            self.open += now - self.since;
        }
        Some(Kept {
            count: self.count,
            open_ns: self.open.as_nanos() as u64,
            of_ns: (now - first).as_nanos() as u64,
            followed_ns: FOLLOWED_TO_ITS_END.as_nanos() as u64,
            kept: self.kept,
            kept_idle: self.kept_idle,
        })
    }
}

/// How long a window is where one in so many requests is followed.
fn length(one_in: f64) -> Duration {
    CYCLE.div_f64(one_in).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_shorter_where_there_is_more() {
        assert_eq!([2.0, 10.0, 25.0, 100.0].map(|one_in| length(one_in).as_millis()), [50, 50, 20, 10]);
    }

    #[test]
    fn gaps_are_of_changing_length_with_the_right_mean() {
        let now = Instant::now();
        let mut windows = Windows::new(false, now);
        windows.one_in = 5.0;
        let gaps: Vec<f64> = (0..1000)
            .map(|_| {
                windows.enter(State::Shut, &[], now);
                windows.next(now).unwrap().as_secs_f64()
            })
            .collect();
        assert!(gaps.iter().all(|gap| (0.1..=0.3).contains(gap)), "{gaps:?}");
        let mean = gaps.iter().sum::<f64>() / 1000.0;
        assert!((0.19..0.21).contains(&mean), "{mean}");
    }

    #[test]
    fn a_window_is_compared_with_the_time_on_both_sides() {
        let mut windows = Windows::new(false, Instant::now());
        windows.pair(Some(100.0));
        windows.within = Some(90.0);
        windows.pair(Some(80.0));
        windows.within = Some(72.0);
        windows.pair(None);
        windows.within = Some(72.0);
        windows.pair(Some(100.0));
        assert_eq!(windows.kept, [1.0]);
        (windows.idle, windows.bare) = (Some(98.0), Some(200.0));
        windows.pair(Some(94.0));
        assert_eq!((&windows.kept_idle[..], windows.bare), (&[0.48][..], None));
        assert_eq!(windows.finish(Instant::now()), None);
    }
}
