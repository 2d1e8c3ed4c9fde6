//! W81: slow messages are slow because their receiver waited on the run queue; who ran instead.

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
