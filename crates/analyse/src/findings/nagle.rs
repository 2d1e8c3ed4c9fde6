//! W25: small writes that wait for a timer of TCP
//!
//! * **Nagle**: a share of the messages takes 40 ms (80 ms both ways): each is sent in several calls with TCP_NODELAY
//!   off, and the later ones wait for a delayed acknowledgement.
//! * **A cork**: a share takes 200 ms (400 ms): the last segment lies under TCP_CORK until the kernel's timer ends.
//!
//! *Likely* where the mechanism fits. *Sure* where an ablation with TCP_NODELAY on (without the cork) no longer waits,
//! in both halves; for Nagle the kernel's counter must fit as well.
//!
//! ## What it rests on
//!
//! * **Nagle**: round trips of 32 to 48 (64 to 96) ms, from 5 % on, on paths with several sends a message, no cork;
//!   `TcpExt.DelayedACKs` fits where it rose by 49 in 50 of the waits, and by at most one a message and direction.
//! * **A cork**: round trips of 190 to 230 (380 to 460) ms, from 5 % on, with a cork; not where half as many
//!   retransmission timeouts (`TcpExt.TCPTimeouts`) were counted. No counter tells of corks.
//!
//! Silent where the ablation waits as well.
//!
//! ## What to do
//!
//! * **Nagle**: one call a message (`tcp:writev`), or TCP_NODELAY, or cork the pieces.
//! * **A cork**: release it after each message, send the last piece without MSG_MORE, or use one call.

use msgpath_core::plan::Change;
use msgpath_core::units::Glyphs;

use super::counters::{fits, rose, sent};
use super::modes::{DELAYED_ACK, SHARE, Tried};
use super::wording::{again_joined, finding, measured, percent, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W25", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let held_back = |case: &&CaseSummary| {
        let options = input.plan.options_of(&case.case);
        !options.nodelay && !options.cork && !options.hold_cork
    };
    measured(input)
        .filter(held_back)
        .filter(|case| hands_over_in_parts(case))
        .filter_map(|case| say(input, case))
        .collect()
}

/// TCP, and more than one send call for a message.
fn hands_over_in_parts(case: &CaseSummary) -> bool {
    case.case.traits.segments && case.case.traits.apart && case.case.pieces.count > 1
}

fn say(input: &Input, case: &CaseSummary) -> Option<Sentence> {
    let waiting = DELAYED_ACK.of(input, case.case.id).filter(|waiting| waiting.share >= SHARE)?;
    let mut text = format!(
        "{}{} % of the messages wait, most of them {}: each is handed over in several sends with TCP_NODELAY off, and the \
         later ones wait for a delayed acknowledgement of the first (Nagle meets delayed ACK)",
        prefix(input, case),
        percent(waiting.share),
        waiting.time(),
    );
    let delayed = rose(input, case, &["TcpExt.DelayedACKs"]);
    let sent = sent(input, case);
    // Every wait has one delayed acknowledgement, and a message meets at most one in each direction.
    let counted = delayed.is_some_and(|count| fits(count, waiting.waits, 2 * sent.most));
    if let Some(count) = delayed {
        text.push_str(&format!(". DelayedACKs +{} in {} messages", count, sent.least));
    }
    // The same message in one send, where the run has it.
    let joined = measured(input)
        .filter(|other| other.case.traits.segments && other.case.size == case.case.size && !hands_over_in_parts(other))
        .find_map(|other| {
            let p50 = other.latency.quantiles.iter().find(|q| q.p == 0.5 && q.is_interval())?.ns?;
            (p50 < DELAYED_ACK.start() / 4).then_some((&other.case.path, p50))
        });
    if let Some((path, p50)) = joined {
        text.push_str(&format!(". In this run {path}, with one send, has p50 {}", Glyphs::Unicode.time(p50 as f64)));
    }
    let proved = match DELAYED_ACK.tried(input, case, &waiting, &Change::NoDelay) {
        Tried::NotTheCause => return None,
        Tried::Nothing => false,
        Tried::Cured { text: seen, sure } => {
            text.push_str(&format!(". Tried here: {seen}"));
            sure
        }
    };
    let numbers = [
        ("share", waiting.share),
        ("mode_ns", waiting.mean_ns()),
        ("waiting_messages", waiting.messages as f64),
        ("delayed_acks", delayed.map_or(f64::NAN, |count| count as f64)),
        ("one_send_p50_ns", joined.map_or(f64::NAN, |(_, p50)| p50 as f64)),
    ];
    text.push_str(". Any one of these ends it: one send (tcp:writev), TCP_NODELAY, a cork");
    let next = again_joined(&input.run.header, &case.case).into_iter().collect();
    let confidence = if proved && counted { Confidence::Sure } else { Confidence::Likely };
    Some(finding("W25", confidence, sentence(&text) + ".", numbers, next))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, count, sentences};
    use msgpath_core::Histogram;
    use msgpath_core::plan::Change;
    use msgpath_core::schema::{FAR, NEAR};
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    fn build(paths: &[&str], median_ms: f64) -> Build {
        let mut build = Build::echo(paths, &[64]).factor(move |case| if case.id == 0 { median_ms * 50.0 } else { 1.0 });
        build.plan.options.nodelay = false;
        build.plan.cases.iter_mut().for_each(|case| case.pieces = Pieces::of(2, 32));
        build
    }

    fn in_pieces(paths: &[&str], median_ms: f64, change: impl Fn(&mut Build)) -> Vec<String> {
        let mut build = build(paths, median_ms);
        change(&mut build);
        sentences(&build.run(), &super::DETECTOR)
    }

    /// 200 messages a round of one case, all of which wait, with so many delayed acknowledgements, and an ablation that
    /// brings the median to `ablation_ms`.
    fn tried(delayed: u64, ablation_ms: f64) -> Run {
        let build = build(&["tcp:writes"], 40.0).ablation(0, Change::NoDelay);
        let mut run = build.factor(move |case| if case.id == 0 { 40.0 * 50.0 } else { ablation_ms * 50.0 }).run();
        run.header.plan.trim = 0;
        count(&mut run, 0, "TcpExt.DelayedACKs", delayed);
        run
    }

    #[test]
    fn speaks_of_the_mode() {
        let texts = in_pieces(&["tcp:writes"], 42.0, |_| ());
        assert!(texts[0].starts_with("likely: "), "{texts:?}");
        assert!(texts[0].contains("most of them about 4") && texts[0].contains("Nagle meets delayed ACK"), "{texts:?}");
        assert!(!texts[0].contains("DelayedACKs"), "{texts:?}");
    }

    #[test]
    fn speaks_of_a_delay_in_each_direction() {
        let texts = in_pieces(&["tcp:writes"], 84.0, |_| ());
        assert!(texts[0].contains("about 8") && texts[0].contains("once in each direction"), "{texts:?}");
    }

    #[test]
    fn names_the_path_that_does_not_wait() {
        let texts = in_pieces(&["tcp:writes", "tcp:writev"], 42.0, |_| ());
        assert!(texts[0].contains("In this run tcp:writev, with one send, has p50 20."), "{texts:?}");
    }

    #[test]
    fn is_sure_where_the_counters_fit_and_the_cure_was_tried() {
        let texts = sentences(&tried(200, 0.03), &super::DETECTOR);
        assert!(texts[0].starts_with("sure: "), "{texts:?}");
        assert!(texts[0].contains("DelayedACKs +8000 in 8000 messages"), "{texts:?}");
        assert!(
            texts[0].contains("Tried here: TCP_NODELAY brings p50 from 4") && texts[0].contains(" ms to 30.0 µs"),
            "{texts:?}"
        );
    }

    #[test]
    fn is_likely_where_a_proof_is_missing() {
        for delayed in [100, 900] {
            assert!(sentences(&tried(delayed, 0.03), &super::DETECTOR)[0].starts_with("likely: "), "{delayed}");
        }
        let mut unread = tried(200, 0.03);
        (unread.header.ends[NEAR].counters, unread.header.ends[FAR].counters) = (vec![], vec![]);
        assert!(sentences(&unread, &super::DETECTOR)[0].starts_with("likely: "));
        let mut untried = tried(200, 0.03);
        untried.rounds.retain(|round| round.case == 0);
        assert!(sentences(&untried, &super::DETECTOR)[0].starts_with("likely: "));
    }

    #[test]
    fn is_sure_where_too_few_wait_to_move_the_median_but_fewer_in_every_pass() {
        let mut run = tried(60, 0.03);
        for round in run.rounds.iter_mut().filter(|round| round.case == 0) {
            let mut histogram = Histogram::new();
            (0..200).for_each(|at| histogram.record(if at % 10 < 3 { 42_000_000 } else { 29_000 + at * 10 }));
            round.latency = histogram.to_sparse();
        }
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].starts_with("sure: 30 % of the messages wait"), "{texts:?}");
        assert!(texts[0].contains("Tried here: with TCP_NODELAY 0 % of the messages wait so"), "{texts:?}");
        // Five passes prove nothing.
        run.rounds.retain(|round| round.pass < 5);
        assert!(sentences(&run, &super::DETECTOR)[0].starts_with("likely: "));
    }

    #[test]
    fn is_silent_where_the_ablation_waits_as_well() {
        assert!(sentences(&tried(200, 40.0), &super::DETECTOR).is_empty());
    }

    #[test]
    fn is_silent_where_one_cause_is_missing() {
        assert!(in_pieces(&["tcp:writes"], 42.0, |build| build.plan.options.nodelay = true).is_empty());
        assert!(in_pieces(&["tcp:writes"], 42.0, |build| build.plan.options.cork = true).is_empty());
        assert!(in_pieces(&["tcp:writes"], 42.0, |build| build.plan.cases[0].pieces = Pieces::whole(64)).is_empty());
        assert!(in_pieces(&["tcp:writes"], 0.03, |_| ()).is_empty());
        assert!(in_pieces(&["tcp:writev"], 42.0, |_| ()).is_empty());
        assert!(in_pieces(&["unix:writes"], 42.0, |_| ()).is_empty());
    }
}
