//! W68: which part of a call takes the time
//!
//! * **The lock**: the share of a call that the server waits for the lock of its store. *Sure* where both halves agree.
//! * **At the server**: the share that a request lies at the server before it is read. *Sure* likewise.
//! * **Slow calls**: calls near p99 take so many times as long as the median, mostly in one part. *Likely*: where, not
//!   why.
//!
//! ## What it rests on
//!
//! The first two are measured by msgpath's server alone, from a tenth and a fifth of the time on. Slow calls: mean
//! parts from p98.5 to p99.5 (at least 10) against p45 to p55; from a factor of 1.5 on, where one part has 60 % of the
//! difference.
//!
//! ## What to do
//!
//! * **The lock**: fewer writing connections, smaller values, more locks.
//! * **At the server**: more threads, less load, CPUs of its own. T2 − T1 contains this time, so the lab's picture
//!   shows a slow request path.
//! * **Slow calls**: sort the timeline by duration.

use msgpath_core::units::Glyphs;

use super::shared::{good, in_halves, kinds, of, share};
use crate::analyse::RpcKind;
use crate::record::RpcRow;
use msgpath_analyse::findings::wording::{finding, percent, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W68", detect };

/// A wait of a call that its server measured.
struct Wait {
    ns: fn(&RpcRow) -> Option<u64>,
    /// From this share of the time on it is worth a sentence.
    share: f64,
    evidence: &'static str,
    what: &'static str,
}

const WAITS: [Wait; 2] = [
    Wait {
        ns: |row| row.lock_ns,
        share: 0.1,
        evidence: "lock_wait_ns",
        what: "the server waits for the lock of its store: calls of other connections hold it. Fewer connections that write at a time, or \
               smaller values, shorten it; a faster network does not",
    },
    Wait {
        ns: |row| row.waited_ns,
        share: 0.2,
        evidence: "server_wait_ns",
        what: "its request lies at the server before the server reads it: its threads are busy with other calls, or wait for a CPU. This is \
               not the network, although T2 - T1 contains it",
    },
];

fn detect(input: &Input) -> Vec<Sentence> {
    WAITS.iter().flat_map(|wait| kinds(input).filter_map(move |kind| say(input, kind, wait))).collect()
}

fn say(input: &Input, kind: &RpcKind, wait: &Wait) -> Option<Sentence> {
    let rows = good(input, kind.case);
    let long = |rows: &[&RpcRow]| share(rows, wait.ns).filter(|share| *share >= wait.share);
    let part = long(&rows)?;
    let waited: Vec<f64> = rows.iter().filter_map(|row| (wait.ns)(row)).map(|ns| ns as f64).collect();
    let mean = waited.iter().sum::<f64>() / waited.len() as f64;
    let confidence = in_halves(&rows, |rows| long(rows).is_some());
    let text = format!(
        "{}{} % of the time of a call ({} on average) {}.",
        of(input, kind),
        percent(part),
        Glyphs::Unicode.time(mean),
        wait.what
    );
    let numbers = [("share", part), (wait.evidence, mean), ("calls", waited.len() as f64)];
    Some(finding("W68", confidence, sentence(&text), numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, US};

    /// What is said of 60 calls of 200 µs whose server waited so long for its lock, and let requests lie so long.
    fn said(lock: Option<f64>, waited: Option<f64>) -> Vec<String> {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for _ in 0..60 {
            let row = calls.call(MS, 150.0 * US, 10.0 * US, 40.0 * US);
            (row.lock_ns, row.waited_ns) = (lock.map(|ns| ns as u64), waited.map(|ns| ns as u64));
        }
        calls.sentences(&super::DETECTOR)
    }

    #[test]
    fn speaks_of_each_wait_that_takes_a_large_part() {
        let sentences = said(Some(60.0 * US), Some(100.0 * US));
        assert!(
            sentences[0].starts_with("sure: 30 % of the time of a call (60.0 µs on average) the server"),
            "{sentences:?}"
        );
        assert!(
            sentences[1].starts_with("sure: 50 % of the time of a call (100 µs on average) its request"),
            "{sentences:?}"
        );
    }

    #[test]
    fn is_silent_where_it_does_not_and_where_nobody_measured_it() {
        assert!(said(Some(5.0 * US), Some(10.0 * US)).is_empty());
        assert!(said(None, None).is_empty());
    }
}
