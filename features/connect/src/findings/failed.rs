//! W170: connections that failed
//!
//! How many connections brought no reply, by reason: refused, no answer to the SYN, connected without a reply, closed
//! before it, a full accept queue, no local port (with their range, open sockets and TIME_WAIT). *Sure*: counted.
//!
//! ## What it rests on
//!
//! What connect, send and receive said of each connection, or that it was under way at the end of its round; TCP_INFO
//! counts its SYNs. Failed connections count as infinitely slow.
//!
//! ## What to do
//!
//! * No local port: widen `net.ipv4.ip_local_port_range`, lower `-P`, or another address (`-o bind`); the closing end
//!   keeps a port for 60 s.
//! * No answer: W171, or a firewall. Longer rounds (`-t`, `-r`) give slow connections time.

use msgpath_analyse::findings::wording::{percent, prefix, sentence, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};

use super::cases;

pub(super) const DETECTOR: Detector = Detector { code: "W170", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let failed = cases(input).filter(|(_, own)| own.failed > 0).map(|(case, own)| {
        let reasons = own
            .reasons
            .iter()
            .map(|reason| format!("{} {} ({})", reason.failed.count, reason.what, reason.failed.example));
        let reasons: Vec<String> = reasons.collect();
        let text = format!(
            "{}{} of {} connections ({} %) failed: {}",
            prefix(input, case),
            own.failed,
            own.begun,
            percent(own.failed as f64 / own.begun.max(1) as f64),
            reasons.join("; ")
        );
        let ports = own.reasons.iter().any(|reason| reason.what == "no local port");
        let fix = match ports {
            true => "fewer connections at a time (-P), or more ports (net.ipv4.ip_local_port_range)",
            false => "longer rounds (-t, -r) for slow ones; msgpath doctor   at both ends",
        };
        let numbers = [("failed", own.failed as f64), ("begun", own.begun as f64)];
        warning(
            "W170",
            sentence(&text),
            "a connection that failed counts as infinitely slow in every quantile",
            fix,
            numbers,
        )
    });
    failed.collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Round, sentences};

    #[test]
    fn every_reason_has_its_number_and_what_the_first_met() {
        let round = Round {
            failed: &[("no reply", 2, "connected, and given up after 1 s"), ("refused", 5, "refused")],
            ..Round::default()
        };
        let texts = sentences(&round, &super::DETECTOR);
        assert_eq!(texts.len(), 1);
        assert!(
            texts[0].ends_with("failed: 10 refused (refused); 4 no reply (connected, and given up after 1 s)"),
            "{texts:?}"
        );
        assert!(texts[0].contains("14 of 2014 connections"), "{texts:?}");
    }

    #[test]
    fn connections_that_were_made_are_not_news() {
        assert!(sentences(&Round::default(), &super::DETECTOR).is_empty());
    }
}
