//! Of W62: a clock was stepped.

use msgpath_core::units::{Glyphs, signed};

use super::shared::{calls, ends};
use crate::analyse::{ClockPiece, PairClock, clock_step};
use msgpath_analyse::findings::wording::{finding, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W62", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, rpc)) = calls(input) else { return Vec::new() };
    let largest = |clock: &PairClock| {
        let steps = clock.pieces.windows(2).map(|two| (clock_step(&two[0], &two[1]), two[0], two[1]));
        let sure = steps.filter(|((step, within), ..)| step.abs() > *within);
        sure.max_by(|a, b| a.0.0.abs().total_cmp(&b.0.0.abs()))
    };
    let found = rpc.clocks.iter().filter_map(|clock| Some((largest(clock)?, clock)));
    let Some((((step, within), before, after), clock)) = found.max_by(|a, b| a.0.0.0.abs().total_cmp(&b.0.0.0.abs()))
    else {
        return Vec::new();
    };
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let Some(pair) = facts.pairs.get(clock.pair as usize) else { return Vec::new() };
    let text = format!(
        "between {} one clock was stepped: what is added to the server's stamps changes by {} (within ±{}) {}. Each side of \
         the step has its own offset; no line was forced through it",
        ends(pair),
        signed(step, time),
        time(within),
        when(&before, &after),
    );
    let numbers = [
        ("step_ns", step),
        ("within_ns", within),
        ("at_ns", after.from_ns as f64),
        ("pieces", clock.pieces.len() as f64),
        ("pair", f64::from(clock.pair)),
    ];
    vec![finding("W62", Confidence::Sure, sentence(&text) + ".", numbers, vec![])]
}

fn when(before: &ClockPiece, after: &ClockPiece) -> String {
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    format!(
        "between {} and {} of the run",
        time(before.to_ns.min(after.from_ns)),
        time(after.from_ns.max(before.to_ns))
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, S};

    #[test]
    fn speaks_of_a_step() {
        let sentences = Calls::with(1, 1_000, |t| if t < S { 3.0 * MS } else { -7.0 * MS })
            .pings(120, 2.0 * S)
            .sentences(&super::DETECTOR);
        assert!(
            sentences[0].starts_with("sure: Between 10.9.0.1 and 10.9.0.2 one clock was stepped: "),
            "{sentences:?}"
        );
        assert!(sentences[0].contains("changes by −10") || sentences[0].contains("changes by −9.9"), "{sentences:?}");
    }

    #[test]
    fn is_silent_where_one_line_holds() {
        assert!(Calls::new(1, 3.0 * MS, 150e-6).pings(120, 2.0 * S).sentences(&super::DETECTOR).is_empty());
        assert!(Calls::new(1, 0.0, 0.0).same_machine().pings(120, 2.0 * S).sentences(&super::DETECTOR).is_empty());
    }
}
