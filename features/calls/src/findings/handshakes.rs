//! W183: calls that pay for handshakes of TLS
//!
//! How many handshakes were made for how many calls, how long one takes beside a call, and how many of them resumed a session. *Sure*
//! with 30 handshakes, else *likely*.
//!
//! ## What it rests on
//!
//! The time of every handshake, from the client's first byte until the client may send; connecting by TCP is measured apart, and
//! neither is a part of T4 - T1.
//!
//! ## What to do
//!
//! Keep connections: without `--no-keepalive`, or a server that closes less often (nginx: `keepalive_requests`). Where that cannot be, a
//! server that gives tickets (TLS 1.3) makes later handshakes resume a session.

use msgpath_core::units::{Glyphs, three_digits};

use super::shared::{calls, median_of};
use msgpath_analyse::findings::wording::{finding, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W183", detect };

/// Fewer are not worth a sentence.
const FEW: u64 = 10;
/// So many tell the median of handshakes.
const MANY: u64 = 30;

fn detect(input: &Input) -> Vec<Sentence> {
    say(input).into_iter().collect()
}

fn say(input: &Input) -> Option<Sentence> {
    let (_, rpc) = calls(input)?;
    let connections = rpc.connections.as_ref()?;
    let made = connections.full + connections.resumed;
    let all: u64 = rpc.kinds.iter().map(|kind| kind.calls).sum();
    if made < FEW || made * 2 < all {
        return None;
    }
    let (handshake, connect) = (median_of(&connections.handshake)?, median_of(&connections.connect)?);
    let call = input.summary.cases.iter().filter_map(|case| median_of(&case.latency.quantiles)).max()?;
    let factor = (handshake + connect) as f64 / call.max(1) as f64;
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let resumed = match connections.resumed {
        0 => "none resumed a session".to_owned(),
        resumed => format!("{resumed} of them resumed a session"),
    };
    let text = format!(
        "{made} handshakes of TLS were made for {all} calls. One takes {} (p50) after {} of connecting, which is together {} times \
         the median of a call, and no part of T4 - T1; {resumed}",
        time(handshake),
        time(connect),
        three_digits(factor)
    );
    let numbers = [
        ("handshakes", made as f64),
        ("resumed", connections.resumed as f64),
        ("calls", all as f64),
        ("handshake_p50_ns", handshake as f64),
        ("connect_p50_ns", connect as f64),
        ("factor", factor),
    ];
    let confidence = if made >= MANY { Confidence::Sure } else { Confidence::Likely };
    Some(finding("W183", confidence, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, S, shaken};

    #[test]
    fn handshake_per_call_is_sure() {
        let calls = Calls::new(1, 0.0, 0.0).same_machine().pings(40, S).over(shaken(40, 30));
        let sentences = calls.sentences("W183");
        let expected =
            "sure: 40 handshakes of TLS were made for 40 calls. One takes 1.20 ms (p50) after 100 µs of connecting";
        assert!(sentences[0].starts_with(expected), "{sentences:?}");
        assert!(sentences[0].contains("30 of them resumed a session"), "{sentences:?}");
        let few = Calls::new(1, 0.0, 0.0).same_machine().pings(20, S).over(shaken(12, 0));
        assert!(few.sentences("W183")[0].starts_with("likely: ") && few.sentences("W183")[0].contains("none resumed"));
    }

    #[test]
    fn kept_connections_are_silent() {
        let kept = Calls::new(1, 0.0, 0.0).same_machine().pings(40, S);
        assert!(kept.sentences("W183").is_empty());
        assert!(kept.over(shaken(12, 0)).sentences("W183").is_empty());
    }
}
