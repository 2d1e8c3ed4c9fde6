//! W97: messages wait for their receiver
//!
//! ## What it says
//!
//! **A CPU**: The receiving threads were runnable and not running for at least a quarter of the mean one-way time. *Likely*: the
//! time is counted, which message it delayed is not.
//!
//! **More components than CPUs**: More components receive every message at one time than there are CPUs. *Sure*: both are counted.
//!
//! **One late receiver**: At least five messages in a row at one receiver took more than ten medians and arrived together: they waited for one
//! thing. *Sure* where no message waited longer than one made before it, else *likely*.
//!
//! ## What it is computed from
//!
//! **A CPU**: The second field of `/proc/self/task/TID/schedstat` of every receiving thread, from before the first message to after
//! the last, divided by the messages received.
//!
//! **More components than CPUs**: Processes times components, the CPUs that the run may use, and how the components start.
//!
//! **One late receiver**: The per-message log in the order of arrival at each receiver: messages slower than ten steady medians that arrived
//! within a fifth of the longest wait.
//!
//! ## When it stays silent
//!
//! **A CPU**: Where schedstat cannot be read, below 2 µs a message, and below a quarter of the mean.
//!
//! **More components than CPUs**: With as many CPUs as components, and with a staggered start.
//!
//! **One late receiver**: Without a message log, and where slow messages arrive apart.
//!
//! ## What to do
//!
//! **A CPU**: Fewer receivers than CPUs, a higher priority for them, or no computing in the thread that receives. `perf sched
//! timehist` shows 0 for a receiver that was runnable already; this counts it.
//!
//! **More components than CPUs**: Compare engines by their minimum and by the median of a run with `--start staggered`; measure the scheduler on
//! purpose, not by accident.
//!
//! **One late receiver**: Count such a stall once. Look for what kept the receiver: a CPU, a lock, output inside the loop.

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
         threads on {} CPUs): messages wait for a CPU, not for the engine",
        prefix(input, case),
        Glyphs::Unicode.time(delay),
        percent(share),
        Glyphs::Unicode.time(mean),
        facts.processes * facts.components,
        facts.cpus
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
