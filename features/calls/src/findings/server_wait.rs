//! W69: requests wait at the server
//!
//! ## What it says
//!
//! This share of a call's time its request lies at the server before the server reads it. *Sure* where both halves of the
//! run agree.
//!
//! ## What it is computed from
//!
//! What msgpath's server measures before T2: the time since its socket had the request.
//!
//! ## When it stays silent
//!
//! Below a fifth of the time; where nobody measured it.
//!
//! ## What to do
//!
//! More threads or connections at the server, less load, or CPUs of its own. T2 - T1 contains this time, so the lab's
//! picture shows it as a slow request path.

use msgpath_core::units::Glyphs;

use super::shared::{good, in_halves, kinds, of, share};
use crate::analyse::RpcKind;
use msgpath_analyse::findings::wording::{finding, percent, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W69", detect };

/// From this share of the time on it is worth a sentence.
const SHARE: f64 = 0.2;

fn detect(input: &Input) -> Vec<Sentence> {
    let say = |kind: &RpcKind| {
        let rows = good(input, kind.case);
        let part = share(&rows, |row| row.waited_ns).filter(|share| *share >= SHARE)?;
        let waited: Vec<f64> = rows.iter().filter_map(|row| row.waited_ns).map(|ns| ns as f64).collect();
        let mean = waited.iter().sum::<f64>() / waited.len() as f64;
        let confidence = in_halves(&rows, |rows| share(rows, |row| row.waited_ns).is_some_and(|share| share >= SHARE));
        let text = format!(
            "{}{} % of the time of a call ({} on average) its request lies at the server before the server reads it: its \
             threads are busy with other calls, or wait for a CPU. This is not the network, although T2 - T1 contains it",
            of(input, kind),
            percent(part),
            Glyphs::Unicode.time(mean)
        );
        let numbers = [("share", part), ("server_wait_ns", mean), ("calls", waited.len() as f64)];
        Some(finding("W69", confidence, sentence(&text) + ".", numbers, vec![]))
    };
    kinds(input).filter_map(say).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, US};

    fn pings(waited: Option<f64>) -> Vec<String> {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for _ in 0..60 {
            calls.call(MS, 150.0 * US, 10.0 * US, 40.0 * US).waited_ns = waited.map(|ns| ns as u64);
        }
        calls.sentences("W69")
    }

    #[test]
    fn speaks_where_requests_queue() {
        let sentences = pings(Some(100.0 * US));
        assert!(sentences[0].starts_with("sure: 50 % of the time of a call (100 µs on average)"), "{sentences:?}");
    }

    #[test]
    fn is_silent_where_they_are_read_at_once_and_where_nobody_knows() {
        assert!(pings(Some(10.0 * US)).is_empty());
        assert!(pings(None).is_empty());
    }
}
