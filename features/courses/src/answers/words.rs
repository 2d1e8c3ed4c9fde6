//! How numbers and verdicts stand in sentences.

use msgpath_analyse::summary::Confidence;
use msgpath_analyse::words::{range_in_words, with_interval};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, three_digits};
use msgpath_stats::quantile::Quantile;
use msgpath_stats::verdict::Verdict;

use super::cell::Value;

/// `12.1 µs`.
pub(super) fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

/// `1.20 Gbit/s`.
pub(super) fn bits(bits: f64) -> String {
    bits_per_second(bits, BitUnits::Si)
}

/// `31.2 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// `1 row`, `3 rows`.
pub(super) fn counted(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Sentences one after the other, each with a capital letter.
pub(super) fn sentences(all: &[String]) -> String {
    all.iter().map(|one| capital(one)).collect::<Vec<_>>().join(". ")
}

/// With a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// `1.23 (95 %: 1.20 to 1.26)`; without an interval the number alone.
pub(super) fn range(value: impl Into<Value>, print: impl Fn(f64) -> String) -> String {
    let Value { value, low, high } = value.into();
    // One end alone says nothing here.
    let both = low.is_some() && high.is_some();
    with_interval(value, low.filter(|_| both), high.filter(|_| both), print)
}

/// `12.1 µs (95 %: 11.8 to 12.4 µs)`.
pub(super) fn time_with(value: &Value) -> String {
    range(*value, time)
}

/// `3.41 (95 %: 2.98 to 3.90)`.
pub(super) fn ratio_with(value: &Value) -> String {
    range(*value, three_digits)
}

/// A quantile with its interval; where it has none, with the range that it has and why.
pub(super) fn range_of(quantile: &Quantile) -> String {
    match quantile.ns {
        None => "lost".into(),
        Some(_) if quantile.is_interval() && quantile.lo_ns.is_some() && quantile.hi_ns.is_some() => {
            range(quantile, time)
        }
        Some(_) => quantile_words(quantile),
    }
}

/// `23.1 µs (95 %: 22.8 to 23.5 µs)`.
pub(super) fn quantile_words(quantile: &Quantile) -> String {
    match (quantile.ns, range_in_words(quantile)) {
        (None, _) => "a message that did not arrive".into(),
        (Some(ns), Some(range)) => format!("{} ({range})", time(ns as f64)),
        (Some(ns), None) => time(ns as f64),
    }
}

/// A verdict; `same`: what is within the margin.
pub(super) fn verdict_word(verdict: Verdict, same: &'static str) -> &'static str {
    match verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Equivalent => same,
        Verdict::Undecided => "not decided",
    }
}

/// How sure a sentence about several cases is of which so many are decided.
pub(super) fn decided(some: usize, all: usize) -> Confidence {
    match some {
        0 => Confidence::CantTell,
        some if some == all => Confidence::Sure,
        _ => Confidence::Likely,
    }
}

/// The least sure of them; nothing at all cannot be told.
pub(super) fn weakest(all: impl IntoIterator<Item = Confidence>) -> Confidence {
    let rank = |confidence: &Confidence| match confidence {
        Confidence::CantTell => 0,
        Confidence::Likely => 1,
        Confidence::Sure => 2,
    };
    all.into_iter().min_by_key(rank).unwrap_or(Confidence::CantTell)
}
