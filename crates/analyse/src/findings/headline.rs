//! V01: the result in one sentence.

use msgpath_core::Workload;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};

use super::wording::{finding, measured, prefix, sentence};
use super::{Detector, Input, Said};
use crate::summary::{CaseSummary, Confidence, Quantile};

pub(super) const DETECTOR: Detector = Detector { code: "V01", detect };

/// With more cases than this the table says it better.
const MOST_CASES: usize = 4;

fn detect(input: &Input) -> Vec<Said> {
    if input.summary.comparison.is_some() || measured(input).count() > MOST_CASES {
        return Vec::new();
    }
    let say = |case| match input.plan.workload {
        Workload::Echo | Workload::Rpc | Workload::Periodic => echo(input, case),
        Workload::Stream => stream(input, case),
    };
    measured(input).filter_map(say).collect()
}

/// Only from quantiles that are claims.
fn echo(input: &Input, case: &CaseSummary) -> Option<Said> {
    let claimed = |p: f64| case.quantiles.iter().find(|q| q.p == p && q.claim).and_then(|q| Some((q, q.ns? as f64)));
    let (p50, p50_ns) = claimed(0.5)?;
    let p99 = claimed(0.99);
    let time = |ns| Glyphs::Unicode.time(ns);
    let (what, came) = match input.plan.workload {
        Workload::Rpc => ("calls", "came back"),
        Workload::Periodic => ("messages", "arrived"),
        _ if case.batch > 1 => ("batch means", "came back"),
        _ => ("messages", "came back"),
    };
    // An interval that the digits of the value do not show belongs into the sentence.
    let within = |q: &Quantile| match (q.lo_ns, q.hi_ns) {
        (Some(lo), Some(hi)) if hi as f64 > 1.1 * lo as f64 => {
            format!(" (95 %: {} to {})", time(lo as f64), time(hi as f64))
        }
        _ => String::new(),
    };
    let mut text = format!("{}half of the {what} {came} within {}{}", prefix(input, case), time(p50_ns), within(p50));
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
    Some(finding("V01", Confidence::Sure, sentence(&text) + ".", numbers, vec![]))
}

fn stream(input: &Input, case: &CaseSummary) -> Option<Said> {
    let bits = &case.throughput.as_ref()?.receiver_bits;
    let (low, high) = (bits.low?, bits.high?);
    let rate = |bits| bits_per_second(bits, BitUnits::Si);
    let text = format!(
        "{}the receiver took in {} of payload (95 %: {} to {})",
        prefix(input, case),
        rate(bits.value),
        rate(low),
        rate(high)
    );
    let numbers =
        [("receiver_bits_per_s", bits.value), ("receiver_bits_lo_per_s", low), ("receiver_bits_hi_per_s", high)];
    Some(finding("V01", Confidence::Sure, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, ramp, relevel, said};

    #[test]
    fn speaks_from_claims() {
        let texts = said(&Build::echo(&["tcp:send"], &[64]).run(), "V01");
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("sure: Half of the messages came back within 20."), "{texts:?}");
        assert!(texts[0].contains("µs; 1 in 100 took longer than 25."), "{texts:?}");
        let texts = said(
            &Build::stream(&["tcp:send"], &[65_536]).rates(|_, pass| 5e9 + f64::from(pass % 3) * 1e8).run(),
            "V01",
        );
        assert!(texts[0].starts_with("sure: The receiver took in 5.10 Gbit/s of payload (95 %: 5.0"), "{texts:?}");
    }

    #[test]
    fn is_silent_without_claims_and_beside_a_table() {
        assert!(said(&Build::echo(&["tcp:send"], &[64]).rounds(4).run(), "V01").is_empty());
        assert!(said(&Build::stream(&["tcp:send"], &[64]).rounds(4).run(), "V01").is_empty());
        assert!(said(&Build::echo(&["tcp:send", "tcp:writev"], &[64]).run(), "V01").is_empty());
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |pass| 20_000.0 * ramp(pass));
        assert!(said(&run, "V01").is_empty());
        let stream = Build::stream(&["tcp:send"], &[64]).rates(|_, pass| 1e9 * ramp(pass)).run();
        assert!(said(&stream, "V01").is_empty());
    }

    #[test]
    fn leaves_out_the_tail_that_is_not_a_claim() {
        let texts = said(&Build::echo(&["tcp:send"], &[64]).messages(3).run(), "V01");
        assert!(texts[0].contains("within") && !texts[0].contains("1 in 100"), "{texts:?}");
    }
}
