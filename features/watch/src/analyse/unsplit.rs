//! X14: where the time goes cannot be told
//!
//! Why requests to this server are not split: replies cannot be paired with requests, or fewer than 95 % were seen from
//! beginning to end. Always *can't tell*.
//!
//! ## What it rests on
//!
//! Replies sent before the last data of the client were read, with messages that the protocol does not tell apart;
//! requests with missing events.
//!
//! ## What to do
//!
//! * In flight: `--framing`, without `--no-payload`; connect while msgpath watches, since older connections are
//!   followed only after some turns of one request each.
//! * Not seen: watch longer; `msgpath watch --json` says what is missing (`incomplete`, `torn`, `lost`).

use std::collections::BTreeMap;

use msgpath_analyse::summary::{Confidence, Finding};

use super::findings::finding;
use super::{ENOUGH, WatchedServer};

/// The code of the sentence.
pub const CODE: &str = "X14";

/// What is said where the time is not split.
pub(super) fn not_split(server: &WatchedServer) -> Vec<Finding> {
    let Some(why) = &server.not_split else { return Vec::new() };
    // Without a row nobody knows what its threads are called.
    let name = match server.port {
        Some(port) if server.name.is_empty() => format!("port {port}"),
        _ => server.name.clone(),
    };
    if server.in_flight > 0 && server.complete < ENOUGH {
        let text = format!(
            "which reply answers which request to {}: several requests are in flight on a connection, and the protocol is not known \
             or was not followed from the beginning of the connection. With --framing, or with one request at a time on each \
             connection, the time is split.",
            name
        );
        let evidence = BTreeMap::from([("turns_in_flight".to_owned(), server.in_flight as f64)]);
        return vec![finding(CODE, Confidence::CantTell, text, evidence)];
    }
    let evidence = BTreeMap::from([
        ("incomplete".to_owned(), server.incomplete as f64),
        ("torn".to_owned(), server.torn as f64),
        ("requests".to_owned(), server.requests as f64),
    ]);
    vec![finding(CODE, Confidence::CantTell, format!("where the time of {name} goes: {why}."), evidence)]
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{Load, watched};
    use crate::analyse::{Choice, summarise};

    fn sentences(load: &Load) -> Vec<(String, String)> {
        let findings = &summarise(&watched(load), Choice::default()).servers[0].findings;
        findings
            .iter()
            .map(|finding| (format!("{} {}", finding.confidence.word(), finding.code), finding.text.clone()))
            .collect()
    }

    #[test]
    fn what_cannot_be_paired_or_was_not_seen_is_not_split() {
        let said_of = sentences(&Load { in_flight: 900, ..Load::default() });
        assert!(
            said_of.len() == 1 && said_of[0].0 == "can't tell X14" && said_of[0].1.contains("in flight"),
            "{said_of:?}"
        );
        let said_of = sentences(&Load { incomplete: 900, ..Load::default() });
        assert!(
            said_of.len() == 1 && said_of[0].0 == "can't tell X14" && said_of[0].1.contains("seen from"),
            "{said_of:?}"
        );
    }
}
