//! V01: the result in one sentence
//!
//! Echo: the median round trip (p50) and p99 of this run. Stream: payload that the receiver took per second. *Sure*
//! with 95 % intervals, *likely* where levels, drift or few rounds made the ranges wider. It describes this run, not
//! the machine.
//!
//! ## What it rests on
//!
//! Pooled quantiles with intervals over rounds; for a stream the receiver's bytes on its clock. In batch mode (W27) the
//! values are means of batches. Silent in a comparison, above four cases, for a rate that was not sustained (W52), for
//! a stream with fewer than 5 rounds.
//!
//! ## What to do
//!
//! Nothing. If p99 is missing: V09.

use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_core::workload::Answer;
use msgpath_stats::quantile::Quantile;

use super::wording::{finding, measured, prefix, range, sentence};
use super::{Detector, Input, Sentence};
use crate::settled::unsettled;
use crate::summary::{CaseSummary, Confidence};
use crate::words::range_in_words;

pub(super) const DETECTOR: Detector = Detector { code: "V01", detect };

/// With more cases than this the table says it better.
const MOST_CASES: usize = 4;

fn detect(input: &Input) -> Vec<Sentence> {
    if input.summary.comparison.is_some() || measured(input).count() > MOST_CASES {
        return Vec::new();
    }
    let say = |case| if input.plan.workload.timed { echo(input, case) } else { stream(input, case) };
    measured(input).filter_map(say).collect()
}

/// Only from quantiles that are claims.
fn echo(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    // A rate that was not sustained has no time of its own.
    if case.is_overloaded() {
        return None;
    }
    let observed =
        |p: f64| case.latency.quantiles.iter().find(|q| q.p == p).and_then(|q| Some((q, q.observed()? as f64)));
    let (p50, p50_ns) = observed(0.5)?;
    let p99 = observed(0.99);
    let time = |ns| Glyphs::Unicode.time(ns);
    let workload = input.plan.workload;
    let what = match workload.answer {
        Answer::Agent if case.batch > 1 => "batch means",
        Answer::Agent | Answer::None => "messages",
        Answer::Server => workload.messages,
    };
    let came = workload.arrived;
    // Under -q the sentence stands alone: it has its ranges, however narrow.
    let within = |q: &Quantile| range_in_words(q).map_or_else(String::new, |range| format!(" ({range})"));
    let mut text =
        format!("{}in this run half of the {what} {came} within {}{}", prefix(input, case), time(p50_ns), within(p50));
    if let Some((q, ns)) = p99 {
        text.push_str(&format!("; 1 in 100 took longer than {}{}", time(ns), within(q)));
    }
    let end = |ns: Option<u64>| ns.map_or(f64::NAN, |ns| ns as f64);
    let numbers = [
        ("p50_ns", p50_ns),
        ("p50_lo_ns", end(p50.lo_ns)),
        ("p50_hi_ns", end(p50.hi_ns)),
        ("p99_ns", p99.map_or(f64::NAN, |(_, ns)| ns)),
        ("p99_lo_ns", p99.map_or(f64::NAN, |(q, _)| end(q.lo_ns))),
        ("p99_hi_ns", p99.map_or(f64::NAN, |(q, _)| end(q.hi_ns))),
    ];
    let steady = p50.is_interval() && p99.is_none_or(|(q, _)| q.is_interval());
    let confidence = if steady { Confidence::Sure } else { Confidence::Likely };
    Some(finding("V01", confidence, sentence(&text) + ".", numbers, vec![]))
}

fn stream(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let bits = &case.throughput.as_ref()?.receiver_bits;
    let rate = |bits| bits_per_second(bits, BitUnits::Si);
    let steady = unsettled(case).is_none();
    let (interval, confidence) = match (bits.low.zip(bits.high), case.rounds) {
        (Some((low, high)), _) if steady => (format!("95 %: {}", range(rate(low), rate(high))), Confidence::Sure),
        (Some((low, high)), _) => {
            (format!("from the slowest to the fastest level: {}", range(rate(low), rate(high))), Confidence::Likely)
        }
        (None, 1) => ("1 round, too few for an interval".into(), Confidence::Likely),
        (None, rounds) => (format!("{rounds} rounds, too few for an interval"), Confidence::Likely),
    };
    let text =
        format!("{}in this run the receiver took in {} of payload ({interval})", prefix(input, case), rate(bits.value));
    let end = |end: Option<f64>| end.unwrap_or(f64::NAN);
    let numbers = [
        ("receiver_bits_per_s", bits.value),
        ("receiver_bits_lo_per_s", end(bits.low)),
        ("receiver_bits_hi_per_s", end(bits.high)),
    ];
    Some(finding("V01", confidence, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, ramp, relevel, sentences};

    #[test]
    fn speaks_of_this_run() {
        let texts = sentences(&Build::echo(&["tcp:send"], &[64]).run(), "V01");
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("sure: In this run half of the messages came back within 20."), "{texts:?}");
        assert!(texts[0].contains(" µs (95 %: 20.") || texts[0].contains(" µs (95 %: 19."), "{texts:?}");
        assert!(texts[0].contains("; 1 in 100 took longer than 25.") && texts[0].matches("(95 %: ").count() == 2);
        let texts = sentences(
            &Build::stream(&["tcp:send"], &[65_536]).rates(|_, pass| 5e9 + f64::from(pass % 3) * 1e8).run(),
            "V01",
        );
        assert!(
            texts[0].starts_with("sure: In this run the receiver took in 5.10 Gbit/s of payload (95 %: 5.0"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_beside_a_table_and_only_likely_where_the_run_was_not_steady() {
        let few = sentences(&Build::echo(&["tcp:send"], &[64]).rounds(4).run(), "V01");
        assert!(few[0].starts_with("likely: In this run half of") && few[0].contains(", 4 rounds)"), "{few:?}");
        let few = sentences(&Build::stream(&["tcp:send"], &[64]).rounds(4).run(), "V01");
        assert!(few[0].contains("the receiver took in") && few[0].contains("(4 rounds, too few"), "{few:?}");
        assert!(sentences(&Build::echo(&["tcp:send", "tcp:writev"], &[64]).run(), "V01").is_empty());
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        let texts = sentences(&run, "V01");
        assert!(texts[0].starts_with("likely: In this run half of") && texts[0].contains(" levels)"), "{texts:?}");
        let stream = Build::stream(&["tcp:send"], &[64]).rates(|_, pass| 1e9 * ramp(pass)).run();
        let texts = sentences(&stream, "V01");
        assert!(texts[0].starts_with("likely: In this run the receiver took in "), "{texts:?}");
        assert!(texts[0].contains("from the slowest to the fastest level: "), "{texts:?}");
    }

    #[test]
    fn leaves_out_the_tail_that_was_not_observed() {
        let texts = sentences(&Build::echo(&["tcp:send"], &[64]).messages(3).run(), "V01");
        assert!(texts[0].contains("within") && !texts[0].contains("1 in 100"), "{texts:?}");
    }
}
