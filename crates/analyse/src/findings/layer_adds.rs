//! V17: what a layer adds to what it stands on
//!
//! What each layer of `--layers` adds to what it stands on: in time with a 95 % interval, and as a ratio of medians.
//! *Sure* where the run shows it and both halves agree, else *can't tell* with the command that would.
//!
//! ## What it rests on
//!
//! Medians of both cases in the same pass: the mean difference with its t interval, and the ratio judged as any
//! comparison (margin, sign flips, Holm). A protocol is compared with its own path, else with the baseline. In `explain
//! --layers`: a handler with its path, a woken receiver with one that spins, TCP with raw Ethernet, that with shared
//! memory. Silent where the control failed (W24).
//!
//! ## What to do
//!
//! Look at the CPU time too: a layer may add little time and much CPU. Add `tokio` to the list to see what an
//! asynchronous runtime adds. [Layers](docs/how-to/layers.md).

use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::{halves_agree, halves_within};
use msgpath_stats::verdict::Verdict;

use super::wording::{again_with_rounds, finding, interval, of_both_halves, percent};
use super::{Detector, Input, Sentence};
use crate::layers::short_name;
use crate::summary::{Confidence, Layer, Ratio};

pub(super) const DETECTOR: Detector = Detector { code: "V17", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let failed = input.summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed);
    let steps = input.summary.layers.iter().filter(|_| !failed);
    let steps: Vec<(&Layer, &Ratio)> = steps.filter_map(|layer| Some((layer, layer.times.as_ref()?))).collect();
    let all = (steps.len() > 1).then(|| together(input, &steps));
    all.into_iter().chain(steps.iter().map(|(layer, times)| say(input, layer, times))).collect()
}

/// A case as short as it is clear in this run.
fn name(input: &Input, id: u32) -> String {
    let cases = &input.plan.cases;
    let path = short_name(&cases[id as usize].path, cases.iter().map(|case| &case.path));
    match &cases[id as usize].ablation {
        Some(ablation) => format!("{path} with a {}", ablation.change),
        None => path,
    }
}

/// One sentence that answers: what each adds to what.
fn together(input: &Input, steps: &[(&Layer, &Ratio)]) -> Sentence {
    let sizes: std::collections::BTreeSet<u64> =
        steps.iter().map(|(layer, _)| input.plan.cases[layer.case as usize].size).collect();
    let (mut adds, mut open) = (Vec::new(), Vec::new());
    for (layer, times) in steps {
        let size = msgpath_core::units::size(input.plan.cases[layer.case as usize].size);
        let place = if sizes.len() > 1 { format!(" at {size}") } else { String::new() };
        let (own, beneath) = (name(input, times.case), name(input, times.baseline));
        let ns = layer.adds.as_ref().map_or(f64::NAN, |adds| adds.value);
        let time = Glyphs::Unicode.time(ns.abs());
        match times.verdict {
            Verdict::Worse if ns > 0.0 => adds.push((own, format!("{time} to {beneath}{place}"))),
            Verdict::Equivalent => adds.push((own, format!("nothing that matters to {beneath}{place}"))),
            Verdict::Better if ns < 0.0 => open.push(format!("{own} takes {time} less than {beneath}{place}")),
            _ => open.push(format!("what {own} adds to {beneath}{place} is not decided")),
        }
    }
    let confidence = match (adds.len(), open.len()) {
        (0, _) => Confidence::CantTell,
        (_, 0) => Confidence::Sure,
        _ => Confidence::Likely,
    };
    let verb = |at: usize| if at == 0 { " adds" } else { "" };
    let added = adds.iter().enumerate().map(|(at, (own, rest))| format!("{own}{} {rest}", verb(at)));
    let added = (!adds.is_empty()).then(|| format!("Medians: {}", added.collect::<Vec<_>>().join(", ")));
    let text = added.into_iter().chain(open).collect::<Vec<_>>().join("; ") + ".";
    finding("V17", confidence, text, [("steps", steps.len() as f64)], vec![])
}

fn say(input: &Input, layer: &Layer, times: &Ratio) -> Sentence {
    let cases = &input.plan.cases;
    let (own, beneath) = (name(input, times.case), name(input, times.baseline));
    let sizes: std::collections::BTreeSet<u64> = cases.iter().map(|case| case.size).collect();
    let size = msgpath_core::units::size(cases[times.case as usize].size);
    let place = if sizes.len() > 1 { format!("At {size} ") } else { String::new() };
    let d = log_ratios(&input.series[times.case as usize], &input.series[times.baseline as usize]);
    let d: Vec<f64> = d.into_iter().map(|(_, d)| d).collect();
    let margin = input.summary.comparison.as_ref().map_or(0.0, |comparison| comparison.margin);
    let of_ratio = interval(times.low, times.high, three_digits).unwrap_or_else(|| "no interval".into());
    let adds = layer.adds.as_ref();
    let ns = adds.map_or(f64::NAN, |adds| adds.value);
    let time = |ns: f64| Glyphs::Unicode.time(ns.abs());
    let between = adds
        .and_then(|adds| interval(Some(adds.low?), Some(adds.high?), time))
        .map_or_else(String::new, |interval| format!(" ({interval})"));
    let numbers = [
        ("adds_ns", ns),
        ("ratio", times.ratio),
        ("low", times.low.unwrap_or(f64::NAN)),
        ("high", times.high.unwrap_or(f64::NAN)),
    ];
    let ratio = format!("{} times its median ({of_ratio})", three_digits(times.ratio));
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
            let next = vec![again_with_rounds(&input.run.header, 2 * u64::from(input.plan.rounds))];
            return finding("V17", Confidence::CantTell, text, numbers, next);
        }
    };
    of_both_halves(input, "V17", agree, text, numbers)
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
        assert!(texts[0].contains(" to tcp: 1.50 times its median (95 %: 1."), "{texts:?}");
    }

    #[test]
    fn one_sentence_says_what_each_adds() {
        let mut build = Build::echo(&["tcp:send", "a:send", "b:send", "c:send"], &[64]).control(64).noise(0.002);
        for (case, over) in build.plan.cases.iter_mut().zip(["", "tcp", "a", "tcp"]) {
            case.traits.over = over.into();
        }
        build.plan.layers = true;
        let texts = sentences(&build.factor(|case| [1.0, 1.5, 3.0, 1.0, 1.0][case.id as usize]).run(), "V17");
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(
            texts[0].starts_with("sure: Medians: a adds ") && texts[0].contains(" \u{b5}s to tcp, b "),
            "{texts:?}"
        );
        assert!(texts[0].ends_with(" \u{b5}s to a, c nothing that matters to tcp."), "{texts:?}");
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
        let failed = on_tcp(1.5).factor(|case| f64::from(case.id + 1));
        assert!(sentences(&failed.run(), "V17").is_empty());
    }
}
