//! Of W131: one signal stood for several messages.

use super::engines;
use crate::analyse::Engine;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W131", detect };

/// At least this share of the messages had no signal of their own.
const SHARE: f64 = 0.01;

fn detect(input: &Input) -> Vec<Sentence> {
    engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let merged = engine.received.checked_sub(engine.signals).filter(|_| engine.signals > 0)?;
    let share = merged as f64 / engine.received as f64;
    if share < SHARE {
        return None;
    }
    let text = format!(
        "{}{} messages came with {} signals: {} % had none of their own, because SIGIO is not queued. A handler that takes \
         one message a signal falls behind; this one takes all until EAGAIN",
        prefix(input, case),
        engine.received,
        engine.signals,
        percent(share)
    );
    let numbers = [("messages", engine.received as f64), ("signals", engine.signals as f64), ("merged_share", share)];
    Some(finding("W131", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    #[test]
    fn fewer_signals_than_messages_are_merged_ones() {
        let sentences = sentences(&with(|_| (), |round| round.far_mut().calls.signals = 300), &super::DETECTOR);
        assert!(sentences.len() == 1 && sentences[0].contains("3000 signals"), "{sentences:?}");
    }

    #[test]
    fn a_signal_a_message_and_no_signals_at_all_are_not() {
        assert!(sentences(&with(|_| (), |round| round.far_mut().calls.signals = 461), &super::DETECTOR).is_empty());
        assert!(sentences(&build(|_| ()), &super::DETECTOR).is_empty());
    }
}
