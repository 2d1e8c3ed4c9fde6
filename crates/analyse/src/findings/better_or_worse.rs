//! V04: how a path compares with the baseline
//!
//! ## What it says
//!
//! **Better or worse**: How many times faster or slower, at which sizes and thread counts, with the 95 % interval. *Sure* where both halves of the run agree, else
//! *can't tell*.
//!
//! **The same**: At these sizes the path is within so many per cent of the baseline. Neighbouring sizes with the same verdict share a
//! sentence. *Sure* where both halves of the run say it too, else *can't tell*.
//!
//! **No difference shown**: That the interval does not decide, how wide it is, and how many rounds would probably decide it. Always *can't tell*:
//! no difference shown is not the same as no difference. Where the baseline differed from itself by more than 10 %:
//! below which difference this run cannot see any, and no number of rounds. Where the interval lies beyond the margin and the test, which allows
//! for the number of comparisons, has too few rounds: that this is no proof yet.
//!
//! ## What it is computed from
//!
//! **Better or worse**: The log-ratio of every pass, case against baseline of the same size, pieces and threads. Three things must hold: the
//! interval lies beyond the margin, a sign-flip test rejects "no difference", and it still does after Holm's correction for
//! the number of comparisons in this run.
//!
//! **The same**: The ratio to the baseline, paired by pass, and its 95 % interval. Equivalent means that the whole interval lies within
//! the margin: 2 %, or what this machine resolves today if that is more (the baseline measured against itself), and that
//! the margin is at most 10 % ([why](docs/method/comparison.md#when-nothing-is-called-the-same)).
//!
//! **No difference shown**: The ratio's interval against the margin. The number of rounds comes from the spread of the log-ratios and the distance
//! of their mean to the nearer end of the margin.
//!
//! ## When it stays silent
//!
//! **Better or worse**: Where one of the three does not hold; where the control failed (W24).
//!
//! **The same**: Where the interval leaves the margin; where the margin is above 10 %; where the control failed (W24).
//!
//! **No difference shown**: Where a verdict was reached; where the control failed (W24).
//!
//! ## What to do
//!
//! **Better or worse**: Use the better path for these sizes. If the halves disagree, run the command that is printed.
//!
//! **The same**: Choose by something else: CPU time, system calls, simplicity. The cost table has them.
//!
//! **No difference shown**: Run the command that is printed. Where the run cannot see differences, look for what disturbs it (`msgpath doctor`, W46)
//! and measure again. If it says that more rounds would not decide it, the difference lies right at the
//! margin: treat the paths as equal, or ask about the cost instead.

use super::stretches::{Stretch, stretches};
use super::wording::{of_both_halves, range, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::Comparison;
use crate::words::compared;
use msgpath_core::plan::Metric;
use msgpath_core::units::three_digits;
use msgpath_stats::verdict::Verdict;

pub(super) const DETECTOR: Detector = Detector { code: "V04", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(comparison) = &input.summary.comparison else { return Vec::new() };
    [Verdict::Better, Verdict::Worse]
        .into_iter()
        .flat_map(|verdict| stretches(input, comparison, verdict))
        .map(|stretch| say(input, comparison, &stretch))
        .collect()
}

fn say(input: &Input, comparison: &Comparison, stretch: &Stretch) -> Sentence {
    let estimates = stretch.ends(|ratio| ratio.ratio);
    let (low, _) = stretch.ends(|ratio| ratio.low.unwrap_or(f64::NAN));
    let (_, high) = stretch.ends(|ratio| ratio.high.unwrap_or(f64::NAN));
    let metric = input.plan.metric();
    let larger = estimates.0 > 1.0;
    let factors = |(low, high): (f64, f64)| {
        let (low, high) = if larger { (low, high) } else { (1.0 / high, 1.0 / low) };
        range(three_digits(low), three_digits(high))
    };
    let (verb, by) = match metric {
        Metric::Throughput => ("carries", ""),
        Metric::Cpu => ("takes", ""),
        Metric::P50 => ("is", " in the median"),
        Metric::P99 => ("is", " in p99"),
        Metric::Mean => ("is", " in the mean"),
    };
    let text = format!(
        "{} {} {verb} {} times {} {}{by} (95 %: {})",
        sentence(&stretch.place),
        stretch.path,
        factors(estimates),
        compared(metric, larger),
        comparison.baseline,
        factors((low, high))
    );
    let evidence = [("lowest_ratio", estimates.0), ("highest_ratio", estimates.1), ("low", low), ("high", high)];
    of_both_halves(input, "V04", stretch.halves_agree(input, comparison.margin), text, evidence)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn paths() -> Build {
        Build::echo(&["tcp:send", "tcp:zerocopy"], &[64, 4096, 65_536, 1 << 20])
    }

    #[test]
    fn speaks_with_the_range_of_factors() {
        let run = paths().factor(|case| match (case.path.method.as_str(), case.size) {
            ("zerocopy", 64) => 1.38,
            ("zerocopy", 4096) => 1.31,
            ("zerocopy", 65_536) => 0.89,
            ("zerocopy", _) => 0.34,
            _ => 1.0,
        });
        let texts = sentences(&run.run(), &super::DETECTOR);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("sure: From 64 KiB up tcp:zerocopy is 1.1"), "{texts:?}");
        assert!(texts[0].contains("times faster than tcp:send in the median (95 %: 1.1"), "{texts:?}");
        assert!(
            texts[1].starts_with("sure: Up to 4 KiB tcp:zerocopy is 1.31 to 1.38 times slower than tcp:send"),
            "{texts:?}"
        );
    }

    #[test]
    fn rates_are_carried_not_taken() {
        let build = Build::stream(&["tcp:send", "tcp:writev"], &[64]);
        let texts = sentences(
            &build.rates(|case, pass| (1.0 + 0.2 * case as f64) * (1e9 + f64::from(pass))).run(),
            &super::DETECTOR,
        );
        assert_eq!(texts, ["sure: At 64 B tcp:writev carries 1.20 times as much as tcp:send (95 %: 1.20)."]);
    }

    #[test]
    fn is_silent_without_a_difference() {
        assert!(sentences(&paths().run(), &super::DETECTOR).is_empty());
        assert!(sentences(&paths().noise(0.3).run(), &super::DETECTOR).is_empty());
        assert!(
            sentences(&paths().factor(|case| 1.0 + f64::from(case.id)).rounds(4).run(), &super::DETECTOR).is_empty()
        );
    }
}
