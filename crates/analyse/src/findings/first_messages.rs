//! V11: the first messages of a connection differ from the rest. They are trimmed; whoever sends few messages on each
//! connection pays them.

use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::steady::halves_agree;

use super::wording::{finding, measured, prefix, range, sentence};
use super::{Detector, Input, Sentence};
use crate::first::log_ratios;
use crate::summary::{CaseSummary, Confidence, FirstMessages};

pub(super) const DETECTOR: Detector = Detector { code: "V11", detect };

/// A smaller ratio is not worth a sentence.
const RATIO: f64 = 1.1;

fn detect(input: &Input) -> Vec<Sentence> {
    // As logarithms: estimate, and the end of the interval that is nearer to no difference.
    let of = |case: &CaseSummary| {
        let ratio = case.first.as_ref()?.ratio.as_ref()?;
        let (value, low, high) = (ratio.value.ln(), ratio.low?.ln(), ratio.high?.ln());
        let nearest = if value > 0.0 { low } else { -high };
        (nearest > 0.0 && value.abs() >= RATIO.ln()).then_some((value, nearest))
    };
    let mut affected: Vec<(&CaseSummary, &FirstMessages, f64, f64)> = measured(input)
        .filter_map(|case| of(case).and_then(|(value, nearest)| Some((case, case.first.as_ref()?, value, nearest))))
        .collect();
    affected.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    let Some((case, first, value, nearest)) = affected.first().copied() else { return Vec::new() };
    let Some(ratio) = &first.ratio else { return Vec::new() };
    let (low, high) = (ratio.low.unwrap_or(f64::NAN), ratio.high.unwrap_or(f64::NAN));
    let mut text = format!(
        "{}the first {} {} times as long as the rest (p50, 95 %: {})",
        prefix(input, case),
        of_a_connection(first.per_connection.round().max(1.0)),
        three_digits(value.exp()),
        range(three_digits(low), three_digits(high)),
    );
    if let Some(slowest) = first.slowest_ns {
        text.push_str(&format!(", the slowest {}", Glyphs::Unicode.time(slowest as f64)));
    }
    text.push_str("; no other number contains them");
    if affected.len() > 1 {
        text.push_str(&format!("; it is like this in {} cases", affected.len()));
    }
    let numbers = [
        ("first_to_rest", ratio.value),
        ("low", low),
        ("high", high),
        ("first_p50_ns", first.p50_ns.map_or(f64::NAN, |ns| ns as f64)),
        ("first_slowest_ns", first.slowest_ns.map_or(f64::NAN, |ns| ns as f64)),
        ("messages", first.messages as f64),
        ("cases", affected.len() as f64),
    ];
    let certain = nearest >= RATIO.ln() && halves_agree(&log_ratios(&input.rounds[case.case.id as usize]));
    let confidence = if certain { Confidence::Sure } else { Confidence::Likely };
    vec![finding("V11", confidence, sentence(&text) + ".", numbers, vec![])]
}

fn of_a_connection(messages: f64) -> String {
    if messages > 1.0 {
        format!("{messages} messages of a connection take")
    } else {
        "message of a connection takes".into()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_stats::simulate::lognormal_rounds;

    /// The first messages take `factor` times as long; `noise` between rounds.
    fn with_first(factor: f64, noise: f64) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for (round, first) in run.rounds.iter_mut().zip(lognormal_rounds(5, 40, 100, 20_000.0 * factor, 0.1, noise)) {
            round.first = first;
        }
        sentences(&run, "V11")
    }

    #[test]
    fn speaks_of_slow_and_of_fast_beginnings() {
        let texts = with_first(2.0, 0.05);
        assert!(
            texts[0].starts_with("sure: The first 100 messages of a connection take 2.0")
                || texts[0].starts_with("sure: The first 100 messages of a connection take 1.9"),
            "{texts:?}"
        );
        assert!(texts[0].contains(" times as long as the rest (p50, 95 %: 1.9"), "{texts:?}");
        assert!(with_first(0.5, 0.05)[0].starts_with("sure: "));
        // The interval leaves 10 % open, not the direction.
        assert!(with_first(1.13, 0.25)[0].starts_with("likely: "), "{:?}", with_first(1.13, 0.25));
    }

    #[test]
    fn one_message_is_not_called_several() {
        assert_eq!(super::of_a_connection(1.0), "message of a connection takes");
        assert_eq!(super::of_a_connection(32.0), "32 messages of a connection take");
    }

    #[test]
    fn is_silent_where_they_are_like_the_rest_or_unknown() {
        assert!(with_first(1.0, 0.05).is_empty());
        assert!(with_first(1.05, 0.01).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "V11").is_empty());
    }
}
