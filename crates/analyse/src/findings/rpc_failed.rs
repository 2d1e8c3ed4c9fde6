//! W71: calls that failed or were not answered; client4 counts a failed one as a success (rpc-lab.md 5.3).

use std::collections::BTreeMap;

use super::rpc_calls::{counted, kinds, of};
use super::wording::{list, percent, sentence, warning};
use super::{Detector, Input, Said};

pub(super) const DETECTOR: Detector = Detector { code: "W71", detect };

fn detect(input: &Input) -> Vec<Said> {
    let troubled = kinds(input).filter(|kind| kind.failed + kind.unanswered > 0);
    let Some(kind) = troubled.max_by_key(|kind| kind.failed + kind.unanswered) else { return Vec::new() };
    let mut statuses: BTreeMap<u32, u64> = BTreeMap::new();
    for row in input.logs.rpcs.iter().filter(|row| row.case == kind.case && row.latency_ns.is_some()) {
        *statuses.entry(row.status).or_default() += 1;
    }
    let named = |(status, count): (&u32, &u64)| match status {
        1 => format!("{} with Fail", counted(*count)),
        2 => format!("{} with TooBusy", counted(*count)),
        _ => format!("{} with status {status}", counted(*count)),
    };
    let mut parts: Vec<String> = statuses.iter().filter(|(status, _)| **status != 0).take(4).map(named).collect();
    if kind.unanswered > 0 {
        parts.push(format!("{} without an answer", counted(kind.unanswered)));
    }
    let share = (kind.failed + kind.unanswered) as f64 / kind.calls.max(1) as f64;
    let all: u64 = kinds(input).map(|kind| kind.failed + kind.unanswered).sum();
    let others = match kinds(input).filter(|kind| kind.failed + kind.unanswered > 0).count() {
        0 | 1 => String::new(),
        count => format!("; {count} kinds of calls are affected"),
    };
    vec![warning(
        "W71",
        sentence(&format!(
            "{}{} % of {} did not succeed: {}{others}",
            of(input, kind),
            percent(share),
            counted(kind.calls),
            list(&parts)
        )),
        "a call that fails is often the fastest of all, since the server does not do its work; the lab's client counts it as a \
         success and prints nothing. Here the parts and the first calls are those of successful calls where there are any",
        "read keys that were written (the same -key, and + for both), keep to methods that the server knows, give it memory",
        [
            ("failed", kind.failed as f64),
            ("unanswered", kind.unanswered as f64),
            ("calls", kind.calls as f64),
            ("share", share),
            ("all_kinds", all as f64),
        ],
    )]
}

#[cfg(test)]
mod tests {
    use crate::testing_rpc::{Calls, S};

    #[test]
    fn speaks_of_failed_and_unanswered_calls() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        (0..12).for_each(|at| calls.rows[at * 7].status = 1);
        calls.rows[99].latency_ns = None;
        let said = calls.said("W71");
        assert_eq!(said, ["13 % of 100 calls did not succeed: 12 calls with Fail and 1 call without an answer"]);
        // They are not in the parts.
        assert_eq!(calls.rpc().kinds[0].bands[0].calls, 87);
    }

    #[test]
    fn is_silent_where_all_succeed() {
        assert!(Calls::new(1, 0.0, 0.0).pings(100, S).said("W71").is_empty());
    }
}
