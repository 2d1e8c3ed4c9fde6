//! Of W68: what makes the slow calls slow.

use msgpath_core::units::{Glyphs, three_digits};

use super::shared::{kinds, of};
use crate::analyse::{RpcBand, RpcKind, RpcStage};
use msgpath_analyse::findings::wording::{finding, percent, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W68", detect };

/// The slow calls take so many times as long as the usual ones, or there is nothing to explain.
const SLOW: f64 = 1.5;
/// A part that explains less of the difference does not dominate it.
const DOMINATES: f64 = 0.6;

fn detect(input: &Input) -> Vec<Sentence> {
    kinds(input).filter_map(|kind| say(input, kind)).collect()
}

/// Mean of a part, ns; a part that a band has joined with another is missing.
fn part(band: &RpcBand, stage: RpcStage) -> Option<f64> {
    band.parts.iter().find(|part| part.stage == stage).map(|part| part.ns)
}

fn say(input: &Input, kind: &RpcKind) -> Option<Sentence> {
    let band = |name: &str| kind.bands.iter().find(|band| band.name == name);
    let (usual, slow) = (band("p50")?, band("p99")?);
    if usual.latency_ns <= 0.0 || slow.latency_ns < SLOW * usual.latency_ns {
        return None;
    }
    let grown = usual.parts.iter().filter_map(|own| Some((own.stage, own.ns, part(slow, own.stage)?)));
    let (stage, before, after) = grown.max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)))?;
    let share = (after - before) / (slow.latency_ns - usual.latency_ns);
    if share < DOMINATES {
        return None;
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let text = format!(
        "{}the calls near p99 take {} times as long as those near the median, and {} % of the difference is {}: {} instead of \
         {}",
        of(input, kind),
        three_digits(slow.latency_ns / usual.latency_ns),
        percent(share.min(1.0)),
        stage.name(),
        time(after),
        time(before)
    );
    let numbers = [
        ("share", share),
        ("part_usual_ns", before),
        ("part_slow_ns", after),
        ("usual_ns", usual.latency_ns),
        ("slow_ns", slow.latency_ns),
        ("slow_calls", slow.calls as f64),
    ];
    Some(finding("W68", Confidence::Likely, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, US};

    /// One call in 40 takes three times as long; `work` of the difference is the server's.
    fn calls(work: f64) -> Vec<String> {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for at in 0..2_000 {
            let more = if at % 40 == 0 { 400.0 * US } else { f64::from(at % 7) * US };
            let rest = more * (1.0 - work) / 2.0;
            calls.call(MS, 80.0 * US + rest, 40.0 * US + more * work, 80.0 * US + rest);
        }
        calls.sentences(&super::DETECTOR)
    }

    #[test]
    fn speaks_of_the_part_that_grows() {
        let sentences = calls(0.9);
        assert!(sentences[0].starts_with("likely: The calls near p99 take 2.9"), "{sentences:?}");
        assert!(sentences[0].contains("of the difference is server work: 40"), "{sentences:?}");
    }

    #[test]
    fn is_silent_where_all_parts_grow_alike_and_where_the_tail_is_short() {
        assert!(calls(0.34).is_empty());
        let mut even = Calls::new(1, 0.0, 0.0).same_machine();
        (0..2_000).for_each(|_| _ = even.call(MS, 80.0 * US, 40.0 * US, 80.0 * US));
        assert!(even.sentences(&super::DETECTOR).is_empty());
    }
}
