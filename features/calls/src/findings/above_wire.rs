//! Of W33: more bytes a second than the wire carries.

use msgpath_core::units::{BitUnits, bits_per_second, three_digits};

use super::shared::{calls, good, in_halves, of};
use crate::analyse::RpcKind;
use crate::record::{RpcRow, Wire};
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W33", detect };

/// What nobody doubts to be there, bits per second.
const USUAL: f64 = 1e9;
/// Smaller calls wait more than they carry.
const LARGE: u64 = 65_536;
/// Rounding, and frames that are counted otherwise.
const BEYOND: f64 = 1.02;

/// Bits per second of the larger direction in the time outside the server: no more than what was between them carries.
/// A server that says nothing of its time makes it smaller.
fn rate(rows: &[&RpcRow]) -> Option<f64> {
    let (mut bytes, mut time) = (0.0, 0.0);
    for row in rows {
        let served = row.received_ns.zip(row.replied_ns).map_or(0, |(from, to)| to.saturating_sub(from).max(0));
        bytes += row.request_bytes.max(row.reply_bytes) as f64;
        time += row.latency_ns? as f64 - served as f64;
    }
    (time > 0.0).then(|| bytes * 8e9 / time)
}

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, rpc)) = calls(input) else { return Vec::new() };
    let limit = facts.wire.as_ref().map_or(USUAL, |wire| wire.bits_per_s as f64);
    let fast = rpc.kinds.iter().filter_map(|kind| {
        let rows = good(input, kind.case);
        let large: Vec<&RpcRow> =
            rows.into_iter().filter(|row| row.request_bytes.max(row.reply_bytes) >= LARGE).collect();
        let over = |rows: &[&RpcRow]| rate(rows).is_some_and(|rate| rate > BEYOND * limit);
        let confidence = in_halves(&large, over);
        Some((rate(&large).filter(|rate| *rate > BEYOND * limit)?, kind, confidence))
    });
    let fastest = fast.max_by(|a, b| a.0.total_cmp(&b.0));
    fastest.map(|(rate, kind, confidence)| say(input, rate, limit, kind, confidence)).into_iter().collect()
}

fn say(input: &Input, rate: f64, limit: f64, kind: &RpcKind, confidence: Confidence) -> Sentence {
    let wire = calls(input).and_then(|(facts, _)| facts.wire.as_ref());
    let most = match wire {
        Some(Wire { from, .. }) => format!("{} ({from})", bits_per_second(limit, BitUnits::Si)),
        None => "an Ethernet of 1 Gbit/s (125 MB/s)".into(),
    };
    // As the table of rates has it: over the time from the first T1 to the last T4.
    let bytes = kind.calls as f64 * kind.request_bytes.unwrap_or(0.0).max(kind.reply_bytes.unwrap_or(0.0));
    let whole = match kind.wall_ns {
        0 => String::new(),
        ns => format!(
            " ({} MB/s with it and over the whole time, as in the table)",
            three_digits(bytes * 1e3 / ns as f64)
        ),
    };
    let server = calls(input).and_then(|(facts, _)| facts.pairs.first()).map(|pair| pair.server.as_str());
    let server = server.filter(|server| server.parse::<std::net::IpAddr>().is_ok()).unwrap_or("SERVER");
    let sure = if confidence == Confidence::Sure { "" } else { "; few calls carry this" };
    warning(
        "W33",
        format!(
            "{}{} MB/s in each call, the server's own time left out{whole}, is more than {most} carries: the bytes did not \
             cross such a wire{sure}",
            of(input, kind),
            three_digits(rate / 8e6)
        ),
        "what two programs on one machine hand over is bounded by copying, not by a link; an estimate from a link speed does \
         not apply",
        &format!("look at the way to the server (ip route get {server}); name the speed of the real link with --wire"),
        [("bits_per_s", rate), ("wire_bits_per_s", limit), ("wire_known", f64::from(u8::from(wire.is_some())))],
    )
}

#[cfg(test)]
mod tests {
    use crate::record::Wire;
    use crate::testing::{Calls, US};

    fn large(leg_us: f64) -> Calls {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for _ in 0..40 {
            let row = calls.call(1e6, leg_us * US, 50.0 * US, 20.0 * US);
            row.request_bytes = 1_000_000;
        }
        calls
    }

    #[test]
    fn speaks_above_the_wire() {
        let calls = large(1_430.0);
        assert_eq!(
            calls.sentences(&super::DETECTOR),
            [
                "690 MB/s in each call, the server's own time left out (444 MB/s with it and over the whole time, as in the \
              table), is more than an Ethernet of 1 Gbit/s (125 MB/s) carries: the bytes did not cross such a wire"
            ]
        );
        let mut calls = large(600.0);
        calls.facts.wire = Some(Wire { bits_per_s: 10_000_000_000, from: "link speed of eth0".into() });
        assert!(
            calls.sentences(&super::DETECTOR)[0].contains("(link speed of eth0)"),
            "{:?}",
            calls.sentences(&super::DETECTOR)
        );
    }

    #[test]
    fn is_silent_below_it_and_for_small_calls() {
        assert!(large(9_000.0).sentences(&super::DETECTOR).is_empty());
        let mut calls = large(1_430.0);
        calls.facts.wire = Some(Wire { bits_per_s: 10_000_000_000, from: "link speed of eth0".into() });
        assert!(calls.sentences(&super::DETECTOR).is_empty());
        let mut calls = large(10.0);
        calls.rows.iter_mut().for_each(|row| row.request_bytes = 10_000);
        assert!(calls.sentences(&super::DETECTOR).is_empty());
    }
}
