//! W171: SYNs went again, or an accept queue overflowed
//!
//! How many connections waited for a SYN that went again, how many SYNs, and how often the server's accept queue was
//! full: then the kernel drops the SYN or the handshake's last segment, and the client retries after 1, 3, 7 s. *Sure*:
//! counted.
//!
//! ## What it rests on
//!
//! `tcpi_total_retrans` of connections that took over 100 ms; `TcpExt.ListenOverflows`, `ListenDrops` of the server's
//! network namespace, `TcpExt.TCPSynRetrans` of the client's. These count every socket there.
//!
//! ## What to do
//!
//! With overflows: accept sooner (more threads, less work before), a longer queue (argument of listen,
//! `net.core.somaxconn`). Without: packets are lost (`nstat`, `ethtool -S`), or a firewall limits connections.

use msgpath_analyse::findings::wording::{prefix, sentence, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};

use super::cases;

pub(super) const DETECTOR: Detector = Detector { code: "W171", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let slow = cases(input).filter(|(_, own)| own.syn_retried > 0 || own.overflows > 0).map(|(case, own)| {
        let retried = match own.syn_retried {
            0 => "no SYN of these connections went again".to_owned(),
            count => format!(
                "{count} of {} connections waited for a SYN that was sent again ({} SYNs, after 1, 3, 7 s)",
                own.begun, own.syns
            ),
        };
        let queue = match own.overflows {
            0 => "no accept queue of the server overflowed: the SYNs or their answers were lost on the way".to_owned(),
            count => format!(
                "the accept queue of the server overflowed {count} times (ListenOverflows; ListenDrops {})",
                own.drops
            ),
        };
        let fix = match own.overflows {
            0 => "nstat and ethtool -S at both ends, and rules that limit new connections",
            _ => "a server that accepts sooner, or a longer queue (listen, net.core.somaxconn)",
        };
        let numbers = [
            ("syn_retried", own.syn_retried as f64),
            ("syns", own.syns as f64),
            ("overflows", own.overflows as f64),
            ("drops", own.drops as f64),
            ("syns_of_all", own.syns_of_all as f64),
        ];
        let text = format!("{}{retried}; {queue}", prefix(input, case));
        warning("W171", sentence(&text), "a SYN that is dropped costs a second, not microseconds", fix, numbers)
    });
    slow.collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Round, sentences};

    #[test]
    fn a_queue_that_overflows_is_named_with_its_numbers() {
        let round = Round { retried: (3, 5), overflows: 7, ..Round::default() };
        let texts = sentences(&round, &super::DETECTOR);
        assert!(texts[0].contains("6 of 2000 connections waited for a SYN that was sent again (10 SYNs"), "{texts:?}");
        assert!(texts[0].contains("overflowed 14 times"), "{texts:?}");
    }

    #[test]
    fn without_overflow_the_way_is_named() {
        let texts = sentences(&Round { retried: (1, 1), ..Round::default() }, &super::DETECTOR);
        assert!(texts[0].contains("lost on the way"), "{texts:?}");
        assert!(sentences(&Round::default(), &super::DETECTOR).is_empty());
    }
}
