//! W174: TCP waited for retransmission timeouts (incast)
//!
//! How many retransmission timeouts the clients' connections had, in how many rounds: at least 200 ms each without a
//! packet. Senders that meet at one receiver fill its queue at one moment and lose whole windows. *Sure*: connections
//! counted them. *Likely*: network namespaces did.
//!
//! ## What it rests on
//!
//! `tcpi_total_rto` of the sending ends (Linux 6.7), before that `TcpExtTCPTimeouts` of the clients' namespaces
//! ([method](docs/method/fan.md)).
//!
//! ## What to do
//!
//! A larger queue before the receiver, or one that marks (ECN with DCTCP); fewer senders at once, smaller requests, a
//! little time between them. `ss -ti`, `tc -s qdisc`.

use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

use super::fan;
use crate::analyse::{CountedBy, FanDirection, FanSummary};

pub(super) const CODE: &str = "W174";
pub(super) const DETECTOR: Detector = Detector { code: CODE, detect };

fn detect(input: &Input) -> Vec<Sentence> {
    fan(input).and_then(say).into_iter().collect()
}

fn say(fan: &FanSummary) -> Option<Sentence> {
    let timeouts = fan.timeouts.filter(|timeouts| *timeouts > 0)?;
    let (by, confidence) = match fan.timeouts_by? {
        CountedBy::Connection => ("counted by the connections", Confidence::Sure),
        CountedBy::Namespace => ("counted by the namespaces of the clients", Confidence::Likely),
    };
    let incast = if fan.direction == FanDirection::Out { "" } else { ": incast" };
    let waits = if timeouts == 1 { "timeout" } else { "timeouts" };
    let text =
        format!("{timeouts} retransmission {waits} in {} of {} rounds{incast}; {by}.", fan.timeout_rounds, fan.rounds);
    let numbers = [("timeouts", timeouts as f64), ("rounds", fan.timeout_rounds as f64)];
    Some(finding(CODE, confidence, text, numbers, vec!["tc -s qdisc; ss -ti".into()]))
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::testing::said_with;

    use crate::testing::Bed;

    fn said(bed: &Bed) -> Vec<String> {
        said_with(&bed.run(), &Default::default(), &super::DETECTOR)
    }

    #[test]
    fn timeouts_are_counted_by_the_connections_or_by_the_namespace() {
        let bed = || Bed::stream(&[1e6; 4]);
        let own = &said(&Bed { timeouts: Some(2), ..bed() })[0];
        assert!(
            own.starts_with("sure: 80 retransmission timeouts in 10 of 10 rounds: incast; counted by the conn"),
            "{own}"
        );
        // Clients in one namespace see the same counter.
        let shared = &said(&Bed { timeouts: None, namespace: Some(3), ..bed() })[0];
        assert!(shared.starts_with("likely: 30 retransmission timeouts"), "{shared}");
        assert!(said(&Bed { timeouts: Some(0), ..bed() }).is_empty());
        assert!(said(&Bed { timeouts: None, namespace: None, ..bed() }).is_empty());
    }
}
