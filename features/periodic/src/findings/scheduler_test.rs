//! Of W97: the mean is a test of the scheduler.

use super::engines;
use crate::record::PeriodicFacts;
use msgpath_analyse::findings::wording::{again, finding, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W97", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    say(input).into_iter().collect()
}

fn say(input: &Input) -> Option<Sentence> {
    let facts = input.run.header.parts.get::<PeriodicFacts>()?;
    engines(input).next()?;
    let components = facts.processes * facts.components;
    // Spread over a period, components that are few enough take turns.
    if facts.cpus == 0 || components <= facts.cpus || facts.start == "staggered" {
        return None;
    }
    let text = format!(
        "{components} components receive every message at the same time on {} CPUs: {} of them wait for a CPU whatever the \
         engine does, so mean and maximum test the scheduler; the minimum and the median of a run with staggered starts say \
         more of the engine",
        facts.cpus,
        components - facts.cpus
    );
    let next = vec![again(&input.run.header, &["--start"], "--start staggered")];
    let numbers = [("components", f64::from(components)), ("cpus", f64::from(facts.cpus))];
    Some(finding("W97", Confidence::Sure, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    #[test]
    fn more_components_than_cpus_are_named() {
        let sentences = sentences(&with(|facts| facts.cpus = 2, |_| ()), &super::DETECTOR);
        assert!(
            sentences.len() == 1 && sentences[0].contains("4 components") && sentences[0].contains("2 CPUs"),
            "{sentences:?}"
        );
    }

    #[test]
    fn enough_cpus_and_a_staggered_start_are_not() {
        assert!(sentences(&build(|_| ()), &super::DETECTOR).is_empty());
        let staggered = build(|facts| (facts.cpus, facts.start) = (2, "staggered".into()));
        assert!(sentences(&staggered, &super::DETECTOR).is_empty());
    }
}
