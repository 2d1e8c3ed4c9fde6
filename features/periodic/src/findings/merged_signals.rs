//! W99: one signal stood for several messages
//!
//! ## What it says
//!
//! Fewer signals were handled than messages received: SIGIO is a standard signal and is not queued. *Sure*: both are
//! counted.
//!
//! ## What it is computed from
//!
//! The handler's count of each receiving thread, against the messages received.
//!
//! ## When it stays silent
//!
//! Below one message in a hundred, and where no engine waits by `sigio`.
//!
//! ## What to do
//!
//! Receive until EAGAIN for every signal, as msgpath does. `-o queued-signals=yes` asks for a real-time signal (F_SETSIG), of
//! which every event queues one.

use super::engines;
use crate::analyse::Engine;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W99", detect };

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
    Some(finding("W99", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    #[test]
    fn fewer_signals_than_messages_are_merged_ones() {
        let sentences = sentences(&with(|_| (), |round| round.far_mut().calls.signals = 300), "W99");
        assert!(sentences.len() == 1 && sentences[0].contains("3000 signals"), "{sentences:?}");
    }

    #[test]
    fn a_signal_a_message_and_no_signals_at_all_are_not() {
        assert!(sentences(&with(|_| (), |round| round.far_mut().calls.signals = 461), "W99").is_empty());
        assert!(sentences(&build(|_| ()), "W99").is_empty());
    }
}
