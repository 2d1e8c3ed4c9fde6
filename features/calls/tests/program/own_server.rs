//! `msgpath rpc here`, and `--between` for calls and for periodic runs, as a user starts them.

use std::net::TcpStream;
use std::time::Duration;

use crate::command::{Home, Output, within};
use crate::eth;

/// The port that the note names.
fn port(text: &str) -> u16 {
    let (_, after) = text.split_once("a server of this run answers at ").expect("the note");
    let address = after.split_whitespace().next().expect("an address");
    address.rsplit_once(':').expect("a port").1.parse().expect("a number")
}

fn nobody_listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// Whether this machine has no lab: then the test has nothing to say.
fn no_lab(output: &Output) -> bool {
    let none = output.code == Some(3) && output.err.contains("E40");
    if none {
        eprintln!("skipped: no lab here: {}", output.err);
    }
    none
}

#[test]
fn a_server_of_this_run_answers_and_ends_with_it() {
    let home = Home::new();
    let line =
        "rpc here -k 20 write -key k0 + -value v 3000 --then -k 20 read -key k0 + --then quit --verify --name own";
    let output = home.run(line).ends_with(0).shows(&["write: 20 calls answered, 0 failed", "read: 20 calls answered"]);
    assert!(nobody_listens(port(&output.err)));
    home.run("show own").ends_with(0).shows(&["server msgpath"]);
}

#[test]
fn what_client_and_server_spend_is_read_from_outside() {
    let home = Home::new();
    let text = home.run("rpc here -k 200 ping --name spent -v").ends_with(0).out;
    assert!(text.contains("what the two processes spent, a call") && text.contains("connecting took"), "{text}");
    let json = home.run("show spent --json").ends_with(0).json();
    for end in json["cases"][0]["ends"].as_array().unwrap() {
        let spent = &end["process"];
        assert!(spent["cpu_ns"].as_f64().unwrap() > 0.0 && spent["disk_read_bytes"].is_number(), "{end}");
        assert!(spent["peak_resident_bytes"].as_u64().unwrap() > 0 && spent["data_growth_bytes"].is_number(), "{end}");
        if let Some(ns) = spent["run_queue_ns"].as_f64() {
            assert!(ns >= 0.0, "{end}");
        }
        // A call is sent and received at each end; where perf may not count, the reason stands there.
        match json["rpc"].get("system_calls_uncounted").and_then(|why| why.as_str()) {
            None => assert!(spent["system_calls"].as_f64().unwrap() >= 2.0, "{end}"),
            Some(why) => {
                assert!(text.contains("System calls n/a:") && spent["system_calls"].is_null(), "{why}: {text}")
            }
        }
    }
    // Who does not ask for it is not slowed by it.
    home.run("rpc here -k 20 ping --name plain").ends_with(0);
    home.run("show plain -v").ends_with(0).shows(&["System calls n/a: only a run with -v counts them"]);
    // The loopback device took what it gave: a packet for each call at the least.
    let kernel = &json["cases"][0]["ends"][0]["kernel"];
    assert!(kernel["dev.lo.tx_packets"].as_u64().unwrap() >= 200, "{kernel}");
}

#[test]
fn the_server_is_gone_when_the_run_was_killed() {
    let home = Home::new();
    let run = home.start("rpc here -rep 1000 -waitms 50 ping --no-save");
    let port = port(&run.until_it_says("ends with it"));
    assert!(within(Duration::from_secs(60), || !nobody_listens(port)));
    run.signal("KILL");
    assert!(within(Duration::from_secs(60), || nobody_listens(port)), "the server lives on");
}

#[test]
fn a_held_lock_is_seen_in_the_calls() {
    let line = "rpc here --serve --lock-hog=20ms/21ms write -key k -value v --then -k 200 read -key k --then -k 20 ping --name hog --json";
    let home = Home::new();
    let json = home.run(line).ends_with(0).json();
    let lock = |kind: usize| {
        let parts = json["rpc"]["kinds"][kind]["bands"][0]["parts"].as_array().unwrap();
        parts.iter().find(|part| part["stage"] == "lock_wait").unwrap()["ns"].as_f64().unwrap()
    };
    // The lock is free for 1 ms of every 21: 200 reads need longer than that, and whoever waits waits for some ms.
    assert!(lock(1) > 20_000.0, "reads wait for the lock: {}", lock(1));
    assert!(lock(2) < 1_000.0, "pings do not take it: {}", lock(2));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let home = Home::new();
    home.run("rpc 127.0.0.1:1 --between lab ping").ends_with(2).says(&["--between", "rpc here"]);
    home.run("rpc 127.0.0.1:1 --serve --lock-hog=1ms ping").ends_with(2).says(&["rpc here"]);
    home.run("rpc here --serve --port=5 ping").ends_with(2).says(&["itself where it listens"]);
    home.run("rpc here --serve --lock-hog=5ms/5ms ping").ends_with(2).says(&["2ms/5ms"]);
    home.run("rpc here --serve --lock-hok=5ms ping").ends_with(2);
    home.run("rpc here --between nowhere ping").ends_with(3).says(&["no lab named nowhere"]);
    home.run("serve --lock-hog 1ms").ends_with(2).says(&["--lock-hog belongs to the RPC server"]);
    home.run("periodic --between lab --interface lo").ends_with(2);
}

#[test]
fn calls_cross_from_one_namespace_into_the_other() {
    let home = Home::new();
    let output = home.run("rpc here --between lab -k 20 ping -value v 5000 --name ns");
    if no_lab(&output) {
        return;
    }
    output.ends_with(0).shows(&["veth", "no network was measured", "two network namespaces of one machine. One clock"]);
    let json = home.run("show ns --json").ends_with(0).json();
    assert_eq!(json["rpc"]["clocks"][0]["same"], true, "{}", json["rpc"]["clocks"]);
    assert_eq!(json["floors"]["route"]["kind"], "veth");
}

/// A link that is shaped is a network: it is named with what it does, and the bytes take their time on it.
#[test]
fn calls_over_a_shaped_link_are_said_to_cross_it() {
    let home = Home::new();
    let output = home.run("rpc here --between lab --link rate=100M -k 40 write -key k -value v 100000 --name ns -v");
    if no_lab(&output) {
        return;
    }
    let output = output.ends_with(0).shows(&["over a shaped link: 100 Mbit/s", "Of these the wire alone: estimate"]);
    assert!(!output.out.contains("no network was measured") && !output.out.contains("no wire"), "{}", output.out);
    let kind = home.run("show ns --json").ends_with(0).json()["rpc"]["kinds"][0].clone();
    // 100 kB at 100 Mbit/s; what the shaper lets through at once takes less.
    let request = kind["wire_estimate_ns"]["request"].as_f64().unwrap();
    assert!(request > 4e6 && request < 8.2e6, "{kind}");
}

#[test]
fn frames_of_a_periodic_run_cross_the_link() {
    if !eth::there() {
        return;
    }
    let home = Home::new();
    let line = "periodic --between lab -x eth/sigio,shm -n 3 -c 30 --first 5 --period 10ms -r 5 --json";
    let output = home.run(line);
    if no_lab(&output) {
        return;
    }
    let json = output.ends_with(0).json();
    let all = |at: usize| {
        let all = &json["periodic"]["engines"][at]["all"];
        all["messages"].as_u64().unwrap() + all["lost"].as_u64().unwrap()
    };
    // Two at one side, one at the other: four ways cross; through shared memory all six are there.
    assert_eq!((all(0), all(1)), (4 * 30, 6 * 30), "{}", json["periodic"]);
    assert_eq!(json["periodic"]["engines"][0]["all"]["lost"], 0);
}

#[test]
fn the_preset_of_calls_answers_where_their_time_went() {
    let home = Home::new();
    let output = home.run("preset rpc-timeline -v -o out");
    // Without namespaces its runs cannot be made, and each says why.
    if output.code != Some(0) && output.err.contains("E40") {
        return eprintln!("skipped: no lab here");
    }
    output.ends_with(0).shows(&[
        "Where did each call's time go?",
        "waiting for the server's lock",
        "one clock in all 3 runs",
    ]);
    for file in ["answers.html", "calls.csv", "split.csv", "lock/report.html", "alone/calls.csv"] {
        assert!(home.path().join("out").join(file).exists(), "{file}");
    }
}
