//! W166: rounds began before their load was steady
//!
//! In how many rounds the load was not steady when the time for waiting was over, 10 s at most: they measured a load on
//! its way.
//!
//! ## What it rests on
//!
//! Rate, queue and round trips in windows of 300 ms ([steady](docs/method/loaded.md#when-a-load-is-steady)); from a
//! tenth of a direction's rounds on.
//!
//! ## What to do
//!
//! `--load-rate` below what the link takes; or, where other traffic or a radio link never settles, more rounds: `-r
//! 40`.

use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};

use super::loaded;

pub(super) const DETECTOR: Detector = Detector { code: "W166", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let directions = loaded(input).map_or(&[][..], |loaded| loaded.directions.as_slice());
    let unsteady = directions.iter().filter(|one| one.unsteady > 0 && 10 * one.unsteady >= one.read);
    unsteady
        .map(|one| {
            let text =
                format!("the load {} was not steady when {} of {} rounds began", one.direction, one.unsteady, one.read);
            let why = "its rate changed or its queue grew as long as there was time to wait";
            let numbers = [("unsteady", one.unsteady as f64), ("rounds", one.read as f64)];
            warning("W166", text, why, "more rounds (-r 40), or a rate that leaves room (--load-rate)", numbers)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::Bed;

    #[test]
    fn rounds_without_a_steady_load_are_counted() {
        let said = |steady| {
            let (run, logs) = Bed { steady, ..Bed::default() }.run();
            said_with(&run, &logs, &super::DETECTOR)
        };
        assert!(said(true).is_empty());
        assert_eq!(said(false), ["the load down was not steady when 10 of 10 rounds began"]);
    }
}
