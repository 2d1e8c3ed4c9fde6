//! V11: the beginning of a round differs
//!
//! How many times as long as the rest the first messages of a round take, and the slowest of them; of a stream both
//! throughputs. On virtual machines CPUs that have just worked wake faster, so the beginning is often quicker. *Sure*
//! where the interval leaves at least 10 % and both halves agree, else *likely*.
//!
//! ## What it rests on
//!
//! The messages that are trimmed at the start of each connection: they have a histogram of their own and are in no
//! other number. Ratio of medians, paired by round, t interval; from 5 rounds on. Silent below 10 %, and with `-o
//! burst=yes`.
//!
//! ## What to do
//!
//! A program that sends few messages a connection, or a few now and then, meets this number: measure it with `-o
//! burst=yes`, or with `--each -o fresh=yes`.

use msgpath_core::plan::CaseRole;
use msgpath_core::settling::State;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second, three_digits};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::paired;
use msgpath_stats::steady::halves_agree;

use super::wording::{again_set, finding, interval, measured, prefix, sentence};
use super::{Detector, Input, Sentence, wording};
use crate::summary::{CaseSummary, Confidence};
use crate::{first, throughput};

pub(super) const DETECTOR: Detector = Detector { code: "V11", detect };

/// A smaller ratio is not worth a sentence.
const RATIO: f64 = 1.1;
/// A beginning of so many messages or fewer is said in messages, not in time.
const FEW: f64 = 100.0;

/// How the beginning of the rounds of a case differs from the rest: more is slower.
struct Beginning<'a> {
    case: &'a CaseSummary,
    ratio: Estimate,
    /// The end of its interval that is nearer to no difference, as a logarithm; above 0.
    nearest: f64,
    /// ln(ratio) of each round.
    each: Vec<f64>,
}

fn detect(input: &Input) -> Vec<Sentence> {
    if input.plan.state == State::Burst {
        return Vec::new();
    }
    let mut affected: Vec<Beginning> = measured(input).filter_map(|case| beginning(input, case)).collect();
    affected.sort_by(|a, b| b.ratio.value.ln().abs().total_cmp(&a.ratio.value.ln().abs()));
    let Some(worst) = affected.first() else { return Vec::new() };
    let Beginning { case, ratio, nearest, each } = worst;
    let (low, high) = (ratio.low.unwrap_or(f64::NAN), ratio.high.unwrap_or(f64::NAN));
    let mut text = format!(
        "{}{} {} times as long as the rest ({}; {})",
        prefix(input, case),
        which(input, case),
        three_digits(ratio.value),
        levels(case),
        interval(ratio.low, ratio.high, three_digits).unwrap_or_default(),
    );
    text.push_str("; no other number contains them");
    text.push_str(&wording::affected(affected.len()));
    let first = case.first.as_ref();
    let numbers = [
        ("first_to_rest", ratio.value),
        ("low", low),
        ("high", high),
        ("first_p50_ns", first.and_then(|first| first.p50_ns).map_or(f64::NAN, |ns| ns as f64)),
        ("first_slowest_ns", first.and_then(|first| first.slowest_ns).map_or(f64::NAN, |ns| ns as f64)),
        (
            "first_bits_per_s",
            case.throughput.as_ref().and_then(|of| Some(of.beginning_bits.as_ref()?.value)).unwrap_or(f64::NAN),
        ),
        ("messages", first.map_or(f64::NAN, |first| first.messages as f64)),
        ("cases", affected.len() as f64),
    ];
    let certain = *nearest >= RATIO.ln() && halves_agree(each);
    let confidence = if certain { Confidence::Sure } else { Confidence::Likely };
    let header = &input.run.header;
    let whole = input.plan.spans(&case.case, None).is_some() && case.case.role == CaseRole::Measured;
    let next = if whole && thrown_ns(input, case).is_some() { vec![again_set(header, "burst=yes")] } else { vec![] };
    vec![finding("V11", confidence, sentence(&text) + ".", numbers, next)]
}

fn beginning<'a>(input: &Input, case: &'a CaseSummary) -> Option<Beginning<'a>> {
    let rounds = &input.rounds[case.case.id as usize];
    let (ratio, each) = if input.plan.workload.timed {
        (case.first.as_ref()?.ratio.clone()?, first::log_ratios(rounds))
    } else {
        let each = throughput::log_ratios(input.plan, rounds);
        (paired(&each, 1, input.plan.seed ^ u64::from(case.case.id))?.ratio(), each)
    };
    let value = ratio.value.ln();
    let nearest = if value > 0.0 { ratio.low?.ln() } else { -ratio.high?.ln() };
    (nearest > 0.0 && value.abs() >= RATIO.ln()).then_some(Beginning { case, ratio, nearest, each })
}

/// How long rounds of the case ran before they were measured, as steady messages, ns; `None`: not by a time.
fn thrown_ns(input: &Input, case: &CaseSummary) -> Option<f64> {
    let pilot = input.run.header.pilots.iter().find(|pilot| pilot.case == case.case.id)?;
    let spans = input.plan.spans(&case.case, Some(pilot.settling?))?;
    Some(spans.thrown as f64).filter(|ns| *ns > 0.0)
}

/// `the first 30 ms of a round (610 messages) take`, `the first 100 messages of a connection take`.
fn which(input: &Input, case: &CaseSummary) -> String {
    if let Some(ns) = case.throughput.as_ref().and_then(|of| of.beginning_ns) {
        return format!("the messages of the first {} of a connection take", Glyphs::Unicode.time(ns));
    }
    let messages = case.first.as_ref().map_or(1.0, |first| first.per_connection.round().max(1.0));
    match thrown_ns(input, case) {
        Some(ns) if messages > FEW => {
            format!("messages in about the first {} of a round ({messages} of them) take", Glyphs::Unicode.time(ns))
        }
        _ => of_a_connection(messages),
    }
}

/// Both numbers: those of the beginning and of the rest.
fn levels(case: &CaseSummary) -> String {
    if let Some((of, first)) = case.throughput.as_ref().and_then(|of| Some((of, of.beginning_bits.as_ref()?))) {
        let bits = |bits: f64| bits_per_second(bits, BitUnits::Si);
        return format!("{}, then {}", bits(first.value), bits(of.receiver_bits.value));
    }
    let time = |ns: Option<u64>| ns.map_or_else(|| "n/a".into(), |ns| Glyphs::Unicode.time(ns as f64));
    let p50 = case.latency.quantiles.iter().find(|quantile| quantile.p == 0.5).and_then(|quantile| quantile.ns);
    let first = case.first.as_ref();
    format!(
        "median {}, then {}; the slowest {}",
        time(first.and_then(|first| first.p50_ns)),
        time(p50),
        time(first.and_then(|first| first.slowest_ns))
    )
}

fn of_a_connection(messages: f64) -> String {
    if messages > 1.0 {
        format!("the first {messages} messages of a connection take")
    } else {
        "the first message of a connection takes".into()
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
        assert!(texts[0].contains(" times as long as the rest (median "), "{texts:?}");
        assert!(with_first(0.5, 0.05)[0].starts_with("sure: "));
        // The interval leaves 10 % open, not the direction.
        assert!(with_first(1.13, 0.25)[0].starts_with("likely: "), "{:?}", with_first(1.13, 0.25));
    }

    #[test]
    fn one_message_is_not_called_several() {
        assert_eq!(super::of_a_connection(1.0), "the first message of a connection takes");
        assert_eq!(super::of_a_connection(32.0), "the first 32 messages of a connection take");
    }

    #[test]
    fn is_silent_where_they_are_like_the_rest_or_unknown() {
        assert!(with_first(1.0, 0.05).is_empty());
        assert!(with_first(1.05, 0.01).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "V11").is_empty());
    }
}
