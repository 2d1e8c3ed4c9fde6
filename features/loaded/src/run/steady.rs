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

    /// Looks until what was seen `is_steady`, `most` long at most: whether it was, and the bytes a second; `None`: interrupted.
    ///
    /// # Errors
    /// Those of looking.
    pub fn settle(
        &mut self,
        most: Duration,
        mut look: impl FnMut() -> Result<Look, Problem>,
        is_steady: impl Fn(&[Look]) -> bool,
    ) -> Result<Option<(bool, f64)>, Problem> {
        let (begun, mut looks) = (Instant::now(), Vec::new());
        loop {
            looks.push(look()?);
            let steady = is_steady(&looks);
            if steady || begun.elapsed() > most {
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

    #[test]
    fn a_trickle_is_quiet() {
        let at = |ms: u64, bytes| Look { t_ns: ms * 1_000_000, bytes, ..Look::default() };
        assert!(is_quiet(&at(0, 0), &at(100, 1_000), 1e6));
        assert!(!is_quiet(&at(0, 0), &at(100, 50_000), 1e6) && !is_quiet(&at(0, 0), &at(0, 0), 1e6));
        assert_eq!(rate(&[at(0, 0), at(500, 1_000)]), Some(2_000.0));
        assert_eq!(rate(&[at(0, 0)]), None);
    }
}
