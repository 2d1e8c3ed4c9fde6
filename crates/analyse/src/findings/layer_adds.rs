//! V17: what a protocol adds to the path that it stands on.

use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::{halves_agree, halves_within};
use msgpath_stats::verdict::Verdict;

use super::wording::{again_with_rounds, finding, percent, range};
use super::{Detector, Input, Sentence};
use crate::layers::{Layer, short_name};
use crate::summary::{Confidence, Ratio};

pub(super) const DETECTOR: Detector = Detector { code: "V17", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let failed = input.summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed);
    let layers = input.summary.layers.iter().filter(|_| !failed);
    layers.filter_map(|layer| Some(say(input, layer, layer.times.as_ref()?))).collect()
}

fn say(input: &Input, layer: &Layer, times: &Ratio) -> Sentence {
    let cases = &input.plan.cases;
    let name = |id: u32| short_name(&cases[id as usize].path, cases.iter().map(|case| &case.path));
    let (own, beneath) = (name(times.case), name(times.baseline));
    let sizes: std::collections::BTreeSet<u64> = cases.iter().map(|case| case.size).collect();
    let size = msgpath_core::units::size(cases[times.case as usize].size);
    let place = if sizes.len() > 1 { format!("At {size} ") } else { String::new() };
    let d = log_ratios(&input.series[times.case as usize], &input.series[times.baseline as usize]);
    let d: Vec<f64> = d.into_iter().map(|(_, d)| d).collect();
    let margin = input.summary.comparison.as_ref().map_or(0.0, |comparison| comparison.margin);
    let ends = |write: &dyn Fn(f64) -> String| match (times.low, times.high) {
        (Some(low), Some(high)) => range(write(low), write(high)),
        _ => "no interval".into(),
    };
    let adds = layer.adds.as_ref();
    let ns = adds.map_or(f64::NAN, |adds| adds.value);
    let time = |ns: f64| Glyphs::Unicode.time(ns.abs());
    let between = match adds.and_then(|adds| Some((adds.low?, adds.high?))) {
        Some((low, high)) => format!(" (95 %: {})", range(time(low), time(high))),
        None => String::new(),
    };
    let numbers = [
        ("adds_ns", ns),
        ("ratio", times.ratio),
        ("low", times.low.unwrap_or(f64::NAN)),
        ("high", times.high.unwrap_or(f64::NAN)),
    ];
    let next = || vec![again_with_rounds(&input.run.header, 2 * u64::from(input.plan.rounds))];
    let ratio = format!("{} times its median ({})", three_digits(times.ratio), ends(&three_digits));
    let (text, agree) = match times.verdict {
        Verdict::Worse => (format!("{place}{own} adds {}{between} to {beneath}: {ratio}", time(ns)), halves_agree(&d)),
        Verdict::Better => {
            (format!("{place}{own} takes {}{between} less than {beneath}: {ratio}", time(ns)), halves_agree(&d))
        }
        Verdict::Equivalent => {
            let bound = percent(margin);
            (
                format!("{place}{own} adds nothing to {beneath} that matters: less than {bound} %"),
                halves_within(&d, margin),
            )
        }
        Verdict::Undecided => {
            let text = format!("{place}what {own} adds to {beneath} is not decided: {ratio}.");
            return finding("V17", Confidence::CantTell, text, numbers, next());
        }
    };
    if agree {
        finding("V17", Confidence::Sure, text + ".", numbers, vec![])
    } else {
        let text = text + " over the whole run, but its two halves disagree.";
        finding("V17", Confidence::CantTell, text, numbers, next())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    fn on_tcp(factor: f64) -> Build {
        let mut build = Build::echo(&["tcp:send", "a:send"], &[64]).control(64);
        build.plan.cases[1].traits.over = "tcp".into();
        build.plan.layers = true;
        build.factor(move |case| if case.id == 1 { factor } else { 1.0 })
    }

    #[test]
    fn says_what_a_protocol_adds_in_time_and_as_a_ratio() {
        let texts = sentences(&on_tcp(1.5).run(), "V17");
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].starts_with("sure: a adds 10.0 \u{b5}s (95 %: "), "{texts:?}");
        assert!(texts[0].contains(" to tcp: 1.50 times its median (1."), "{texts:?}");
    }

    #[test]
    fn says_where_it_adds_nothing_and_where_nothing_is_decided() {
        let same = sentences(&on_tcp(1.0).noise(0.002).run(), "V17");
        assert!(same[0].starts_with("sure: a adds nothing to tcp that matters: less than 2 %"), "{same:?}");
        let noisy = sentences(&on_tcp(1.03).noise(0.2).run(), "V17");
        assert!(noisy[0].starts_with("can't tell: what a adds to tcp is not decided: "), "{noisy:?}");
    }

    #[test]
    fn is_silent_without_layers_and_where_the_control_failed() {
        assert!(sentences(&Build::echo(&["tcp:send", "tcp:writev"], &[64]).run(), "V17").is_empty());
        let mut breakdown = Build::echo(&["tcp:send", "tcp:send/spin"], &[64]);
        breakdown.plan.layers = true;
        assert!(sentences(&breakdown.run(), "V17").is_empty());
        let failed = on_tcp(1.5).factor(|case| f64::from(case.id + 1));
        assert!(sentences(&failed.run(), "V17").is_empty());
    }
}
