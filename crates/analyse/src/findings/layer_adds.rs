//! V17: what a layer adds to what it stands on
//!
//! Of the time of the thickest stack of `--layers` its largest step: what a layer adds to what it stands on, with a 95 %
//! interval and its share. The other steps stand in the table. *Sure* where both halves of the run agree, every step is
//! decided and the interval of the largest lies above those of all others; *likely* where another may be as large; *can't
//! tell* where no step is decided, with the command that would.
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

use std::cmp::Ordering;

use msgpath_core::units::{self, Glyphs, three_digits};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady::{halves_agree, halves_within};
use msgpath_stats::verdict::Verdict;

use super::wording::{again_with_rounds, finding, interval, of_both_halves, percent};
use super::{Detector, Input, Sentence};
use crate::layers::short_name;
use crate::summary::{Confidence, Layer, Ratio};

pub(super) const DETECTOR: Detector = Detector { code: "V17", detect };

/// A step: a layer, and how its median compares with that of what it stands on.
type Step<'a> = (&'a Layer, &'a Ratio);

fn detect(input: &Input) -> Vec<Sentence> {
    if input.summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed) {
        return Vec::new();
    }
    let mut sizes: Vec<u64> = input.summary.layers.iter().map(|layer| size_of(input, layer)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of_size = |size: &u64| {
        let steps = thickest(input, *size);
        let place = if sizes.len() > 1 { format!("At {} ", units::size(*size)) } else { String::new() };
        match steps[..] {
            [] => None,
            [(layer, times)] => Some(say(input, &place, layer, times)),
            _ => Some(of_a_stack(input, &place, &steps)),
        }
    };
    sizes.iter().filter_map(of_size).collect()
}

fn size_of(input: &Input, layer: &Layer) -> u64 {
    input.plan.cases[layer.case as usize].size
}

/// The steps of the thickest stack, from the top down: the one with the most steps, of several the one with the largest median.
fn thickest<'a>(input: &'a Input, size: u64) -> Vec<Step<'a>> {
    let layers: Vec<&Layer> = input.summary.layers.iter().filter(|layer| size_of(input, layer) == size).collect();
    let stack = |top: &&'a Layer| {
        let mut steps: Vec<Step> = Vec::new();
        let mut next = Some(*top);
        // A plan that was read from a file may have layers that stand on each other.
        while let Some((layer, times)) = next.and_then(|layer| Some((layer, layer.times.as_ref()?)))
            && steps.iter().all(|(known, _)| known.case != layer.case)
        {
            steps.push((layer, times));
            next = layers.iter().copied().find(|layer| layer.case == times.baseline);
        }
        steps
    };
    let median = |steps: &[Step]| steps.first().and_then(|(top, _)| top.median.ns);
    layers.iter().map(stack).max_by_key(|steps| (steps.len(), median(steps))).unwrap_or_default()
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

/// One sentence for several steps: the largest of them, and what share of the whole it is.
fn of_a_stack(input: &Input, place: &str, steps: &[Step]) -> Sentence {
    let top = steps[0].0;
    let whole = name(input, top.case);
    let open = steps.iter().filter(|(_, times)| times.verdict == Verdict::Undecided).count();
    let value = |(layer, _): &Step| layer.adds.as_ref().map_or(f64::NAN, |adds| adds.value);
    let adds = steps.iter().filter(|step| step.1.verdict == Verdict::Worse && value(step) > 0.0);
    let largest = adds.max_by(|one, other| value(one).total_cmp(&value(other)));
    let again = || vec![again_with_rounds(&input.run.header, 2 * u64::from(input.plan.rounds))];
    let Some(largest @ (layer, times)) = largest else {
        let numbers = [("steps", steps.len() as f64), ("undecided", open as f64)];
        let all = steps.len();
        let none = if place.is_empty() { "None" } else { "none" };
        if open > 0 {
            let text = match all - open {
                0 => format!("{place}{none} of the {all} steps of {whole} is decided."),
                _ => format!("{place}{none} of the {all} steps of {whole} surely adds time; {open} are not decided."),
            };
            return finding("V17", Confidence::CantTell, text, numbers, again());
        }
        let bound = percent(margin(input));
        let text = format!("{place}{none} of the {all} steps of {whole} adds time that matters: less than {bound} %.");
        return finding("V17", Confidence::Sure, text, numbers, vec![]);
    };
    let (ns, all) = (value(largest), top.median.ns.map_or(f64::NAN, |ns| ns as f64));
    // The mean of differences, and a median of all messages: of levels that change the former can be the larger one.
    if all.partial_cmp(&ns) != Some(Ordering::Greater) {
        return say(input, place, layer, times);
    }
    let (low, high) = layer.adds.as_ref().map_or((None, None), |adds| (adds.low, adds.high));
    let own = if layer.case == top.case { "it".into() } else { name(input, layer.case) };
    let beneath = name(input, times.baseline);
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let between = interval(low, high, time).map_or_else(String::new, |interval| format!(" ({interval})"));
    let begin = if place.is_empty() { "Of" } else { "of" };
    let count = match (steps.len() - open, steps.len()) {
        (decided, all) if decided == all => format!("the largest of {all} steps"),
        (1, all) => format!("the only one decided of {all} steps"),
        (decided, all) => format!("the largest of the {decided} decided of {all} steps"),
    };
    let text = format!(
        "{place}{begin} the median {} of {whole}, {} % are what {own} adds to {beneath}: {}{between}, {count}",
        time(all),
        percent(ns / all),
        time(ns)
    );
    let numbers = [
        ("steps", steps.len() as f64),
        ("undecided", open as f64),
        ("median_ns", all),
        ("adds_ns", ns),
        ("low", low.unwrap_or(f64::NAN)),
        ("high", high.unwrap_or(f64::NAN)),
    ];
    let apart = steps.iter().filter(|(other, _)| other.case != layer.case).all(|(other, _)| {
        let most = other.adds.as_ref().and_then(|adds| adds.high);
        low.zip(most).is_some_and(|(low, most)| low > most)
    });
    let agree = halves_agree(&differences(input, times));
    if agree && (open > 0 || !apart) {
        let next = if open > 0 { again() } else { vec![] };
        return finding("V17", Confidence::Likely, text + ".", numbers, next);
    }
    of_both_halves(input, "V17", agree, text, numbers)
}

fn differences(input: &Input, times: &Ratio) -> Vec<f64> {
    let d = log_ratios(&input.series[times.case as usize], &input.series[times.baseline as usize]);
    d.into_iter().map(|(_, d)| d).collect()
}

fn margin(input: &Input) -> f64 {
    input.summary.comparison.as_ref().map_or(0.0, |comparison| comparison.margin)
}

/// The sentence on a single step.
fn say(input: &Input, place: &str, layer: &Layer, times: &Ratio) -> Sentence {
    let (own, beneath) = (name(input, times.case), name(input, times.baseline));
    let d = differences(input, times);
    let margin = margin(input);
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

    /// `tcp`, `a` on it, `b` on `a`, `c` on `tcp`: medians of 20 µs times these factors.
    fn stack(factors: [f64; 4]) -> Build {
        let mut build = Build::echo(&["tcp:send", "a:send", "b:send", "c:send"], &[64]).control(64).noise(0.002);
        for (case, over) in build.plan.cases.iter_mut().zip(["", "tcp", "a", "tcp"]) {
            case.traits.over = over.into();
        }
        build.plan.layers = true;
        build.factor(move |case| factors.get(case.id as usize).copied().unwrap_or(factors[0]))
    }

    #[test]
    fn one_sentence_says_the_largest_step_of_the_whole() {
        let texts = sentences(&stack([1.0, 1.5, 3.0, 1.0]).run(), "V17");
        assert_eq!(texts.len(), 1, "{texts:?}");
        // 30 of 60 µs; the first step is 10 µs, and `c` is no part of this stack.
        assert!(
            texts[0].starts_with("sure: Of the median ")
                && texts[0].contains(" \u{b5}s of b, 50 % are what it adds to a: "),
            "{texts:?}"
        );
        assert!(texts[0].ends_with(", the largest of 2 steps.") && texts[0].contains("(95 %: "), "{texts:?}");
        let lower = sentences(&stack([1.0, 3.0, 3.5, 1.0]).run(), "V17");
        assert!(lower[0].contains(" of b, 57 % are what a adds to tcp: "), "{lower:?}");
    }

    #[test]
    fn a_step_that_may_be_as_large_makes_it_likely() {
        let texts = sentences(&stack([1.0, 2.0, 3.0, 1.0]).noise(0.05).run(), "V17");
        assert!(
            texts[0].starts_with("likely: Of the median ") && texts[0].ends_with(", the largest of 2 steps."),
            "{texts:?}"
        );
    }

    #[test]
    fn a_step_that_is_not_decided_is_counted_and_not_ranked() {
        let texts = sentences(&stack([1.0, 3.0, 3.1, 1.0]).noise(0.15).run(), "V17");
        assert!(texts[0].starts_with("likely: ") && texts[0].contains(" % are what a adds to tcp: "), "{texts:?}");
        assert!(texts[0].ends_with(", the only one decided of 2 steps."), "{texts:?}");
        let none = sentences(&stack([1.0, 1.02, 1.04, 1.0]).noise(0.2).run(), "V17");
        assert!(none[0].starts_with("can't tell: None of the 2 steps of b is decided."), "{none:?}");
        let nothing = sentences(&stack([1.0, 1.002, 1.004, 1.0]).noise(0.002).run(), "V17");
        assert_eq!(nothing, ["sure: None of the 2 steps of b adds time that matters: less than 2 %."]);
    }

    #[test]
    fn layers_that_stand_on_each_other_end() {
        let mut run = stack([1.0, 1.5, 3.0, 1.0]).run();
        run.header.plan.cases[1].traits.over = "b".into();
        assert_eq!(sentences(&run, "V17").len(), 1);
    }

    #[test]
    fn each_size_has_its_sentence() {
        let mut build = Build::echo(&["tcp:send", "a:send"], &[64, 4096]).noise(0.002);
        for case in &mut build.plan.cases {
            case.traits.over = if case.path.transport == "a" { "tcp".into() } else { String::new() };
        }
        build.plan.layers = true;
        let texts = sentences(&build.factor(|case| if case.path.transport == "a" { 1.5 } else { 1.0 }).run(), "V17");
        assert!(
            texts.len() == 2 && texts[0].contains("At 64 B a adds ") && texts[1].contains("At 4 KiB a adds "),
            "{texts:?}"
        );
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
