//! `msgpath echo`, as a user starts it.

use crate::printed::Value;

use crate::command::{Home, Output};

/// An echo of a few messages in a home of its own.
#[track_caller]
fn echo(options: &str) -> Output {
    Home::new().run(&format!("echo -w 0 {options}"))
}

/// The only case of an echo of 120 messages that must work, checked against what every echo must fulfil.
#[track_caller]
fn one_case(options: &str) -> Value {
    let output = echo(&format!("-c 120 -r 3 --json {options}")).ends_with(0);
    let value = output.json();
    let [case] = &value["cases"].as_array().unwrap()[..] else { panic!("{options}: not one case\n{}", output.out) };
    assert_eq!(value["schema"], "msgpath/run/3", "{options}");
    assert_eq!(value["status"], "ok", "{options}");
    assert_eq!(value["unavailable"], Value::Array(Vec::new()), "{options}");
    let delivery = &case["delivery"];
    assert_eq!(delivery["sent"], case["messages"], "{options}: {delivery}");
    assert_eq!(delivery["received"], delivery["sent"], "{options}: {delivery}");
    assert_eq!(delivery["lost"], 0, "{options}: {delivery}");
    assert!(number(&case["messages"]) >= 120, "{options}: {}", case["messages"]);
    assert_eq!(case["rounds"], 3, "{options}");
    assert!(number(&case["fastest_ns"]) > 0, "{options}");
    case.clone()
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// What an end was granted of an option, as it was read back.
#[track_caller]
fn granted<'a>(case: &'a Value, end: &str, option: &str) -> &'a str {
    let all = case["granted"].as_array().unwrap();
    let found = all.iter().find(|granted| granted["end"] == end && granted["option"] == option);
    found.unwrap_or_else(|| panic!("no {option} of the {end} end in {all:?}"))["granted"].as_str().unwrap()
}

#[test]
fn every_transport_and_every_message_is_verified() {
    let paths = "tcp:send udp:send unix:send unixgram:send unixseq:send pipe:write fifo:write mq:send shm:ring/futex";
    let home = Home::new();
    let kernel = home.run("paths --json").ends_with(0).json();
    let why_not = |path: &str| {
        let paths = kernel["paths"].as_array().unwrap();
        paths
            .iter()
            .find(|entry| entry["path"] == path && entry["available"] == false)
            .map(|entry| entry["why"].clone())
    };
    for path in paths.split(' ') {
        if let Some(why) = why_not(path) {
            eprintln!("skipped: {path}: {why}");
            continue;
        }
        let case = one_case(&format!("-x {path}"));
        assert_eq!(case["case"]["path"], path);
        assert_eq!(case["delivery"]["verified"], case["messages"], "{path}: a message of 64 bytes is compared whole");
        assert!(number(&case["ends"][1]["calls"]["recv_full"]) >= 120, "{path}: {}", case["ends"][1]["calls"]);
        assert_eq!(case["connect_ns"].is_null(), !matches!(path, "tcp:send" | "unix:send" | "unixseq:send"), "{path}");
    }
}

#[test]
fn every_wait() {
    for path in ["tcp:send/spin", "tcp:send/poll", "udp:send/epoll", "tcp:send/busy-poll", "unix:send/spin"] {
        let case = one_case(&format!("-x {path}"));
        assert_eq!(case["case"]["path"], path);
        let calls = &case["ends"][0]["calls"];
        let (waits, empty) = (number(&calls["wait_calls"]), number(&calls["recv_empty"]));
        match path.split('/').nth(1) {
            Some("poll" | "epoll") => assert!(waits > 0, "{path}: {calls}"),
            _ => assert_eq!(waits, 0, "{path}: {calls}"),
        }
        assert_eq!(number(&calls["recv_calls"]), 120 + empty, "{path}: {calls}");
    }
    assert_eq!(
        one_case("-o wait=spin")["case"]["path"],
        "tcp:send/spin",
        "-o wait=spin means spin where a path names no wait"
    );
}

#[test]
fn a_spinning_ring_needs_no_system_call_and_batches_are_said() {
    let home = Home::new();
    let value = home.run("echo -x shm:ring/spin -t 0.05s -r 3 -w 0 --json").ends_with(0).json();
    let case = &value["cases"][0];
    for end in [0, 1] {
        for call in ["send_calls", "recv_calls", "wait_calls"] {
            assert_eq!(case["ends"][end]["calls"][call], 0, "{end}: {}", case["ends"][end]["calls"]);
        }
    }
    let (text, batch) = (home.run("show").ends_with(0).out, number(&case["batch"]));
    let batched = text.contains(&format!("{batch} messages")) || text.contains(&format!("mean of {batch}"));
    assert!(batch == 1 || batched, "batches of {batch} are not said:\n{text}");
}

#[test]
fn both_versions_of_ip() {
    let four = one_case("-o ip=4");
    assert_eq!(four["case"]["path"], "tcp:send");
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 on loopback");
        return;
    }
    for path in ["tcp:send", "udp:send"] {
        assert_eq!(one_case(&format!("-o ip=6 -x {path}"))["delivery"]["lost"], 0);
    }
    // A local address of one version forces the connection into it; the other version is a contradiction.
    one_case("-o ip=6,bind=::1");
    echo("-o ip=6,bind=127.0.0.1 -c 1").ends_with(2).says(&["error[E11]", "not an address of the family"]);
}

#[test]
fn replies_and_connections() {
    let case = one_case("-l 100 --reply 5");
    assert_eq!((&case["case"]["size_bytes"], &case["case"]["reply_bytes"]), (&100.into(), &5.into()));
    let case = one_case("-l 5 --reply 3000 -x unix:send");
    assert_eq!(case["delivery"]["verified"], case["messages"]);
    let case = one_case("-P 4 -T 2 --inflight 8");
    let threads = &case["case"];
    assert_eq!((&threads["connections"], &threads["threads"], &threads["inflight"]), (&4.into(), &2.into(), &8.into()));
    assert_eq!(number(&case["messages"]) % 4, 0, "all connections have the same number of messages");
    let value = echo("-T 1,2 -c 20 -r 1 --json").ends_with(0).json();
    let threads: Vec<_> =
        value["cases"].as_array().unwrap().iter().map(|case| number(&case["case"]["threads"])).collect();
    assert_eq!(threads, [1, 2]);
}

#[test]
fn pieces_take_the_calls_that_the_method_says() {
    let value =
        echo("--pieces 8x100 -c 50 -r 1 -x tcp:writes,tcp:writev,tcp:flatten,tcp:sendmsg --json").ends_with(0).json();
    for case in value["cases"].as_array().unwrap() {
        let path = case["case"]["path"].as_str().unwrap();
        let sends = number(&case["ends"][0]["calls"]["send_calls"]);
        assert_eq!(sends, if path == "tcp:writes" { 400 } else { 50 }, "{path}");
        let copied = number(&case["ends"][0]["calls"]["copied_bytes"]);
        assert_eq!(copied, if path == "tcp:flatten" { 50 * 800 } else { 0 }, "{path}: bytes copied by the program");
        assert_eq!(case["delivery"]["verified"], 50, "{path}");
    }
}

#[test]
fn options_are_read_back() {
    for (typed, held) in [("-o nodelay=yes", "true"), ("-o nodelay=no", "false"), ("", "true")] {
        let case = one_case(typed);
        for end in ["near", "far"] {
            assert_eq!(granted(&case, end, "TCP_NODELAY"), held, "{typed} at the {end} end");
        }
    }
    let case = one_case("-o sndbuf=64K,rcvbuf=32K");
    for (option, asked) in [("SO_SNDBUF", 64 << 10), ("SO_RCVBUF", 32 << 10)] {
        // The kernel doubles what is asked for, up to its limit: see socket(7).
        let bytes: u64 = granted(&case, "far", option).parse().unwrap();
        assert!(bytes >= asked, "{option}: {bytes}");
    }
    let text = Home::new().run("echo -c 20 -r 1 -w 0 -v").ends_with(0).out;
    assert!(text.contains("TCP_NODELAY: asked true, granted true"), "{text}");
}

#[test]
fn stamps_at_both_ends_give_one_way() {
    let case = one_case("-o stamps=both");
    let one_way = &case["one_way"];
    assert!(one_way.is_object() || one_way.is_array(), "{one_way}");
    let text = Home::new().run("echo -c 20 -r 1 -w 0 -o stamps=both").ends_with(0).out;
    assert!(text.contains("one way") || text.contains("One way"), "{text}");
    assert!(one_case("")["one_way"].is_null(), "one way is never computed from the round trip");
}

#[test]
fn every_zero_copy_send_is_accounted_for() {
    for path in ["tcp:zerocopy", "tcp:uring-zc"] {
        let value = echo(&format!("-x {path} -l 32K -c 60 -r 3 --json")).json();
        if value["status"] == "failed" && value["error"]["code"] == "E05" {
            eprintln!("skipped: {path}: {}", value["error"]["message"]);
            continue;
        }
        let counts = &value["cases"][0]["zerocopy"];
        let count = |name: &str| number(&counts[name]);
        assert!(count("asked") >= 60, "{path}: {counts}");
        assert_eq!(count("asked"), count("copied") + count("zero_copied") + count("unanswered"), "{path}: {counts}");
        assert_eq!(count("unanswered"), 0, "{path}: all buffers are back before the round ends: {counts}");
    }
    assert!(one_case("")["zerocopy"].is_null(), "nothing is counted where nothing was asked for");
}

#[test]
fn each_prints_every_trial() {
    let text = echo("-l 10,1000,10000 -c 10 --each").ends_with(0).out;
    let header = text.lines().find(|line| line.contains("10 B") && line.contains("10000 B")).unwrap_or_default();
    assert!(header.contains("1000 B"), "one column a size:\n{text}");
    let row = |name: &str| {
        text.lines().find(|line| line.trim_start().starts_with(name)).map(|line| {
            let cells = line.trim_start().strip_prefix(name).unwrap().split_whitespace();
            cells.map(|cell| cell.parse().unwrap_or_else(|_| panic!("{line}"))).collect::<Vec<f64>>()
        })
    };
    let mut trials: Vec<Vec<f64>> = Vec::new();
    for trial in 1..=10 {
        let cells = row(&format!("trial {trial} ")).unwrap_or_else(|| panic!("no trial {trial} in:\n{text}"));
        assert!(cells.len() == 3 && cells.iter().all(|time| *time > 0.0), "trial {trial}: {cells:?}");
        trials.push(cells);
    }
    assert_eq!(row("trial 11 "), None);
    for name in ["median", "deviation", "fastest", "slowest"] {
        assert_eq!(row(name).map(|cells| cells.len()), Some(3), "{name}:\n{text}");
    }
    for (column, mean) in row("mean").unwrap().into_iter().enumerate() {
        let expected = trials.iter().map(|cells| cells[column]).sum::<f64>() / 10.0;
        assert!((mean / expected - 1.0).abs() < 0.02, "mean {mean}, the trials give {expected}:\n{text}");
    }
    assert!(text.contains("10 B against 1000 B"), "whether neighbours differ is said:\n{text}");
}

#[test]
fn each_can_take_a_new_connection_for_every_trial() {
    let home = Home::new();
    home.run("echo -l 10,100 -c 4 --each -o fresh=yes -w 0").ends_with(0).shows(&["trial 4"]);
    let rounds = home.run("export --to json").ends_with(0).json();
    let rounds = rounds["rounds"].as_array().unwrap().clone();
    assert_eq!(rounds.len(), 8, "a round a trial");
    assert!(
        rounds
            .iter()
            .all(|round| round["ends"][0]["report"]["delivery"]["sent"] == 1 && number(&round["connect_ns"]) > 0)
    );
}

#[test]
fn lost_datagrams_are_counted_and_end() {
    // All are sent before the first reply is read, and neither end's buffer holds more than three of them.
    let output =
        echo("-x udp:send -l 1400 -c 12 -r 1 -o rcvbuf=2K --inflight 12 --fail-if loss>0% --json").ends_with(1);
    let value = output.json();
    let delivery = &value["cases"][0]["delivery"];
    let (sent, received, lost) = (number(&delivery["sent"]), number(&delivery["received"]), number(&delivery["lost"]));
    assert_eq!(sent, 12);
    assert!(lost > 0, "12 datagrams do not fit into 2 KiB: {delivery}");
    assert_eq!(sent, received + lost, "{delivery}");
    assert_eq!(value["totals"]["lost"], lost);
    let slowest = value["cases"][0]["quantiles"].as_array().unwrap().iter().next_back().unwrap().clone();
    assert!(slowest["ns"].is_null(), "a lost message is infinitely slow: {slowest}");
    output.says(&["error[E25]", "loss > 0%"]);
}

#[test]
fn a_copied_zero_copy_send_is_not_what_it_claims_to_be() {
    let output = echo("-x tcp:zerocopy -l 32K -c 40 -r 2 --strict --json");
    let value = output.json();
    let Some(counts) = value["cases"][0]["zerocopy"].as_object() else {
        eprintln!("skipped: {}", output.err);
        return;
    };
    if counts["copied"] == counts["asked"] {
        output.ends_with(5).says(&["--strict", "W20"]);
    }
}

#[test]
fn quiet_says_nothing_and_nothing_is_kept_without_a_record() {
    assert_eq!(echo("-c 20 -r 1 -qq").ends_with(0).out, "");
    let home = Home::new();
    home.run("echo -c 20 -r 1 -w 0 --no-save").ends_with(0).shows(&["20 round trips"]);
    assert!(!home.runs().exists(), "--no-save keeps no record");
    assert_eq!(std::fs::read_dir(home.temporary()).unwrap().count(), 0, "nothing is left behind");
}

/// A message that is cut into segments is known by its first one, which is shorter than the message.
#[test]
fn the_time_of_a_message_of_several_segments_is_split() {
    for options in ["-x tcp:send -l 64K", "-x tcp:send -l 1M", "-x tcp:zerocopy -l 64K"] {
        let output = Home::new().run(&format!("explain {options} -t 1s -r 5 -w 0 --no-save --json"));
        let stages = &output.ends_with(0).json()["attribution"][0];
        if stages["known_by"].is_null() {
            return eprintln!("skipped: {options}: {}", stages["not_shown_because"]);
        }
        let unseen = "its packet was not seen in the transmit stack";
        assert!(stages["not_attributed"].get(unseen).is_none(), "{options}: {stages}");
        assert!(stages["complete"].as_u64() > Some(0), "{options}: {stages}");
    }
}

#[test]
fn a_run_of_this_machine_can_be_explained_afterwards() {
    let home = Home::new();
    home.run("echo -c 100 -r 5 -w 0 -o what-ifs=no --name a -qq").ends_with(0);
    let explained = home.run("explain a --no-save").ends_with(0);
    explained.shows(&["tcp:send"]).says(&["a was not traced: the same is measured again"]);
}
