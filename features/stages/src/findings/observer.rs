//! Of W92: tracing costs more than it explains.

use msgpath_core::units::{Glyphs, three_digits};

use super::growth::traced;
use msgpath_analyse::findings::wording::{prefix, sentence, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W92", detect };

/// Below this share of the round trip the effect is what a small set of events costs.
const LEAST: f64 = 0.1;

fn detect(input: &Input) -> Vec<Sentence> {
    traced(input).filter_map(|(case, stages)| {
        let observer = stages.observer.as_ref()?;
        let grown = stages.growth.first()?;
        let large = observer.ratio.low.unwrap_or(observer.ratio.value) - 1.0 >= LEAST;
        if !large || observer.added_ns <= grown.ns().max(0.0) {
            return None;
        }
        let time = |ns| Glyphs::Unicode.time(ns);
        let text = format!(
            "{}tracing adds {} to a round trip (paired by pass {} times slower), and the stage that grows most in slow messages ({}) grows by {}",
            prefix(input, case),
            time(observer.added_ns),
            three_digits(observer.ratio.value),
            grown.name,
            time(grown.ns().max(0.0)),
        );
        let numbers = [("observer_ns", observer.added_ns), ("ratio", observer.ratio.value), ("grew_ns", grown.ns())];
        let why = "what is explained is smaller than what explaining costs, so no sentence about stages is sure";
        Some(warning("W92", sentence(&text), why, "--stages light, or the BPF back end (see 'known by')", numbers))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn speaks_where_tracing_costs_more_than_it_explains() {
        let mut traced = traced(&Setup::over("tcp:send"), 50);
        assert!(sentences(&traced, &super::DETECTOR).is_empty(), "5 %");
        for round in traced.run.rounds.iter_mut().filter(|round| round.case == 1) {
            let mut histogram = msgpath_core::Histogram::new();
            (0..200).for_each(|at| histogram.record(60_000 + at * 10 + u64::from(round.pass) * 30));
            round.latency = histogram.to_sparse();
        }
        let texts = sentences(&traced, &super::DETECTOR);
        assert!(
            texts[0].starts_with("Tracing adds ") && texts[0].contains(" to a round trip (paired by pass 3."),
            "{texts:?}"
        );
    }
}
