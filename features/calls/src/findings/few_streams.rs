//! W185: the server allows fewer streams than calls in flight
//!
//! A server of HTTP/2 allows so many streams of a connection at a time, and the run asked for more calls in flight: so many there were.
//!
//! ## What it rests on
//!
//! SETTINGS_MAX_CONCURRENT_STREAMS of the server, the smallest of all connections, against `--inflight`.
//!
//! ## What to do
//!
//! More connections (`-P`), or the server's limit (nginx: `http2_max_concurrent_streams`).

use super::shared::calls;
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_core::plan::{Load, OPEN_INFLIGHT};

pub(super) const DETECTOR: Detector = Detector { code: "W185", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let streams = calls(input).and_then(|(_, rpc)| rpc.connections.as_ref()?.streams);
    let usual = |load: Load, inflight: u32| matches!(load, Load::Open { .. }) && inflight == OPEN_INFLIGHT;
    let cases = input.run.header.plan.cases.iter().filter(|case| !usual(case.load, case.inflight));
    let asked = cases.map(|case| u64::from(case.inflight)).max();
    let Some((streams, asked)) = streams.zip(asked).filter(|(streams, asked)| streams < asked) else {
        return Vec::new();
    };
    vec![warning(
        "W185",
        format!(
            "The server allows {streams} streams of a connection at a time, and {asked} calls in flight were asked for"
        ),
        "the others waited at the client until a stream was free, and were not in flight meanwhile",
        "more connections (-P N), or the server's limit (nginx: http2_max_concurrent_streams)",
        [("streams", streams as f64), ("inflight", asked as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::record::Handshakes;
    use crate::testing::{Calls, S, shaken};

    fn sentences(streams: u64) -> Vec<String> {
        let calls = Calls::new(1, 0.0, 0.0).pings(20, S);
        calls.over(Handshakes { streams: Some(streams), ..shaken(1, 0) }).sentences("W185")
    }

    #[test]
    fn limits_below_what_was_asked_are_said() {
        // A case has one call in flight.
        assert!(sentences(0)[0].contains("allows 0 streams of a connection at a time, and 1 calls"));
        assert!(sentences(1).is_empty() && sentences(u64::MAX).is_empty());
    }
}
