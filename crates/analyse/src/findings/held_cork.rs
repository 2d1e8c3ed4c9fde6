//! Of W25: a cork is not released.

use msgpath_core::plan::Change;

use super::counters::rose;
use super::modes::{CORKED, SHARE, Tried};
use super::wording::{again_without, finding, measured, percent, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W25", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let corked = |case: &&CaseSummary| {
        let options = input.plan.options_of(&case.case);
        case.case.traits.segments && (options.cork || options.hold_cork)
    };
    measured(input).filter(corked).filter_map(|case| say(input, case)).collect()
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let waiting = CORKED.of(input, case.case.id).filter(|waiting| waiting.share >= SHARE)?;
    // The least retransmission timeout is 200 ms as well: what was lost and retransmitted is no matter of the cork.
    let timeouts = rose(input, case, &["TcpExt.TCPTimeouts"]);
    if timeouts.is_some_and(|timeouts| 2 * timeouts >= waiting.messages) {
        return None;
    }
    let how = if input.plan.options_of(&case.case).hold_cork {
        "TCP_CORK is set and never released, so the last segment of a message leaves when the kernel's timer of 200 ms \
         runs out"
    } else {
        "the last segment of a message leaves when the kernel's timer of 200 ms runs out, as under a TCP_CORK that is \
         not released"
    };
    let mut text =
        format!("{}{} % of the messages take {}: {how}", prefix(input, case), percent(waiting.share), waiting.time());
    let sure = match CORKED.tried(input, case, &waiting, &Change::NoCork) {
        Tried::NotTheCause => return None,
        Tried::Nothing => false,
        Tried::Cured { text: seen, sure } => {
            text.push_str(&format!(". Tried here: {seen}"));
            sure
        }
    };
    text.push_str(". Release the cork after the last piece, or send that piece without MSG_MORE");
    let numbers = [
        ("share", waiting.share),
        ("mode_ns", waiting.mean_ns()),
        ("timeouts", timeouts.map_or(f64::NAN, |timeouts| timeouts as f64)),
    ];
    let next = vec![again_without(&input.run.header, "cork")];
    let confidence = if sure { Confidence::Sure } else { Confidence::Likely };
    Some(finding("W25", confidence, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::summarise;
    use crate::testing::{Build, count, sentences};
    use msgpath_core::plan::{CaseRole, Change};

    /// Every message takes so long under the cork; the ablation takes `ablation_ms`.
    fn build(path: &str, ms: f64, ablation_ms: f64) -> Build {
        let factor = move |case: &msgpath_core::Case| match case.role {
            CaseRole::Ablation => ablation_ms * 50.0,
            _ => ms * 50.0,
        };
        let mut build = Build::echo(&[path], &[64]).factor(factor).spread(0.01);
        build.plan.options.hold_cork = true;
        build
    }

    #[test]
    fn speaks_of_a_cork_that_is_held() {
        let texts = sentences(&build("tcp:send", 208.0, 0.0).run(), &super::DETECTOR);
        assert!(
            texts[0].starts_with("likely: 100 % of the messages take about 20") && texts[0].contains("never released"),
            "{texts:?}"
        );
        let both = sentences(&build("tcp:send", 416.0, 0.0).run(), &super::DETECTOR);
        assert!(both[0].contains("once in each direction"), "{both:?}");
    }

    #[test]
    fn is_sure_where_it_was_tried_without() {
        let mut run = build("tcp:send", 208.0, 0.03).ablation(0, Change::NoCork).run();
        run.header.command = ["msgpath", "echo", "-o", "cork=held", "-c", "100"].map(String::from).to_vec();
        let summary = summarise(&run);
        let finding = summary.findings.iter().find(|finding| finding.code == "W25").unwrap();
        assert!(finding.text.contains("Tried here: no cork brings p50 from 20"), "{}", finding.text);
        assert_eq!(finding.confidence.word(), "sure");
        assert_eq!(finding.next, ["msgpath echo -c 100"]);
    }

    #[test]
    fn is_silent_where_something_else_waits() {
        let mut retransmitted = build("tcp:send", 208.0, 0.0).run();
        count(&mut retransmitted, 0, "TcpExt.TCPTimeouts", 150);
        assert!(sentences(&retransmitted, &super::DETECTOR).is_empty());
        assert!(
            sentences(&build("tcp:send", 208.0, 208.0).ablation(0, Change::NoCork).run(), &super::DETECTOR).is_empty()
        );
        assert!(sentences(&build("tcp:send", 0.03, 0.0).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&build("unix:send", 208.0, 0.0).run(), &super::DETECTOR).is_empty());
        let mut released = build("tcp:send", 208.0, 0.0);
        released.plan.options.hold_cork = false;
        assert!(sentences(&released.run(), &super::DETECTOR).is_empty());
    }
}
