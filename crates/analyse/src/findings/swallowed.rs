//! Of W133: the buffers swallowed rounds of a stream.

use super::wording::{affected, again_for, measured, prefix, warning, worst};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W133", detect };

/// In fewer rounds it is chance.
const SHARE: f64 = 0.25;

fn detect(input: &Input) -> Vec<Sentence> {
    let share = |case: &crate::summary::CaseSummary| {
        let bounds = case.throughput.as_ref()?.bounds as f64;
        let rounds = input.rounds[case.case.id as usize].len();
        (rounds > 0 && bounds / rounds as f64 >= SHARE).then_some(bounds)
    };
    let found: Vec<_> = measured(input).filter_map(|case| Some((share(case)?, case))).collect();
    let Some((case, cases)) = worst(found.into_iter()) else { return Vec::new() };
    let Some(throughput) = &case.throughput else { return Vec::new() };
    let rounds = input.rounds[case.case.id as usize].len();
    let text = format!(
        "{}the buffers between the ends held a large part of {} of {rounds} rounds, so the throughput is a lower bound{}",
        prefix(input, case),
        throughput.bounds,
        affected(cases)
    );
    let why = "the receiver read faster than the path carries, because much had arrived before it began; the time is that from \
               the first byte sent to the acknowledgement of the last";
    let seconds = (10.0 * throughput.sender_ns * rounds as f64 / 1e9).max(4.0);
    let numbers = [("bounds", throughput.bounds as f64), ("rounds", rounds as f64), ("cases", cases as f64)];
    vec![warning("W133", text, why, &again_for(&input.run.header, seconds), numbers)]
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences};

    #[test]
    fn rounds_that_the_buffers_swallowed_are_a_bound() {
        let mut run = Build::stream(&["tcp:send"], &[131_072]).rates(|_, _| 98.9e9).run();
        for round in &mut run.rounds {
            round.near_mut().elapsed_ns = 16 * round.far().elapsed_ns;
        }
        assert!(sentences(&run, &super::DETECTOR)[0].contains("is a lower bound"));
        let throughput = summarise(&run).cases[0].throughput.clone().unwrap();
        assert!((throughput.receiver_bits.value / (98.9e9 / 16.0) - 1.0).abs() < 1e-3, "{throughput:?}");
        // Both ends agree about no more than what was sent.
        assert!((throughput.sender_bits.value / throughput.receiver_bits.value - 1.0).abs() < 1e-3, "{throughput:?}");
    }

    #[test]
    fn is_silent_where_both_clocks_agree() {
        assert!(sentences(&Build::stream(&["tcp:send"], &[131_072]).run(), &super::DETECTOR).is_empty());
    }
}
