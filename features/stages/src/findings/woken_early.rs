//! Of W83: the receiver is woken before there are data.

use super::growth::traced;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W83", detect };

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
        Some(finding("W83", Confidence::Likely, sentence(&text) + ".", [("share_of_receives", share)], Vec::new()))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Found, Setup, sentences, traced};

    #[test]
    fn speaks_of_early_wake_ups() {
        let texts =
            sentences(&traced(&Setup { found: vec![Found::Woken], ..Setup::over("unix:send") }, 50), &super::DETECTOR);
        assert!(texts[0].contains("% of the receives the receiver was being woken already"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_data_come_first() {
        assert!(sentences(&traced(&Setup::over("unix:send"), 50), &super::DETECTOR).is_empty());
    }
}
