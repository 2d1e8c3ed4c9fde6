//! W97: messages wait for their receiver
//!
//! * **A CPU**: receivers were runnable and not running for a quarter of the mean one-way time or more. *Likely*.
//! * **More components than CPUs** receive each message at one time. *Sure*.
//! * **One late receiver**: five or more messages in a row took over ten medians and arrived together. *Sure* where
//!   none waited longer than an earlier one, else *likely*.
//!
//! ## What it rests on
//!
//! * **A CPU**: `schedstat` of the receiving threads by messages received; from 2 µs on.
//! * **Components**: processes times components, the CPUs allowed, the start.
//! * **One late receiver**: the message log: messages that arrived within a fifth of the longest wait.
//!
//! ## What to do
//!
//! * **A CPU**: fewer receivers than CPUs, a priority, no computing in the receiving thread.
//! * **Components**: compare engines by their minimum and by `--start staggered`.
//! * **One late receiver**: count it once; look for a CPU, a lock, output inside the loop.

use msgpath_core::units::Glyphs;

use super::engines;
use crate::analyse::Engine;
use crate::record::PeriodicFacts;
use msgpath_analyse::findings::wording::{finding, percent, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W97", detect };

/// The run queue has at least this part of the mean time.
const SHARE: f64 = 0.25;
/// And so much of it, ns.
const LEAST: f64 = 2_000.0;

fn detect(input: &Input) -> Vec<Sentence> {
    engines(input).filter_map(|(case, engine)| say(input, case, engine)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine) -> Option<Sentence> {
    let facts = input.run.header.parts.get::<PeriodicFacts>()?;
    let delay = engine.receiver_delay_ns?;
    let mean = engine.all.mean_ns?;
    // A receiver that waits once for its CPU delays all messages that wait with it, so the part of each message is at least
    // this.
    let share = (delay / mean).min(1.0);
    if share < SHARE || delay < LEAST {
        return None;
    }
    let text = format!(
        "{}receivers were runnable and not running for {} a message, {} % of the mean of {} (schedstat of the {} receiving \
         threads{}): messages wait for a CPU, not for the engine",
        prefix(input, case),
        Glyphs::Unicode.time(delay),
        percent(share),
        Glyphs::Unicode.time(mean),
        facts.receivers(),
        facts.shared_cpus().map_or_else(String::new, |cpus| format!(" on {cpus} CPUs"))
    );
    let numbers = [("receiver_delay_ns", delay), ("mean_ns", mean), ("share", share)];
    Some(finding("W97", Confidence::Likely, sentence(&text) + ".", numbers, Vec::new()))
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{build, sentences, with};

    #[test]
    fn a_large_share_of_the_time_on_the_run_queue_is_named() {
        let run = build(|facts| {
            for component in &mut facts.sessions[0].components {
                component.receiver_delay_ns = Some(component.received * 18_000);
            }
        });
        let sentences = sentences(&run, &super::DETECTOR);
        assert!(sentences.len() == 1 && sentences[0].contains("18.0 µs a message"), "{sentences:?}");
    }

    #[test]
    fn a_small_share_and_one_that_is_not_known_are_not() {
        assert!(sentences(&build(|_| ()), &super::DETECTOR).is_empty());
        let unknown = with(|facts| facts.sessions[0].components[0].receiver_delay_ns = None, |_| ());
        assert!(sentences(&unknown, &super::DETECTOR).is_empty());
    }
}
