//! W63: what a log cannot say
//!
//! * **Stamps that a tool altered**: calls whose T2 is T1, or T4 is T3, to the last digit; or a log that went through
//!   `timealign`.
//! * **Ids that several calls share**.
//! * **Byte counts that are estimates**, and the wire times made of them.
//!
//! ## What it rests on
//!
//! Equal stamps of two clocks in at least 3 calls and a tenth of those that take 20 clock steps or more; ten times more
//! equal 32-bit ids than chance; lengths of the lab's log, one byte each (within 4.5 %).
//!
//! ## What to do
//!
//! `timealign` and `dumplogfile4` raise stamps until they are in order and invent missing ones: import what client4 and
//! server4 wrote. Leave out `-seed1` with several clients. `msgpath rpc` keeps exact lengths.

use msgpath_record::Rows;

use super::shared::{calls, counted, log};
use msgpath_analyse::findings::wording::{percent, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W63", detect };

/// Two different clocks agree to their last digit in fewer calls than this.
const SHARE: f64 = 0.1;
const FEWEST: u64 = 3;
/// In a call that takes so many steps of the clock, a leg of none is not a measurement.
const STEPS: u64 = 20;
/// timealign puts this into the names of what it writes.
const ALIGNED: &str = "_align";

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, _)) = calls(input) else { return Vec::new() };
    let step = facts.client_step_ns.max(facts.server_step_ns).max(1);
    let (mut known, mut equal) = (0u64, 0u64);
    log(input).rounds(&|_, _| true, &mut |rows| {
        for row in rows {
            let (Some(received), Some(replied), Some(latency)) = (row.received_ns, row.replied_ns, row.latency_ns)
            else {
                continue;
            };
            if latency >= STEPS * step {
                known += 1;
                equal += u64::from(received == 0 || i64::try_from(latency) == Ok(replied));
            }
        }
    });
    let clamped = equal >= FEWEST && equal as f64 >= SHARE * known as f64;
    let file = input
        .run
        .header
        .imported
        .iter()
        .find(|file| file.rsplit('/').next().is_some_and(|name| name.contains(ALIGNED)));
    let text = match (clamped, file) {
        (false, None) => return Vec::new(),
        (true, _) => format!(
            "in {} of {} ({} %) T2 is T1 or T4 is T3 to the last digit: these stamps were clamped or filled in by a tool, not \
             measured",
            counted(equal),
            known,
            percent(equal as f64 / known as f64)
        ),
        (false, Some(file)) => format!("{file} went through timealign, which alters stamps to keep them in order"),
    };
    vec![warning(
        "W63",
        text,
        "timealign and dumplogfile4 force T1 <= T2 <= T3 <= T4 by raising the later stamp, and invent missing ones from an \
         assumed 1 Gbit/s; nothing marks them, and a leg of exactly nothing takes what another leg lost",
        "import the logs as client4 and server4 wrote them; msgpath aligns the clocks itself and keeps every stamp",
        [("equal", equal as f64), ("calls", known as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::{Calls, MS, S};

    #[test]
    fn speaks_of_clamped_stamps_and_of_aligned_logs() {
        // What dumplogfile4 makes of a server that is 3 ms behind: T2 and T3 are raised to T1.
        let mut calls = Calls::new(1, 3.0 * MS, 0.0).pings(50, S);
        for row in &mut calls.rows {
            row.received_ns = row.received_ns.map(|ns| ns.max(0));
            row.replied_ns = row.replied_ns.map(|ns| ns.max(0));
        }
        let sentences = calls.sentences(&super::DETECTOR);
        assert!(sentences[0].starts_with("in 50 calls of 50 (100 %) T2 is T1 or T4 is T3"), "{sentences:?}");
        let (mut run, logs) = Calls::new(1, 0.0, 0.0).pings(50, S).run(&["ping"], 10);
        run.header.imported = vec!["logs/client4_20261120_1_align.log".into()];
        let sentences = said_with(&run, &logs, &super::DETECTOR);
        assert!(sentences[0].contains("went through timealign"), "{sentences:?}");
    }

    #[test]
    fn is_silent_where_stamps_are_as_read() {
        assert!(Calls::new(1, 3.0 * MS, 0.0).pings(200, S).sentences(&super::DETECTOR).is_empty());
        assert!(Calls::new(1, 0.0, 0.0).same_machine().pings(200, S).sentences(&super::DETECTOR).is_empty());
    }
}
