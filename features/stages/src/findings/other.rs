//! W93: slow messages are slow in another stage
//!
//! ## What it says
//!
//! Slow messages are slow in a stage without a sentence of its own: waiting to be sent, the device, the receive softirq,
//! the receive call, a receiver that sleeps again before its message is whole, the signal.
//!
//! *Sure*: the interval of the difference, over rounds drawn again, lies above what tracing itself adds to a round trip
//! at most, and the same stage grew most in both halves of the run. Else *likely*.
//!
//! ## What it is computed from
//!
//! Messages of the traced replica of a case, whose rounds are interleaved with those of the case itself. Each message is
//! joined with the kernel's events of its round, and every nanosecond of it is charged to a stage; the stages of a
//! message add up to its round trip. Slow messages are those from p98.5 to p99.5, usual ones those from p45 to p55; whole
//! messages are averaged in both bands, and the stage whose mean differs most is the cause.
//!
//! ## When it stays silent
//!
//! Without a traced replica (`--stages light` or `full`); where fewer than 95 % of the messages are attributed; where slow
//! messages take less than 20 % longer than usual ones; where the stage holds less than 30 % of the difference, or
//! another grew more.
//!
//! ## What to do
//!
//! What the sentence names for the stage. `msgpath explain` shows all stages side by side.

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
