//! Numbers in the words that several sentences share.

use msgpath_core::plan::Metric;
pub use msgpath_core::units::range;
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::{Quantile, Range};
use msgpath_stats::steady::Steadiness;

/// The ends of an interval: `23.8 to 24.1 µs`, `above 23.8 µs` and `below 24.1 µs` where one is not known; `None` where
/// neither is.
pub fn ends(low: Option<f64>, high: Option<f64>, print: impl Fn(f64) -> String) -> Option<String> {
    match (low.map(&print), high.map(&print)) {
        (Some(low), Some(high)) => Some(range(low, high)),
        (Some(low), None) => Some(format!("above {low}")),
        (None, Some(high)) => Some(format!("below {high}")),
        (None, None) => None,
    }
}

/// An interval in a sentence: `95 %: 23.8 to 24.1 µs`.
pub fn interval(low: Option<f64>, high: Option<f64>, print: impl Fn(f64) -> String) -> Option<String> {
    ends(low, high, print).map(|ends| format!("95 %: {ends}"))
}

/// A number with its interval: `23.9 µs (95 %: 23.8 to 24.1 µs)`; the number alone where it has none.
pub fn with_interval(value: f64, low: Option<f64>, high: Option<f64>, print: impl Fn(f64) -> String) -> String {
    let value = print(value);
    match interval(low, high, print) {
        Some(interval) => format!("{value} ({interval})"),
        None => value,
    }
}

/// What stands behind `N times` where a value of `metric` is larger or smaller than that of another: `faster than`. The
/// number is never below 1.
pub fn compared(metric: Metric, larger: bool) -> &'static str {
    match (metric, larger) {
        (Metric::Throughput, true) => "as much as",
        (Metric::Throughput, false) => "less than",
        (Metric::Cpu, true) => "the CPU time of",
        (Metric::Cpu, false) => "less CPU time than",
        (Metric::P50 | Metric::P99 | Metric::Mean, true) => "slower than",
        (Metric::P50 | Metric::P99 | Metric::Mean, false) => "faster than",
    }
}

/// 1 divided by an estimate.
fn inverse(ratio: &Estimate) -> Estimate {
    Estimate { value: 1.0 / ratio.value, low: ratio.high.map(|high| 1.0 / high), high: ratio.low.map(|low| 1.0 / low) }
}

/// The range of a quantile in words: `95 %: 23.8 to 24.1 µs`, `16.3 to 29.1 µs, three levels`, `at least 90.0 µs`.
/// `None` where neither end is known.
pub fn range_in_words(quantile: &Quantile) -> Option<String> {
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let mark = match quantile.range {
        Range::Levels | Range::Drift | Range::Few => {
            quantile.why.as_ref().map_or_else(String::new, |why| format!(", {why}"))
        }
        Range::Interval | Range::Bound | Range::NotYet | Range::Withheld => String::new(),
    };
    match quantile.ends() {
        (Some(low), Some(high)) if quantile.is_interval() => Some(format!("95 %: {}", range(time(low), time(high)))),
        (Some(low), Some(high)) => Some(format!("{}{mark}", range(time(low), time(high)))),
        (Some(low), None) => Some(format!("at least {}{mark}", time(low))),
        (None, Some(high)) => Some(format!("at most {}{mark}", time(high))),
        (None, None) => None,
    }
}

/// What a change did, of two cases paired by pass: `paired by pass 2.94 times faster, 95 %: 2.86 to 3.03`. It stands beside
/// the values of the two, each of which is of all its rounds: their quotient is another number.
pub fn paired_in_words(ratio: &Estimate, metric: Metric) -> String {
    let (factor, interval) = factor_in_words(ratio, metric);
    format!("paired by pass {factor}{}", interval.map_or_else(String::new, |ends| format!(", {ends}")))
}

/// How much faster or slower: `2.94 times faster`, and its interval `95 %: 2.86 to 3.03`.
pub fn factor_in_words(ratio: &Estimate, metric: Metric) -> (String, Option<String>) {
    let larger = ratio.value >= 1.0;
    let factor = if larger { ratio.clone() } else { inverse(ratio) };
    let (what, _) = compared(metric, larger).rsplit_once(' ').unwrap_or_default();
    let times = format!("{} times {what}", three_digits(factor.value));
    (times, interval(factor.low.and(factor.high).and(factor.low), factor.low.and(factor.high), three_digits))
}

/// `5 levels between 4.20 and 7.10 µs`: how many, and the fastest and slowest round.
pub fn levels_in_words(steadiness: &Steadiness) -> String {
    let (low, high) = steadiness.range_ns;
    let ((low, _), (high, unit)) = (Glyphs::Unicode.time_in(low, high), Glyphs::Unicode.time_in(high, high));
    format!("{} between {low} and {high} {unit}", steadiness.levels_in_words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_stats::steady::steadiness;

    #[test]
    fn a_ratio_says_that_it_is_paired_and_which_way_it_goes() {
        let ratio = Estimate { value: 0.25, low: Some(0.2), high: Some(0.4) };
        assert_eq!(paired_in_words(&ratio, Metric::P50), "paired by pass 4.00 times faster, 95 %: 2.50 to 5.00");
        assert_eq!(paired_in_words(&ratio, Metric::Throughput), "paired by pass 4.00 times less, 95 %: 2.50 to 5.00");
        let longer = Estimate { value: 1.5, low: None, high: None };
        assert_eq!(paired_in_words(&longer, Metric::P99), "paired by pass 1.50 times slower");
    }

    #[test]
    fn levels_are_counted_and_span_what_was_seen() {
        let steps = [0.0, 0.3, 0.1, 0.4, 0.2, 0.0, 0.3];
        let chance = msgpath_stats::simulate::round_effects(1, 40, 20_000.0, 0.02);
        let rounds: Vec<f64> = chance.iter().enumerate().map(|(at, ns)| ns * f64::exp(steps[at / 6])).collect();
        let text = levels_in_words(&steadiness(&rounds).unwrap());
        assert!(text.starts_with("5 levels in 7 stretches between 19.") && text.ends_with(" µs"), "{text}");
    }
}
