//! Of V04: two paths are the same.

use msgpath_stats::verdict::Verdict;

use super::stretches::stretches;
use super::wording::{of_both_halves, percent_at_most, sentence};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "V04", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(comparison) = &input.summary.comparison else { return Vec::new() };
    let say = |stretch: super::stretches::Stretch| {
        let (low, _) = stretch.ends(|ratio| ratio.low.unwrap_or(f64::NAN));
        let (_, high) = stretch.ends(|ratio| ratio.high.unwrap_or(f64::NAN));
        let most = (low - 1.0).abs().max((high - 1.0).abs());
        let text = format!(
            "{} {} is within {} % of {}",
            sentence(&stretch.place),
            stretch.path,
            percent_at_most(most.max(0.001)),
            comparison.baseline
        );
        let numbers = [("low", low), ("high", high), ("margin", comparison.margin)];
        of_both_halves(input, "V04", stretch.halves_agree(input, comparison.margin), text, numbers)
    };
    stretches(input, comparison, Verdict::Equivalent).into_iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    #[test]
    fn speaks_of_the_range_of_sizes() {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64, 1024, 4096, 65_536]);
        let run = build.factor(|case| if case.path.method == "writev" && case.size > 4096 { 1.3 } else { 1.0 }).run();
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("sure: Up to 4 KiB tcp:writev is within "), "{texts:?}");
        assert!(texts[0].ends_with(" % of tcp:send."), "{texts:?}");
    }

    #[test]
    fn is_silent_where_the_difference_is_real_or_the_noise_too_large() {
        let build = || Build::echo(&["tcp:send", "tcp:writev"], &[64]);
        assert!(sentences(&build().factor(|case| 1.0 + 0.1 * f64::from(case.id)).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&build().noise(0.2).run(), &super::DETECTOR).is_empty());
    }
}
