//! `doctor`, `diff` and `verify`, as a user starts them.

use crate::command::Home;

/// A home with two runs of the same measurement.
fn two_runs() -> Home {
    let home = Home::new();
    for name in ["old", "new"] {
        home.run(&format!("echo -w 0 -o what-ifs=no -x unix:send -t 1s -r 20 --name {name}")).ends_with(0);
    }
    home
}

#[test]
fn doctor_examines_both_ends() {
    let value = Home::new().run("doctor --json").ends_with(0).json();
    let checks = value["checks"].as_array().unwrap();
    for number in 1..=21 {
        assert!(checks.iter().any(|check| check["number"] == number), "no check {number}");
    }
    for check in checks {
        let state = check["state"].as_str().unwrap();
        assert!(["ok", "warn", "stop", "not_available"].contains(&state), "{check}");
        assert!(!check["what"].as_str().unwrap().is_empty(), "{check}");
        assert_eq!(matches!(state, "warn" | "stop"), check["cure"] != "", "a cure for each warning: {check}");
    }
    let ends = ["near", "far"].map(|end| checks.iter().filter(|check| check["end"] == end).count());
    assert!(ends[0] >= 20 && ends[0] == ends[1], "{ends:?}");
    // These tests run a debug build: a claim is what it cannot make.
    let build = checks.iter().find(|check| check["number"] == 20).unwrap();
    assert_eq!(build["state"] == "stop", cfg!(debug_assertions), "{build}");
}

#[test]
fn doctor_prints_one_line_a_check_and_changes_nothing() {
    let home = Home::new();
    let before = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_slow_start_after_idle").ok();
    home.run("doctor --fix").ends_with(0).shows(&["#"]);
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_slow_start_after_idle").ok(), before);
    if cfg!(debug_assertions) {
        // The commands to type are this one with an option more.
        home.run("doctor --strict").ends_with(5).shows(&["more: msgpath doctor --strict -v"]);
    }
    assert!(!home.runs().exists(), "doctor keeps no run");
}

#[test]
fn every_run_keeps_what_doctor_said() {
    let home = Home::new();
    home.run("echo -w 0 -x unix:send -c 40 -r 5 --name kept").ends_with(0);
    let header = std::fs::read_to_string(home.runs().join("kept/run.json")).unwrap();
    let header: crate::printed::Value = serde_json::from_str(&header).unwrap();
    assert!(header["doctor"]["checks"].as_array().unwrap().len() >= 40, "{}", header["doctor"]);
    assert!(header["floors"]["copy_bytes_per_s"].as_f64().unwrap() > 1e6, "{}", header["floors"]);
    assert!(header["ends"][0]["counters"].as_array().unwrap().iter().any(|name| name == "TcpExt.DelayedACKs"));
}

#[test]
fn two_runs_of_the_same_are_compared_and_gates_judge_them() {
    let home = two_runs();
    let value = home.run("diff old new --json").ends_with(0).json();
    assert!(!value["rows"].as_array().unwrap().is_empty(), "{value}");
    // Beside other work one of two runs may be many times as slow, surely; not ten thousand times.
    home.msgpath(&["diff", "old", "new", "--fail-if", "p50 > +1000000%"]).ends_with(0);
    home.msgpath(&["diff", "old", "old", "--fail-if", "p50 > +300%"]).ends_with(0);
    // Whatever this machine does, a median of a few µs is surely above 1 ns.
    home.msgpath(&["diff", "old", "new", "--fail-if", "p50 > 1ns"]).ends_with(1).says(&["p50"]);
    home.msgpath(&["diff", "old", "new", "--fail-if", "latency > 5%"]).ends_with(2).says(&["a gate looks like"]);
    home.msgpath(&["diff", "old", "newer"]).ends_with(2).says(&["is not a run"]);
}

#[test]
fn one_run_has_one_median_and_says_what_the_last_runs_had() {
    let home = Home::new();
    let measure = |name: &str| {
        home.run(&format!("echo -w 0 -o what-ifs=no -x unix:send -t 500ms -r 6 --name {name}")).ends_with(0).out
    };
    let (one, two) = (measure("one"), measure("two"));
    let row = |text: &str| text.lines().find(|line| line.trim_start().starts_with("p50 ")).unwrap().to_owned();
    for (name, text) in [("one", &one), ("two", &two)] {
        assert!(!text.to_lowercase().contains("no claim"), "{text}");
        let case = home.run(&format!("show {name} --json")).ends_with(0).json()["cases"][0].clone();
        let p50 = &case["quantiles"][0];
        let ns = p50["ns"].as_f64().unwrap();
        assert!(p50["lo_ns"].as_f64().unwrap() <= ns && p50["range"].is_string(), "{p50}");
        let printed = msgpath_core::units::Glyphs::Unicode.time(ns);
        assert!(row(text).contains(&printed), "{printed}: {text}");
        assert_eq!(row(&home.run(&format!("show {name}")).ends_with(0).out), row(text));
        home.run(&format!("report {name}")).ends_with(0);
        let page = std::fs::read_to_string(home.runs().join(name).join("report.html")).unwrap();
        assert!(page.contains(&format!("<td>{printed}</td>")), "{printed}");
        home.run(&format!("verify {name}")).ends_with(0);
        let rows = home.run("diff one two --json").ends_with(0).json()["rows"].clone();
        let row = rows.as_array().unwrap().iter().find(|row| row["metric"] == "p50").unwrap().clone();
        let own = row[if name == "one" { "a" } else { "b" }].as_f64().unwrap();
        assert!((own - ns).abs() < 1e-3, "{own} in diff, {ns} in show");
        // The ratio is that of the two medians.
        let ratio = row["b"].as_f64().unwrap() / row["a"].as_f64().unwrap();
        assert!((row["ratio"].as_f64().unwrap() - ratio).abs() < 1e-6, "{row}");
    }
    assert!(!one.contains("last "), "{one}");
    assert!(two.contains("last 2 runs here"), "{two}");
    let between = home.run("show two --json").json()["cases"][0]["between"][0].clone();
    assert_eq!((&between["count"], &between["predicts"]), (&2.into(), &false.into()), "{between}");
}

#[test]
fn every_kind_of_run_has_one_median() {
    let home = Home::new();
    let show = |name: &str| home.run(&format!("show {name} --json")).ends_with(0).json();
    let of_case = |json: &crate::printed::Value, case: &crate::printed::Value| {
        let id = case.as_u64().expect("the id of a case") as usize;
        json["cases"][id]["quantiles"][0]["ns"].as_u64().expect("a p50")
    };
    let printed = |ns: u64| msgpath_core::units::Glyphs::Unicode.time(ns as f64);

    let compared = "compare -x unix:send,pipe:write -l 64 -c 300 -r 5 -w 0 -o what-ifs=no,refine=no --name compared";
    let text = home.run(compared).ends_with(0).out;
    let p50 = of_case(&show("compared"), &0.into());
    assert!(text.contains(&printed(p50)), "{p50}: {text}");

    let text = home.run("rpc here -k 60 ping --expect 10us --name calls").ends_with(0).out;
    let json = show("calls");
    let kind = &json["rpc"]["kinds"][0];
    let p50 = of_case(&json, &kind["case"]);
    assert_eq!(kind["expected"]["measured_ns"].as_f64(), Some(p50 as f64), "{kind}");
    assert!(text.contains(&format!("measured {}", printed(p50))), "{p50}: {text}");

    let text = home.run("periodic -x shm -n 3 -c 30 --first 5 --period 10ms --name set").ends_with(0).out;
    let json = show("set");
    let p50 = of_case(&json, &0.into());
    assert_eq!(json["periodic"]["engines"][0]["steady"]["p50_ns"], p50, "{}", json["periodic"]);
    let steady = text.lines().find(|line| line.trim_start().starts_with("steady ")).expect("a row").to_owned();
    assert!(steady.contains(&printed(p50)), "{p50}: {steady}");

    let text = home.run("explain --layers -c 60 -r 5 -w 0 --name layers").ends_with(0).out;
    let json = show("layers");
    let layers = json["layers"].as_array().unwrap();
    assert!(layers.len() > 2, "{layers:?}");
    for layer in layers {
        let p50 = of_case(&json, &layer["case"]);
        assert_eq!(layer["median"]["ns"], p50, "{layer}");
        let name = format!("{}  ", layer["name"].as_str().unwrap());
        let row = text.lines().find(|line| line.trim_start().starts_with(&name)).expect("a row").to_owned();
        assert!(row.contains(&printed(p50)), "{p50}: {row}");
    }
}

#[test]
fn a_worse_run_fails_the_gate() {
    // No message of the second run is faster than its service time, and whatever else runs here, half of those of the first are.
    let home = Home::new();
    home.run("echo -w 0 -o what-ifs=no -x unix:send -t 2s -r 20 --name old").ends_with(0);
    home.run("echo -w 0 -o what-ifs=no -x unix:send -t 2s -r 20 -o service-time=20ms --name new").ends_with(0);
    // The service time is part of what was measured, so the two are not the same measurement.
    home.msgpath(&["diff", "old", "new", "--fail-if", "p50 > +20%"]).ends_with(3).says(&["service time"]);
    let gate = ["diff", "old", "new", "--fail-if", "p50 > +20%", "--i-know"];
    home.msgpath(&gate).ends_with(1).says(&["p50"]);
}

#[test]
fn runs_of_different_machines_are_not_compared_unless_told() {
    let home = two_runs();
    let text = std::fs::read_to_string(home.runs().join("new/run.json")).unwrap();
    let header: crate::printed::Value = serde_json::from_str(&text).unwrap();
    let kernel = format!("\"kernel\": {}", header["hosts"][0]["kernel"]);
    crate::resume::rewrite(&home, "new", &kernel, "\"kernel\": \"5.4.0-other\"");
    home.run("diff old new").ends_with(3).says(&["kernel", "5.4.0-other", "--i-know"]);
    home.run("diff old new --i-know").ends_with(0);
}

#[test]
fn verify_recomputes_what_was_printed() {
    let home = Home::new();
    for (name, options) in [
        ("closed", "echo -x unix:send -c 3000 -r 10 -o what-ifs=no"),
        ("open", "echo -x unix:send --rate 2k -t 500ms -r 5"),
        ("bulk", "stream -t 500ms"),
        ("many", "compare -x unix:send,pipe:write -l 64,1K -t 200ms -r 5"),
    ] {
        home.run(&format!("{options} -w 0 --name {name}")).ends_with(0);
        home.run(&format!("verify {name}")).ends_with(0).shows(&["agree"]);
    }
    // One digit of a printed number changed by hand.
    let path = home.runs().join("closed/summary.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    let p50 = summary.pointer_mut("/cases/0/quantiles/0/ns").expect("a median");
    *p50 = (p50.as_u64().unwrap() + 1).into();
    std::fs::write(&path, summary.to_string()).unwrap();
    let output = home.run("verify closed").ends_with(1);
    assert!((output.out + &output.err).contains("quantiles"), "the number is named");
    // A record that was cut off.
    let rounds = home.runs().join("bulk/rounds.mpl");
    let bytes = std::fs::read(&rounds).unwrap();
    std::fs::write(&rounds, &bytes[..bytes.len() - 100]).unwrap();
    home.run("verify bulk").ends_with(4);
    home.run("show bulk").ends_with(0).shows(&["cut short", "whole up to byte"]);
}
