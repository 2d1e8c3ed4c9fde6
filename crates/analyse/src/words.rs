//! Numbers in the words that several sentences share.

use msgpath_core::plan::Metric;
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::{Quantile, Range};
use msgpath_stats::steady::Steadiness;

/// `a to b`, or `a` where both are written alike.
pub fn range(low: String, high: String) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

/// The range of a quantile in words: `95 %: 23.8 µs to 24.1 µs`, `16.3 µs to 29.1 µs, three levels`, `at least 90.0 µs`.
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
        (Some(low), Some(high)) if quantile.is_interval() => Some(format!("95 %: {} to {}", time(low), time(high))),
        (Some(low), Some(high)) => Some(format!("{} to {}{mark}", time(low), time(high))),
        (Some(low), None) => Some(format!("at least {}{mark}", time(low))),
        (None, Some(high)) => Some(format!("at most {}{mark}", time(high))),
        (None, None) => None,
    }
}

/// What a change did, of two cases paired by pass: `paired by pass 2.94 times faster, 95 %: 2.86 to 3.03`. It stands beside
/// the values of the two, each of which is of all its rounds: their quotient is another number.
pub fn paired_in_words(ratio: &Estimate, metric: Metric) -> String {
    let times_of = |ratio: &Estimate| match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => (three_digits(ratio.value), Some((three_digits(low), three_digits(high)))),
        _ => (three_digits(ratio.value), None),
    };
    let inverse = Estimate {
        value: 1.0 / ratio.value,
        low: ratio.high.map(|high| 1.0 / high),
        high: ratio.low.map(|low| 1.0 / low),
    };
    let ((value, ends), what) = match metric {
        Metric::Throughput => (times_of(ratio), "as much"),
        Metric::Cpu => (times_of(ratio), "the CPU time"),
        _ if ratio.value < 1.0 => (times_of(&inverse), "faster"),
        _ => (times_of(ratio), "as long"),
    };
    let interval = ends.map_or_else(String::new, |(low, high)| format!(", 95 %: {}", range(low, high)));
    format!("paired by pass {value} times {what}{interval}")
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
        assert_eq!(
            paired_in_words(&ratio, Metric::Throughput),
            "paired by pass 0.250 times as much, 95 %: 0.200 to 0.400"
        );
        let longer = Estimate { value: 1.5, low: None, high: None };
        assert_eq!(paired_in_words(&longer, Metric::P99), "paired by pass 1.50 times as long");
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
