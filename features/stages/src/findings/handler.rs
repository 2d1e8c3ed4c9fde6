//! W86: the far end's program took longer
//!
//! ## What it says
//!
//! Slow messages are slow because the far end worked longer between its receive and its send.
//!
//! *Sure*: the interval of the difference, over rounds drawn again, lies above what tracing itself adds to a round trip
//! at most, and the same stage grew most in both halves of the run. Else *likely*.
//!
//! ## What it is computed from
//!
//! Messages of the traced replica of a case, whose rounds are interleaved with those of the case itself. Each message is
//! joined with the kernel's events of its round, and every nanosecond of it is charged to a stage; the stages of a
//! message add up to its round trip. Slow messages are those from p98.5 to p99.5, usual ones those from p45 to p55; whole
//! messages are averaged in both bands, and the stage whose mean differs most is the cause. The handler lies between two
//! stamps of the far end itself.
//!
//! ## When it stays silent
//!
//! Without a traced replica (`--stages light` or `full`); where fewer than 95 % of the messages are attributed; where slow
//! messages take less than 20 % longer than usual ones; where the stage holds less than 30 % of the difference, or
//! another grew more.
//!
//! ## What to do
//!
//! A profile of the handler (`perf record`), its locks and its allocations. The way there and back is not the cause.

use super::growth::slow;
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W86", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    slow(input, &[Kind::Handler]).iter().map(|slow| {
        let text = slow.says(input, "the far end's program took longer between receive and send")
            + ". The way there and back is not the cause. To try: a profile of the handler (perf record), its locks and its allocations.";
        finding("W86", slow.confidence(), text, slow.numbers(), Vec::new())
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn speaks_of_the_program() {
        // One message in 50 works for 60 µs.
        let texts = sentences(&traced(&Setup { cold: 1_000.0, ..Setup::over("unix:send") }, 50), "W86");
        assert!(texts[0].contains("the far end's program took longer between receive and send: "), "{texts:?}");
    }

    #[test]
    fn is_silent_where_another_stage_grows() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::Delay), ..Setup::over("unix:send") }, 50), "W86").is_empty()
        );
    }
}
