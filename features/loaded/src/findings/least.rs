//! W168: which path suffers least under load
//!
//! Of the paths of `compare --under-load`: whose median grows by the smallest factor, and whose is the smallest under
//! load. *Sure*: its interval lies below all others; else *can't tell*.
//!
//! ## What it rests on
//!
//! The ratio of the round under load to the one alone in the same pass ([method](docs/method/mix.md)).
//!
//! ## What to do
//!
//! Compare over the link that your program will have (`--between lab --link rate=10M,queue=100`, or a target): a path
//! that stays on a machine shares CPUs and caches with the load, one over a link its queue as well.

use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;
use msgpath_core::units::Glyphs;

use super::mix;
use super::mixed::change;
use crate::mix::analyse::{Compared, Effect, Main, worst};
use crate::mix::view::print;

pub(super) const CODE: &str = "W168";
pub(super) const DETECTOR: Detector = Detector { code: CODE, detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let Some(mix) = mix(input).filter(|mix| mix.mains.len() > 1) else { return Vec::new() };
    let Some((main, effect)) = mix.least() else { return Vec::new() };
    let others = mix.mains.iter().filter(|other| other.name != main.name).filter_map(worst);
    let below = |other: &Effect| match (effect.ratio.high, other.ratio.low) {
        (Some(high), Some(low)) => high < low,
        _ => false,
    };
    let confidence = if others.clone().all(below) { Confidence::Sure } else { Confidence::CantTell };
    let with = |effect: &Effect| effect.with.as_ref().map_or(f64::MAX, |with| with.value);
    let quickest =
        mix.mains.iter().filter_map(|main| Some((main, worst(main)?))).min_by(|a, b| with(a.1).total_cmp(&with(b.1)));
    let text = format!(
        "{}{}.",
        suffers(main, effect),
        quickest.map_or_else(String::new, |(own, effect)| {
            let value = print(effect.metric, with(effect), Glyphs::Unicode);
            if own.name == main.name {
                ", and is the quickest under it".into()
            } else {
                format!("; {} is the quickest under it, {value}", own.name)
            }
        })
    );
    let most = others.map(|other| other.ratio.value).fold(f64::NAN, f64::max);
    vec![finding(CODE, confidence, text, [("ratio", effect.ratio.value), ("largest_ratio", most)], Vec::new())]
}

fn suffers(main: &Main, effect: &Effect) -> String {
    let value = |estimate: &Option<msgpath_stats::estimate::Estimate>| {
        estimate.as_ref().map_or_else(|| "n/a".into(), |own| print(effect.metric, own.value, Glyphs::Unicode))
    };
    let (what, of) = change(effect);
    let of = of.map_or_else(String::new, |of| format!(", 95 %: {of}"));
    format!(
        "{} suffers least under the load: {}{} alone, {} beside {} ({what}{of})",
        main.name,
        if effect.metric == Compared::P50 { "p50 " } else { "" },
        value(&effect.without),
        value(&effect.with),
        effect.by
    )
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::MixBed;

    #[test]
    fn the_path_with_the_smallest_factor_is_named_and_the_quickest() {
        // The first path is slower by twelve times, the second by two and begins at three times the time.
        let (run, logs) = MixBed { slower: 12.0, second: Some([3.0, 2.0]), ..MixBed::default() }.run();
        let said = said_with(&run, &logs, &super::DETECTOR);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("sure: unix:send suffers least under the load: p50 "), "{said:?}");
        assert!(said[0].contains(" times slower") && said[0].contains("is the quickest under it"), "{said:?}");
    }

    #[test]
    fn one_path_is_not_compared() {
        let (run, logs) = MixBed { slower: 12.0, ..MixBed::default() }.run();
        assert!(said_with(&run, &logs, &super::DETECTOR).is_empty());
    }
}
