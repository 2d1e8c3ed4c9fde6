//! W40: messages take as long as a timer
//!
//! * **Lines**: a share of the messages takes about 1, 4, 40 or 200 ms, with few a little shorter or longer: the period
//!   of a timer. 1 and 4 ms: the scheduler's tick; 40 ms: a delayed acknowledgement; 200 ms: a retransmission or a
//!   cork. *Likely*: nothing was switched off.
//! * **Single calls** that took 40 or 200 ms where the usual one is far shorter. *Likely* from two calls on, else
//!   *can't tell*.
//! * **Replies in parts**: the rest of most replies comes 38 to 48 ms after their first byte. The server writes them in
//!   several sends with Nagle's algorithm on. *Likely*.
//!
//! ## What it rests on
//!
//! * **Lines**: from 0.8 to 1.2 of the period lie three times as many messages as beside it, at least 10, and 0.1 % of
//!   all or 10 % of the time, in a fifth of the rounds; the period is five medians or more. 40 and 200 ms only for TCP;
//!   at 200 ms retransmitted segments decide.
//! * **Single calls**: successful calls of 38 to 48 or 198 to 230 ms, with hardly any beside.
//!
//! Silent where W25 knows more, where the median itself is that long, and where a broad tail has no line.
//!
//! ## What to do
//!
//! 1 and 4 ms: who shares the CPU (`msgpath doctor`, W46). 40 ms: one send a message, TCP_NODELAY at both ends. 200 ms:
//! look for loss (`nstat`, TcpRetransSegs), release corks, see whether a server was stopped.

use msgpath_core::SparseHistogram;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::schema::{FAR, NEAR, RoundRecord};
use msgpath_core::units::Glyphs;
use msgpath_stats::pooled::Pooled;

use super::conditions::{of_rounds, one_machine};
use super::wording::{again_joined, again_set, finding, measured, percent, prefix, sentence};
use super::{DETECTORS, Detector, Input, Sentence};
use crate::summary::{CaseSummary, Confidence, Summary};

pub(super) const DETECTOR: Detector = Detector { code: "W40", detect };

struct Timer {
    period_ns: u64,
    what: &'static str,
    /// Part of TCP, and these sentences say more about it.
    tcp: Option<&'static [&'static str]>,
    /// What ends it.
    cure: &'static str,
}

const TIMERS: [Timer; 4] = [
    Timer {
        period_ns: 1_000_000,
        what: "the scheduler's tick (HZ = 1000): a thread got its CPU only when the tick took it from another task",
        tcp: None,
        cure: "CPUs that nothing else uses (--cpu)",
    },
    Timer {
        period_ns: 4_000_000,
        what: "the scheduler's tick (HZ = 250): a thread got its CPU only when the tick took it from another task",
        tcp: None,
        cure: "CPUs that nothing else uses (--cpu)",
    },
    Timer {
        period_ns: 40_000_000,
        what: "a delayed acknowledgement (40 ms) that the sender waited for",
        tcp: Some(&["W25"]),
        cure: "one send a message (tcp:writev), TCP_NODELAY",
    },
    Timer {
        period_ns: 200_000_000,
        what: "TCP's timer of 200 ms: a lost segment that was retransmitted, or a cork that nobody released",
        tcp: Some(&["W25", "W25"]),
        cure: "no loss on the way, TCP_NODELAY, a cork that is released",
    },
];

/// A line lies within this factor below and above its period; the stretches of the same (logarithmic) width on both
/// sides are what it must stand out from.
const BELOW: f64 = 0.8;
const WIDTH: f64 = 1.5;
/// It holds this many times the messages of the fuller neighbour.
const STANDS_OUT: u64 = 3;
/// So far above the median, a message of the usual length is not in it.
const ABOVE_MEDIAN: u64 = 5;
/// It has this share of the messages, or that share of the time.
const MESSAGES: f64 = 0.001;
const TIME: f64 = 0.1;
/// Fewer messages are not a mode.
const FEWEST: u64 = 10;
/// They lie in this share of the rounds at least.
const ROUNDS: f64 = 0.2;

fn detect(input: &Input) -> Vec<Sentence> {
    measured(input).flat_map(|case| TIMERS.iter().filter_map(|timer| say(input, case, timer))).collect()
}

/// The lines' messages of `pooled`, where they stand out from their surroundings and from the bulk.
fn line(pooled: &Pooled, period_ns: u64) -> Option<std::ops::Range<u64>> {
    let median = pooled.quantile(0.5).flatten()?;
    let edge = |steps: i32| (period_ns as f64 * BELOW * WIDTH.powi(steps)) as u64;
    let count = |from: i32| pooled.count_between(edge(from), edge(from + 1));
    let stands_out = count(0) >= FEWEST && count(0) >= STANDS_OUT * count(-1).max(count(1));
    (period_ns >= ABOVE_MEDIAN * median && stands_out).then(|| edge(0)..edge(1))
}

fn say(input: &Input, case: &CaseSummary, timer: &Timer) -> Option<Sentence> {
    let rounds: &[&RoundRecord] = &input.rounds[case.case.id as usize];
    if timer.tcp.is_some() && !case.case.traits.segments {
        return None;
    }
    let latency: Vec<&SparseHistogram> = rounds.iter().map(|round| &round.latency).collect();
    let pooled = Pooled::new(&latency);
    let line = line(&pooled, timer.period_ns)?;
    let within = |from: u64, to: u64| pooled.bins().iter().filter(move |bin| (from..to).contains(&bin.value()));
    let time = |from, to| within(from, to).map(|bin| bin.value() as f64 * bin.count as f64).sum::<f64>();
    let count = pooled.count_between(line.start, line.end);
    let messages = count as f64 / pooled.total() as f64;
    let time_share = time(line.start, line.end) / time(0, u64::MAX);
    let holds =
        |round: &&&RoundRecord| round.latency.ranges().any(|(from, to, _)| line.contains(&(from + (to - from) / 2)));
    let some = rounds.iter().filter(holds).count();
    let many = some >= MIN_ROUNDS_FOR_CLAIMS as usize && some as f64 >= ROUNDS * rounds.len() as f64;
    if !many || (messages < MESSAGES && time_share < TIME) || explained(input, case, timer) {
        return None;
    }
    let mode = time(line.start, line.end) / count as f64;
    let resent: u64 = rounds.iter().map(|round| resent(input, round)).sum();
    let what = match (timer.period_ns, resent) {
        (200_000_000, 1..) => format!(
            "TCP's retransmission timeout (200 ms at least): {} segments were retransmitted in these rounds",
            resent
        ),
        _ => timer.what.into(),
    };
    let text = format!(
        "{}{} % of the messages, in {}, take about {}, and few take a little less or more: that is the period of a timer, most likely {what}. They take {} % of the time. It ends with {}",
        prefix(input, case),
        percent(messages),
        of_rounds(some, rounds.len()),
        Glyphs::Unicode.time(mode),
        percent(time_share),
        // The client of a call sends it in one call, with TCP_NODELAY; the server may not.
        match (input.plan.workload.has_server(), timer.tcp) {
            (true, Some(_)) => "a server that sends each reply in one call, with TCP_NODELAY, and no loss on the way",
            _ => timer.cure,
        }
    );
    let numbers = [
        ("period_ns", timer.period_ns as f64),
        ("mode_ns", mode),
        ("message_share", messages),
        ("time_share", time_share),
        ("rounds_with_it", some as f64),
        ("rounds", rounds.len() as f64),
        ("segments_resent", if timer.tcp.is_some() { resent as f64 } else { f64::NAN }),
    ];
    Some(finding("W40", Confidence::Likely, sentence(&text) + ".", numbers, next(input, case, timer)))
}

/// What would tell whether it is that timer.
fn next(input: &Input, case: &CaseSummary, timer: &Timer) -> Vec<String> {
    if input.plan.workload.has_server() && timer.tcp.is_some() {
        return Vec::new();
    }
    let header = &input.run.header;
    if timer.tcp.is_none() {
        return vec!["msgpath doctor".into()];
    }
    if !input.plan.options.nodelay {
        return vec![again_set(header, "nodelay=yes")];
    }
    let joined = again_joined(header, &case.case);
    joined.filter(|_| case.case.pieces.count > 1).into_iter().collect()
}

/// Segments that were retransmitted in a round, by both ends' connections.
fn resent(input: &Input, round: &RoundRecord) -> u64 {
    let of_connections: u64 =
        [round.near(), round.far()].iter().filter_map(|end| end.tcp).map(|tcp| tcp.total_retrans).sum();
    // The counter is that of the whole network namespace; it serves where TCP_INFO was not had.
    let namespace = |counts: &msgpath_core::schema::KernelCounts| counts.0.get("Tcp.RetransSegs").copied().unwrap_or(0);
    let (near, far) = (namespace(&round.end(NEAR).kernel), namespace(&round.end(FAR).kernel));
    let counted = if one_machine(input) { near.max(far) } else { near + far };
    if round.near().tcp.or(round.far().tcp).is_some() { of_connections } else { counted }
}

/// Whether a sentence that knows the mechanism speaks of this case.
fn explained(input: &Input, case: &CaseSummary, timer: &Timer) -> bool {
    let codes = timer.tcp.unwrap_or_default();
    let alone = Summary { cases: vec![case.clone()], ..Summary::empty("", "", input.summary.status) };
    let input = Input { summary: &alone, ..*input };
    let mut others = DETECTORS.iter().filter(|detector| codes.contains(&detector.code));
    others.any(|detector| !(detector.detect)(&input).is_empty())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences, stalls};
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    /// `n` messages of about `ns` in every `every`th round of 200.
    fn with(path: &str, ns: u64, n: u64, every: usize) -> Run {
        let mut run = Build::echo(&[path], &[64]).run();
        for round in run.rounds.iter_mut().step_by(every) {
            (0..n).for_each(|at| stalls(round, 1, ns + at * ns / 100));
        }
        run
    }

    #[test]
    fn speaks_of_each_timer() {
        for (ns, part) in [
            (1_010_000, "HZ = 1000"),
            (4_010_000, "HZ = 250"),
            (41_000_000, "delayed acknowledgement (40 ms)"),
            (204_000_000, "a cork that nobody released"),
        ] {
            let texts = sentences(&with("tcp:send", ns, 3, 2), &super::DETECTOR);
            assert_eq!(texts.len(), 1, "{ns}: {texts:?}");
            assert!(
                texts[0].starts_with("likely: 0.74 % of the messages, in 20 of 40 rounds, take about "),
                "{texts:?}"
            );
            assert!(texts[0].contains(part), "{texts:?}");
        }
    }

    #[test]
    fn names_the_retransmission_timeout_where_segments_were_sent_again() {
        let mut run = with("tcp:send", 206_000_000, 2, 2);
        for round in &mut run.rounds {
            round.near_mut().tcp = Some(msgpath_core::schema::TcpInfo { total_retrans: 1, ..Default::default() });
        }
        assert!(
            sentences(&run, &super::DETECTOR)[0].contains("timeout (200 ms at least): 40 segments"),
            "{:?}",
            sentences(&run, &super::DETECTOR)
        );
    }

    #[test]
    fn a_heavy_tail_without_a_line_is_not_a_timer() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
        // From 0.2 to 200 ms, alike on the log scale.
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for round in &mut run.rounds {
            (0..30).for_each(|at| stalls(round, 1, (200_000.0 * 1_000_f64.powf(f64::from(at) / 30.0)) as u64));
        }
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }

    #[test]
    fn a_median_of_that_length_and_few_rounds_are_not_a_line() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).factor(|_| 50.0).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).factor(|_| 2_000.0).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&with("tcp:send", 4_000_000, 20, 20), &super::DETECTOR).is_empty());
        assert!(sentences(&with("pipe:write", 41_000_000, 3, 2), &super::DETECTOR).is_empty());
    }

    #[test]
    fn what_nagle_explains_is_left_to_nagle() {
        let mut run = with("tcp:writes", 41_000_000, 20, 1);
        assert_eq!(sentences(&run, &super::DETECTOR).len(), 1);
        run.header.plan.options.nodelay = false;
        run.header.plan.cases[0].pieces = Pieces::of(2, 32);
        assert_eq!((sentences(&run, "W25").len(), sentences(&run, &super::DETECTOR).len()), (1, 0));
    }
}
