//! V05: from which size a path pays
//!
//! The size from which a path beats the baseline, or below which alone it does, with its 95 % interval; or that it is
//! better everywhere, nowhere, or crosses more than once. *Can't tell* where some sizes differ and the crossing does
//! not come out.
//!
//! ## What it rests on
//!
//! Log-ratios by size, made monotone; the zero by interpolation, the interval from 2,000 resamples of passes
//! ([crossover](docs/method/crossover.md)). Silent with one size, with several piece counts, where no size differs
//! (V04), where the control failed (W24).
//!
//! ## What to do
//!
//! Switch at the upper end of the interval. More sizes around it (`-l`) narrow the interval.

use super::wording::{about_size, again_with_rounds, finding, measured, range, sentence, threads};
use super::{Detector, Input, Sentence};
use crate::summary::{Comparison, Confidence, Crossover};
use msgpath_core::plan::MAX_ROUNDS;
use msgpath_stats::crossover::CrossoverKind;
use msgpath_stats::verdict::Verdict;

pub(super) const DETECTOR: Detector = Detector { code: "V05", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(comparison) = input.summary.comparison.as_ref().filter(|comparison| !comparison.control_failed) else {
        return Vec::new();
    };
    comparison.crossovers.iter().filter_map(|crossover| say(input, comparison, crossover)).collect()
}

fn say(input: &Input, comparison: &Comparison, crossover: &Crossover) -> Option<Sentence> {
    let path = &crossover.path;
    let baseline = &comparison.baseline;
    let several_counts = measured(input).any(|case| case.case.threads != crossover.threads);
    let with = if several_counts { format!("with {} ", threads(crossover.threads)) } else { String::new() };
    let size = crossover.crossing.size.map(about_size);
    let interval = crossover.crossing.low.zip(crossover.crossing.high);
    let interval = interval.map(|(low, high)| format!("95 %: {}", range(about_size(low), about_size(high))));
    let (confidence, text) = match (crossover.crossing.kind, size, interval) {
        (CrossoverKind::AlwaysFaster, ..) => {
            (Confidence::Sure, format!("{path} beats {baseline} at every size measured: no crossover"))
        }
        (CrossoverKind::NeverFaster, ..) => {
            (Confidence::Sure, format!("{path} beats {baseline} at no size measured: no crossover"))
        }
        (CrossoverKind::At, Some(size), Some(interval)) => {
            (Confidence::Sure, format!("{path} starts to beat {baseline} at {size} ({interval})"))
        }
        (CrossoverKind::FasterBelow, Some(size), Some(interval)) => {
            (Confidence::Sure, format!("{path} beats {baseline} only below {size} ({interval})"))
        }
        (CrossoverKind::Several, Some(size), _) => (
            Confidence::Sure,
            format!(
                "{path} and {baseline} cross more than once, for the last time near {size}: there is no one size from which to switch"
            ),
        ),
        // No difference anywhere is another finding's sentence.
        (CrossoverKind::Equivalent, ..) => return None,
        _ => {
            // Where no size shows a difference, another finding says what would.
            let (better, worse, sizes) = shown(input, comparison, crossover);
            if better + worse == 0 {
                return None;
            }
            let text = format!(
                "whether {path} and {baseline} cross: of {sizes} sizes {path} is better at {better} and worse at {worse}; \
                 more rounds, or sizes beyond these, would tell"
            );
            (Confidence::CantTell, text)
        }
    };
    let next = if confidence == Confidence::CantTell { more_rounds(input) } else { vec![] };
    let numbers = [
        ("size_bytes", crossover.crossing.size.unwrap_or(f64::NAN)),
        ("low_bytes", crossover.crossing.low.unwrap_or(f64::NAN)),
        ("high_bytes", crossover.crossing.high.unwrap_or(f64::NAN)),
        ("threads", f64::from(crossover.threads)),
    ];
    Some(finding("V05", confidence, sentence(&format!("{with}{text}")) + ".", numbers, next))
}

/// At how many sizes of the line the path was shown to be better and worse, and how many sizes there are.
fn shown(input: &Input, comparison: &Comparison, crossover: &Crossover) -> (usize, usize, usize) {
    let line = comparison.ratios.iter().filter(|ratio| {
        let case = &input.plan.cases[ratio.case as usize];
        case.path == crossover.path && case.threads == crossover.threads
    });
    let verdicts: Vec<Verdict> = line.map(|ratio| ratio.verdict).collect();
    let count = |verdict| verdicts.iter().filter(|own| **own == verdict).count();
    (count(Verdict::Better), count(Verdict::Worse), verdicts.len())
}

fn more_rounds(input: &Input) -> Vec<String> {
    let rounds = 4 * u64::from(input.plan.rounds);
    let possible = rounds * input.plan.cases.len() as u64 <= MAX_ROUNDS;
    if possible { vec![again_with_rounds(&input.run.header, rounds)] } else { vec![] }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn paths(slope: f64, truth: f64) -> Build {
        Build::echo(&["tcp:send", "tcp:zerocopy"], &[64, 256, 1024, 4096, 16_384, 65_536])
            .messages(60)
            .noise(0.02)
            .factor(move |case| {
                if case.path.method == "zerocopy" { (slope * ((case.size as f64).log2() - truth)).exp() } else { 1.0 }
            })
    }

    #[test]
    fn speaks_of_the_crossing() {
        let texts = sentences(&paths(-0.08, 11.0).run(), "V05");
        assert!(texts[0].starts_with("sure: tcp:zerocopy starts to beat tcp:send at "), "{texts:?}");
        assert!(texts[0].contains("KiB (95 %: 1."), "{texts:?}");
        assert!(sentences(&paths(0.08, 11.0).run(), "V05")[0].contains("beats tcp:send only below"));
        assert!(sentences(&paths(-0.08, 3.0).run(), "V05")[0].contains("at every size measured"));
        assert!(sentences(&paths(-0.08, 30.0).run(), "V05")[0].contains("at no size measured"));
    }

    #[test]
    fn says_what_would_settle_it() {
        let texts = sentences(&paths(-0.08, 16.05).run(), "V05");
        assert!(texts[0].starts_with("can't tell: Whether tcp:zerocopy and tcp:send cross: of 6 sizes tcp:zerocopy is better at 0 and worse at 5;"), "{texts:?}");
    }

    #[test]
    fn is_silent_on_equal_paths_and_a_single_size() {
        assert!(sentences(&paths(0.0, 0.0).run(), "V05").is_empty());
        assert!(sentences(&Build::echo(&["tcp:send", "tcp:writev"], &[64]).run(), "V05").is_empty());
    }
}
