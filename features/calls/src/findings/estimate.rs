//! W73: the estimate was far off
//!
//! The estimate (`-expect`), what was measured, the factor, and the largest part of the time. *Sure* where both halves
//! are that far off.
//!
//! ## What it rests on
//!
//! The estimate against the median of successful calls, from a factor of 3 on. A wire time beside it is computed, not
//! measured.
//!
//! ## What to do
//!
//! Where the time is outside the server, run `msgpath echo` over the same way: same kernel and wire, no server.

use msgpath_core::units::{Glyphs, three_digits};

use super::shared::{good, in_halves, kinds, median};
use crate::analyse::{RpcKind, RpcStage, WireEstimate};
use msgpath_analyse::findings::wording::{finding, percent, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W73", detect };

/// An estimate within this factor is a good one.
const FACTOR: f64 = 3.0;

fn detect(input: &Input) -> Vec<Sentence> {
    kinds(input).filter_map(|kind| say(input, kind)).collect()
}

fn say(input: &Input, kind: &RpcKind) -> Option<Sentence> {
    let expected = kind.expected?;
    let off = expected.factor >= FACTOR || expected.factor <= 1.0 / FACTOR;
    if !off {
        return None;
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let longer = expected.factor >= 1.0;
    let factor = three_digits(if longer { expected.factor } else { 1.0 / expected.factor });
    let mut text = format!(
        "{} was estimated at {} and takes {} (median): {factor} times {}",
        kind.method,
        time(expected.estimate_ns),
        time(expected.measured_ns),
        if longer { "slower" } else { "faster" }
    );
    if let Some((stage, ns)) = expected.largest.filter(|_| longer) {
        text += &format!(
            ". The largest part of it, {} ({} %), is {}",
            time(ns),
            percent((ns / expected.measured_ns).min(1.0)),
            meaning(stage)
        );
    }
    if let Some(WireEstimate { request, reply }) = kind.wire_ns.filter(|_| longer) {
        text += &format!(
            "; the bytes on the wire are estimated at {}, from their number and the speed of the wire",
            time(request + reply)
        );
    }
    let outside = |rows: &[&crate::record::RpcRow]| {
        median(rows).is_some_and(|ns| {
            let factor = ns / expected.estimate_ns;
            if longer { factor >= FACTOR } else { factor <= 1.0 / FACTOR }
        })
    };
    let confidence = in_halves(&good(input, kind.case), outside);
    let numbers = [
        ("estimate_ns", expected.estimate_ns),
        ("measured_ns", expected.measured_ns),
        ("factor", expected.factor),
        ("largest_part_ns", expected.largest.map_or(f64::NAN, |(_, ns)| ns)),
        ("wire_ns", kind.wire_ns.map_or(f64::NAN, |wire| wire.request + wire.reply)),
    ];
    Some(finding("W73", confidence, sentence(&text) + ".", numbers, vec![]))
}

/// A part, and what it is made of.
fn meaning(stage: RpcStage) -> &'static str {
    match stage {
        RpcStage::ClientSend => {
            "the client's send call: copying the request, and waiting for room in the socket buffer"
        }
        RpcStage::RequestPath => "the request path: kernel, wire, waking the server and reading the request",
        RpcStage::ServerWait => "waiting at the server before it reads: other calls, or no CPU",
        RpcStage::LockWait => "the wait for the lock of the server's store",
        RpcStage::ServerWork => "the server's work: memory, copying and what it does with the value",
        RpcStage::ReplyPath => "the reply path: kernel, wire, waking the client and reading the reply",
        RpcStage::BothPaths => "outside the server: both ways through kernel and wire, and waking both sides",
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, S};

    fn estimated(ns: u64) -> Calls {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine().pings(100, S);
        calls.facts.expect.insert(0, ns);
        calls
    }

    #[test]
    fn says_where_the_difference_went() {
        let sentences = estimated(10_000).sentences("W73");
        assert!(
            sentences[0]
                .starts_with("sure: Ping was estimated at 10.0 µs and takes 301 µs (median): 30.1 times slower"),
            "{sentences:?}"
        );
        assert!(
            sentences[0].contains(". The largest part of it, 1")
                && sentences[0].contains("path: kernel, wire, waking the "),
            "{sentences:?}"
        );
        let sentences = estimated(50_000_000).sentences("W73");
        assert!(sentences[0].contains("times faster"), "{sentences:?}");
    }

    #[test]
    fn is_silent_for_a_good_estimate_and_without_one() {
        assert!(estimated(200_000).sentences("W73").is_empty());
        assert!(Calls::new(1, 0.0, 0.0).pings(100, S).sentences("W73").is_empty());
    }
}
