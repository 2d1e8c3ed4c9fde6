//! W93: slow messages are slow in a stage that no other sentence speaks of: the device, the softirq, the receive call.

use super::growth::{Slow, slow};
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W93", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let kinds = [Kind::Waiting, Kind::Device, Kind::Softirq, Kind::Signal, Kind::Again, Kind::Return, Kind::Deliver];
    slow(input, &kinds)
        .iter()
        .filter(|slow| !elsewhere(slow))
        .map(|slow| {
            let (because, to_try) = match slow.growth.kind {
                Kind::Waiting => ("they waited to be sent", "a smaller rate; a sender of its own for each connection"),
                Kind::Device | Kind::Softirq => (
                    "the device or the receive softirq took longer",
                    "other traffic off this machine; netfilter rules and packet sockets that see every packet",
                ),
                Kind::Again => (
                    "the receiver slept again before its message was whole",
                    "messages in one segment, or a receive that waits for all of it (MSG_WAITALL, SO_RCVLOWAT)",
                ),
                Kind::Signal | Kind::Deliver => ("the signal took longer", "a wait in a system call instead (epoll)"),
                _ => (
                    "the receiver's own time on its CPU was longer",
                    "interrupts off its CPU; huge pages; no page faults",
                ),
            };
            let text = format!("{}. To try: {to_try}.", slow.says(input, because));
            finding("W93", slow.confidence(), text, slow.numbers(), Vec::new())
        })
        .collect()
}

/// The softirq on another core has a sentence of its own.
fn elsewhere(slow: &Slow) -> bool {
    matches!(slow.growth.kind, Kind::Device | Kind::Softirq) && slow.stages.softirq_elsewhere_slow >= 0.5
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn speaks_of_the_stage_that_grew() {
        for (kind, part) in [
            (Kind::Device, "the device or the receive softirq took longer: "),
            (Kind::Return, "the receiver's own time on its CPU was longer: "),
        ] {
            let texts = sentences(&traced(&Setup { slow: Some(kind), ..Setup::over("tcp:send") }, 50), "W93");
            assert!(texts[0].contains(part), "{texts:?}");
        }
        let texts =
            sentences(&traced(&Setup { slow: Some(Kind::Waiting), open: true, ..Setup::over("tcp:send") }, 50), "W93");
        assert!(texts[0].contains("they waited to be sent: "), "{texts:?}");
    }

    #[test]
    fn leaves_the_others_to_their_own_sentences() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::Delay), ..Setup::over("tcp:send") }, 50), "W93").is_empty()
        );
    }
}
