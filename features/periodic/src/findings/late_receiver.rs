//! Of W97: one late receiver, many slow messages.

use msgpath_core::units::Glyphs;

use super::engines;
use crate::analyse::Engine;
use crate::record::PeriodicFacts;
use msgpath_analyse::findings::wording::{finding, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W97", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let worst = engine.stalls.first()?;
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let falling = if worst.falling { ", each waiting less than the one before it" } else { "" };
    let facts = input.run.header.parts.get::<PeriodicFacts>();
    let called = |component| facts.map_or(component + 1, |facts| facts.called(component));
    let mut text = format!(
        "{}{} messages in a row took {} down to {}{falling}, and arrived together at {}: receiver {} was late once, not {} \
         times",
        prefix(input, case),
        worst.messages,
        time(worst.longest_ns),
        time(worst.shortest_ns),
        time(worst.at_ns + worst.longest_ns),
        called(worst.receiver),
        worst.messages
    );
    if engine.stalls_found > 1 {
        text.push_str(&format!(
            ". There are {} such stalls, with {} messages",
            engine.stalls_found, engine.stalled_messages
        ));
    }
    let confidence = if worst.falling { Confidence::Sure } else { Confidence::Likely };
    let numbers = [
        ("messages", worst.messages as f64),
        ("longest_ns", worst.longest_ns as f64),
        ("stalls", engine.stalls_found as f64),
        ("stalled_messages", engine.stalled_messages as f64),
    ];
    Some(finding("W97", confidence, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, row, sentences, with};
    use crate::log::Sent;

    #[test]
    fn messages_that_waited_together_are_one_late_receiver() {
        let (run, mut logs) = build(|_| ());
        let at = |n: u64| 1_000_000 * n;
        let wait = |n: u64| if (10..19).contains(&n) { at(31) - at(n) } else { 20_000 };
        logs.add(Sent((0..40).map(|n| row(2, 0, n, at(n), wait(n))).collect::<Vec<_>>().into()));
        let sentences = sentences(&(run, logs), &super::DETECTOR);
        assert!(
            sentences.len() == 1 && sentences[0].contains("9 messages in a row") && sentences[0].contains("receiver 3"),
            "{sentences:?}"
        );
        assert!(sentences[0].starts_with("sure"), "{sentences:?}");
    }

    #[test]
    fn a_steady_series_is_none() {
        let (run, _) = with(|_| (), |_| ());
        let mut logs = msgpath_analyse::Logs::default();
        logs.add(Sent((0..40).map(|n| row(2, 0, n, n * 1_000_000, 20_000)).collect::<Vec<_>>().into()));
        assert!(sentences(&(run, logs), &super::DETECTOR).is_empty());
    }
}
