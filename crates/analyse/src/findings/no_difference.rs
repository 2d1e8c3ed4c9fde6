//! Of V04: no difference was shown.

use msgpath_core::plan::{MAX_ROUNDS, MIN_ROUNDS_FOR_CLAIMS};
use msgpath_stats::quantile::count;
use msgpath_stats::verdict::{Verdict, is_beyond, may_be_the_same};

use super::stretches::{Stretch, stretches};
use super::wording::{again_with_rounds, finding, interval, percent, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{Comparison, Confidence, Ratio};
use msgpath_core::units::signed;

pub(super) const DETECTOR: Detector = Detector { code: "V04", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(comparison) = &input.summary.comparison else { return Vec::new() };
    stretches(input, comparison, Verdict::Undecided).iter().map(|stretch| say(input, comparison, stretch)).collect()
}

fn say(input: &Input, comparison: &Comparison, stretch: &Stretch) -> Sentence {
    let path = stretch.path;
    let baseline = &comparison.baseline;
    let place = &stretch.place;
    let (low, _) = stretch.ends(|ratio| ratio.low.unwrap_or(f64::NAN));
    let (_, high) = stretch.ends(|ratio| ratio.high.unwrap_or(f64::NAN));
    if stretch.ratios.iter().any(|ratio| ratio.low.is_none()) {
        let text = format!(
            "{path} against {baseline} {place}: an interval needs at least {MIN_ROUNDS_FOR_CLAIMS} rounds of both."
        );
        return finding("V04", Confidence::CantTell, text, [], vec![again_with_rounds(&input.run.header, 40)]);
    }
    // An interval that excludes 1 without clearing the margin is a difference of unclear weight.
    let none = stretch.ratios.iter().all(|ratio| ratio.low <= Some(1.0) && ratio.high >= Some(1.0));
    // One that clears it is no proof: the test, which allows for the number of comparisons, wants more rounds.
    let ends =
        |ratio: &Ratio| (ratio.low.map_or(f64::NEG_INFINITY, f64::ln), ratio.high.map_or(f64::INFINITY, f64::ln));
    let clears = stretch.ratios.iter().all(|ratio| is_beyond(ends(ratio), comparison.margin));
    let change = |ratio: f64| signed(ratio - 1.0, |share| format!("{} %", percent(share)));
    let interval = interval(Some(low), Some(high), change).unwrap_or_default();
    let (whether, unproven) = if clears { ("that", " is not proven by so few rounds") } else { ("whether", "") };
    let what = if none {
        format!("no difference between {path} and {baseline} was shown {place}")
    } else {
        format!("{whether} {path} differs from {baseline} by more than {} % {place}", percent(comparison.margin))
    };
    let needed = stretch.ratios.iter().map(|ratio| ratio.rounds_needed).collect::<Option<Vec<u64>>>();
    let needed = needed.and_then(|all| all.into_iter().max());
    let possible = needed.filter(|rounds| rounds * input.plan.cases.len() as u64 <= MAX_ROUNDS);
    // However many rounds: within such a margin nothing is called the same.
    let unseen = !may_be_the_same(comparison.margin)
        && stretch.ratios.iter().any(|ratio| ratio.ratio.ln().abs() <= comparison.margin.ln_1p());
    if unseen {
        let margin = percent(comparison.margin);
        let text = format!(
            "whether {path} differs from {baseline} {place} ({interval}): differences below {margin} % cannot be seen in \
             this run, in which the baseline differed from itself by as much."
        );
        let numbers = [("low", low), ("high", high), ("margin", comparison.margin)];
        return finding("V04", Confidence::CantTell, sentence(&text), numbers, vec!["msgpath doctor".into()]);
    }
    let settle = match (needed, possible) {
        (Some(rounds), Some(_)) => format!("about {} rounds would decide it", count(rounds as f64)),
        (Some(rounds), None) => format!("it would take about {} rounds, more than one run holds", count(rounds as f64)),
        (None, _) => "the difference lies so near the margin that more rounds would not decide it".into(),
    };
    let numbers = [("low", low), ("high", high), ("rounds_needed", needed.map_or(f64::NAN, |rounds| rounds as f64))];
    let next = possible.map(|rounds| again_with_rounds(&input.run.header, rounds)).into_iter().collect();
    let text = format!("{what} ({interval}){unproven}; {settle}.");
    finding("V04", Confidence::CantTell, sentence(&text), numbers, next)
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, sentences, slow_down};

    fn paths() -> Build {
        Build::echo(&["tcp:send", "tcp:writev"], &[64])
    }

    #[test]
    fn speaks_with_what_would_settle_it() {
        let run = paths().noise(0.08).run();
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].starts_with("can't tell: No difference between tcp:writev and tcp:send was shown at 64 B (95 %: "),
            "{texts:?}"
        );
        assert!(texts[0].contains("rounds would decide it."), "{texts:?}");
        let next = summarise(&run).findings.into_iter().find(|finding| finding.code == "V04").unwrap().next;
        assert!(next[0].starts_with("msgpath compare -t 10s -r "), "{next:?}");
    }

    #[test]
    fn an_interval_beyond_the_margin_is_no_proof_where_rounds_are_few() {
        let mut build = paths().control(64);
        build.plan.rounds = 5;
        let mut run = build.run();
        slow_down(&mut run, 1.5, |at| at % 3 == 1);
        let comparison = summarise(&run).comparison.unwrap();
        let ratio = &comparison.ratios[0];
        assert!(
            ratio.low > Some(1.0 + comparison.margin) && ratio.verdict == super::Verdict::Undecided,
            "{comparison:?}"
        );
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].starts_with("can't tell: That tcp:writev differs from tcp:send by more than 2 % at 64 B (95 %: +")
                && texts[0].contains("is not proven by so few rounds; about 6 rounds would decide it."),
            "{texts:?}"
        );
    }

    #[test]
    fn a_run_that_resolves_little_says_so() {
        // Something else takes the CPU now and then, in turn from the baseline, the other path and its control.
        let mut run = paths().control(64).run();
        slow_down(&mut run, 3.0, |at| (at / 3) % 4 == at % 3);
        let comparison = summarise(&run).comparison.unwrap();
        assert!(comparison.margin > 0.1 && !comparison.control_failed, "{comparison:?}");
        let texts = sentences(&run, &super::DETECTOR);
        let margin = super::percent(comparison.margin);
        assert!(
            texts[0].starts_with("can't tell: Whether tcp:writev differs from tcp:send at 64 B (95 %: "),
            "{texts:?}"
        );
        assert!(texts[0].contains(&format!("differences below {margin} % cannot be seen in this run")), "{texts:?}");
        assert!(sentences(&run, &crate::findings::equivalent::DETECTOR).is_empty());
        let next = summarise(&run).findings.into_iter().find(|finding| finding.code == "V04").unwrap().next;
        assert_eq!(next, ["msgpath doctor"]);
    }

    #[test]
    fn tells_too_few_rounds_apart() {
        assert!(sentences(&paths().rounds(4).run(), &super::DETECTOR)[0].contains("at least 5 rounds"));
    }

    #[test]
    fn is_silent_where_it_is_decided() {
        assert!(sentences(&paths().run(), &super::DETECTOR).is_empty());
        assert!(sentences(&paths().factor(|case| 1.0 + f64::from(case.id)).run(), &super::DETECTOR).is_empty());
    }
}
