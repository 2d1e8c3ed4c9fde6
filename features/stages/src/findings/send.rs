//! W87: the send call took longer
//!
//! ## What it says
//!
//! Slow messages are slow because their send call was, from the stamp before it to the driver.
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
//! `--stages full` splits it where the call is entered. A larger send buffer where the sender is held up; one call a
//! message (`writev`).

use super::growth::slow;
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W87", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    slow(input, &[Kind::SendCall, Kind::Transmit]).iter().map(|slow| {
        let text = slow.says(input, "the send call took longer")
            + ". To try: --stages full, which splits it at the queue of the device; a larger send buffer where the sender \
               is held up; fewer pieces a message (writev).";
        finding("W87", slow.confidence(), text, slow.numbers(), Vec::new())
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn speaks_of_the_send_call() {
        let texts = sentences(&traced(&Setup { slow: Some(Kind::Transmit), ..Setup::over("tcp:send") }, 50), "W87");
        assert!(texts[0].contains("because the send call took longer: "), "{texts:?}");
        assert!(texts[0].contains(" is send call and transmit stack ("), "{texts:?}");
    }

    #[test]
    fn is_silent_where_another_stage_grows() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::Delay), ..Setup::over("tcp:send") }, 50), "W87").is_empty()
        );
    }
}
