//! W96: the start is what is slow
//!
//! * **First messages**: those of each component (50, or `--first`) took at least twice the mean of the rest and 20 µs
//!   more. *Likely*: many processes start at once.
//! * **First authentication**: the first call of HMAC or Poly1305 took three times the others and 10 µs more. *Sure*:
//!   timed one by one.
//!
//! ## What it rests on
//!
//! The histogram of first messages against the steady ones; processes by CPUs; the time until all were ready.
//! Authentication: the first 17 calls of every process, in its set-up (`--mac`).
//!
//! ## What to do
//!
//! Keep first messages out of the result, start staggered (`--start staggered`), do set-up work before. `--start storm`
//! shows the start without a barrier. Make one authentication call before the first message, and look the algorithm up
//! once.

use msgpath_core::units::Glyphs;

use super::engines;
use crate::analyse::Engine;
use crate::record::PeriodicFacts;
use msgpath_analyse::findings::wording::{again, finding, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W96", detect };

/// The first messages take so many times the mean of the rest.
const TIMES: f64 = 2.0;
/// And so much longer, ns: less is not a storm.
const LONGER: f64 = 20_000.0;

fn detect(input: &Input) -> Vec<Sentence> {
    engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let facts = input.run.header.parts.get::<PeriodicFacts>()?;
    let (first, steady) = (engine.first.mean_ns?, engine.steady.mean_ns?);
    if first < TIMES * steady || first - steady < LONGER || engine.first.messages < 20 {
        return None;
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let mut text = format!(
        "{}the delay is clustered at the start: the first {} messages of each component took {} in the mean, the rest {} \
         ({:.1} times less)",
        prefix(input, case),
        facts.first,
        time(first),
        time(steady),
        first / steady
    );
    if let (Some(slowest), Some(later)) = (engine.first.max_ns, engine.steady.max_ns) {
        text.push_str(&format!(", the slowest {} against {}", time(slowest as f64), time(later as f64)));
    }
    text.push_str(&format!(
        ". {} processes share {} CPUs, and it took {} until all were ready",
        facts.processes,
        facts.cpus,
        time(engine.ready_ns as f64)
    ));
    let next = match facts.start.as_str() {
        "staggered" => Vec::new(),
        "barrier" => vec![again(&input.run.header, &["--start"], "--start staggered")],
        _ => vec![again(&input.run.header, &["--start"], "--start barrier")],
    };
    let numbers = [
        ("first_mean_ns", first),
        ("steady_mean_ns", steady),
        ("ready_ns", engine.ready_ns as f64),
        ("processes", f64::from(facts.processes)),
        ("cpus", f64::from(facts.cpus)),
    ];
    Some(finding("W96", Confidence::Likely, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    #[test]
    fn slow_first_messages_are_a_slow_start() {
        let sentences = sentences(&build(|_| ()), &super::DETECTOR);
        assert!(
            sentences.len() == 1 && sentences[0].contains("the first 50 messages") && sentences[0].contains("130 µs"),
            "{sentences:?}"
        );
    }

    #[test]
    fn first_messages_like_the_rest_are_none() {
        let run = with(|_| (), |round| round.first = round.latency.clone());
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
