//! Paths between two devices: a queue that is polled, rings, AF_XDP.

use std::process::Command;

use crate::printed::Value;

use crate::command::{Home, LIMIT, Running};
use crate::eth;

const SHORT: &str = "-w 0 -c 200 -r 4 -o what-ifs=no,extend=no --no-save --json";

/// What a run between two places of its own lab says; `None`: it cannot be had here, and why not is said.
fn between(home: &Home, options: &str) -> Option<Value> {
    let output = home.run(&format!("{options} --between lab {SHORT}"));
    if output.code == Some(3) {
        eprintln!("skipped: {} {}", output.out.trim(), output.err.trim());
        return None;
    }
    Some(output.ends_with(0).json())
}

/// What each end says of an option.
fn granted<'a>(case: &'a Value, option: &str) -> Vec<&'a str> {
    let all = case["granted"].as_array().unwrap().iter();
    all.filter(|entry| entry["option"] == option).map(|entry| entry["granted"].as_str().unwrap()).collect()
}

/// Whether a warning that a path is not what was asked for has these words.
fn warned(value: &Value, words: &str) -> bool {
    let all = value["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == "W22");
    all.filter_map(|warning| warning["text"].as_str()).any(|text| text.contains(words))
}

/// Whether all messages came back, their bytes compared.
fn complete(case: &Value) {
    let delivery = &case["delivery"];
    assert!(delivery["verified"].as_u64() > Some(0) && delivery["sent"] == delivery["received"], "{case}");
}

#[test]
fn busy_polling_polls_where_a_link_has_queues() {
    let home = Home::new();
    for path in ["udp:send/busy-poll", "tcp:send/busy-poll"] {
        let Some(plain) = between(&home, &format!("echo -x {path}")) else { return };
        assert_eq!(granted(&plain["cases"][0], "NAPI"), ["0", "0"], "{path} over a plain link");
        assert!(warned(&plain, "busy polling"), "{path}: {}", plain["warnings"]);
        let Some(polled) = between(&home, &format!("echo -x {path} --link napi=on")) else { return };
        let case = &polled["cases"][0];
        let queues = granted(case, "NAPI");
        assert!(queues.len() == 2 && queues.iter().all(|queue| *queue != "0"), "{path}: {queues:?}");
        assert!(!warned(&polled, "busy polling"), "{path}: {}", polled["warnings"]);
        assert!(polled["target"].as_str().unwrap().contains("(NAPI on)"), "{}", polled["target"]);
        complete(case);
    }
}

#[test]
fn a_queue_that_cannot_be_had_is_said_with_its_cure() {
    let allowed = Command::new("unshare").args(["-rn", "true"]).status();
    let ip = Command::new("ip").arg("-V").status();
    if !allowed.is_ok_and(|status| status.success()) || !ip.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no user namespaces, or no iproute2");
    }
    let home = Home::new();
    let run = |line: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rn", env!("CARGO_BIN_EXE_msgpath")]).args(line.split(' '));
        command.env("HOME", home.path()).env("TMPDIR", home.temporary());
        Running::new(command).finish(LIMIT)
    };
    // Root of a user namespace may make a pair of devices, but give them no program.
    let refused = run("echo -x udp:send/busy-poll --between lab --link napi=on -c 200 -w 0 --no-save").ends_with(3);
    assert!(["E41", "CAP_BPF", "without napi=on"].iter().all(|part| refused.err.contains(part)), "{}", refused.err);
    let refused = run("echo -x xdp -o device=mp0 --between lab -c 200 -w 0 --no-save").ends_with(3);
    assert!(refused.err.contains("XDP is not allowed here"), "{}", refused.err);
    run("echo -x eth-ring -o device=mp0 --between lab -c 200 -r 2 -w 0 --no-save").ends_with(0);
}

#[test]
fn a_ring_is_received_from_without_a_call() {
    if !eth::there() {
        return;
    }
    let home = Home::new();
    for path in ["eth-ring:send", "eth-ring:send/spin", "eth-ring:send/epoll", "eth-ring:send/sigio"] {
        let output = home.run(&format!("echo -x {path} -l 1,1000 {SHORT}")).ends_with(0).json();
        for case in output["cases"].as_array().unwrap() {
            complete(case);
            assert_eq!(case["ends"][0]["calls"]["recv_calls"], 0, "{path}: {}", case["ends"][0]["calls"]);
            assert_eq!(granted(case, "PACKET_RX_RING"), ["4194304"; 2], "{path}");
        }
    }
    // Several connections, an open loop with its two threads, a stream whose sender nothing holds back.
    home.run("echo -x eth-ring -P 2 -c 100 -r 2 -w 0 --no-save").ends_with(0);
    home.run("echo -x eth-ring --rate 1k -t 200ms -r 4 -w 0 --no-save").ends_with(0);
    home.run("stream -x eth-ring -l 1K -t 100ms -r 2 -w 0 --no-save").ends_with(0);
    home.run("echo -x eth-ring:send/block").ends_with(2).says(&["is not made for eth-ring"]);
}

#[test]
fn af_xdp_says_how_it_got_its_frames() {
    let home = Home::new();
    for path in ["xdp:send", "xdp:send/spin", "xdp:send/epoll"] {
        let Some(output) = between(&home, &format!("echo -x {path} -o device=mp0 -l 1,1400")) else { return };
        for case in output["cases"].as_array().unwrap() {
            complete(case);
            assert_eq!(granted(case, "XDP mode"), ["native"; 2], "{path}");
            assert_eq!(granted(case, "XDP_OPTIONS"), ["copy"; 2], "{path}");
            let calls = &case["ends"][0]["calls"];
            // One kick a message.
            assert_eq!((&calls["recv_calls"], &calls["dropped"]), (&0.into(), &0.into()), "{path}: {calls}");
            assert_eq!(calls["send_calls"], case["delivery"]["sent"], "{path}: {calls}");
        }
        assert!(
            warned(&output, "copies each frame") && !warned(&output, "asked for"),
            "{path}: {}",
            output["warnings"]
        );
    }
    let refused = |options: &str, part: &str| {
        let line = format!("echo -w 0 --no-save -c 200 -x xdp {options}");
        home.run(&line).ends_with(3).says(&[part]);
    };
    refused("", "lo has one queue");
    refused("--between lab -o device=mp0 -P 2", "one socket on a queue");
    refused("--between lab -o device=mp0 --rate 1k", "one thread on a socket");
    refused("--between lab -o device=mp0 -l 1493", "do not fit in one frame");
    refused("--between lab -o device=mp0 --link napi=on", "an XDP program");
}
