//! W167: what each of a mix does to the other
//!
//! What an echo or a stream loses by another beside it: its median or throughput with the other switched off and with
//! everything. *Sure*: the interval of the ratio excludes 1; else, or below five passes, *can't tell*.
//!
//! ## What it rests on
//!
//! Rounds with everything and, in the same pass, with one switched off, in random order ([method](docs/method/mix.md)).
//! Comparisons: W168.
//!
//! ## What to do
//!
//! `msgpath loaded` says in which queue an echo waits; `msgpath loaded --load-rate` leaves room.

use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;
use msgpath_analyse::words::ends;
use msgpath_core::units::{Glyphs, three_digits};

use super::mix;
use crate::mix::analyse::{Compared, Effect, MixSummary};
use crate::mix::view::print;

pub(super) const CODE: &str = "W167";
pub(super) const DETECTOR: Detector = Detector { code: CODE, detect };
/// From this factor on it is said as one, and below it as a percentage.
const A_FACTOR: f64 = 1.5;

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(mix) = mix(input).filter(|mix| mix.mains.len() == 1) else { return Vec::new() };
    mix.mains[0].effects.iter().map(|effect| say(mix, effect)).collect()
}

/// How it changes, and the ends of that: `12.9 times slower` and `12.1 to 13.8`; `loses 4 %` and `1 to 7 %`.
pub(crate) fn change(effect: &Effect) -> (String, Option<String>) {
    let ratio = &effect.ratio;
    let slower = ratio.value >= 1.0;
    let what = match (effect.metric, slower) {
        (Compared::Throughput, true) => "gains",
        (Compared::Throughput, false) => "loses",
        (_, true) => "slower",
        (_, false) => "faster",
    };
    let throughput = effect.metric == Compared::Throughput;
    let factor = if slower { ratio.value } else { 1.0 / ratio.value };
    if factor >= A_FACTOR && !throughput {
        let turned = |value: f64| if slower { value } else { 1.0 / value };
        let [low, high] = if slower { [ratio.low, ratio.high] } else { [ratio.high, ratio.low] };
        return (
            format!("{} times {what}", three_digits(factor)),
            ends(low.map(turned), high.map(turned), three_digits),
        );
    }
    let share = |value: f64| 100.0 * if slower { value - 1.0 } else { 1.0 - value };
    let [low, high] = if slower { [ratio.low, ratio.high] } else { [ratio.high, ratio.low] };
    let digits = |value: f64| if value.abs() < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    let of = ends(low.map(share), high.map(share), digits).map(|ends| format!("{ends} %"));
    let size = digits(share(ratio.value));
    (if throughput { format!("{what} {size} %") } else { format!("{size} % {what}") }, of)
}

fn say(mix: &MixSummary, effect: &Effect) -> Sentence {
    let value = |estimate: &Option<msgpath_stats::estimate::Estimate>| {
        estimate.as_ref().map_or_else(|| "n/a".into(), |own| print(effect.metric, own.value, Glyphs::Unicode))
    };
    let (what, of) = change(effect);
    let of = of.map_or_else(String::new, |of| format!(", 95 %: {of}"));
    let alone = if mix.besides.len() == 1 { "alone".to_owned() } else { format!("without {}", effect.by) };
    let metric = effect.metric.suffix();
    let text = format!(
        "{}{metric} {} {alone}, {} beside {} ({what}{of}).",
        effect.on,
        value(&effect.without),
        value(&effect.with),
        effect.by
    );
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let numbers = [
        ("ratio", effect.ratio.value),
        ("ratio_low", number(effect.ratio.low)),
        ("ratio_high", number(effect.ratio.high)),
        ("passes", effect.passes as f64),
    ];
    let next = match effect.confidence {
        Confidence::CantTell => vec!["more rounds: -r 40 -t 80s".into()],
        _ => Vec::new(),
    };
    finding(CODE, effect.confidence, text, numbers, next)
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::MixBed;

    fn said(bed: &MixBed) -> Vec<String> {
        let (run, logs) = bed.run();
        said_with(&run, &logs, &super::DETECTOR)
    }

    #[test]
    fn what_each_does_to_the_other_is_said_with_its_range() {
        let sentences = said(&MixBed { slower: 12.0, stream_keeps: 0.8, ..MixBed::default() });
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        let [echo, stream] = [&sentences[0], &sentences[1]];
        assert!(echo.starts_with("sure: echo p50 ") && echo.contains(" alone, "), "{echo}");
        assert!(echo.contains("beside stream (1") && echo.contains(" times slower, 95 %: "), "{echo}");
        assert!(stream.starts_with("sure: stream 10.0 Mbit/s alone, 8.0"), "{stream}");
        assert!(stream.contains("beside echo (loses 20 %"), "{stream}");
    }

    #[test]
    fn a_small_change_is_no_factor_and_few_passes_decide_nothing() {
        let sentences = said(&MixBed { slower: 1.0, noise: 0.2, ..MixBed::default() });
        assert!(sentences[0].contains("echo p50") && !sentences[0].contains(" times "), "{sentences:?}");
        let few = said(&MixBed { slower: 12.0, rounds: 3, ..MixBed::default() });
        assert!(few.iter().all(|said| said.starts_with("can't tell")), "{few:?}");
        let other = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        assert!(said_with(&other, &msgpath_analyse::Logs::default(), &super::DETECTOR).is_empty());
    }
}
