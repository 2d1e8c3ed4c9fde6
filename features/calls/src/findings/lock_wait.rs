//! W68: waiting for the server's lock
//!
//! ## What it says
//!
//! This share of a call's time the server waits for the lock of its store. *Sure* where both halves of the run agree.
//!
//! ## What it is computed from
//!
//! What msgpath's server measures within T3 - T2. Other servers do not tell it.
//!
//! ## When it stays silent
//!
//! Below a tenth of the time; where nobody measured it.
//!
//! ## What to do
//!
//! Fewer connections that write at a time, smaller values, or a store with more than one lock.

use msgpath_core::units::Glyphs;

use super::shared::{good, in_halves, kinds, of, share};
use crate::analyse::RpcKind;
use msgpath_analyse::findings::wording::{finding, percent, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W68", detect };

/// From this share of the time on it is worth a sentence.
const SHARE: f64 = 0.1;

fn detect(input: &Input) -> Vec<Sentence> {
    let say = |kind: &RpcKind| {
        let rows = good(input, kind.case);
        let part = share(&rows, |row| row.lock_ns).filter(|share| *share >= SHARE)?;
        let waited: Vec<f64> = rows.iter().filter_map(|row| row.lock_ns).map(|ns| ns as f64).collect();
        let mean = waited.iter().sum::<f64>() / waited.len() as f64;
        let confidence = in_halves(&rows, |rows| share(rows, |row| row.lock_ns).is_some_and(|share| share >= SHARE));
        let text = format!(
            "{}{} % of the time of a call ({} on average) the server waits for the lock of its store: calls of other \
             connections hold it. Fewer connections that write at a time, or smaller values, shorten it; a faster network \
             does not",
            of(input, kind),
            percent(part),
            Glyphs::Unicode.time(mean)
        );
        let numbers = [("share", part), ("lock_wait_ns", mean), ("calls", waited.len() as f64)];
        Some(finding("W68", confidence, sentence(&text) + ".", numbers, vec![]))
    };
    kinds(input).filter_map(say).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, US};

    fn writes(lock: Option<f64>) -> Vec<String> {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for _ in 0..60 {
            calls.call(MS, 50.0 * US, 100.0 * US, 50.0 * US).lock_ns = lock.map(|ns| ns as u64);
        }
        calls.sentences("W68")
    }

    #[test]
    fn speaks_where_the_lock_takes_a_large_part() {
        let sentences = writes(Some(60.0 * US));
        assert!(sentences[0].starts_with("sure: 30 % of the time of a call (60.0 µs on average)"), "{sentences:?}");
    }

    #[test]
    fn is_silent_where_it_does_not_and_where_nobody_measured_it() {
        assert!(writes(Some(5.0 * US)).is_empty());
        assert!(writes(None).is_empty());
    }
}
