//! W27: values are means of batches
//!
//! The values of these paths are means of so many messages, not times of single ones.
//!
//! ## What it rests on
//!
//! The cost of reading the clock: where it is more than a twentieth of a message, one pair of stamps goes around a
//! batch ([batches](docs/method/clocks.md#batches)).
//!
//! ## What to do
//!
//! Read p50 as the typical message. Do not read p99 as a slow message: it hides in the mean of its batch.

use msgpath_core::schema::NEAR;
use std::collections::BTreeSet;

use msgpath_core::units::Glyphs;

use super::wording::{list, measured, range, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W27", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let batched: Vec<_> = measured(input).filter(|case| case.batch > 1).collect();
    let sizes = || batched.iter().map(|case| case.batch);
    let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { return Vec::new() };
    let paths: BTreeSet<String> = batched.iter().map(|case| case.case.path.to_string()).collect();
    let text = format!(
        "the values of {} are means of {} messages each, not times of single messages",
        list(&paths.into_iter().collect::<Vec<_>>()),
        range(least.to_string(), most.to_string())
    );
    let cost = input.run.header.end(NEAR).clock.cost_ns;
    let why = format!(
        "one reading of the clock costs {}, more than a twentieth of such a message; a slow message hides in its batch",
        Glyphs::Unicode.time(cost)
    );
    let numbers = [("least_batch", f64::from(least)), ("largest_batch", f64::from(most)), ("clock_ns", cost)];
    vec![warning("W27", text, &why, "none on this clock", numbers)]
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences};

    #[test]
    fn speaks_of_means() {
        let mut run = Build::echo(&["shm:ring/spin"], &[64]).run();
        run.rounds.iter_mut().for_each(|round| round.batch = 20);
        assert_eq!(
            sentences(&run, "W27"),
            ["the values of shm:ring/spin are means of 20 messages each, not times of single messages"]
        );
        assert!(
            sentences(&run, "V01")[0].contains("half of the batch means")
                || sentences(&run, "V01")[0].contains("Half of the batch means")
        );
        assert_eq!(summarise(&run).cases[0].messages, 40 * 200 * 20);
    }

    #[test]
    fn is_silent_on_single_messages() {
        assert!(sentences(&Build::echo(&["shm:ring/spin"], &[64]).run(), "W27").is_empty());
    }
}
