//! Of W131: signals coalesce.

use super::growth::traced;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W131", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    traced(input).filter(|(_, stages)| stages.coalesced > 0).map(|(case, stages)| {
        let share = stages.coalesced as f64 / stages.messages.max(1) as f64;
        let text = format!(
            "{}{} of {} messages ({} %) had no signal of their own: a signal that is pending is not raised again. A handler \
             must receive until there is nothing left; real-time signals (F_SETSIG) are queued one by one",
            prefix(input, case),
            stages.coalesced,
            stages.messages,
            percent(share),
        );
        let numbers = [("coalesced", stages.coalesced as f64), ("messages", stages.messages as f64)];
        finding("W131", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new())
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn counts_messages_without_a_signal() {
        let texts = sentences(&traced(&Setup { coalesce: 50, ..Setup::over("eth:send/sigio") }, 50), &super::DETECTOR);
        assert!(texts[0].starts_with("sure: 40 of 2000 messages (2 %) had no signal of their own"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_each_has_one() {
        assert!(sentences(&traced(&Setup::over("eth:send/sigio"), 50), &super::DETECTOR).is_empty());
    }
}
