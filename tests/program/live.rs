//! What is seen of a run while it goes on: metrics for Prometheus, lines for other programs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::command::{Home, LIMIT, free_port};

/// Reads an exposition with the parser of Prometheus' own client, where Python has it.
fn parsed(text: &str) {
    let script = "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
                  print(sum(len(family.samples) for family in parse(sys.stdin.read())))";
    let python = std::env::var("MSGPATH_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let known = Command::new(&python).args(["-c", "import prometheus_client.openmetrics.parser"]).output();
    if !known.is_ok_and(|known| known.status.success()) {
        return eprintln!("skipped: {python} has no prometheus_client");
    }
    let mut child = Command::new(&python)
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("a reader");
    let given = child.wait_with_output().expect("an end");
    assert!(given.status.success(), "{text}");
    let samples: usize = String::from_utf8_lossy(&given.stdout).trim().parse().expect("a number");
    assert_eq!(samples, text.lines().filter(|line| !line.starts_with('#')).count());
}

/// The value of the only sample whose line begins so.
fn sample(text: &str, begins: &str) -> f64 {
    let mut found = text.lines().filter(|line| line.starts_with(begins));
    let line = found.next().unwrap_or_else(|| panic!("{begins}: {text}"));
    assert!(found.next().is_none(), "{begins}");
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn metrics_of_each_verb_go_into_a_file() {
    let home = Home::new();
    let file = home.path().join("metrics.prom").to_str().expect("a plain path").to_owned();
    for (line, family) in [
        ("echo -x unix:send -c 300 -r 5 -w 0 -o what-ifs=no,events=off,extend=no", "msgpath_latency_seconds_count"),
        ("stream -x unix:send -c 300 -r 5 -w 0 -o extend=no,events=off", "msgpath_received_bytes_total"),
        ("rpc here -k 200 ping", "msgpath_latency_seconds_count"),
        ("periodic -x udp -n 2 -c 60 --period 5ms", "msgpath_latency_seconds_count"),
    ] {
        home.run(&format!("{line} --no-save --open-metrics {file}")).ends_with(0);
        let text = std::fs::read_to_string(&file).expect("metrics");
        assert!(text.ends_with("# EOF\n"), "{text}");
        let measured: f64 = text
            .lines()
            .filter(|line| line.starts_with(family) && line.contains("role=\"measured\""))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert!(measured > 0.0, "{line}: {text}");
        let (done, of) = (sample(&text, "msgpath_run_rounds_recorded{"), sample(&text, "msgpath_run_rounds_planned{"));
        assert!(done > 0.0 && done <= of, "{line}: {done} of {of}");
        parsed(&text);
    }
    let beside: Vec<_> = std::fs::read_dir(home.path()).expect("a folder").flatten().collect();
    assert!(beside.iter().all(|file| !file.file_name().to_string_lossy().ends_with(".tmp")), "{beside:?}");
}

#[test]
fn metrics_are_told_on_this_machine_alone() {
    let home = Home::new();
    home.run("echo --open-metrics 0.0.0.0:9464").ends_with(2).says(&["an address of this machine alone"]);
    home.run("echo --open-metrics [2001:db8::1]:9464").ends_with(2).says(&["an address of this machine alone"]);
    home.run("echo --open-metrics :99999").ends_with(2);
    home.run("echo -c 5 --open-metrics /nowhere/metrics.prom").ends_with(2).says(&["/nowhere/metrics.prom"]);
}

#[test]
fn whoever_asks_is_told_while_the_run_goes_on() {
    let home = Home::new();
    let port = free_port();
    let running =
        home.start(&format!("echo -x unix:send -t 20s -r 200 -w 0 --no-save --open-metrics 127.0.0.1:{port}"));
    let mut heard = String::new();
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(50));
        let Ok(mut client) = TcpStream::connect(("127.0.0.1", port)) else { continue };
        // One that says nothing, beside one that asks.
        let silent = TcpStream::connect(("127.0.0.1", port));
        client.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
        if client.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").is_err() {
            continue;
        }
        heard.clear();
        let _ = client.read_to_string(&mut heard); // what came is looked at
        drop(silent);
        if heard.contains("msgpath_latency_seconds_count") {
            break;
        }
    }
    running.signal("INT");
    running.finish(LIMIT);
    let (head, text) = heard.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{heard}"));
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("application/openmetrics-text"), "{head}");
    assert!(sample(text, "msgpath_run_rounds_recorded{") > 0.0);
    parsed(text);
}

#[test]
fn rounds_of_calls_and_of_components_are_lines() {
    let home = Home::new();
    for (line, most) in [("rpc here -k 200 ping", 40), ("periodic -x udp -n 2 -c 60 --period 5ms", 10)] {
        let given = home.run(&format!("{line} --jsonl --no-save"));
        let given = given.ends_with(0);
        let lines: Vec<crate::printed::Value> =
            given.out.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
        let (rounds, last) = lines.split_at(lines.len() - 1);
        assert!((1..=most).contains(&rounds.len()), "{line}");
        assert!(
            rounds.iter().all(|round| round["schema"] == "msgpath/round/1" && round["p50_ns"].as_u64().is_some()),
            "{line}"
        );
        assert_eq!(last[0]["schema"], "msgpath/run/3");
    }
}
