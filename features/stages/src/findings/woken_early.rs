//! W90: the receiver is woken before there are data
//!
//! ## What it says
//!
//! The share of the receives in which the receiver was being woken already when its data arrived: on Unix sockets the
//! peer's receive frees room in the buffer, and that wakes the reader as well. *Likely*: the mechanism fits.
//!
//! ## What it is computed from
//!
//! The receiver's state when its socket became readable, counted over all messages of the traced replica.
//!
//! ## When it stays silent
//!
//! Below 20 % of the receives; for transports that do not say when data are readable (pipes, queues, shared memory).
//!
//! ## What to do
//!
//! Nothing, where the ends talk in turn: the wake-up overlaps the send. Where many messages flow one way, a larger buffer
//! makes such wake-ups rare.

use super::growth::traced;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W90", detect };

/// A smaller share of the receives is not worth a sentence.
const SHARE: f64 = 0.2;

fn detect(input: &Input) -> Vec<Sentence> {
    traced(input).filter_map(|(case, stages)| {
        let waking = stages.at_ready.iter().map(|states| states.waking).sum::<u64>() as f64;
        let share = waking / stages.at_ready.iter().map(|states| states.total()).sum::<u64>().max(1) as f64;
        if share < SHARE || !case.case.traits.stack.has_ready() {
            return None;
        }
        let text = format!(
            "{}in {} % of the receives the receiver was being woken already when its data arrived: the peer's receive frees \
             room in the socket's buffer, and that wakes the reader as well. The wake-up overlaps the send, so the way \
             looks shorter than over other transports; where the ends do not talk in turn the same wake-up finds nothing \
             to read",
            prefix(input, case),
            percent(share),
        );
        Some(finding("W90", Confidence::Likely, sentence(&text) + ".", [("share_of_receives", share)], Vec::new()))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Found, Setup, sentences, traced};

    #[test]
    fn speaks_of_early_wake_ups() {
        let texts = sentences(&traced(&Setup { found: vec![Found::Woken], ..Setup::over("unix:send") }, 50), "W90");
        assert!(texts[0].contains("% of the receives the receiver was being woken already"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_data_come_first() {
        assert!(sentences(&traced(&Setup::over("unix:send"), 50), "W90").is_empty());
    }
}
