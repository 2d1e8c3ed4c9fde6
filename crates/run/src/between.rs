//! What the far end stood still between two rounds of an open loop: what was due then is owed too
//! (docs/method/open-loop.md#one-schedule-for-a-case).

use std::time::Duration;

/// How long a round takes to make ready, and to end, is known from so many, the last ones.
const REMEMBERED: usize = 32;
/// What takes so many times as long as usual, ...
const TIMES: u64 = 4;
/// ... and so much longer, was held up.
const STALL: Duration = Duration::from_millis(100);

/// How long one thing took that is done for every round of a case, ns.
#[derive(Debug, Default)]
pub struct Took(Vec<u64>);

impl Took {
    /// How long it usually takes, ns; `None`: it was not done yet.
    pub fn usual_ns(&self) -> Option<u64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// It took so long once more.
    pub fn add(&mut self, ns: u64) {
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push(ns);
    }
}

/// Of what took so long, and usually takes so long, the part in which the far end stood still, ns.
pub fn stood_still(took_ns: u64, usual_ns: Option<u64>) -> u64 {
    let usual_ns = usual_ns.unwrap_or(u64::MAX);
    let held_up = took_ns > usual_ns.saturating_mul(TIMES) && took_ns - usual_ns > STALL.as_nanos() as u64;
    if held_up { took_ns - usual_ns } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_stall_is_what_takes_much_longer_than_usual() {
        let mut took = Took::default();
        assert_eq!(stood_still(2_000 * MS, took.usual_ns()), 0, "nothing is known yet");
        [5, 900, 6].into_iter().for_each(|ms| took.add(ms * MS));
        assert_eq!(took.usual_ns(), Some(6 * MS), "one slow round is not usual");
        let stalls = [6, 105, 107, 1_706].map(|ms| stood_still(ms * MS, took.usual_ns()) / MS);
        assert_eq!(stalls, [0, 0, 101, 1_700]);
        assert_eq!(stood_still(900 * MS, Some(300 * MS)), 0, "three times as long happens");
        // The machine has become slower for good: that is usual then.
        (0..40).for_each(|_| took.add(400 * MS));
        assert_eq!((took.usual_ns(), took.0.len()), (Some(400 * MS), REMEMBERED));
    }
}
