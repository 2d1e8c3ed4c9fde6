//! W71: calls that did not succeed
//!
//! Which share of a kind of calls failed, with which status or error, and how many had no answer. `rpc` exits with 1
//! unless `--max-loss` allows it, with 5 under `--strict`. Calls with an unknown T4, as in a server's log, are counted
//! apart.
//!
//! ## What it rests on
//!
//! The status of every reply, and the server's texts. client4 never looks at the status and counts failures as
//! successes.
//!
//! ## What to do
//!
//! By method and status: `read` or `delete` that fails is a key that was never written; `quit` a server without
//! `--allow-quit`; TooBusy a server without room. Errors of Redis are explained by their first word (NOAUTH, WRONGPASS,
//! NOPERM, MOVED, LOADING, OOM ...). Times are of successful calls; failed ones, often the fastest, have a line of
//! their own.

use std::collections::BTreeMap;

use msgpath_record::Rows;

use super::shared::{calls, counted, kinds, log, of};
use crate::agent::client::redis;
use crate::analyse::split::is_unseen;
use msgpath_analyse::findings::wording::{list, percent, sentence, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::Warning;
use msgpath_core::foreign::shown;

pub(super) const DETECTOR: Detector = Detector { code: "W71", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let troubled = kinds(input).filter(|kind| kind.failed + kind.unanswered > 0);
    let Some(kind) = troubled.max_by_key(|kind| kind.failed + kind.unanswered) else { return Vec::new() };
    let mut statuses: BTreeMap<u32, u64> = BTreeMap::new();
    log(input).rounds(&|case, _| case == kind.case, &mut |rows| {
        for row in rows.iter().filter(|row| row.latency_ns.is_some() || is_unseen(row)) {
            *statuses.entry(row.status).or_default() += 1;
        }
    });
    let named = |(status, count): (&u32, &u64)| match status {
        1 => format!("{} with Fail", counted(*count)),
        2 => format!("{} with TooBusy", counted(*count)),
        _ => format!("{} with status {status}", counted(*count)),
    };
    let said = said(input, kind.case);
    let mut parts: Vec<String> = match said.is_empty() {
        true => statuses.iter().filter(|(status, _)| **status != 0).take(TEXTS).map(named).collect(),
        false => said.iter().take(TEXTS).map(|(text, calls)| format!("{} with \"{text}\"", counted(*calls))).collect(),
    };
    if kind.unanswered > 0 {
        parts.push(format!("{} without an answer", counted(kind.unanswered)));
    }
    let share = (kind.failed + kind.unanswered) as f64 / kind.calls.max(1) as f64;
    let all: u64 = kinds(input).map(|kind| kind.failed + kind.unanswered).sum();
    let others = match kinds(input).filter(|kind| kind.failed + kind.unanswered > 0).count() {
        0 | 1 => String::new(),
        count => format!("; {count} kinds of calls are affected"),
    };
    let sentences = warning(
        "W71",
        sentence(&format!(
            "{}{} % of {} did not succeed: {}{}{others}",
            of(input, kind),
            percent(share),
            counted(kind.calls),
            list(&parts),
            if is_refused_quit(&kind.method, &statuses) { format!(", since {QUIT}") } else { String::new() }
        )),
        "a call that fails is often the fastest of all, since the server does not do its work; the lab's client counts it as a \
         success and prints nothing. Here all times are those of calls that succeeded, but for the line of those that failed",
        said.first().and_then(|(text, _)| redis::advice(text)).unwrap_or_else(|| advice(&kind.method, &statuses)),
        [
            ("failed", kind.failed as f64),
            ("unanswered", kind.unanswered as f64),
            ("calls", kind.calls as f64),
            ("share", share),
            ("all_kinds", all as f64),
        ],
    );
    // Not what was asked for was measured: --strict ends with it.
    vec![match sentences {
        Sentence::Warning(warning) => Sentence::Warning(Warning { strict: true, ..warning }),
        other => other,
    }]
}

/// Different texts of a server in one sentence.
const TEXTS: usize = 4;

/// The errors that a server gave to calls of a case, and how many calls had each, the most frequent first.
fn said(input: &Input, case: u32) -> Vec<(String, u64)> {
    let remarks = calls(input).into_iter().flat_map(|(facts, _)| &facts.remarks);
    let failed = remarks.filter(|remark| remark.failed && remark.case == case);
    let mut said: Vec<_> = failed.map(|remark| (shown(&remark.text).into_owned(), remark.calls)).collect();
    said.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    said
}

/// Why a server does not quit.
pub(crate) const QUIT: &str = "a msgpath server quits only where it was started with --allow-quit";

/// Whether a server was asked to quit and did not.
fn is_refused_quit(method: &str, statuses: &BTreeMap<u32, u64>) -> bool {
    method.eq_ignore_ascii_case("quit") && statuses.contains_key(&1)
}

/// What helps, where the method and the status tell the cause.
fn advice(method: &str, statuses: &BTreeMap<u32, u64>) -> &'static str {
    let most = statuses.iter().filter(|(status, _)| **status != 0).max_by_key(|(_, count)| **count);
    match (most.map(|(status, _)| *status), method.to_ascii_lowercase().as_str()) {
        (Some(1), "quit") => "start the server with msgpath serve --rpc --allow-quit, or end it by a signal",
        (Some(1), "read" | "delete" | "get" | "del" | "chksum") => {
            "read and delete keys that were written: the same -key, and + for both. server4 does not know chksum"
        }
        (Some(1), "ping" | "write" | "sink" | "set" | "put" | "stats" | "reset") => "the server's own messages say why",
        (Some(1), _) => "keep to methods that the server knows",
        (Some(2), _) => "TooBusy: the server had no room (msgpath serve --rpc: --memory) or too much to do",
        (Some(_), _) => "the server's own messages say what this status means",
        (None, _) => {
            "look whether the server still runs (a connection that ends takes its calls with it); a larger --timeout where it is only slow"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RpcRemark;
    use crate::testing::{Calls, S};

    #[test]
    fn a_cause_is_named_only_where_it_is_known() {
        let of = |method, status| advice(method, &BTreeMap::from([(0, 900), (status, 5)]));
        assert!(of("quit", 1).contains("serve --rpc --allow-quit") && !of("quit", 1).contains("keys"));
        assert!(of("read", 1).contains("keys that were written") && of("GET", 1).contains("keys"));
        assert!(of("read", 2).contains("TooBusy") && !of("read", 2).contains("keys"));
        assert!(of("frob", 1).contains("methods that the server knows"));
        assert!(!of("write", 1).contains("keys") && !of("ping", 7).contains("method"));
        assert!(advice("ping", &BTreeMap::new()).contains("--timeout"));
    }

    #[test]
    fn a_server_log_has_no_failed_calls_because_t4_is_missing() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        calls.rows.iter_mut().for_each(|row| row.latency_ns = None);
        assert!(calls.sentences("W71").is_empty(), "{:?}", calls.sentences("W71"));
        let kind = &calls.rpc().kinds[0];
        assert_eq!((kind.calls, kind.failed, kind.unanswered, kind.unseen), (100, 0, 0, 100));
        assert!(kind.bands_why.as_deref().is_some_and(|why| why.contains("T4 is not known")), "{kind:?}");
        let (served, received) = (kind.served.unwrap(), kind.received.unwrap());
        assert_eq!((served.calls, served.p50_ns), (100, 4_000), "the server takes 4 µs");
        assert!(received.least_ns >= 119_000 && received.p99_ns >= received.p50_ns, "{received:?}");
        // A real failure that only the server saw is one.
        calls.rows[3].status = 1;
        assert_eq!(calls.sentences("W71"), ["1 % of 100 calls did not succeed: 1 call with Fail"]);
        // Half of them seen by a client: the other half did not fail.
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        calls.rows.iter_mut().step_by(2).for_each(|row| row.latency_ns = None);
        assert!(calls.sentences("W71").is_empty());
        assert_eq!(calls.rpc().kinds[0].unseen, 50);
    }

    #[test]
    fn refused_quit_says_what_a_server_quits_for() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(1, S);
        calls.rows[0].status = 1;
        let (run, logs) = calls.run(&["quit"], 1);
        let text = msgpath_analyse::testing::said_with(&run, &logs, "W71").remove(0);
        assert!(
            text.ends_with(
                "1 call with Fail, since a msgpath server quits only where it was started with --allow-quit"
            )
        );
        assert!(!calls.sentences("W71")[0].contains("quit"));
    }

    #[test]
    fn speaks_of_failed_and_unanswered_calls() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        (0..12).for_each(|at| calls.rows[at * 7].status = 1);
        (calls.rows[99].latency_ns, calls.rows[99].replied_ns) = (None, None);
        let sentences = calls.sentences("W71");
        assert_eq!(sentences, ["13 % of 100 calls did not succeed: 12 calls with Fail and 1 call without an answer"]);
        // They are not in the parts.
        assert_eq!(calls.rpc().kinds[0].bands[0].calls, 87);
    }

    #[test]
    fn errors_of_a_server_are_named_and_not_timed() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        for at in 0..60 {
            (calls.rows[at].status, calls.rows[at].latency_ns) = (1, Some(7_000));
        }
        let remark = |text: &str, calls, failed| RpcRemark { case: 0, text: text.into(), calls, failed };
        calls.facts.protocol = "redis".into();
        calls.facts.remarks = vec![
            remark("MOVED to 10.0.0.2:6381", 20, true),
            remark("OOM command not allowed", 40, true),
            remark("no value under the key", 3, false),
        ];
        let sentences = calls.sentences("W71");
        assert_eq!(
            sentences,
            [
                "60 % of 100 calls did not succeed: 40 calls with \"OOM command not allowed\" and 20 calls with \"MOVED to \
              10.0.0.2:6381\""
            ]
        );
        let summary = calls.summary();
        let kind = &summary.sections.get::<crate::analyse::RpcSummary>().unwrap().kinds[0];
        assert_eq!((kind.failed, kind.failed_took.map(|took| (took.calls, took.p50_ns))), (60, Some((60, 7_000))));
        assert!(summary.cases[0].latency.quantiles[0].ns.unwrap() > 200_000, "40 calls of 300 µs");
        assert_eq!(kind.log2_us.iter().sum::<u64>(), 40);
        // Where all fail nothing was measured.
        calls.rows.iter_mut().for_each(|row| row.status = 1);
        let summary = calls.summary();
        let kind = &summary.sections.get::<crate::analyse::RpcSummary>().unwrap().kinds[0];
        assert!(summary.cases[0].latency.quantiles.iter().all(|quantile| quantile.ns.is_none()));
        assert_eq!((kind.bands_why.as_deref(), kind.later_p50_ns), (Some("no call succeeded"), None));
    }

    #[test]
    fn an_unanswered_call_is_said_once() {
        let mut calls = Calls::new(1, 0.0, 0.0).pings(100, S);
        (calls.rows[99].latency_ns, calls.rows[99].replied_ns) = (None, None);
        let (mut run, logs) = calls.run(&["ping"], 10);
        run.rounds.last_mut().unwrap().near_mut().delivery.lost = 1;
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let counts = |text: &&str| ["lost", "answer", "1 message", "did not"].iter().any(|word| text.contains(word));
        let texts = summary.warnings.iter().map(|warning| warning.text.as_str());
        let said: Vec<&str> =
            texts.chain(summary.findings.iter().map(|one| one.text.as_str())).filter(counts).collect();
        assert_eq!(said, ["1 % of 100 calls did not succeed: 1 call without an answer"]);
    }

    #[test]
    fn is_silent_where_all_succeed() {
        assert!(Calls::new(1, 0.0, 0.0).pings(100, S).sentences("W71").is_empty());
    }
}
