//! Open loops, load curves, estimates and server work, as a user starts them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::printed::Value;

use crate::command::{Home, LIMIT, Output, within};

#[track_caller]
fn echo(options: &str) -> Output {
    Home::new().run(&format!("echo -w 0 -o what-ifs=no --no-save {options}"))
}

#[track_caller]
fn case(output: &Output, at: usize) -> Value {
    output.json()["cases"][at].clone()
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn every_transport_can_be_offered_a_rate() {
    let paths = "tcp:send udp:send unix:writev unixgram:send unixseq:send pipe:write fifo:write mq:send shm:ring \
                 tcp:zerocopy tcp:send/epoll";
    let kernel = Home::new().run("paths --json").ends_with(0).json();
    for path in paths.split_whitespace() {
        let full = if path == "shm:ring" { "shm:ring/futex" } else { path };
        let here = kernel["paths"].as_array().unwrap().iter().find(|entry| entry["path"] == full);
        if let Some(entry) = here.filter(|entry| entry["available"] == false) {
            eprintln!("skipped: {path}: {}", entry["why"]);
            continue;
        }
        let output = echo(&format!("-x {path} --rate 2k -t 500ms -r 5 --json")).ends_with(0);
        let case = case(&output, 0);
        // More where a round began late: what it owes is not trimmed.
        assert!(number(&case["messages"]) >= 1000.0, "{path}");
        assert_eq!(case["delivery"]["sent"], case["delivery"]["received"], "{path}");
        assert!(number(&case["open"]["offered_per_s"]) > 1_500.0, "{path}: {}", case["open"]);
    }
}

#[test]
fn a_receive_call_may_take_several_messages_of_an_echo() {
    for load in ["-c 4000 --inflight 16", "-c 4000 --inflight 16 -P 4 -T 2 --reply 300", "--rate 20k -t 500ms"] {
        for how in ["-x tcp:send,pipe:write", "-x tcp:send/epoll,unix:writev/epoll --event-loop"] {
            let output = echo(&format!("-l 100 {load} {how} -r 5 -o read-size=16K --json")).ends_with(0);
            for at in 0..2 {
                let case = case(&output, at);
                assert!(number(&case["messages"]) > 0.0, "{load} {how}");
                assert_eq!(case["delivery"]["sent"], case["delivery"]["received"], "{load} {how}");
                // By a schedule some answers to trimmed messages come, and are compared, in the measured part.
                assert!(number(&case["delivery"]["verified"]) >= number(&case["messages"]), "{load} {how}");
            }
        }
    }
}

#[test]
fn rates_may_be_shares_of_a_capacity_that_is_found_first() {
    let output = echo("-x tcp:send --rate 20%,5%..10%/2 -t 1s -r 5 --json").ends_with(0);
    let cases = output.json()["cases"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 3);
    let cases: Vec<Value> = cases.into_iter().map(|case| case["case"].clone()).collect();
    let attempts = cases[0]["of_capacity"]["attempts_per_s"].clone();
    let capacity = number(&attempts[4]);
    assert!(capacity > 100.0, "{}", cases[0]);
    for (case, share) in cases.iter().zip([0.2, 0.05, 0.1]) {
        assert_eq!(case["of_capacity"]["attempts_per_s"], attempts, "one capacity for all rates of a path");
        assert_eq!(attempts.as_array().unwrap().len(), 5);
        assert_eq!(number(&case["of_capacity"]["share"]), share);
        let rate = number(&case["load"]["open"]["rate_per_s"]);
        assert!((rate / (share * capacity) - 1.0).abs() < 0.001, "{case}");
    }
    let findings = output.json()["findings"].to_string();
    assert_eq!(findings.matches("rates are shares of").count(), 1, "{findings}");
    // What no schedule can be made of is left out by name; the others go on.
    let output = echo("-x tcp:send --rate 50%,0.1% -t 100ms -r 5 --json").ends_with(0);
    let out = &output.json()["unavailable"];
    assert!(out.to_string().contains("too few for rounds of at least 5"), "{out}");
    echo("--rate 50% -c 100").ends_with(2).says(&["how long it would take is not known before"]);
    echo("--rate 10%..50%").ends_with(2).says(&["10%..110%/12"]);
}

#[test]
fn three_times_are_kept_apart_and_a_seed_reproduces_the_schedule() {
    let home = Home::new();
    let run = |name: &str| {
        home.run(&format!(
            "echo -w 0 -o what-ifs=no -x unix:send --rate 1k -t 200ms -r 4 -o seed=7 --name {name} --json"
        ))
        .ends_with(0);
        let csv = home.path().join(format!("{name}.csv"));
        home.run(&format!("export {name} --to messages-csv -o {}", csv.display())).ends_with(0);
        let mut rows = csv::Reader::from_path(&csv).unwrap();
        let head = rows.headers().unwrap().clone();
        let column =
            |name: &str| head.iter().position(|field| field == name).unwrap_or_else(|| panic!("{name}: {head:?}"));
        let columns = ["pass", "sequence", "start_ns", "late_ns", "latency_ns"].map(column);
        let rows: Vec<[u64; 5]> = rows
            .records()
            .map(|row| {
                let row = row.unwrap();
                columns.map(|at| row[at].parse().unwrap())
            })
            .collect();
        rows
    };
    let (one, two) = (run("one"), run("two"));
    // A round that began late is not trimmed: it has a few more.
    assert!(one.len() >= 200 && two.len() >= 200, "{} and {}", one.len(), two.len());
    assert!(one.iter().all(|[.., late, latency]| late < latency), "a message is answered after it was sent");
    // Intended gaps are those of the schedule, whatever the machine did: equal in both runs within each round.
    let gaps = |rows: &[[u64; 5]]| -> BTreeMap<(u64, u64), u64> {
        let pairs = rows.windows(2).filter(|pair| pair[0][0] == pair[1][0] && pair[0][1] + 1 == pair[1][1]);
        pairs.map(|pair| ((pair[1][0], pair[1][1]), pair[1][2] - pair[0][2])).collect()
    };
    let (one, two) = (gaps(&one), gaps(&two));
    let both: Vec<_> = one.iter().filter_map(|(at, gap)| Some((gap, two.get(at)?))).collect();
    assert!(both.len() >= 4 * 40, "{} gaps in both", both.len());
    assert!(both.iter().all(|(one, two)| one == two), "{both:?}");
}

#[test]
fn constant_arrivals_are_equally_far_apart() {
    let output = echo("-x unix:send --rate 1k -o arrivals=constant -t 100ms -r 2 --json").ends_with(0);
    assert_eq!(output.json()["cases"][0]["case"]["load"]["open"]["arrivals"], "constant", "{}", output.out);
}

#[test]
fn an_overloaded_rate_prints_its_backlog_and_no_latency() {
    let output = echo("-x unix:send --rate 2k -o service-time=2ms -t 2s -r 5 --json").ends_with(0);
    let case = case(&output, 0);
    assert_eq!(case["open"]["sustained"], false, "{}", case["open"]);
    assert!(number(&case["open"]["backlog_per_s"]["value"]) > 1_000.0, "{}", case["open"]);
    assert!(
        case["quantiles"]
            .as_array()
            .unwrap()
            .iter()
            .all(|quantile| quantile["range"] != "interval" && quantile["hi_ns"].is_null())
    );
    let text = echo("-x unix:send --rate 2k -o service-time=2ms -t 2s -r 5").ends_with(0);
    text.shows(&["not sustained", "backlog"]);
}

#[test]
fn the_messages_in_flight_can_be_limited() {
    for path in ["unix:send", "udp:send"] {
        let line = format!("-x {path} --rate 1k -o service-time=2ms --inflight 3 -t 500ms -r 5 --json");
        let output = echo(&line).ends_with(0);
        let open = case(&output, 0)["open"].clone();
        assert!(number(&open["most_in_flight"]) <= 3.0, "{path}: {open}");
        // Where other work shares the CPUs, most of the lateness may be its own.
        assert!(number(&open["blocked_share"]) > 0.0, "{path}: the far end is a cause: {open}");
    }
    let unlimited = echo("-x unix:send --rate 1k -o service-time=2ms -t 500ms -r 5 --json").ends_with(0);
    let most = number(&case(&unlimited, 0)["open"]["most_in_flight"]);
    assert!(most > 20.0, "{most}");
}

#[test]
fn several_rates_are_a_load_curve() {
    let output = echo("-x unix:send --rate 250..1k -o service-time=100us -t 500ms -r 5 --json").ends_with(0);
    let value = output.json();
    let rates: Vec<f64> = value["load_curves"][0]["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| number(&point["asked_per_s"]))
        .collect();
    assert_eq!(rates, [250.0, 500.0, 1000.0]);
    echo("-x unix:send --rate 250..1k -o service-time=100us -t 500ms -r 5").ends_with(0).shows(&[
        "250",
        "1k",
        "sustained",
    ]);
}

#[test]
fn work_is_part_of_every_message() {
    let output = echo("-x unix:send -o service-time=3ms -c 40 -r 5 --json").ends_with(0);
    let fastest = number(&case(&output, 0)["fastest_ns"]);
    assert!(fastest >= 3e6, "{fastest}");
}

#[test]
fn an_estimate_stands_before_what_was_measured() {
    let output = echo("-x unix:send -t 500ms -r 10 --expect 1s").ends_with(0).shows(&["expected 1 s", "measured"]);
    let (expected, table) = (output.out.find("expected").unwrap(), output.out.find("p50").unwrap());
    assert!(expected < table, "{}", output.out);
    let value = echo("-x unix:send -t 500ms -r 10 --expect 1s --json").ends_with(0).json();
    assert!(number(&value["expectation"]["factor"]) < 0.5, "{}", value["expectation"]);
    assert!(!value["expectation"]["floors"].as_array().unwrap().is_empty());
    let stream = Home::new().run("stream --no-save -w 0 -t 500ms --expect 1G --json").ends_with(0).json();
    assert!(number(&stream["expectation"]["factor"]) > 0.0, "{}", stream["expectation"]);
}

#[test]
fn a_far_end_that_stands_still_shows_in_an_open_loop() {
    let home = Home::new();
    let line = "echo -w 0 -o what-ifs=no --name stall -x unix:send --rate 500 -o arrivals=constant -t 8s -r 2 --json";
    let mut running = home.start(line);
    // In the middle of the second round, whenever that begins. The far end is started first.
    assert!(running.meets(&home.runs().join("stall"), 1), "a round is recorded");
    let far = *running.children().first().expect("the far end is a child");
    std::thread::sleep(Duration::from_secs(1));
    running.send_to("STOP", far);
    std::thread::sleep(Duration::from_secs(1));
    running.send_to("CONT", far);
    let output = running.finish(LIMIT).ends_with(0);
    let case = case(&output, 0);
    // A closed loop would have one slow message. Here an eighth of the messages was due meanwhile.
    let p90 = case["quantiles"].as_array().unwrap().iter().find(|quantile| quantile["p"] == 0.9).unwrap().clone();
    assert!(number(&p90["ns"]) > 50e6, "{p90}");
    assert!(number(&case["slowest_ns"]) > 800e6, "{case}");
}

#[test]
fn ctrl_c_ends_a_slow_schedule_soon() {
    let home = Home::new();
    let running = home.start("echo -w 0 -o what-ifs=no -x unix:send --rate 0.33 -t 200s --json");
    assert!(within(Duration::from_secs(60), || home.runs().exists()), "the run begins");
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    running.signal("INT");
    running.finish(LIMIT).ends_with(130);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn impossible_schedules_are_refused() {
    for (options, part) in [
        ("--rate 1G", "rate"),
        ("--rate 0", "rate"),
        ("--rate nonsense", "rate"),
        ("--rate 1k --each", "each"),
        ("-o service-time=never", "service"),
        ("--expect soon", "expect"),
        ("--rate 1k -P 4 -T 2", "thread"),
        ("-o working-set=1T", "working"),
    ] {
        let output = echo(options).ends_with(2);
        assert!(output.err.contains(part), "{options}: {}", output.err);
    }
    Home::new().run("stream --rate 1k").ends_with(2);
}
