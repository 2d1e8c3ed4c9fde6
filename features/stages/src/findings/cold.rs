//! Of W80: the first message of a connection finds everything cold, and in which stage.

use msgpath_core::units::{Glyphs, three_digits};

use super::growth::traced;
use msgpath_analyse::findings::wording::{finding, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W80", detect };

/// A first message that takes less than this many times as long is as warm as the others.
const TIMES: f64 = 1.5;

fn detect(input: &Input) -> Vec<Sentence> {
    traced(input).filter_map(|(case, stages)| {
        let (first, all) = (stages.first.as_ref().filter(|first| first.claim)?, stages.band("all")?);
        let longer = first.mean_ns - all.mean_ns;
        if first.mean_ns < TIMES * all.mean_ns || stages.observer.as_ref().is_some_and(|o| longer <= o.added_ns) {
            return None;
        }
        let grown = first.parts_ns.iter().zip(&all.parts_ns).map(|(first, all)| first - all);
        let (at, most) = grown.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let time = |ns| Glyphs::Unicode.time(ns);
        let text = format!(
            "{}the first message of a connection takes {}, {} times the mean of all: {} of the difference are {} (cold \
             caches, first page faults, first use of the route). To try: a first message that does not count, sent \
             before the others; buffers touched and keys fetched at start-up",
            prefix(input, case),
            time(first.mean_ns),
            three_digits(first.mean_ns / all.mean_ns),
            time(most),
            stages.stages[at].name,
        );
        let numbers =
            [("first_ns", first.mean_ns), ("mean_ns", all.mean_ns), ("stage_grew_ns", most), ("firsts", first.messages as f64)];
        Some(finding("W80", Confidence::Likely, sentence(&text) + ".", numbers, Vec::new()))
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Setup, Traced, sentences, traced};

    fn said(traced: &Traced) -> Vec<String> {
        sentences(traced, &super::DETECTOR)
            .into_iter()
            .filter(|text| text.contains("irst message of a connection"))
            .collect()
    }

    #[test]
    fn speaks_of_the_first_call() {
        let texts = said(&traced(&Setup { cold: 1_000.0, ..Setup::over("tcp:send") }, 50));
        assert!(texts[0].starts_with("likely: The first message of a connection takes "), "{texts:?}");
        assert!(texts[0].contains(" of the difference are handler ("), "{texts:?}");
    }

    #[test]
    fn is_silent_where_it_is_warm_or_trimmed() {
        assert!(said(&traced(&Setup::over("tcp:send"), 50)).is_empty());
        let mut traced = traced(&Setup { cold: 1_000.0, ..Setup::over("tcp:send") }, 50);
        traced.log().messages.here().iter_mut().for_each(|row| row.sequence += 100);
        assert!(said(&traced).is_empty());
    }
}
