//! Of W96: the first authentication of a process is cold.

use msgpath_core::units::Glyphs;

use super::engines;
use crate::analyse::Engine;
use crate::record::PeriodicFacts;
use msgpath_analyse::findings::wording::{finding, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W96", detect };

/// The first call takes so many times the calls after it.
const TIMES: f64 = 3.0;
/// And so much longer, ns.
const LONGER: f64 = 10_000.0;

fn detect(input: &Input) -> Vec<Sentence> {
    engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let facts = input.run.header.parts.get::<PeriodicFacts>()?;
    let ((cold, most), warm) = (engine.cold_mac_ns?, engine.warm_mac_ns?);
    if cold < TIMES * warm || cold - warm < LONGER {
        return None;
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let text = format!(
        "{}the first {} of a process took {} (median over processes, at most {}), the calls after it {}: made in the set-up, \
         as here, it delays no message",
        prefix(input, case),
        facts.mac,
        time(cold),
        time(most),
        time(warm)
    );
    let numbers = [("cold_ns", cold), ("coldest_ns", most), ("warm_ns", warm)];
    Some(finding("W96", Confidence::Sure, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    fn calls(calls: &'static [u64]) -> (msgpath_record::Run, msgpath_analyse::Logs) {
        with(
            |facts| {
                facts.mac = "hmac".into();
                facts.sessions[0].components.iter_mut().for_each(|component| component.mac_calls = calls.to_vec());
            },
            |_| (),
        )
    }

    #[test]
    fn a_cold_first_call_is_named() {
        let sentences = sentences(&calls(&[1_050_000, 1_500, 1_500, 1_600]), &super::DETECTOR);
        assert!(
            sentences.len() == 1 && sentences[0].contains("1.05 ms") && sentences[0].contains("1.50 µs"),
            "{sentences:?}"
        );
    }

    #[test]
    fn calls_that_are_all_alike_and_a_run_without_any_are_not() {
        assert!(sentences(&calls(&[3_000, 1_500, 1_500]), &super::DETECTOR).is_empty());
        assert!(sentences(&build(|_| ()), &super::DETECTOR).is_empty());
    }
}
