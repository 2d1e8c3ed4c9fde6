//! Changes of the clocks of this machine: another clock source, a wall clock that was set.

use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

use msgpath_sys::clock;

use super::whole;

/// How often the clock source was another one than before.
pub(super) const SOURCE: &str = "clock.source_changed";
/// By how much the wall clock moved against the monotonic one, µs, forwards or backwards.
pub(super) const STEP: &str = "clock.stepped_us";

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// A wall clock that is adjusted drifts by at most 500 ppm (adjtimex(2)); what is beyond this and that is a step.
const LEAST_NS: u64 = 1_000_000;
const SLEWED: u64 = 1_000;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    wall_ns: i128,
    monotonic_ns: u64,
    /// How long reading them took, ns: they are that far apart at most.
    within_ns: u64,
}

impl Moment {
    /// The closest of a few readings: a thread may lose its CPU between two.
    fn now() -> Option<Self> {
        let read = || {
            let before = clock::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos() as i128;
            let within_ns = clock::now() - before;
            Some(Self { wall_ns: wall, monotonic_ns: before, within_ns })
        };
        (0..3).filter_map(|_| read()).min_by_key(|moment| moment.within_ns)
    }

    /// By how much the wall clock was set since another moment, ns; 0: not at all, as far as can be told.
    fn stepped_since(self, before: Self) -> u64 {
        let elapsed = self.monotonic_ns.saturating_sub(before.monotonic_ns);
        let moved = self.wall_ns - before.wall_ns - i128::from(elapsed);
        let step = u64::try_from(moved.unsigned_abs()).unwrap_or(u64::MAX);
        let doubt = LEAST_NS + elapsed / SLEWED + self.within_ns + before.within_ns;
        if step > doubt { step } else { 0 }
    }
}

/// What the clocks did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    source: u64,
    stepped_us: u64,
}

impl Changes {
    /// What is in `self` beyond `before`, by the names of the counters.
    pub(super) fn since(self, before: Self) -> [(&'static str, u64); 2] {
        [(SOURCE, self.source - before.source), (STEP, self.stepped_us - before.stepped_us)]
    }
}

/// Looks at the clocks at every reading of the counters. What changed between two rounds belongs to the second.
pub(super) struct Clocks {
    file: Option<File>,
    source: Option<String>,
    moment: Option<Moment>,
    changes: Changes,
}

impl Clocks {
    pub(super) fn new() -> Self {
        let mut clocks =
            Self { file: File::open(CURRENT).ok(), source: None, moment: None, changes: Changes::default() };
        clocks.look(&mut Vec::new());
        clocks
    }

    /// Which of the counters there are.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let source = self.source.is_some().then_some(SOURCE);
        source.into_iter().chain(self.moment.is_some().then_some(STEP))
    }

    /// The changes before this look and after it.
    pub(super) fn look(&mut self, text: &mut Vec<u8>) -> [Changes; 2] {
        let before = self.changes;
        let source = self.file.as_ref().and_then(|file| whole(file, text)).map(|source| source.trim().to_owned());
        if let Some(source) = source.filter(|source| !source.is_empty()) {
            self.changes.source += u64::from(self.source.as_ref().is_some_and(|had| *had != source));
            self.source = Some(source);
        }
        if let Some(now) = Moment::now() {
            self.changes.stepped_us += self.moment.map_or(0, |had| now.stepped_since(had)) / 1000;
            self.moment = Some(now);
        }
        [before, self.changes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_that_is_set_is_a_step_and_one_that_drifts_is_none() {
        let at = |wall_s: f64, monotonic_s: f64| Moment {
            wall_ns: (wall_s * 1e9) as i128,
            monotonic_ns: (monotonic_s * 1e9) as u64,
            within_ns: 100,
        };
        let since = |wall_s| at(wall_s, 12.0).stepped_since(at(1_000.0, 10.0));
        assert_eq!([since(1_002.0), since(1_002.001), since(1_001.999)], [0; 3], "half of 1000 ppm of 2 s");
        assert!(since(1_005.6).abs_diff(3_600_000_000) < 1_000);
        assert!(since(998.0).abs_diff(4_000_000_000) < 1_000, "backwards");
        let preempted = Moment { within_ns: 5_000_000_000, ..at(1_005.6, 12.0) };
        assert_eq!(preempted.stepped_since(at(1_000.0, 10.0)), 0, "the reading itself took longer");
    }

    #[test]
    fn another_clock_source_is_counted_once_and_told_of_the_gap_before_a_round() {
        let file = std::env::temp_dir().join(format!("msgpath-clock-source-{}", std::process::id()));
        std::fs::write(&file, "tsc\n").unwrap();
        let mut clocks = Clocks { file: File::open(&file).ok(), ..Clocks::new() };
        let mut text = Vec::new();
        clocks.source = None;
        clocks.look(&mut text);
        std::fs::write(&file, "hpet\n").unwrap();
        let [before, _] = clocks.look(&mut text);
        let [_, after] = clocks.look(&mut text);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(after.since(before)[0], (SOURCE, 1));
        let [before, after] = clocks.look(&mut text);
        assert_eq!(after.since(before), [(SOURCE, 0), (STEP, 0)]);
    }
}
