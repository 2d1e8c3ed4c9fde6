//! `--tools` and the preset `peers`: tools of others between the rounds, be they the real ones or scripts in their place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use msgpath_tools::{Exchange, Over, Work, installed, tool};

use crate::command::{Home, Output, Running, within};

/// The preset starts some hundred tools.
const LIMIT: Duration = Duration::from_secs(400);
const SHORT: &str = "-l 64 -w 0 -r 10 -c 1000 -o extend=no,what-ifs=no --progress none";

/// Listens at the port that it is told, of UDP where its tool does, until it is ended.
const SERVER: &str = r#"
import socket, sys, time
words = sys.argv[1:]
flag = next(flag for flag in ("-p", "-lp", "-C", "-tcp-port", "-udp-port") if flag in words)
port = int(words[words.index(flag) + 1].split(":")[-1])
udp = "-udp-port" in words or (words[0] == "server" and "--tcp" not in words)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
s.bind(("127.0.0.1", port))
if not udp: s.listen()
time.sleep(60)
"#;

/// What each client prints, by its name and a word of its command line.
const PRINTED: [(&str, &str, &str); 10] = [
    (
        "sockperf",
        "ping-pong",
        "sockperf: Summary: Latency is 10.500 usec\n---> percentile 99.000 = 18.0\n---> percentile 50.000 = 10.0",
    ),
    (
        "sockperf",
        "under-load",
        "sockperf: Summary: Latency is 12.500 usec\n---> percentile 99.000 = 30.0\n---> percentile 50.000 = 11.0",
    ),
    ("netperf", "_RR", "MEAN_LATENCY=21.50\nP50_LATENCY=21\nP99_LATENCY=34"),
    ("netperf", "TCP_STREAM", "THROUGHPUT=20000.00\nTHROUGHPUT_UNITS=10^6bits/s"),
    ("iperf3", "-J", "{\"end\":{\"sum_received\":{\"bits_per_second\":21e9}}}"),
    ("qperf", "_lat", "tcp_lat:\n    latency  =  11500 ns"),
    ("qperf", "tcp_bw", "tcp_bw:\n    bw  =  2500000000 bytes/sec"),
    ("tcp_rr", "-c --nolog", "latency_mean=0.000024000\nlatency_p50=0.000023000\nlatency_p99=0.000040000"),
    ("tcp_stream", "-c --nolog", "remote_throughput=22000000000"),
    (
        "fortio",
        "load",
        "{\"DurationHistogram\":{\"Count\":9,\"Avg\":0.000025,\"Percentiles\":[{\"Percentile\":50,\"Value\":0.000024}]}}",
    ),
];

fn executable(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What starts the server, in a script.
fn server(home: &Home) -> String {
    format!("exec python3 -ISE '{}' \"$@\"", home.path().join("tools/server.py").display())
}

/// A home whose `tools` folder has every tool as a script; `None`: there is no python3 here.
fn home() -> Option<Home> {
    let there = Command::new("python3").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no python3");
        return None;
    }
    let home = Home::new();
    let folder = home.path().join("tools");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("server.py"), SERVER).unwrap();
    let others = ["netserver", "udp_rr"];
    for name in PRINTED.iter().map(|(name, ..)| *name).chain(others) {
        let prints_as = if name == "udp_rr" { "tcp_rr" } else { name };
        let mut script = String::from("#!/bin/sh\ncase \"$*\" in\n");
        for (_, word, text) in PRINTED.iter().filter(|(known, ..)| *known == prints_as) {
            script += &format!("*'{word}'*) echo '{text}' ;;\n");
        }
        script += &format!("*) {} ;;\nesac\n", server(&home));
        executable(&folder.join(name), &script);
    }
    Some(home)
}

/// Runs with the scripts before everything else in PATH.
fn with_tools(home: &Home, line: &str) -> Output {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = home.command(&words);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.path().join("tools").display()));
    Running::new(command).finish(LIMIT)
}

/// Processes whose command line names a file of this home's tools.
fn left(home: &Home) -> Vec<String> {
    let own = home.path().join("tools").display().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.map(|line| line.replace('\0', " ")).filter(|line| line.contains(&own)).collect()
}

#[track_caller]
fn nothing_is_left(home: &Home) {
    assert!(within(Duration::from_secs(60), || left(home).is_empty()), "{:?}", left(home));
}

#[test]
fn every_tool_stands_beside_our_round_trips() {
    let Some(home) = home() else { return };
    let output = with_tools(&home, &format!("compare -x tcp:send,udp:send {SHORT} --tools all --name beside"));
    output.ends_with(0).shows(&[
        "the same by tools of others",
        "half: 10.0 µs",
        "20.0 µs",
        "half: 11.5 µs",
        "netperf",
        "neper",
        "fortio",
    ]);
    let lines = fs::read_to_string(home.runs().join("beside/tools.jsonl")).unwrap();
    let said: Vec<crate::printed::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Five turns of five tools with two cases: iperf3 does no round trips.
    assert_eq!(said.len(), 5 * 5 * 2, "{said:?}");
    // A machine that is kept busy may not get a tool going in time, and then that is said.
    let late = |one: &crate::printed::Value| {
        ["does not listen", "did not end"].iter().any(|why| one["why"].as_str().unwrap().contains(why))
    };
    assert!(said.iter().all(|one| one["why"] == "" || late(one)), "{said:?}");
    let (first, passes) = (&said[0], said.iter().map(|one| one["pass"].as_u64().unwrap()));
    assert!(first["client"][0].is_string() && passes.max() > Some(5), "{first}");
    // Each turn begins with another one.
    let begins: std::collections::BTreeSet<String> =
        said.chunks(10).map(|turn| format!("{}{}", turn[0]["tool"], turn[0]["case"])).collect();
    assert_eq!(begins.len(), 5, "{begins:?}");
    nothing_is_left(&home);
}

#[test]
fn streams_and_schedules_have_their_own_tools() {
    let Some(home) = home() else { return };
    let stream =
        with_tools(&home, "stream -w 0 -r 5 -c 1000 -o extend=no --tools iperf3,netperf,qperf --progress none");
    stream.ends_with(0).shows(&["iperf3", "21.0 Gbit/s", "20.0 Gbit/s", "Payload at the receiver"]);
    let line = "echo --rate 5k -l 64 -t 500ms -w 0 -r 5 -o extend=no --tools sockperf --progress none";
    with_tools(&home, line).ends_with(0).shows(&["sockperf", "22.0 µs", "half: 11.0 µs"]);
    nothing_is_left(&home);
}

#[test]
fn what_is_not_installed_or_fails_is_named_and_the_rest_answers() {
    let Some(home) = home() else { return };
    executable(&home.path().join("tools/qperf"), "#!/bin/sh\necho planted failure\nexit 7\n");
    fs::remove_file(home.path().join("tools/fortio")).unwrap();
    let output = with_tools(&home, &format!("echo {SHORT} --tools qperf,fortio,netperf --name some"));
    output.ends_with(0).shows(&["netperf", "21.0 µs", "tools without a number", "qperf"]);
    let lines = fs::read_to_string(home.runs().join("some/tools.jsonl")).unwrap();
    assert!(lines.contains("its server ended with status 7; it said: planted failure"), "{lines}");
    if !installed("fortio") {
        assert!(
            lines.contains("\"not installed\"") && lines.contains("go install fortio.org/fortio@latest"),
            "{lines}"
        );
    }
    nothing_is_left(&home);
}

/// Ends give up after 10 s of silence; a turn may take longer.
#[test]
fn a_long_turn_does_not_lose_the_ends() {
    let Some(home) = home() else { return };
    let slow = format!(
        "#!/bin/sh\ncase \"$*\" in *_lat*) sleep 5.5; echo 'latency = 11500 ns' ;; *) {} ;; esac\n",
        server(&home)
    );
    executable(&home.path().join("tools/qperf"), &slow);
    let line =
        "compare -x tcp:send,udp:send -l 64 -w 0 -r 1 -c 1000 -o extend=no --tools qperf --name long --progress none";
    with_tools(&home, line).ends_with(0).shows(&["qperf", "23.0 µs"]);
    nothing_is_left(&home);
}

#[test]
fn tools_that_can_do_nothing_here_are_refused_before_anything_runs() {
    let home = Home::new();
    home.run("echo --tools ping").ends_with(2).says(&["\"ping\" is not a tool", "sockperf"]);
    home.run("echo -x unix:send --tools all").ends_with(2).says(&["no tool does what these cases do"]);
    home.run("echo 127.0.0.1 --tools all").ends_with(2).says(&["on this machine", "leave out the target"]);
    home.run("echo --tools all --json").ends_with(2);
}

#[test]
fn the_preset_answers_with_what_is_there() {
    let Some(home) = home() else { return };
    let out = home.path().join("out");
    let line = format!("preset peers -v -o {} -- -t 200ms -w 0 -r 5 -o extend=no --progress none", out.display());
    let output = with_tools(&home, &line).ends_with(0);
    output.shows(&[
        "Do the tools agree on a round trip?",
        "TCP, times msgpath: sockperf",
        "Which of them print half of it?",
    ]);
    for name in ["answers.html", "tools.svg", "tools-round-trips.csv", "tools-stream.csv", "rate/report.html"] {
        assert!(out.join(name).metadata().is_ok_and(|facts| facts.len() > 100), "{name}");
    }
    nothing_is_left(&home);
}

#[test]
fn a_run_that_is_killed_takes_its_tools_with_it() {
    let Some(home) = home() else { return };
    // Only a server, and a client that does not end.
    executable(
        &home.path().join("tools/qperf"),
        &format!("#!/bin/sh\ncase \"$*\" in *_lat*) set -- -p 0 ;; esac\n{}\n", server(&home)),
    );
    let words: Vec<&str> = "echo -l 64 -w 0 -r 10 -c 1000 --tools qperf --progress none".split(' ').collect();
    let mut command = home.command(&words);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.path().join("tools").display()));
    let running = Running::new(command);
    assert!(within(LIMIT, || left(&home).len() == 2), "{:?}", left(&home));
    running.signal("KILL");
    drop(running.finish(LIMIT));
    nothing_is_left(&home);
}

/// The real ones, where they are installed: one turn each.
#[test]
fn what_is_installed_is_understood() {
    let home = Home::new();
    for (at, (name, program, line)) in [
        ("sockperf", "sockperf", "echo -x tcp:send -l 64"),
        ("sockperf", "sockperf", "echo -x udp:send/spin -l 64"),
        ("qperf", "qperf", "echo -x tcp:send -l 64"),
        ("qperf", "qperf", "echo -x udp:send -l 64"),
        ("netperf", "netserver", "echo -x tcp:send -l 64"),
        ("iperf3", "iperf3", "stream -l 128K"),
    ]
    .into_iter()
    .enumerate()
    {
        if !installed(program) {
            eprintln!("skipped: no {name}");
            continue;
        }
        let line = format!("{line} -w 0 -r 1 -t 50ms -o extend=no,what-ifs=no --progress none");
        home.run(&format!("{line} --tools {name} --name run-{at}")).ends_with(0).shows(&[name]);
        let lines = fs::read_to_string(home.runs().join(format!("run-{at}/tools.jsonl"))).unwrap();
        let work = if name == "iperf3" { Work::Stream } else { Work::RoundTrips };
        let exchange = Exchange { over: Over::Tcp, work, size: 64, spin: false };
        for line in lines.lines() {
            let one: crate::printed::Value = serde_json::from_str(line).unwrap();
            if let Some(late) =
                one["why"].as_str().filter(|why| why.contains("within") || why.contains("does not listen"))
            {
                eprintln!("skipped: {name} was kept from running: {late}");
                continue;
            }
            assert_eq!(one["why"], "", "{one:#}");
            let output = one["output"].as_str().unwrap();
            let printed = (tool(name).unwrap().read)(&exchange, output).unwrap_or_else(|why| panic!("{why}\n{output}"));
            // Between a fast pair that spins and a machine that does much else.
            let sane = printed.round_trip(printed.p50.or(printed.mean)).is_none_or(|ns| (500.0..500e6).contains(&ns));
            assert!(sane && printed.bits.is_none_or(|bits| bits > 1e5), "{printed:?}\n{output}");
        }
    }
}

/// As `iperf3 -J` writes it, with so many intervals.
fn iperf3(intervals: u64) -> String {
    let interval = |at: u64| {
        let bytes = 1_250_000_000 + at % 7 * 1_000_000;
        format!(r#"{{"sum": {{"start": {at}, "seconds": 1.0, "bytes": {bytes}, "omitted": false, "sender": true}}}}"#)
    };
    let all: Vec<String> = (0..intervals).map(interval).collect();
    format!(
        r#"{{"start": {{"version": "iperf 3.12", "connected": [{{"local_host": "10.0.0.1", "remote_host": "10.0.0.2",
            "remote_port": 5201}}], "timestamp": {{"timesecs": 1795773600}}, "test_start": {{"protocol": "TCP",
            "num_streams": 1, "blksize": 131072}}}}, "intervals": [{}],
            "end": {{"sum_sent": {{"bits_per_second": 1e10}}, "sum_received": {{"bits_per_second": 9.87e9}}}}}}"#,
        all.join(",")
    )
}

/// A capture of the loopback device, raw packets of IPv4: so many round trips of 200 µs with port 80.
fn pcap(trips: u32) -> Vec<u8> {
    let packet = |us: u32, [from, to]: [u16; 2], sequence: u32| {
        let mut ip = vec![0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
        ip.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        ip.extend([sequence.to_be_bytes(), [0; 4], [0x50, 0x18, 0, 0], [0; 4]].concat());
        ip.extend([0; 10]);
        let words = [1_700_000_000, us, ip.len() as u32, ip.len() as u32];
        [words.map(u32::to_le_bytes).concat(), ip].concat()
    };
    let trip = |at: u32| {
        let request = packet(at * 1000, [40_000, 80], at * 10);
        [request, packet(at * 1000 + 200, [80, 40_000], at * 10)].concat()
    };
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101];
    [head.map(u32::to_le_bytes).concat(), (0..trips).flat_map(trip).collect()].concat()
}

#[test]
fn results_of_tools_become_runs() {
    let home = Home::new();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    write("iperf3.json", &iperf3(20));
    let output = home.run("import iperf3.json --name one").ends_with(0);
    output.shows(&["iperf3's JSON (iperf 3.12), 20 rounds", "was shared out over them", "9.89 Gbit/s", "W186"]);
    home.run("import iperf3.json --name two").ends_with(0);
    let json = home.run("show one --json").ends_with(0).json();
    assert_eq!(json["imported"][0], "iperf3.json");
    home.run("report one two -o page.html").ends_with(0);
    home.run("diff one two").ends_with(0);
    home.run("verify one").ends_with(0);
    home.run("runs").ends_with(0).shows(&["10.0.0.2:5201"]);
    std::fs::write(home.path().join("round-trips.pcap"), pcap(100)).unwrap();
    // What we export of a run of echoes comes in again: all rounds of a log, and one of a distribution.
    home.run("echo -c 2000 -r 10 -w 0 -o extend=no --name own -q").ends_with(0);
    let p50 = |form: &str| {
        home.run(&format!("export own --to {form} -o own.{form}")).ends_with(0);
        home.run(&format!("import own.{form} --name {form}")).ends_with(0).shows(&["as round trips", "unknown"]);
        home.run(&format!("report {form} -o page.html")).ends_with(0);
        home.run(&format!("verify {form}")).ends_with(0);
        let json = home.run(&format!("show {form} --json")).ends_with(0).json();
        let cases = json["cases"].as_array().unwrap();
        let case =
            cases.iter().find(|case| case["case"]["label"] == "tcp:send_64B").unwrap_or_else(|| panic!("{json}"));
        case["quantiles"][0]["ns"].as_f64().unwrap()
    };
    let (log, distribution) = (p50("hlog"), p50("hgrm"));
    assert!((log / distribution - 1.0).abs() < 0.01, "{log} {distribution}");
    home.msgpath(&["import", "round-trips.pcap", "--name", "pcap"]).ends_with(0).shows(&[
        "200 µs",
        "127.0.0.1:80",
        "tcp:unknown",
    ]);
    let gzip = Command::new("sh").current_dir(home.path()).args(["-c", "gzip -k round-trips.pcap"]).status().unwrap();
    assert!(gzip.success());
    home.run("import round-trips.pcap.gz --name packed").ends_with(0).shows(&["200 µs"]);
    // What netperf wrote, and what it does not tell.
    let omni = "THROUGHPUT=1000.00\nTHROUGHPUT_UNITS=Trans/s\nELAPSED_TIME=2.00\nMIN_LATENCY=10\nP50_LATENCY=20\n\
                P99_LATENCY=40\nMAX_LATENCY=500\nREQUEST_SIZE=64\nPROTOCOL=TCP\n";
    write("omni.txt", omni);
    home.run("import omni.txt --name omni").ends_with(0).shows(&[
        "omni output of netperf",
        "tcp:send",
        "64 B",
        "20.0 µs",
    ]);
    home.run("verify omni").ends_with(0);
    write("few.txt", "MEAN_LATENCY=20\n");
    home.run("import few.txt").ends_with(3).says(&["E31", "ELAPSED_TIME", "-k THROUGHPUT"]);
    // A unit that nobody names is asked for.
    write("plain.hgrm", "Value Percentile TotalCount 1/(1-Percentile)\n\n1.0 0.5 5 2.0\n3.0 1.0 10\n");
    home.run("import plain.hgrm").ends_with(3).says(&["E31", "in which unit", "--unit us"]);
    let plain = home.run("import plain.hgrm --unit ms").ends_with(0).shows(&["1.00 ms"]);
    assert!(!plain.out.contains("next   msgpath import"), "no option of import measures more: {}", plain.out);
    // A size that nobody tells is not 1 byte, nowhere.
    write("stream.txt", "THROUGHPUT=9000.00\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=2.00\nPROTOCOL=TCP\n");
    home.run("import plain.hgrm --unit ms --name plain").ends_with(0);
    home.run("import stream.txt --name stream")
        .ends_with(0)
        .shows(&["messages n/a: their size is not known", "9.00 Gbit/s"]);
    for name in ["plain", "stream"] {
        let shown = home.run(&format!("show {name} -v")).ends_with(0);
        assert!(shown.out.contains("size unknown") && !shown.out.contains(" 1 B"), "{}", shown.out);
        home.run(&format!("verify {name}")).ends_with(0);
        let json = home.run(&format!("show {name} --json")).ends_with(0).json();
        let case = &json["cases"][0]["case"];
        assert!(case["size_bytes"].is_null() && case["why"]["size_bytes"].is_string(), "{case}");
        let rounds = home.run(&format!("export {name} --to csv")).ends_with(0).out;
        let row: Vec<&str> = rounds.lines().nth(1).unwrap().split(',').collect();
        let column =
            |column: &str| row[rounds.lines().next().unwrap().split(',').position(|head| head == column).unwrap()];
        let counted = if name == "plain" { "near_bytes_sent" } else { "near_sent" };
        assert_eq!(["size_bytes", "reply_bytes", "pieces", counted].map(column), [""; 4]);
        let cases = home.run(&format!("export {name} --to cases-csv")).ends_with(0).out;
        assert!(cases.contains(",,,1,1,") && !cases.contains("1x1"), "{cases}");
        let whole = home.run(&format!("export {name} --to json")).ends_with(0).json();
        assert!(whole["header"]["plan"]["cases"][0]["size_bytes"].is_null());
        home.run(&format!("report {name} -o page.html")).ends_with(0);
    }
    home.run("import plain.hgrm --unit days").ends_with(2).says(&["no unit of time"]);
    home.run("import plain.hgrm iperf3.json").ends_with(2).says(&["a run of its own"]);
}
