//! V04: where a path is better or worse than the baseline, and by how much.

use super::stretches::{Stretch, stretches};
use super::wording::{again_with_rounds, finding, percent, range, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{Comparison, Confidence};
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
    let time = comparison.metric == "p50";
    let path = stretch.path;
    let baseline = &comparison.baseline;
    let more = |ratio: f64| percent(ratio - 1.0);
    let less = |ratio: f64| percent(1.0 - ratio);
    let times = |ratio: f64| three_digits(ratio);
    let inverse = |ratio: f64| three_digits(1.0 / ratio);
    // What is said of the estimates, and the same numbers of the interval ends behind it.
    let (phrase, numbers, ends) = if estimates.0 > 1.0 {
        match (estimates.1 > 2.0, time) {
            (true, true) => ("takes {} times as long as", pair(estimates, times), pair((low, high), times)),
            (true, false) => ("carries {} times as much as", pair(estimates, times), pair((low, high), times)),
            (false, true) => ("takes {} % longer than", pair(estimates, more), pair((low, high), more) + " %"),
            (false, false) => ("carries {} % more than", pair(estimates, more), pair((low, high), more) + " %"),
        }
    } else {
        let (estimates, ends) = ((estimates.1, estimates.0), (high, low));
        match (estimates.1 < 0.5, time) {
            (true, true) => ("is {} times as fast as", pair(estimates, inverse), pair(ends, inverse)),
            (false, true) => ("takes {} % less time than", pair(estimates, less), pair(ends, less) + " %"),
            (_, false) => ("carries {} % less than", pair(estimates, less), pair(ends, less) + " %"),
        }
    };
    let by = if time { " in the median" } else { "" };
    let phrase = phrase.replace("{}", &numbers);
    let text = format!("{} {path} {phrase} {baseline}{by} (95 %: {ends})", sentence(&stretch.place));
    let evidence = [("lowest_ratio", estimates.0), ("highest_ratio", estimates.1), ("low", low), ("high", high)];
    if stretch.halves_agree(input, comparison.margin) {
        finding("V04", Confidence::Sure, text + ".", evidence, vec![])
    } else {
        let next = vec![again_with_rounds(&input.run.header, 2 * u64::from(input.plan.rounds))];
        finding("V04", Confidence::CantTell, text + " over the whole run, but its two halves disagree.", evidence, next)
    }
}

fn pair(ends: (f64, f64), write: impl Fn(f64) -> String) -> String {
    range(write(ends.0), write(ends.1))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn paths() -> Build {
        Build::echo(&["tcp:send", "tcp:zerocopy"], &[64, 4096, 65_536, 1 << 20])
    }

    #[test]
    fn speaks_with_the_range_of_percentages() {
        let run = paths().factor(|case| match (case.path.method.as_str(), case.size) {
            ("zerocopy", 64) => 1.38,
            ("zerocopy", 4096) => 1.31,
            ("zerocopy", 65_536) => 0.89,
            ("zerocopy", _) => 0.34,
            _ => 1.0,
        });
        let texts = sentences(&run.run(), "V04");
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("sure: From 64 KiB up tcp:zerocopy is 1.1"), "{texts:?}");
        assert!(texts[0].contains("times as fast as tcp:send in the median (95 %: 1.1"), "{texts:?}");
        assert!(
            texts[1].starts_with("sure: Up to 4 KiB tcp:zerocopy takes 31 to 38 % longer than tcp:send"),
            "{texts:?}"
        );
    }

    #[test]
    fn rates_are_carried_not_taken() {
        let build = Build::stream(&["tcp:send", "tcp:writev"], &[64]);
        let texts =
            sentences(&build.rates(|case, pass| (1.0 + 0.2 * case as f64) * (1e9 + f64::from(pass))).run(), "V04");
        assert_eq!(texts, ["sure: At 64 B tcp:writev carries 20 % more than tcp:send (95 %: 20 %)."]);
    }

    #[test]
    fn is_silent_without_a_difference() {
        assert!(sentences(&paths().run(), "V04").is_empty());
        assert!(sentences(&paths().noise(0.3).run(), "V04").is_empty());
        assert!(sentences(&paths().factor(|case| 1.0 + f64::from(case.id)).rounds(4).run(), "V04").is_empty());
    }
}
