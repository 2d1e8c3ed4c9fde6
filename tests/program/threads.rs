//! Several threads, connections and depths; one event loop; threads that are not pinned.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, LIMIT, Output};

#[track_caller]
fn echo(options: &str) -> Output {
    Home::new().run(&format!("echo -w 0 -o what-ifs=no --no-save {options}"))
}

#[track_caller]
fn cases(output: &Output) -> Vec<Value> {
    output.json()["cases"].as_array().unwrap().clone()
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn one_event_loop_serves_every_connection() {
    for (path, options) in [
        ("tcp:send/epoll", "-P 8 -T 1 -c 800 -r 5"),
        ("unix:write/epoll", "-P 16 -T 2 --inflight 4 -c 1600 -r 5"),
        ("pipe:writev/epoll", "-P 4 -T 1 -l 1M -c 40 -r 5"),
        ("tcp:send/epoll", "-P 16 -T 1 -l 1M -c 80 -r 5 -o stamps=both"),
        ("unix:send/epoll", "-P 2 -T 1 -o service-time=20us -c 200 -r 5"),
    ] {
        let all = cases(&echo(&format!("-x {path} --event-loop {options} --json")).ends_with(0));
        let case = &all[0];
        assert_eq!(case["case"]["dispatch"], "event_loop", "{path}");
        assert_eq!((&case["delivery"]["sent"], &case["delivery"]["lost"]), (&case["messages"], &0.into()), "{path}");
        // Fewer waits than receives: several connections are ready at once, or at least none is waited for twice.
        let calls = &case["ends"][0]["calls"];
        assert!(number(&calls["wait_calls"]) > 0.0, "{path}: {calls}");
        assert!(number(&calls["recv_full"]) >= number(&case["messages"]), "{path}: {calls}");
        let implied = number(&case["threads"]["implied"]["value"]);
        let asked = number(&case["threads"]["in_flight"]);
        assert!(implied <= 1.02 * asked && implied > 0.3 * asked, "{path}: {implied} of {asked}");
    }
}

#[test]
fn ten_thousand_connections_are_served_by_one_thread() {
    match msgpath_sys::limits::allow_all_open_files() {
        Ok(files) if files >= 10_500 => {}
        other => return eprintln!("skipped: 10,000 connections: descriptors that a process may have: {other:?}"),
    }
    let path = "-x tcp:send/epoll --event-loop -P 10000 --json";
    for load in ["-c 20000 -r 2", "--rate 20k -t 1s -r 1"] {
        let all = cases(&echo(&format!("{path} {load}")).ends_with(0));
        let case = &all[0];
        assert_eq!((&case["case"]["connections"], &case["case"]["threads"]), (&10_000.into(), &1.into()), "{load}");
        assert_eq!((&case["delivery"]["sent"], &case["delivery"]["lost"]), (&case["messages"], &0.into()), "{load}");
        assert!(number(&case["messages"]) >= 10_000.0, "{load}");
    }
}

/// What the kernel keeps of a connection does not count here, and is several times as much.
#[test]
fn a_connection_takes_less_than_four_kilobytes_of_an_end() {
    const MANY: u64 = 4_000;
    const FEW: u64 = 16;
    if !matches!(msgpath_sys::limits::allow_all_open_files(), Ok(files) if files >= MANY + 500) {
        return eprintln!("skipped: too few descriptors for a process");
    }
    // The most memory that each end had, kB.
    let most = |connections: u64| {
        let home = Home::new();
        let line = format!("echo -x tcp:send/epoll --event-loop -P {connections} -c 20000 -r 2 -w 0 --no-save -qq");
        let mut running = home.start(&line);
        let mut ends = BTreeMap::new();
        while !running.has_ended() {
            for pid in running.children() {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                let kb = status
                    .lines()
                    .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
                ends.extend(kb.map(|kb: u64| (pid, kb)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        running.finish(LIMIT).ends_with(0);
        assert!(ends.len() >= 2, "near and far: {ends:?}");
        ends.into_values().max().unwrap_or_default()
    };
    let (many, few) = (most(MANY), most(FEW));
    let bytes = many.saturating_sub(few) * 1024 / (MANY - FEW);
    assert!(
        (1..4096).contains(&bytes),
        "{bytes} bytes for each connection: {many} kB with {MANY}, {few} kB with {FEW}"
    );
}

#[test]
fn the_log_of_an_event_loop_names_every_connection() {
    let home = Home::new();
    home.run("echo -w 0 -x tcp:send/epoll --event-loop -P 4 -T 1 -c 200 -r 5 --name one -qq").ends_with(0);
    let csv = home.path().join("one.csv");
    home.run(&format!("export one --to messages-csv -o {}", csv.display())).ends_with(0);
    let mut rows = csv::Reader::from_path(&csv).unwrap();
    let head = rows.headers().unwrap().clone();
    let column = |name: &str| head.iter().position(|field| field == name).unwrap();
    let (connection, latency) = (column("connection"), column("latency_ns"));
    let mut counts = [0; 4];
    for row in rows.records() {
        let row = row.unwrap();
        assert!(row[latency].parse::<u64>().unwrap() > 0);
        counts[row[connection].parse::<usize>().unwrap()] += 1;
    }
    assert_eq!(counts, [50; 4]);
}

#[test]
fn paths_without_an_event_loop_are_left_out_by_name() {
    let output = Home::new().run(
        "compare -x tcp:send/epoll,tcp:send,unix:send/epoll --event-loop -P 4 -T 1 -l 64 -c 200 -r 5 -w 0 --no-save",
    );
    output.ends_with(4).shows(&["no event loop over tcp:send", "serves one connection at a time"]);
    echo("-x shm:ring --event-loop -P 4 -T 1 -c 10").ends_with(2).says(&[
        "error[E45]",
        "serves one connection",
        "tcp:send/epoll",
    ]);
}

#[test]
fn depths_are_rows_of_one_run() {
    let output = echo("-x unix:send --inflight 1,4,16 -c 2000 -r 8 --json").ends_with(0);
    let all = cases(&output);
    let asked: Vec<f64> = all.iter().map(|case| number(&case["threads"]["in_flight"])).collect();
    assert_eq!(asked, [1.0, 4.0, 16.0]);
    for (case, asked) in all.iter().zip(asked) {
        let implied = number(&case["threads"]["implied"]["value"]);
        assert!(implied <= 1.02 * asked && implied > 0.3 * asked, "{implied} of {asked}");
    }
    echo("-x unix:send --inflight 1,4 -c 400 -r 5").ends_with(0).shows(&[
        "threads and queues",
        "4 in flight on each",
        "in flight: rate times mean",
    ]);
}

#[test]
fn more_threads_than_cpus_claim_no_factor() {
    let output = echo("-x unix:send -T 1,64 -c 6400 -r 5 --cpu 0,0 -q");
    output.ends_with(0).shows(&["W28", "128 threads on 1 CPU", "oversubscribed, not"]);
}

#[test]
fn threads_need_not_be_pinned() {
    let home = Home::new();
    home.run("echo -w 0 -x unix:send --cpu none -c 200 -r 5 -o what-ifs=no --name free")
        .ends_with(0)
        .shows(&["near not pinned, far not pinned"]);
    echo("-x unix:send --cpu nobody -c 10").ends_with(2).says(&["error[E11]", "or none"]);
}

/// The preset as it comes, with short runs.
#[test]
fn the_preset_answers_from_its_numbers() {
    let home = Home::new();
    let folder = home.path().join("out");
    let line = format!("preset threads-and-queues -v -o {} -- --time 100ms --rounds 5 --warmup 0s", folder.display());
    let output = home.run(&line).ends_with(0);
    output.shows(&["Contention or just queueing?", "One event loop, or a thread for each connection?", "rate x mean"]);
    let csv = std::fs::read_to_string(folder.join("threads-and-queues.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 5 + 5 + 4 + 2, "{csv}");
}
