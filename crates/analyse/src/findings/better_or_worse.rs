//! V04: how a path compares with the baseline
//!
//! * **Better or worse**: the factor against the baseline, at which sizes and thread counts, with its 95 % interval.
//!   *Sure* where both halves of the run agree, else *can't tell*.
//! * **The same**: within so many per cent of the baseline. *Sure* likewise.
//! * **No difference shown**: the interval does not decide; how many rounds probably would. *Can't tell*: this is not
//!   the same as no difference. Where the baseline differs from itself by more than 10 %: which difference this run
//!   cannot see, whatever the number of rounds.
//!
//! ## What it rests on
//!
//! The log-ratio of each pass between case and baseline of the same size, pieces and threads
//! ([comparison](docs/method/comparison.md)).
//!
//! * **Better or worse**: the interval lies beyond the margin, and the sign-flip test stands after Holm's correction.
//! * **The same**: the interval lies within the margin (2 %, or what the machine resolves), and the margin is at most
//!   10 % ([why](docs/method/comparison.md#when-nothing-is-called-the-same)).
//!
//! Silent where the control failed (W24).
//!
//! ## What to do
//!
//! * Better: use that path for these sizes. The same: choose by CPU time or system calls, in the table of costs.
//! * No difference shown: run the printed command. Where the run cannot see differences, find the disturbance first
//!   (`msgpath doctor`, W46).

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
