//! Numbers in the words that several sentences share.

use msgpath_core::units::Glyphs;
use msgpath_stats::quantile::{Quantile, Range};
use msgpath_stats::steady::Steadiness;

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

/// `5 levels between 4.20 and 7.10 µs`: how many, and the fastest and slowest round.
pub fn levels_in_words(steadiness: &Steadiness) -> String {
    let (low, high) = steadiness.range_ns;
    let ((low, _), (high, unit)) = (Glyphs::Unicode.time_in(low, high), Glyphs::Unicode.time_in(high, high));
    format!("{} levels between {low} and {high} {unit}", steadiness.change_points.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_stats::steady::steadiness;

    #[test]
    fn levels_are_counted_and_span_what_was_seen() {
        let steps = [0.0, 0.3, 0.1, 0.4, 0.2, 0.0, 0.3];
        let chance = msgpath_stats::simulate::round_effects(1, 40, 20_000.0, 0.02);
        let rounds: Vec<f64> = chance.iter().enumerate().map(|(at, ns)| ns * f64::exp(steps[at / 6])).collect();
        let text = levels_in_words(&steadiness(&rounds).unwrap());
        assert!(text.starts_with("7 levels between 19.") && text.ends_with(" µs"), "{text}");
    }
}
