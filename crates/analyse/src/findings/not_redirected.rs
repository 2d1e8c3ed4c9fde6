//! Of W22: messages went past the verdict program.

use msgpath_core::schema::NEAR;

use super::wording::{evidence, measured};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Warning};

pub(super) const DETECTOR: Detector = Detector { code: "W22", detect };

/// The option of the granted ones that says that a program hands the messages over.
const REDIRECTED: &str = "BPF_SK_MSG_VERDICT";

fn detect(input: &Input) -> Vec<Sentence> {
    measured(input).filter_map(say).collect()
}

fn say(case: &CaseSummary) -> Option<Sentence> {
    case.conditions.granted.iter().find(|entry| entry.option == REDIRECTED)?;
    let near = case.end(NEAR);
    // The program runs for messages and for replies, and more than once for a long one.
    let messages = case.delivery.sent + case.delivery.received;
    let redirected = near.calls.redirected;
    let missing = messages.checked_sub(redirected).filter(|missing| *missing > 0)?;
    let segments = near.tcp.map_or(0, |tcp| tcp.data_segs_out);
    Some(Sentence::Warning(Warning {
        code: "W22".into(),
        text: format!(
            "the verdict program ran for {} of {} messages and replies of {}",
            redirected, messages, case.case.path
        ),
        why: format!(
            "{} were not handed from socket to socket: they went through TCP, which counted {} segments with data at the near end",
            missing, segments
        ),
        fix: "look for another BPF program that takes these sockets into a map of its own (bpftool prog, bpftool map)"
            .into(),
        evidence: evidence([
            ("messages", messages as f64),
            ("redirected", redirected as f64),
            ("data_segments", segments as f64),
        ]),
        strict: true,
    }))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, grant, sentences};
    use msgpath_record::Run;

    /// 40 rounds of 20 messages; in each the program ran so often.
    fn run(runs: u64) -> Run {
        let mut run = Build::echo(&["sockmap:send"], &[64]).messages(20).run();
        run.rounds.iter_mut().for_each(|round| round.near_mut().calls.redirected = runs);
        grant(&mut run, 0, "BPF_SK_MSG_VERDICT", "-", "a verdict program a socket");
        run
    }

    #[test]
    fn speaks_where_messages_took_another_way() {
        let run = run(30);
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(texts, ["the verdict program ran for 1200 of 1600 messages and replies of sockmap:send"]);
        let warnings = summarise(&run).warnings;
        let warning = warnings.iter().find(|warning| warning.code == "W22").unwrap();
        assert!(warning.strict && warning.why.starts_with("400 were not"), "{warning:?}");
    }

    #[test]
    fn is_silent_where_all_were_handed_over_or_no_program_was_asked_for() {
        assert!(sentences(&run(40), &super::DETECTOR).is_empty());
        assert!(sentences(&run(80), &super::DETECTOR).is_empty(), "long messages count more than once");
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
