//! What a server says while it runs, on standard error: one line each, whatever a client sent, and not more than a reader can
//! follow.

use std::time::{Duration, Instant};

use msgpath_core::foreign::shown;
use msgpath_sys::say;

/// Lines that may come at once.
const BURST: u32 = 50;
/// From then on one in this time.
const EACH: Duration = Duration::from_millis(100);

/// Lets through `BURST` lines, then ten a second, and says how many were left out.
pub struct Log {
    /// Lines that may still come now.
    room: u32,
    /// Up to when `room` has grown.
    since: Instant,
    left_out: u64,
}

impl Log {
    pub fn new(now: Instant) -> Self {
        Self { room: BURST, since: now, left_out: 0 }
    }

    /// Writes a line to standard error, or leaves it out.
    pub fn say(&mut self, line: &str) {
        for line in self.lines(line, Instant::now()) {
            say!("{line}");
        }
    }

    /// What is to be written for `line` at this time.
    fn lines(&mut self, line: &str, now: Instant) -> Vec<String> {
        let grown = (now.saturating_duration_since(self.since).as_millis() / EACH.as_millis()).min(BURST.into()) as u32;
        if grown > 0 {
            self.room = (self.room + grown).min(BURST);
            self.since = now;
        }
        if self.room == 0 {
            self.left_out += 1;
            return Vec::new();
        }
        self.room -= 1;
        let left_out = self.take_left_out();
        left_out.into_iter().chain([shown(line).into_owned()]).collect()
    }

    fn take_left_out(&mut self) -> Option<String> {
        let count = std::mem::take(&mut self.left_out);
        (count > 0).then(|| format!("{count} line{} left out", if count == 1 { "" } else { "s" }))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(line) = self.take_left_out() {
            say!("{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut log = Log::new(start);
        let written: usize = (0..1_000).map(|_| log.lines("a client came", start).len()).sum();
        assert_eq!(written, BURST as usize);
        let later = start + 3 * EACH;
        assert_eq!(log.lines("x", later), ["950 lines left out", "x"]);
        assert_eq!(log.lines("y", later), ["y"]);
        assert_eq!((log.lines("z", later).len(), log.lines("z", later).len()), (1, 0));
        let rested = later + Duration::from_secs(3600);
        assert_eq!(log.lines("w", rested), ["1 line left out", "w"]);
        assert_eq!((0..100).map(|_| log.lines("v", rested).len()).sum::<usize>(), BURST as usize - 1);
        log.left_out = 0;
    }

    #[test]
    fn a_client_writes_no_line_of_its_own() {
        let mut log = Log::new(Instant::now());
        assert_eq!(log.lines("host a\x1b[2J\nsession 7 ended", Instant::now()), ["host a\\u{1b}[2J\\nsession 7 ended"]);
    }
}
