//! W91: signals coalesce
//!
//! ## What it says
//!
//! How many messages had no signal of their own: a signal that is pending is not raised again. *Sure*: they are counted.
//!
//! ## What it is computed from
//!
//! For the wait `sigio`: messages of the traced replica without a `signal_generate` for their receiver between their data
//! and their stamp.
//!
//! ## When it stays silent
//!
//! For every other wait; where each message has its signal; where the kernel does not tell of signals.
//!
//! ## What to do
//!
//! A handler must receive until there is nothing left. Real-time signals (`F_SETSIG`) are queued one by one, up to a
//! limit.

use super::growth::traced;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W91", detect };

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
        finding("W91", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new())
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn counts_messages_without_a_signal() {
        let texts = sentences(&traced(&Setup { coalesce: 50, ..Setup::over("eth:send/sigio") }, 50), "W91");
        assert!(texts[0].starts_with("sure: 40 of 2000 messages (2 %) had no signal of their own"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_each_has_one() {
        assert!(sentences(&traced(&Setup::over("eth:send/sigio"), 50), "W91").is_empty());
    }
}
