//! W87: slow messages are slow because their send call was.

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
