//! Of W40: calls as long as a timer of TCP.

use std::ops::Range;

use msgpath_core::units::Glyphs;
use msgpath_record::Rows;

use super::shared::{counted, good, kinds, log, median, of};
use crate::analyse::RpcKind;
use crate::record::RpcRow;
use msgpath_analyse::findings::wording::{finding, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Confidence;

pub(super) const DETECTOR: Detector = Detector { code: "W40", detect };

/// Where a timer puts a call, ns, and what it is.
const TIMERS: [(Range<u64>, &str); 2] = [
    (
        38_000_000..48_000_000,
        "a delayed acknowledgement (40 ms): one side hands a message over in several sends without TCP_NODELAY, as client4 and \
         server4 do with what is larger than a segment, and waits for it",
    ),
    (
        198_000_000..230_000_000,
        "TCP's retransmission timeout (200 ms at least): a segment was lost, or the server was not ready when it came",
    ),
];
/// The others are that much faster.
const ABOVE_MEDIAN: f64 = 5.0;
/// Calls that take about as long without being in the range; more of them are a tail and no timer.
const BESIDE: f64 = 0.5;
/// Fewer such calls may be chance.
const LEAST: usize = 5;
/// Share of the calls whose reply comes in parts with this timer between them, from which it is the usual call.
const USUAL: f64 = 0.5;

fn detect(input: &Input) -> Vec<Sentence> {
    let tcp = |kind: &&RpcKind| input.plan.cases.get(kind.case as usize).is_some_and(|case| case.traits.segments);
    let lines = || {
        msgpath_analyse::findings::DETECTORS
            .iter()
            .find(|detector| detector.code == "W40")
            .map(|detector| (detector.detect)(input))
    };
    let parts: Vec<Sentence> = kinds(input).filter(tcp).filter_map(|kind| in_parts(input, kind)).collect();
    if !parts.is_empty() {
        return parts;
    }
    let sentences: Vec<Sentence> =
        kinds(input).filter(tcp).flat_map(|kind| TIMERS.iter().filter_map(|timer| say(input, kind, timer))).collect();
    if !sentences.is_empty() && lines().is_some_and(|lines| !lines.is_empty()) { Vec::new() } else { sentences }
}

/// That the end of most replies comes a delayed acknowledgement after their first byte: this end acknowledges a part of a reply only when
/// that timer is over, and Nagle's algorithm at the server keeps the rest until then.
fn in_parts(input: &Input, kind: &RpcKind) -> Option<Sentence> {
    let rows = good(input, kind.case);
    let rest = |row: &&RpcRow| row.latency_ns.zip(row.first_ns).map(|(whole, first)| whole.saturating_sub(first));
    let late: Vec<u64> = rows.iter().filter_map(rest).filter(|ns| TIMERS[0].0.contains(ns)).collect();
    if (late.len() as f64) < USUAL * rows.len() as f64 || late.len() < LEAST {
        return None;
    }
    let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
    let text = format!(
        "{}in {} of {} the rest of the reply came {} after its first byte: the server's later sends wait, by Nagle's algorithm, \
         for a delayed acknowledgement. At the server: set TCP_NODELAY, or send a reply in one call",
        of(input, kind),
        late.len(),
        counted(rows.len() as u64),
        Glyphs::Unicode.time(mean)
    );
    let numbers = [("in_parts", late.len() as f64), ("calls", rows.len() as f64), ("rest_ns", mean)];
    Some(finding("W40", Confidence::Likely, sentence(&text) + ".", numbers, vec![]))
}

fn say(input: &Input, kind: &RpcKind, (range, what): &(Range<u64>, &str)) -> Option<Sentence> {
    let rows = good(input, kind.case);
    let usual = median(&rows)?;
    if ABOVE_MEDIAN * usual > range.start as f64 {
        return None;
    }
    let (mut calls, mut stalled, mut sum, mut beside) = (0_u64, 0, 0, 0);
    log(input).rounds(&|case, _| case == kind.case, &mut |rows| {
        for ns in rows.iter().filter(|row| row.is_good()).filter_map(|row| row.latency_ns) {
            calls += 1;
            if range.contains(&ns) {
                (stalled, sum) = (stalled + 1, sum + ns);
            } else {
                beside += u64::from((range.start / 2..range.end * 2).contains(&ns));
            }
        }
    });
    if stalled == 0 || beside as f64 > BESIDE * stalled as f64 {
        return None;
    }
    let mean = sum as f64 / stalled as f64;
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let verb = if stalled == 1 { "took" } else { "took about" };
    let text = format!(
        "{}{} of {} {verb} {}, the usual one {}: that is the length of {what}",
        of(input, kind),
        counted(stalled),
        calls,
        time(mean),
        time(usual)
    );
    // One call of that length may be chance.
    let confidence = if stalled > 1 { Confidence::Likely } else { Confidence::CantTell };
    let numbers = [
        ("stalled", stalled as f64),
        ("stall_ns", mean),
        ("median_ns", usual),
        ("calls", calls as f64),
        ("beside", beside as f64),
    ];
    Some(finding("W40", confidence, sentence(&text) + ".", numbers, vec![]))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Calls, MS, S, US};

    fn with(stall: f64, count: usize) -> Calls {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine().pings(40, S);
        (0..count).for_each(|_| _ = calls.call(MS, stall, 10.0 * US, 100.0 * US));
        calls
    }

    #[test]
    fn names_the_timers() {
        let sentences = with(40.2 * MS, 2).sentences(&super::DETECTOR);
        assert!(sentences[0].starts_with("likely: 2 calls of 42 took about 40.3 ms"), "{sentences:?}");
        assert!(sentences[0].contains("a delayed acknowledgement (40 ms)"), "{sentences:?}");
        let sentences = with(203.0 * MS, 1).sentences(&super::DETECTOR);
        assert!(sentences[0].starts_with("can't tell: 1 call of 41 took 203 ms"), "{sentences:?}");
        assert!(sentences[0].contains("retransmission timeout"), "{sentences:?}");
    }

    #[test]
    fn is_silent_without_such_a_call_and_in_a_tail() {
        assert!(with(3.0 * MS, 3).sentences(&super::DETECTOR).is_empty());
        let mut tail = with(40.2 * MS, 2);
        (1..9).for_each(|at| _ = tail.call(MS, 11.0 * MS * f64::from(at), 10.0 * US, 100.0 * US));
        assert!(tail.sentences(&super::DETECTOR).is_empty());
        assert!(with(40.2 * MS, 60).sentences(&super::DETECTOR).is_empty());
    }

    #[test]
    fn a_reply_that_comes_in_parts_is_told_from_a_slow_server() {
        let of = |first_ns: u64| {
            let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
            for _ in 0..20 {
                calls.call(MS, 20.0 * MS, 10.0 * US, 43.5 * MS).first_ns = Some(first_ns);
            }
            calls.sentences(&super::DETECTOR)
        };
        let sentences = of(20_100_000);
        assert!(
            sentences[0].starts_with("likely: In 20 of 20 calls the rest of the reply came 43.4 ms after"),
            "{sentences:?}"
        );
        assert!(sentences[0].contains("At the server: set TCP_NODELAY"), "{sentences:?}");
        assert!(of(63_400_000).is_empty() && of(2_000_000).is_empty());
    }

    #[test]
    fn leaves_a_line_to_the_sentence_on_timers() {
        let mut calls = Calls::new(1, 0.0, 0.0).same_machine();
        for at in 0..400 {
            let leg = if at % 10 == 0 { 40.3 * MS } else { 100.0 * US };
            calls.call(MS, leg, 10.0 * US, 100.0 * US);
        }
        assert_eq!((calls.sentences("W40").len(), calls.sentences(&super::DETECTOR).len()), (1, 0));
        let sentences = calls.sentences("W40");
        assert!(sentences[0].contains("It ends with a server that sends each reply in one call"), "{sentences:?}");
    }
}
