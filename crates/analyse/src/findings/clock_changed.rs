//! W190: a clock changed during the run
//!
//! * **The clock source**: the kernel took another one during the run; in how many rounds that was seen.
//! * **The wall clock**: the time of day was set, and by how much.
//!
//! ## What it rests on
//!
//! `current_clocksource`, and the distance of CLOCK_REALTIME from CLOCK_MONOTONIC, around every round. A step is more
//! than 1 ms and 1000 ppm of the time; NTP moves a clock by at most 500 ppm.
//!
//! ## What to do
//!
//! * **The clock source**: a reading costs 20 to 30 ns with `tsc`, up to 1 µs with `hpet` or `acpi_pm`. See `dmesg |
//!   grep -i clocksource`; measure again.
//! * **The wall clock**: no duration depends on it. Times of day do: the begin of the run, logs of the RPC lab, stamps
//!   of other machines.

use msgpath_core::units::Glyphs;

use super::conditions::{End, machines, measured_rounds, of_rounds};
use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W190", detect };

const SOURCE: &str = "clock.source_changed";
const STEP: &str = "clock.stepped_us";

fn detect(input: &Input) -> Vec<Sentence> {
    machines(input).iter().flat_map(|end| [source(input, end), wall(input, end)]).flatten().collect()
}

/// In how many rounds a counter grew, of how many, and by how much in all; `None`: in none.
fn grew(input: &Input, end: &End, name: &str) -> Option<(usize, usize, u64)> {
    let rounds = measured_rounds(input);
    let all: Vec<u64> = rounds.iter().filter_map(|round| end.grew(round, name)).filter(|count| *count > 0).collect();
    (!all.is_empty()).then(|| (all.len(), rounds.len(), all.iter().sum()))
}

fn source(input: &Input, end: &End) -> Option<Sentence> {
    let (some, all, times) = grew(input, end, SOURCE)?;
    let first = end.machine.facts.get("clocksource").map_or(String::new(), |first| format!(" (it began with {first})"));
    Some(warning(
        "W190",
        format!("the clock source of {} changed during the run{first}, in {}", end.name, of_rounds(some, all)),
        "each clock source has its own cost and step: rounds before and after it were timed by different clocks",
        "dmesg | grep -i clocksource says why; measure again",
        [("times", times as f64), ("changed_rounds", some as f64), ("rounds", all as f64)],
    ))
}

fn wall(input: &Input, end: &End) -> Option<Sentence> {
    let (some, all, stepped_us) = grew(input, end, STEP)?;
    let step = Glyphs::Unicode.time(stepped_us as f64 * 1e3);
    Some(warning(
        "W190",
        format!("the wall clock of {} was set by {step} during the run, in {}", end.name, of_rounds(some, all)),
        "durations are of a clock that is never set; times of day in logs and of other machines are not",
        "who sets it: timedatectl, chronyc tracking",
        [("step_ns", stepped_us as f64 * 1e3), ("changed_rounds", some as f64), ("rounds", all as f64)],
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, count, sentences};

    #[test]
    fn another_clock_source_and_a_step_are_named() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for (name, at, by) in [(super::SOURCE, 12, 1), (super::STEP, 20, 3_600_000)] {
            count(&mut run, 0, name, 0);
            for end in [msgpath_core::schema::NEAR, msgpath_core::schema::FAR] {
                run.rounds[at].end_mut(end).kernel.0.insert(name.into(), by);
            }
        }
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts.len(), 2, "{texts:?}");
        let said = |part: &str| texts.iter().any(|text| text.contains(part));
        assert!(said("the clock source of this machine changed during the run"), "{texts:?}");
        assert!(
            said("the wall clock of this machine was set by 3.60 s during the run, in 1 of 40 rounds"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_where_nothing_changed() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        count(&mut run, 0, super::SOURCE, 0);
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
