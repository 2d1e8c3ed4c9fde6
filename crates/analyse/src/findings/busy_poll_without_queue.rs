//! W23: busy polling had no queue to poll
//!
//! ## What it says
//!
//! The wait `busy-poll` was asked for, and the messages came from no device queue.
//!
//! ## What it is computed from
//!
//! SO_INCOMING_NAPI_ID of the sockets after the last message, which is 0 where a packet came from no queue. SO_BUSY_POLL itself is granted
//! in any case.
//!
//! ## When it stays silent
//!
//! Without the wait `busy-poll`; where a queue id was reported.
//!
//! ## What to do
//!
//! Measure over a link with queues: `--between lab --link napi=on` makes one on this machine
//! ([paths on a device](docs/paths.md#a-queue-that-is-polled)), and NICs whose drivers support it have them. Or use the wait `spin`.

use std::collections::BTreeSet;

use msgpath_core::schema::Granted;

use super::wording::{list, measured, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W23", detect };

/// The entry of [`Granted`] that tells whether packets came from a device queue.
pub(super) const NAPI: &str = "NAPI";

/// The kernel reports the id of the queue that a packet came from, and 0 where there was none.
fn no_queue(entry: &Granted) -> bool {
    entry.option == NAPI && entry.granted == "0"
}

fn detect(input: &Input) -> Vec<Sentence> {
    let missing = |case: &&crate::summary::CaseSummary| case.conditions.granted.iter().any(no_queue);
    let paths: BTreeSet<String> = measured(input).filter(missing).map(|case| case.case.path.to_string()).collect();
    if paths.is_empty() {
        return Vec::new();
    }
    let paths: Vec<String> = paths.into_iter().collect();
    vec![warning(
        "W23",
        format!("busy polling had no device queue to poll ({})", list(&paths)),
        "loopback and plain virtual links have no queue behind the socket, and the kernel says nothing: the rows measure an ordinary wait",
        "--between lab --link napi=on, which gives both ends of a virtual link a queue (root); a second machine with a NIC whose driver has \
         one; or the wait spin",
        [("paths", paths.len() as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::Granted;

    fn texts(queue: &str) -> Vec<String> {
        let mut run = Build::echo(&["tcp:send/busy-poll"], &[64]).run();
        let entry =
            Granted { end: "near".into(), option: "NAPI".into(), asked: "-".into(), granted: queue.into(), same: true };
        run.end.as_mut().unwrap().granted.insert(0, vec![entry]);
        assert!(sentences(&run, "W22").is_empty());
        sentences(&run, "W23")
    }

    #[test]
    fn speaks_where_no_queue_was_found() {
        assert_eq!(texts("0"), ["busy polling had no device queue to poll (tcp:send/busy-poll)"]);
    }

    #[test]
    fn is_silent_where_one_was() {
        assert!(texts("8193").is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), "W23").is_empty());
    }
}
