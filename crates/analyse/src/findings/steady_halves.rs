//! V02: whether the run was steady
//!
//! * **Halves**: the second half of the rounds was like the first, was not (with the difference), or too short to tell.
//!   Rounds that jump between levels shorter than 5 rounds are named instead: they have no trend, and no single level.
//! * **Warm-up, slow-down**: the run settled on another level than it began with, from which round on and by how much.
//!
//! *Likely* at most where some of these rounds were disturbed, *can't tell* where half of them were.
//!
//! ## What it rests on
//!
//! * **Halves**: the ratio of the round medians (streams: throughput) of both halves, Welch's 95 % interval. Steady:
//!   the whole interval lies within 5 %. At least 5 rounds in each half.
//! * **Warm-up, slow-down**: change points of at least 20 round medians
//!   ([steadiness](docs/method/steadiness.md#change-points)); the last level against all rounds before. With `-o
//!   restarts`, levels within restarts (V12 has those between).
//!
//! Silent in a comparison, whose rounds are paired, and where the rounds never settled (W45).
//!
//! ## What to do
//!
//! * Not steady: look for other programs, CPU frequency, heat, a hypervisor; choose CPUs with `--cpu`. Ratios within
//!   one run still hold.
//! * Warm-up: use the `--warmup` that is printed. Slow-down: measure for longer, as printed, to see where it ends.

use msgpath_stats::steady::{SteadyClass, halves};

use super::conditions::undisturbed;
use super::wording::{
    again_for, finding, measured, percent, percent_at_most, prefix, range, seconds_measured, sentence,
};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};
use crate::words::{levels_in_words, with_interval};
use msgpath_core::units::signed;

pub(super) const DETECTOR: Detector = Detector { code: "V02", detect };

/// Halves that may differ by more are not called steady.
const STEADY: f64 = 0.05;

fn detect(input: &Input) -> Vec<Sentence> {
    if input.summary.comparison.is_some() {
        return Vec::new();
    }
    let what = if input.plan.workload.timed { "at p50" } else { "in throughput" };
    let mut out = Vec::new();
    // Where levels were found, V02 or W45 tells of them.
    let one_level = |case: &&CaseSummary| case.steadiness.as_ref().is_none_or(|s| s.class == SteadyClass::Flat);
    for case in measured(input).filter(one_level) {
        if let Some(found) = case.steadiness.as_ref().filter(|found| found.levels > 1) {
            let (confidence, why) = undisturbed(input, case, Confidence::Sure);
            let text = format!(
                "{}the rounds jump between {}, none of which lasts for 5 rounds: a run of other rounds may show another value{why}",
                prefix(input, case),
                levels_in_words(found)
            );
            out.push(finding("V02", confidence, sentence(&text) + ".", [("levels", found.levels as f64)], vec![]));
            continue;
        }
        let rounds: Vec<f64> = input.series[case.case.id as usize].values().copied().collect();
        let Some(ratio) = halves(&rounds) else { continue };
        let (Some(low), Some(high)) = (ratio.low, ratio.high) else { continue };
        let most = (low - 1.0).abs().max((high - 1.0).abs());
        let numbers = [("second_half_to_first", ratio.value), ("low", low), ("high", high)];
        let prefix = prefix(input, case);
        let mut say = |confidence, text: String, next| {
            let (confidence, why) = undisturbed(input, case, confidence);
            out.push(finding("V02", confidence, sentence(&format!("{prefix}{text}{why}")) + ".", numbers, next));
        };
        let longer = || vec![again_for(&input.run.header, 4.0 * seconds_measured(input, case))];
        let change = |ratio: f64| signed(ratio - 1.0, |share| format!("{} %", percent(share)));
        if most <= STEADY {
            let bound = percent_at_most(most.max(0.001));
            say(
                Confidence::Sure,
                format!("the run was steady: first and second half differ by less than {bound} % {what}"),
                vec![],
            );
        } else if low > 1.0 || high < 1.0 {
            let text = format!(
                "the run was not steady: {what} the second half differs from the first by {}",
                with_interval(ratio.value, ratio.low, ratio.high, change)
            );
            say(Confidence::Sure, text, vec![]);
        } else {
            let text = format!(
                "whether the run was steady: {what} the second half differs from the first by {}; a longer run would tell",
                range(change(low), change(high))
            );
            say(Confidence::CantTell, text, longer());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, relevel, sentences};

    #[test]
    fn speaks_of_a_steady_run() {
        let texts = sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR);
        assert!(
            texts[0].starts_with("sure: The run was steady: first and second half differ by less than 0."),
            "{texts:?}"
        );
        assert!(texts[0].ends_with("% at p50."), "{texts:?}");
    }

    #[test]
    fn speaks_of_a_step_and_of_doubt() {
        // Too few rounds to look for levels.
        let mut run = Build::echo(&["tcp:send"], &[64]).rounds(18).run();
        relevel(&mut run, |pass| if pass < 9 { 20_000.0 } else { 24_000.0 });
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].starts_with("sure: The run was not steady: at p50 the second half differs from the first by +"),
            "{texts:?}"
        );
        let texts = sentences(&Build::echo(&["tcp:send"], &[64]).noise(0.3).run(), &super::DETECTOR);
        assert!(texts[0].starts_with("can't tell: Whether the run was steady"), "{texts:?}");
    }

    /// A far end that answers in 3 or 12 ms, changing after every 4.4 rounds.
    #[test]
    fn rounds_that_jump_are_not_steady() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| if ((f64::from(pass) / 4.4) as u32).is_multiple_of(2) { 3e6 } else { 12e6 });
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("sure: The rounds jump between 2 levels between 2.9"), "{texts:?}");
    }

    #[test]
    fn halves_of_disturbed_rounds_are_not_surely_different() {
        let mut run = Build::echo(&["tcp:send"], &[64]).rounds(18).run();
        relevel(&mut run, |pass| if pass < 9 { 20_000.0 } else { 24_000.0 });
        run.rounds.iter_mut().skip(1).for_each(|round| round.steal_ticks = Some(9));
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].starts_with("can't tell: The run was not steady: at p50"), "{texts:?}");
        assert!(texts[0].ends_with("17 of 18 rounds were disturbed, which may explain it."), "{texts:?}");
    }

    #[test]
    fn is_silent_with_few_rounds_and_where_levels_were_found() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| if pass < 12 { 20_000.0 } else { 24_000.0 });
        assert!(
            sentences(&run, &super::DETECTOR).is_empty()
                && !sentences(&run, &crate::findings::steady_levels::DETECTOR).is_empty()
        );
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).rounds(8).run(), &super::DETECTOR).is_empty());
    }
}
