//! W81: slow messages wait on the run queue
//!
//! ## What it says
//!
//! Slow messages are slow because their receiver could run and another task had its CPU: how much, and which task, by
//! name and thread id.
//!
//! *Sure*: the interval of the difference, over rounds drawn again, lies above what tracing itself adds to a round trip
//! at most, and the same stage grew most in both halves of the run. Else *likely*.
//!
//! ## What it is computed from
//!
//! Messages of the traced replica of a case, whose rounds are interleaved with those of the case itself. Each message is
//! joined with the kernel's events of its round, and every nanosecond of it is charged to a stage; the stages of a
//! message add up to its round trip. Slow messages are those from p98.5 to p99.5, usual ones those from p45 to p55; whole
//! messages are averaged in both bands, and the stage whose mean differs most is the cause. Who ran instead is told by
//! the switches on the CPU on which the receiver runs next: each names the task that held it until then. The light set
//! sees only switches from or to the ends, so of several tasks it names the last.
//!
//! ## When it stays silent
//!
//! Without a traced replica (`--stages light` or `full`); where fewer than 95 % of the messages are attributed; where slow
//! messages take less than 20 % longer than usual ones; where the stage holds less than 30 % of the difference, or
//! another grew more.
//!
//! ## What to do
//!
//! A CPU of its own for the receiver (`--cpu`, `isolcpus`), a higher priority (`chrt`, `nice`), or the named task
//! elsewhere (`taskset`).

use super::growth::{against_waiting, holders, slow};
use crate::analyse::stage::Kind;
use msgpath_analyse::findings::wording::finding;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W81", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    slow(input, &[Kind::Delay]).iter().map(|slow| {
        let holders = holders(&slow.stages.occupants.slow);
        let who = if holders.is_empty() { String::new() } else { format!(". Meanwhile ran: {holders}") };
        let (try_, next) = against_waiting(
            input,
            slow.case,
            "CPUs of its own for the receiver (--cpu, isolcpus), a higher priority for it (chrt, nice), the others elsewhere (taskset)",
        );
        let text = slow.says(input, "the receiver was ready to run and another task ran") + &who + &try_ + ".";
        finding("W81", slow.confidence(), text, slow.numbers(), next)
    }).collect()
}

#[cfg(test)]
mod tests {
    use crate::analyse::stage::Kind;
    use crate::testing::{Setup, sentences, traced};

    #[test]
    fn names_who_ran_instead() {
        let texts = sentences(&traced(&Setup { slow: Some(Kind::Delay), ..Setup::over("tcp:send") }, 50), "W81");
        assert!(
            texts[0].contains("another task ran: ") && texts[0].contains("Meanwhile ran: ffmpeg (thread 666, "),
            "{texts:?}"
        );
    }

    #[test]
    fn is_silent_where_nobody_waits() {
        assert!(
            sentences(&traced(&Setup { slow: Some(Kind::InFlight), ..Setup::over("tcp:send") }, 50), "W81").is_empty()
        );
    }
}
