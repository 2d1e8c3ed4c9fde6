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
    let (components, cpus) = (facts.receivers(), facts.shared_cpus()?);
    // Spread over a period, components that are few enough take turns.
    if cpus == 0 || components <= cpus || facts.start == "staggered" {
        return None;
    }
    // One sender of a group has nobody to take turns with.
    let (noun, cure, next) = match &facts.group {
        Some(_) => ("receivers", "fewer receivers", Vec::new()),
        None => {
            let next = vec![again(&input.run.header, &["--start"], "--start staggered")];
            ("components", "a run with staggered starts", next)
        }
    };
    let wait = if components - cpus == 1 { "waits" } else { "wait" };
    let text = format!(
        "{components} {noun} receive every message at the same time on {cpus} CPU{}: {} of them {wait} for a CPU whatever \
         the engine does, so mean and maximum test the scheduler; the minimum and the median of {cure} say more of the engine",
        if cpus == 1 { "" } else { "s" },
        components - cpus
    );
    let numbers = [("components", f64::from(components)), ("cpus", f64::from(cpus))];
    Some(finding("W97", Confidence::Sure, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, group, sentences, with};

    #[test]
    fn more_components_than_cpus_are_named() {
        let sentences = sentences(&with(|facts| facts.cpus = 2, |_| ()), &super::DETECTOR);
        assert!(
            sentences.len() == 1 && sentences[0].contains("4 components") && sentences[0].contains("2 CPUs"),
            "{sentences:?}"
        );
    }

    #[test]
    fn receivers_of_a_group_are_counted_without_its_sender_and_not_on_hosts() {
        let said = |hosts: &[&str], cpus| {
            let run = group(|facts| {
                facts.cpus = cpus;
                facts.group.as_mut().unwrap().hosts = hosts.iter().map(|host| (*host).into()).collect();
            });
            sentences(&run, &super::DETECTOR)
        };
        let one = said(&[], 1);
        assert!(
            one.len() == 1 && one[0].contains("2 receivers receive every message at the same time on 1 CPU"),
            "{one:?}"
        );
        assert!(!one[0].contains("staggered"), "{one:?}");
        assert!(said(&[], 2).is_empty() && said(&["hosta", "hostb"], 1).is_empty());
    }

    #[test]
    fn enough_cpus_and_a_staggered_start_are_not() {
        assert!(sentences(&build(|_| ()), &super::DETECTOR).is_empty());
        let staggered = build(|facts| (facts.cpus, facts.start) = (2, "staggered".into()));
        assert!(sentences(&staggered, &super::DETECTOR).is_empty());
    }
}
