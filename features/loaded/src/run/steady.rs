//! Whether a load has reached its steady state, by what passes the device and by what waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use msgpath_core::Problem;
use msgpath_stats::describe::mean;

/// What is looked at, ns of the coordinator's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// When.
    pub t_ns: u64,
    /// Bytes that the device at the near end has passed in the direction of the load.
    pub bytes: u64,
    /// How much waits: bytes in the queue of a sender, and the round trips of the load, ns. Not comparable with each other.
    pub depths: [f64; 2],
}

/// Length of a window, ns.
const WINDOW_NS: u64 = 300_000_000;
/// Rates of two windows that differ by no more than this share are the same.
const SAME_RATE: f64 = 0.1;
/// A queue that grows by no more than this share from window to window does not grow any more.
const GROWS: f64 = 1.1;

/// Between two looks at a load that is not steady yet.
pub const LOOK: Duration = Duration::from_millis(50);
/// Between two looks at what leaves after a load.
const DRAIN: Duration = Duration::from_millis(100);

/// Who looks and waits: `stop` interrupts, `alive` is called between two looks.
pub struct Waits<'a> {
    /// The user wants to end.
    pub stop: &'a AtomicBool,
    /// Keeps the run alive.
    pub alive: &'a mut dyn FnMut(),
}

impl Waits<'_> {
    /// Calls `alive` and sleeps; `false`: interrupted, at once.
    fn pause(&mut self, time: Duration) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        (self.alive)();
        std::thread::sleep(time);
        true
    }

    /// Looks until what was seen `is_steady`, between `least` and `most` long: whether it was, and the bytes a second; `None`: interrupted.
    ///
    /// # Errors
    /// Those of looking.
    pub fn settle(
        &mut self,
        (least, most): (Duration, Duration),
        mut look: impl FnMut() -> Result<Look, Problem>,
        is_steady: impl Fn(&[Look]) -> bool,
    ) -> Result<Option<(bool, f64)>, Problem> {
        let (begun, mut looks) = (Instant::now(), Vec::new());
        loop {
            looks.push(look()?);
            let steady = is_steady(&looks);
            if (steady && begun.elapsed() >= least) || begun.elapsed() > most {
                return Ok(Some((steady, rate(&looks).unwrap_or(0.0))));
            }
            if !self.pause(LOOK) {
                return Ok(None);
            }
        }
    }

    /// Looks until hardly anything of what passed under load passes any more, `most` long at most; `false`: interrupted.
    ///
    /// # Errors
    /// Those of looking.
    pub fn drain(
        &mut self,
        most: Duration,
        mut look: impl FnMut() -> Result<Look, Problem>,
        loaded_bytes_per_s: f64,
    ) -> Result<bool, Problem> {
        let begun = Instant::now();
        let mut before = look()?;
        while begun.elapsed() < most {
            if !self.pause(DRAIN) {
                return Ok(false);
            }
            let now = look()?;
            if is_quiet(&before, &now, loaded_bytes_per_s) {
                break;
            }
            before = now;
        }
        Ok(true)
    }
}

/// The time that all waits for a steady load may take together: what those of the pilots took, once a pass, so that a run takes the time
/// that was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    left: Duration,
    waits: u32,
    planned: bool,
}

impl Budget {
    /// Of one pilot: so long it goes on at least, so that rounds have that time.
    pub const PILOT: Duration = Duration::from_secs(2);
    /// A wait of a round may take this long, whatever others took: a little more than it takes to see that a load is steady.
    const LEAST: Duration = Duration::from_millis(1_100);

    /// A wait took so long.
    pub fn took(&mut self, time: Duration) {
        match self.planned {
            false => (self.left, self.waits) = (self.left + time, self.waits + 1),
            true => (self.left, self.waits) = (self.left.saturating_sub(time), self.waits.saturating_sub(1)),
        }
    }

    /// The pilots are over, and so many passes follow.
    pub fn plan(&mut self, passes: u32) {
        if !std::mem::replace(&mut self.planned, true) {
            (self.left, self.waits) = (self.left * passes, self.waits * passes);
        }
    }

    /// The longest that the next wait may take: twice its part, and what those behind it do not need. `most`: of any.
    pub fn next(&self, most: Duration) -> Duration {
        if !self.planned {
            return most;
        }
        let part = 2 * self.left / self.waits.max(1);
        let spare = self.left.saturating_sub(Self::LEAST * self.waits.saturating_sub(1));
        part.min(spare).max(Self::LEAST).min(most)
    }

    /// The least that the next wait takes.
    pub fn least(&self) -> Duration {
        if self.planned { Duration::ZERO } else { Self::PILOT }
    }
}

/// Whether three windows before the last look have the same rate, and the last of them no deeper queue than the one before.
pub fn is_steady(looks: &[Look]) -> bool {
    let Some(last) = looks.last() else { return false };
    let begins = |back: u64| last.t_ns.checked_sub(back * WINDOW_NS);
    let Some([third, second, first]) = begins(3).zip(begins(2)).zip(begins(1)).map(|((c, b), a)| [c, b, a]) else {
        return false;
    };
    if looks[0].t_ns > third {
        return false;
    }
    let before = |ns: u64| looks.partition_point(|look| look.t_ns < ns);
    let windows =
        [(third, second), (second, first), (first, last.t_ns)].map(|(from, to)| &looks[before(from)..before(to + 1)]);
    let Some(rates) = windows.iter().map(|looks| rate(looks)).collect::<Option<Vec<f64>>>() else { return false };
    let most = rates.iter().copied().fold(0.0, f64::max);
    let same = most > 0.0 && rates.iter().all(|rate| most - rate <= SAME_RATE * most);
    let depth = |looks: &[Look], at: usize| mean(&looks.iter().map(|look| look.depths[at]).collect::<Vec<f64>>());
    same && [0, 1].iter().all(|at| depth(windows[2], *at) <= GROWS * depth(windows[1], *at))
}

/// Whether nothing more than a trickle passed between two looks, measured by what passed under load.
fn is_quiet(before: &Look, now: &Look, loaded_bytes_per_s: f64) -> bool {
    let seconds = now.t_ns.saturating_sub(before.t_ns) as f64 / 1e9;
    seconds > 0.0 && (now.bytes.saturating_sub(before.bytes) as f64) < 0.02 * loaded_bytes_per_s * seconds
}

/// Bytes a second over the looks; `None`: too few.
fn rate(looks: &[Look]) -> Option<f64> {
    let (first, last) = (looks.first()?, looks.last()?);
    let ns = last.t_ns.checked_sub(first.t_ns).filter(|ns| *ns > 0)?;
    Some(last.bytes.saturating_sub(first.bytes) as f64 / ns as f64 * 1e9)
}

#[cfg(test)]
mod tests {
    use msgpath_core::shuffle::SplitMix64;

    use super::*;

    /// Looks every 50 ms: bytes a ms and the depth of the queue at each time, ms.
    fn looks(ms: u64, bytes: impl Fn(u64) -> f64, depth: impl Fn(u64) -> f64) -> Vec<Look> {
        let mut sum = 0.0;
        let look = |at: u64| {
            sum += 50.0 * bytes(at);
            Look { t_ns: at * 1_000_000, bytes: sum as u64, depths: [depth(at), 0.0] }
        };
        (0..=ms / 50).map(|at| at * 50).map(look).collect()
    }

    #[test]
    fn a_queue_that_grows_is_not_steady_though_its_rate_is() {
        let growing = |at: u64| 100.0 * at as f64;
        assert!(!is_steady(&looks(1_500, |_| 1_000.0, growing)), "a third more in the last window");
        let full = |at: u64| 100.0 * at.min(900) as f64;
        assert!(!is_steady(&looks(1_200, |_| 1_000.0, full)));
        assert!(is_steady(&looks(2_000, |_| 1_000.0, full)));
    }

    #[test]
    fn a_rate_that_grows_is_not_steady() {
        let begins = |at: u64| if at < 1_000 { at as f64 } else { 1_000.0 };
        assert!(!is_steady(&looks(1_200, begins, |_| 0.0)));
        assert!(is_steady(&looks(2_000, begins, |_| 0.0)));
        assert!(!is_steady(&looks(2_000, |_| 0.0, |_| 0.0)), "nothing passes");
        assert!(!is_steady(&looks(800, |_| 1_000.0, |_| 0.0)), "too short to say");
        assert!(!is_steady(&[]));
    }

    /// Pilots of two directions took 2 and 4 s; ten passes follow.
    #[test]
    fn waits_take_no_longer_than_was_planned() {
        let (seconds, most) = (Duration::from_secs_f64, Duration::from_secs(10));
        let begun = || {
            let mut budget = Budget::default();
            assert_eq!((budget.next(most), budget.least()), (most, Budget::PILOT));
            budget.took(seconds(2.0));
            budget.took(seconds(4.0));
            budget.plan(10);
            budget.plan(10);
            assert_eq!((budget.next(most), budget.least()), (seconds(6.0), Duration::ZERO), "twice their mean");
            budget
        };
        // Loads that are never steady, ever steady at once, and by chance.
        let mut chance = SplitMix64::new(39);
        let mut random = || (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        for kind in 0..50 {
            let (mut budget, mut all) = (begun(), Duration::ZERO);
            for _ in 0..20 {
                let own = match kind {
                    0 => most,
                    1 => seconds(0.95),
                    _ => seconds(0.95 + 9.0 * random().powi(4)),
                };
                let took = own.min(budget.next(most));
                assert!(took >= seconds(0.95), "{kind}: there is time to see that it is steady");
                budget.took(took);
                all += took;
            }
            assert!(all <= seconds(60.0), "{kind}: {all:?} of a minute");
        }
        let mut short = Budget::default();
        short.took(seconds(4.0));
        short.plan(1);
        assert_eq!(short.next(seconds(3.0)), seconds(3.0));
    }

    #[test]
    fn a_trickle_is_quiet() {
        let at = |ms: u64, bytes| Look { t_ns: ms * 1_000_000, bytes, ..Look::default() };
        assert!(is_quiet(&at(0, 0), &at(100, 1_000), 1e6));
        assert!(!is_quiet(&at(0, 0), &at(100, 50_000), 1e6) && !is_quiet(&at(0, 0), &at(0, 0), 1e6));
        assert_eq!(rate(&[at(0, 0), at(500, 1_000)]), Some(2_000.0));
        assert_eq!(rate(&[at(0, 0)]), None);
    }
}
