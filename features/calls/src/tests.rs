//! What the base says of runs of calls.

use msgpath_analyse::diff::diff;
use msgpath_analyse::logs::{Logs, Pulled};
use msgpath_analyse::strips::strips;
use msgpath_analyse::testing::texts;
use msgpath_analyse::verify::{Verification, verify_with};
use msgpath_analyse::{summarise, summarise_with};
use msgpath_core::schema::{FAR, NEAR, Status};
use msgpath_record::NO_MESSAGES;
use msgpath_stats::verdict::Verdict;
use serde_json::Value;

use crate::record::RpcRow;
use crate::testing::{Calls, MS, S};

#[track_caller]
fn found(check: &Verification, what: &str) {
    assert_eq!(check.status, Status::Failed);
    assert!(check.disagreements.iter().any(|one| one.what == what), "{:?}", check.disagreements);
}

#[test]
fn a_changed_call_or_a_changed_number_of_calls_is_found() {
    let calls = crate::testing::Calls::new(1, 0.0, 0.0).pings(100, 1e9);
    let (mut run, mut logs) = calls.run(&["ping"], 10);
    let bytes = serde_json::to_vec(&summarise_with(&run, &logs)).unwrap();
    let good = verify_with(&run, &NO_MESSAGES, &logs, Some(&bytes), "0.1.0");
    assert_eq!((good.status, good.rounds_from_messages, good.cases_from_messages), (Status::Ok, 10, 1), "{good:#?}");
    assert!(good.numbers > 100);
    let call = &mut logs.own_mut::<Pulled<RpcRow>>().here()[42];
    call.latency_ns = call.latency_ns.map(|ns| ns * 2);
    found(
        &verify_with(&run, &NO_MESSAGES, &logs, Some(&bytes), "0.1.0"),
        "case 0, pass 4: latencies against the calls",
    );
    let (_, logs) = calls.run(&["ping"], 10);
    run.rounds[3].near_mut().bytes_sent += 1;
    found(&verify_with(&run, &NO_MESSAGES, &logs, Some(&bytes), "0.1.0"), "case 0, pass 3: bytes of the requests");
    run.rounds[3].near_mut().bytes_sent -= 1;
    let mut stored: Value = serde_json::from_slice(&bytes).unwrap();
    stored["rpc"]["kinds"][0]["failed"] = 1.into();
    let stored = serde_json::to_vec(&stored).unwrap();
    found(&verify_with(&run, &NO_MESSAGES, &logs, Some(&stored), "0.1.0"), "rpc.kinds[0].failed");
}

#[test]
fn a_run_of_calls_agrees_with_itself() {
    use crate::testing::{Calls, S};
    let calls = Calls::new(1, 3e6, 0.0).pings(400, 2.0 * S);
    let (run, logs) = calls.run(&["ping"], 10);
    let stored = serde_json::to_vec(&summarise_with(&run, &logs)).unwrap();
    let found = verify_with(&run, &NO_MESSAGES, &logs, Some(&stored), "0.1.0");
    assert_eq!((found.disagreements, found.status), (vec![], Status::Ok));
    // Without the log of calls the parts are missing.
    assert!(!verify_with(&run, &NO_MESSAGES, &Logs::default(), Some(&stored), "0.1.0").disagreements.is_empty());
    let (mut run, logs) = calls.run(&["ping"], 10);
    run.rounds[0].near_mut().delivery.received -= 1;
    let found = verify_with(&run, &NO_MESSAGES, &logs, None, "0.1.0");
    assert!(found.disagreements.iter().any(|one| one.what.contains("replies")), "{found:?}");
}

#[test]
fn nothing_is_said_of_a_server_that_reports_nothing() {
    let shapes = [
        Calls::new(1, 3.0 * MS, 0.0).pings(4_000, 20.0 * S),
        Calls::new(2, 0.0, 0.0).same_machine().pings(10, S),
        Calls::new(3, 0.0, 0.0).writes(400),
    ];
    for (at, calls) in shapes.iter().enumerate() {
        for rounds in [1, 10, 40] {
            let (mut run, logs) = calls.run(&["write"], rounds);
            run.header.ends[NEAR].counters = vec!["TcpExt.DelayedACKs".into(), "Tcp.RetransSegs".into()];
            run.header.plan.cases[0].connections = 4;
            for round in &mut run.rounds {
                round.near_mut().run_delay_ns = Some(round.near().elapsed_ns / 50);
                round.near_mut().voluntary_switches = round.near().delivery.sent;
                (round.end_mut(NEAR).speed_ns, round.steal_ticks) = (Some(1_000), Some(0));
                round.near_mut().tcp = Some(msgpath_core::schema::TcpInfo { snd_mss: 1_448, ..Default::default() });
            }
            for text in texts(&run, &logs) {
                for wrong in ["far end", "both ends", "nothing", "msgpath rpc", "echo", "stream", "-x tcp"] {
                    assert!(!text.contains(wrong), "shape {at}, {rounds} rounds: {text}");
                }
            }
        }
    }
}

#[test]
fn several_methods_are_told_apart_by_name() {
    let mut calls = Calls::new(4, 0.0, 0.0).same_machine().pings(4_000, 20.0 * S);
    calls.rows.iter_mut().for_each(|row| row.case = row.rpcid % 2);
    let (run, logs) = calls.run(&["write", "read"], 40);
    let sentences = texts(&run, &logs);
    assert!(
        sentences[0].starts_with("V01 write: in this run half of the calls came back within 300 µs"),
        "{sentences:?}"
    );
    assert!(sentences[1].starts_with("V01 read: in this run half"), "{sentences:?}");
    let summary = summarise_with(&run, &logs);
    assert!(summary.comparison.is_none() && summary.load_curves.is_empty());
    assert!(summary.cases.iter().all(|case| case.rate_per_s.is_some() && case.copied.bytes.is_none()));
}

#[test]
fn what_nobody_read_is_not_said_to_be_never_seen() {
    let calls = crate::testing::Calls::new(1, 0.0, 0.0).pings(100, 1e9);
    let (mut run, _) = calls.run(&["ping"], 10);
    let found = strips(&run, 0);
    assert!(found.zero.iter().all(|name| !name.starts_with("far: ")), "{:?}", found.zero);
    assert!(found.unknown.iter().any(|name| name == "far: page faults"), "{:?}", found.unknown);
    assert!(found.zero.iter().any(|name| name == "near: page faults"), "the client's own were read");
    run.header.imported = vec!["client.log".into()];
    let found = strips(&run, 0);
    assert!(found.unknown.iter().any(|name| name == "near: page faults"), "a log has no counters");
    let summary = summarise(&run);
    assert!(summary.cases[0].end(NEAR).cost.unread && summary.cases[0].end(FAR).cost.unread);
}

#[test]
fn runs_of_calls_are_compared() {
    use crate::testing::{Calls, S};
    let run = |seed: u64, slower: f64| {
        let mut calls = Calls::new(seed, 3e6, 0.0);
        for at in 0..4_000 {
            let (there, back) = (calls.delay(100e3 * slower, 10e3), calls.delay(100e3, 10e3));
            calls.call(S / 2_000.0, there, 5e3, back).case = at % 2;
        }
        calls.run(&["write", "read"], 40).0
    };
    let (one, same, slower) = (run(1, 1.0), run(2, 1.0), run(3, 2.0));
    let found = diff(&one, &same, &[]);
    assert!(found.refusals().is_empty() && found.unpaired.is_empty(), "{:?}", found.identity);
    // The CPU time of the server is not known, so neither is that of both ends.
    let named: Vec<_> = found.rows.iter().map(|row| (row.case.as_str(), row.metric.as_str())).collect();
    assert_eq!(named[0], ("write 64 B (tcp:send)", "p50"));
    assert!(found.rows.len() == 4 && found.rows[2].case.starts_with("read 64 B"), "{named:?}");
    assert!(found.rows.iter().all(|row| row.verdict != Verdict::Worse && row.verdict != Verdict::Better), "{found:?}");
    let found = diff(&one, &slower, &[]);
    assert!(found.rows.iter().filter(|row| row.metric == "p50").all(|row| row.verdict == Verdict::Worse), "{found:?}");
    assert!(!msgpath_analyse::diff::shift::shift(&one, &slower).is_empty());
    // A network in one of them only.
    let (local, _) = Calls::new(1, 0.0, 0.0).same_machine().pings(400, S).run(&["write", "read"], 40);
    let found = diff(&one, &local, &[]);
    assert!(found.refusals().iter().any(|difference| difference.what == "client and server"), "{:?}", found.identity);
}
