//! W86: slow messages are slow because the far end's program worked longer.

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
