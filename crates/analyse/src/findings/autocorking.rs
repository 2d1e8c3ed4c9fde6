//! Of W36: autocorking held small writes back.

use msgpath_core::plan::{Case, Load};
use msgpath_core::schema::{FAR, NEAR};

use super::counters::{fits, rose, sent};
use super::wording::{affected, again_joined, finding, measured, prefix, sentence, worst};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W36", detect };

const COUNTER: &str = "TcpExt.TCPAutoCorking";
/// Held writes per message below which they do not colour the numbers.
const MANY: f64 = 0.1;
/// The kernel holds a packet that is smaller than it would like to build one, which is this much at most. No write that is larger
/// is held, only the end of it.
const SMALL: u64 = 65_536;

/// Whether a write of this case can be held: it is small, and another packet of its socket may be queued. Else the counter, which every
/// socket of the namespace adds to, tells of others.
fn can_be_held(case: &Case, answered: bool) -> bool {
    let write = if case.traits.apart { case.size / u64::from(case.pieces.count.max(1)) } else { case.size };
    let alone = answered && case.load == Load::Closed && case.inflight == 1 && !case.traits.apart;
    write < SMALL && !alone
}

fn detect(input: &Input) -> Vec<Sentence> {
    let off = |facts: &std::collections::BTreeMap<String, String>| {
        facts.get("tcp_autocorking").is_some_and(|value| value == "0")
    };
    // Switched off at both ends: the counts are those of other namespaces' sockets.
    if off(&input.run.header.host(NEAR).facts) && off(&input.run.header.host(FAR).facts) {
        return Vec::new();
    }
    let workload = input.plan.workload;
    let answered = workload.is_echoed() || workload.has_server();
    let own = measured(input).filter(|case| case.case.traits.segments && can_be_held(&case.case, answered));
    let many = own.filter_map(|case| {
        let each = rose(input, case, &[COUNTER])? as f64 / sent(input, case).most as f64;
        (case.rounds > 0 && each >= MANY).then_some((each, case))
    });
    worst(many).and_then(|(case, cases)| say(input, case, cases)).into_iter().collect()
}

fn say(input: &Input, case: &CaseSummary, cases: usize) -> Option<Sentence> {
    let held = rose(input, case, &[COUNTER])?;
    let sent = sent(input, case);
    let text = format!(
        "{}TCPAutoCorking +{} in {} messages: small writes waited behind a queued packet, so that they leave together. \
         That helps the rate and costs latency; {}sysctl net.ipv4.tcp_autocorking=0 ends it{}",
        prefix(input, case),
        held,
        sent.least,
        if case.case.traits.apart { "one send a message (tcp:writev) or " } else { "" },
        affected(cases)
    );
    // No send call is held more than once, and trimmed messages make as many of them.
    let calls = case.end(NEAR).calls.send_calls + case.end(FAR).calls.send_calls;
    let most = calls.max(sent.least) as f64 * sent.most as f64 / sent.least as f64;
    let numbers = [("held_writes", held as f64), ("messages", sent.least as f64), ("send_calls", calls as f64)];
    let next = if case.case.traits.apart {
        again_joined(&input.run.header, &case.case).into_iter().collect()
    } else {
        Vec::new()
    };
    let confidence = if fits(held, sent.least, most as u64) { Confidence::Sure } else { Confidence::Likely };
    Some(finding("W36", confidence, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, count, sentences};
    use msgpath_core::Workload;
    use msgpath_core::workload::Answer;
    use msgpath_record::Run;

    /// 200 messages a round in 400 send calls, so many of them held.
    fn run(path: &str, held: u64) -> Run {
        let mut build = Build::stream(&[path], &[64]);
        build.plan.trim = 0;
        let mut run = build.run();
        run.rounds.iter_mut().for_each(|round| round.near_mut().calls.send_calls = 400);
        count(&mut run, 0, "TcpExt.TCPAutoCorking", held);
        run
    }

    #[test]
    fn speaks_of_writes_that_were_held() {
        let texts = sentences(&run("tcp:writes", 300), &super::DETECTOR);
        assert!(texts[0].starts_with("sure: TCPAutoCorking +12000 in 8000 messages: small writes waited"), "{texts:?}");
    }

    /// Calls to a server that reports nothing of itself.
    static CALLS: Workload = Workload { name: "asked", answer: Answer::Server, ..*Workload::ECHO };

    /// An echo or a call beside which a stream runs in the same namespace, and calls with one write of 1 MB each.
    #[test]
    fn is_silent_where_no_write_can_have_been_held() {
        let echo = |path: &str, size: u64| {
            let mut run = Build::echo(&[path], &[size]).run();
            count(&mut run, 0, "TcpExt.TCPAutoCorking", 300);
            let texts = sentences(&run, &super::DETECTOR);
            run.header.plan.workload = &CALLS;
            assert_eq!(sentences(&run, &super::DETECTOR).len(), texts.len());
            texts
        };
        assert!(echo("tcp:send", 64).is_empty(), "one message in flight in one write waits behind nothing");
        assert!(echo("tcp:send", 1 << 20).is_empty());
        assert_eq!(echo("tcp:writes", 64).len(), 1);
        let mut large = Build::stream(&["tcp:send"], &[1 << 20]).run();
        count(&mut large, 0, "TcpExt.TCPAutoCorking", 300);
        assert!(sentences(&large, &super::DETECTOR).is_empty());
        let mut small = Build::stream(&["tcp:send"], &[64]).run();
        count(&mut small, 0, "TcpExt.TCPAutoCorking", 300);
        let texts = sentences(&small, &super::DETECTOR);
        assert!(!texts[0].contains("tcp:writev") && texts[0].contains("tcp_autocorking=0 ends it"), "{texts:?}");
    }

    #[test]
    fn is_likely_where_the_count_does_not_fit() {
        for held in [100, 500] {
            assert!(sentences(&run("tcp:writes", held), &super::DETECTOR)[0].starts_with("likely: "), "{held}");
        }
    }

    #[test]
    fn one_sentence_stands_for_all_cases() {
        let mut build = Build::stream(&["tcp:writes", "tcp:send"], &[64]);
        build.plan.trim = 0;
        let mut run = build.run();
        count(&mut run, 0, "TcpExt.TCPAutoCorking", 100);
        count(&mut run, 1, "TcpExt.TCPAutoCorking", 150);
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts.len() == 1 && texts[0].contains("tcp:send, 64 B: TCPAutoCorking +6"), "{texts:?}");
        assert!(texts[0].ends_with("; 2 cases are affected."), "{texts:?}");
    }

    #[test]
    fn is_silent_where_few_were_held_or_the_kernel_holds_none() {
        assert!(sentences(&run("tcp:writes", 19), &super::DETECTOR).is_empty());
        assert!(sentences(&run("unix:writes", 300), &super::DETECTOR).is_empty());
        let mut off = run("tcp:writes", 300);
        for end in &mut off.header.hosts {
            end.facts.insert("tcp_autocorking".into(), "0".into());
        }
        assert!(sentences(&off, &super::DETECTOR).is_empty());
        assert!(sentences(&Build::stream(&["tcp:writes"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
