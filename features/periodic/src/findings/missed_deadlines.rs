//! W102: deadlines were missed
//!
//! At least one message in a thousand was delivered more than a period after it was due, or never. *Sure*: counted.
//!
//! ## What it rests on
//!
//! For each message and receiver: delivery less due time, against the period.
//!
//! ## What to do
//!
//! A longer period, fewer components a CPU, an engine that wakes faster. `made late` has what the senders missed.

use msgpath_core::units::Glyphs;

use super::engines;
use crate::analyse::Engine;
use crate::record::PeriodicFacts;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W102", detect };

/// At least this share of the messages missed its deadline.
const SHARE: f64 = 0.001;

fn detect(input: &Input) -> Vec<Sentence> {
    engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let facts = input.run.header.parts.get::<PeriodicFacts>()?;
    let late = engine.missed + engine.all.lost;
    let of = engine.all.messages + engine.all.lost;
    if of == 0 || (late as f64) < SHARE * of as f64 {
        return None;
    }
    let text = format!(
        "{}{} of {} messages ({} %) were not there a period ({}) after their time: {} arrived later, {} never. {} were made \
         late already",
        prefix(input, case),
        late,
        of,
        percent(late as f64 / of as f64),
        Glyphs::Unicode.time(facts.period_ns as f64),
        engine.missed,
        engine.all.lost,
        engine.late
    );
    let numbers = [("late", engine.missed as f64), ("lost", engine.all.lost as f64), ("made_late", engine.late as f64)];
    Some(finding("W102", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    #[test]
    fn late_deliveries_are_counted() {
        let sentences = sentences(&with(|facts| facts.sessions[0].components[1].missed = 46, |_| ()), "W102");
        assert!(sentences.len() == 1 && sentences[0].contains("46 of 4600 messages (1 %)"), "{sentences:?}");
    }

    #[test]
    fn deadlines_that_are_kept_are_not_news() {
        assert!(sentences(&build(|_| ()), "W102").is_empty());
    }
}
