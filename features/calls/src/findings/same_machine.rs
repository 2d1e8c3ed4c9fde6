//! Of W33: client and server on one machine.

use std::net::IpAddr;

use super::shared::calls;
use msgpath_analyse::findings::wording::{list, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W33", detect };

/// Whoever dials a loopback address knows.
fn says_so(address: &str) -> bool {
    address == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn detect(input: &Input) -> Vec<Sentence> {
    let Some((facts, rpc)) = calls(input) else { return Vec::new() };
    // Two namespaces are one machine, and who asked for them knows.
    if input.plan.options.between.is_some() {
        return Vec::new();
    }
    let mut local: Vec<String> = facts
        .pairs
        .iter()
        .filter(|pair| !says_so(&pair.server))
        .filter_map(|pair| Some(format!("{} ({})", pair.server, pair.same_machine.as_ref()?)))
        .collect();
    local.sort();
    local.dedup();
    let (more, shown) = (local.len().saturating_sub(3), local.len().min(3));
    if local.is_empty() {
        return Vec::new();
    }
    let others = if more > 0 { format!(", and {more} others") } else { String::new() };
    let verb = if local.len() == 1 { "is" } else { "are" };
    vec![warning(
        "W33",
        format!("{}{others} {verb} the client's own machine: no network was measured", list(&local[..shown])),
        "the kernel looks up its own addresses first (rule 0, table local), so the bytes go through its memory whatever \
         routes are added; there is no wire, and both clocks are one",
        "run the server on a second machine, or in a network namespace of its own with a shaped link between",
        [
            ("pairs", facts.pairs.len() as f64),
            ("same_machine", local.len() as f64),
            ("calls", rpc.kinds.iter().map(|kind| kind.calls).sum::<u64>() as f64),
        ],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, S};

    #[test]
    fn speaks_where_an_address_of_the_network_is_this_machine() {
        let calls = Calls::new(1, 0.0, 0.0).same_machine().pings(50, S);
        assert_eq!(
            calls.sentences(&super::DETECTOR),
            ["10.9.0.2 (both addresses are the same) is the client's own machine: no network was measured"]
        );
        // What is said of echoes would say it twice.
        assert_eq!(calls.sentences("W33").len(), 1);
    }

    #[test]
    fn is_silent_between_machines_and_where_the_target_says_so_itself() {
        assert!(Calls::new(1, 0.0, 0.0).pings(50, S).sentences(&super::DETECTOR).is_empty());
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine().pings(50, S);
        calls.facts.pairs[0].server = "127.0.0.1".into();
        assert!(calls.sentences(&super::DETECTOR).is_empty());
    }
}
