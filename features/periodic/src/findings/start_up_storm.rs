//! W96: the start is what is slow
//!
//! ## What it says
//!
//! **First messages**: The first messages of each component (50, or as many as `--first` says) took at least twice the mean of the rest, and
//! at least 20 µs longer. *Likely*: the start of many processes fits; nothing was switched off to prove it.
//!
//! **First authentication**: The first call of HMAC or Poly1305 in a process took at least three times as long as the calls after it, and at least
//! 10 µs longer. *Sure*: both were timed one by one.
//!
//! ## What it is computed from
//!
//! **First messages**: The histogram of the first messages against that of the steady ones, how many processes share how many CPUs, and how
//! long it took until all were ready.
//!
//! **First authentication**: The first 17 calls of every process, made in its set-up on a message of the run's size: the first, and the median of
//! the rest.
//!
//! ## When it stays silent
//!
//! **First messages**: Where the first messages are like the rest, where they are few, and for other workloads.
//!
//! **First authentication**: Without `--mac`, and where the first call is like the others.
//!
//! ## What to do
//!
//! **First messages**: Keep the first messages out of the numbers that stand for the whole, start staggered (`--start staggered`), and do
//! set-up work before the first message. `--start storm` shows the start as it is without a barrier.
//!
//! **First authentication**: Make one call before the first message that matters. Do not look the algorithm up again for every message.

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
