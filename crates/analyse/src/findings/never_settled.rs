//! W45: the rounds never settled
//!
//! The level of a case still changed at the end: how many levels, between which rounds. Its ranges then span the
//! levels, and no other finding is *sure* of them. Ratios within a pass still hold.
//!
//! ## What it rests on
//!
//! Change points of at least 20 rounds of a closed loop ([steadiness](docs/method/steadiness.md#levels)): a level
//! begins in the last quarter, or MSER would drop more than half and a level begins in the second half. False alarms on
//! 40 simulated steady rounds: 1 in 100 runs with independent noise, 6 with neighbours correlated by 0.5, 15 at 0.7.
//! Rounds that jump one by one between two speeds are not this: the interval holds them.
//!
//! ## What to do
//!
//! Find what changes: other programs, CPU frequency, heat, a hypervisor. Measure for longer, or compare within one run.

use msgpath_core::units::{BitUnits, bits_per_second};
use msgpath_stats::steady::Steadiness;

use super::wording::{measured, prefix, warning};
use super::{Detector, Input, Sentence};
use crate::settled::unsettled;
use crate::summary::CaseSummary;
use crate::words::levels_in_words;

pub(super) const DETECTOR: Detector = Detector { code: "W45", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let affected = measured(input).filter(|case| unsettled(case).is_some());
    let mut affected: Vec<(&CaseSummary, &Steadiness)> =
        affected.filter_map(|case| Some((case, case.steadiness.as_ref()?))).collect();
    affected.sort_by(|a, b| b.1.spread.total_cmp(&a.1.spread));
    let Some((case, worst)) = affected.first().copied() else { return Vec::new() };
    let what = if input.plan.workload.timed {
        format!("in this run the p50 of the rounds never settled: {}", levels_in_words(worst))
    } else {
        // The steadiness of a stream is about its time per message.
        let rate = |ns: f64| bits_per_second(case.case.size as f64 * 8e9 / ns, BitUnits::Si);
        let (low, high) = (rate(worst.range_ns.1), rate(worst.range_ns.0));
        format!("in this run throughput never settled: {} between {low} and {high}", worst.levels_in_words())
    };
    let mut text = format!("{}{what}", prefix(input, case));
    match affected.len() {
        1 => {}
        2 => text.push_str("; neither did another case"),
        more => text.push_str(&format!("; neither did {} other cases", more - 1)),
    }
    let why = "the value would be another a minute earlier or later, so its range spans the levels; ratios within this run \
               are paired and still hold";
    let fix = "look for what changes: other programs, CPU frequency and heat, the hypervisor; measure for longer; or \
               compare within one run";
    let numbers = [
        ("levels", worst.levels as f64),
        ("spread", worst.spread),
        ("fastest_round_ns", worst.range_ns.0),
        ("slowest_round_ns", worst.range_ns.1),
        ("warm_up_rounds", worst.warm_up_rounds as f64),
        ("kpss", worst.kpss.unwrap_or(f64::NAN)),
        ("cases", affected.len() as f64),
    ];
    vec![warning("W45", text, why, fix, numbers)]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, ramp, relevel, sentences};

    #[test]
    fn speaks_of_levels() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * [1.0, 1.4, 1.1, 1.6, 1.2, 1.0, 1.5][pass as usize / 6]);
        let texts = sentences(&run, "W45");
        assert!(
            texts[0]
                .starts_with("in this run the p50 of the rounds never settled: 6 levels in 7 stretches between 19."),
            "{texts:?}"
        );
        let stream = Build::stream(&["tcp:send"], &[65_536]).rates(|_, pass| 1e9 * ramp(pass)).run();
        let texts = sentences(&stream, "W45");
        assert!(
            texts[0].starts_with("in this run throughput never settled: ") && texts[0].ends_with("Gbit/s"),
            "{texts:?}"
        );
        assert!(texts[0].contains("levels between 1.00 Gbit/s and 1.9"), "{texts:?}");
    }

    #[test]
    fn names_the_worst_of_several() {
        let mut run = Build::echo(&["tcp:send"], &[64, 4096, 65_536]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        let first: Vec<_> = run.rounds.iter().filter(|round| round.case == 0).cloned().collect();
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            round.latency = first[round.pass as usize].latency.clone();
        }
        let texts = sentences(&run, "W45");
        assert!(
            texts[0].contains("64 B: in this run the p50 of") && texts[0].ends_with("neither did another case"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_on_a_level_and_on_rounds_that_jump_one_by_one() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "W45").is_empty());
        // Every fifth round or so finds the other end on a slower CPU.
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| if pass * 7 % 5 == 1 { 30_000.0 } else { 20_000.0 });
        assert!(sentences(&run, "W45").is_empty());
    }
}
