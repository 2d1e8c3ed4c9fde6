//! `--fail-if` on the measuring verbs, and what CI reads of it.

use crate::command::{Home, Output};

/// A short run of enough rounds for a range.
const SHORT: &str = "-w 0 -o what-ifs=no -x unix:send -c 2000 -r 20";

/// Measures with these gates.
#[track_caller]
fn measured(home: &Home, line: &str, gates: &[&str]) -> Output {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    gates.iter().for_each(|gate| words.extend(["--fail-if", gate]));
    home.msgpath(&words)
}

#[test]
fn a_run_that_is_surely_beyond_a_limit_fails() {
    // Whatever this machine does, a median of a few µs is surely above 1 ns, and surely below 10 s.
    let home = Home::new();
    let failed = measured(&home, &format!("echo {SHORT} --name bad"), &["p50 > 1ns", "p50 > 10s", "loss > 50%"]);
    failed
        .ends_with(1)
        .shows(&["gates\n", "failed (sure)  p50 > 1ns", "passed         p50 > 10s", "passed         loss > 50%"])
        .says(&["error[E25]: --fail-if: p50 > 1ns for unix:send 64 B"]);
    let passed = measured(&home, &format!("echo {SHORT} --name good -q"), &["p50 > 10s"]).ends_with(0);
    assert!(passed.out.contains("passed  p50 > 10s") && !passed.err.contains("p50"), "{passed:?}");
    let silent = measured(&home, &format!("echo {SHORT} --no-save -qq"), &["p50 > 1ns"]).ends_with(1);
    assert!(silent.out.is_empty() && silent.err.is_empty(), "{silent:?}");
    // The gates are the run's.
    home.run("show bad").ends_with(0).shows(&["failed (sure)  p50 > 1ns"]);
    home.run("verify bad").ends_with(0);
    let json = home.run("show bad --json").ends_with(0).json();
    let gate = &json["gates"][0];
    assert_eq!((&gate["gate"], &gate["state"], &gate["unit"]), (&"p50 > 1ns".into(), &"failed".into(), &"ns".into()));
    let case = &gate["cases"][0];
    assert_eq!((&case["case"], &case["name"], &case["state"]), (&0.into(), &"unix:send 64 B".into(), &"failed".into()));
    let p50 = json["cases"][0]["quantiles"][0]["ns"].as_f64().unwrap();
    assert!((case["value"].as_f64().unwrap() / p50 - 1.0).abs() < 1e-6 && case["low"].as_f64() > Some(1.0), "{case}");
    assert_eq!(home.run("show good --json").json()["gates"][0]["state"], "passed");
}

#[test]
fn every_measuring_verb_takes_gates() {
    let home = Home::new();
    let streams = ["throughput < 1000000 Gbit/s", "throughput < 1 bit/s", "rate < 0.001 msg/s"];
    measured(&home, "stream -w 0 -t 300ms -r 10 -x unix:send --no-save", &streams)
        .ends_with(1)
        .shows(&["failed (sure)  throughput < 1000000 Gbit/s", "passed         throughput < 1 bit/s"])
        .shows(&["passed         rate < 0.001 msg/s"]);
    let compared = "compare -x unix:send,pipe:write -l 64 -c 1000 -r 10 -w 0 -o what-ifs=no,refine=no --no-save";
    measured(&home, compared, &["p50 > 1ns"]).ends_with(1).shows(&["and 1 more of 2"]);
    measured(&home, "rpc here -k 500 ping -r 10 --no-save", &["p50 > 1ns", "rate < 0.001 msg/s"])
        .ends_with(1)
        .shows(&["failed (sure)  p50 > 1ns"])
        .says(&["E25"]);
    let periodic = "periodic -x shm -n 3 -c 60 --first 5 --period 5ms --no-save";
    measured(&home, periodic, &["p50 > 1ns", "loss > 90%"]).ends_with(1).shows(&["passed         loss > 90%"]);
}

#[test]
fn what_is_not_decided_passes_unless_strict() {
    // Three rounds have no range.
    let few = "echo -w 0 -o what-ifs=no -x unix:send -c 30 -r 3 --no-save";
    let home = Home::new();
    measured(&home, few, &["p50 > 1ns"])
        .ends_with(0)
        .shows(&["can't tell  p50 > 1ns"])
        .says(&["warning: p50 > 1ns was not decided for unix:send 64 B, and passes"]);
    measured(&home, &format!("{few} --strict"), &["p50 > 1ns"]).ends_with(5);
}

#[test]
fn a_gate_that_makes_no_sense_is_refused_before_anything_is_measured() {
    let home = Home::new();
    for (line, gate, says) in [
        ("echo", "p99 > 5", "neither a percentage nor a time such as 200us or 1ms"),
        ("echo", "p99 > 5 Gbit/s", "a gate looks like 'p99 > 1ms'"),
        ("stream", "throughput < 5ms", "nor bits per second such as 5 Gbit/s"),
        ("echo", "p99 < 1ms", "use >"),
        ("echo", "throughput < 5 Gbit/s", "echoes have no throughput"),
        ("stream", "p99 > 1ms", "watch throughput, cpu, rate or loss"),
        ("compare --stream", "p99 > 1ms", "streams have no p99"),
        ("rpc here ping", "cpu > 1us", "runs of calls have no cpu"),
        ("periodic", "rate < 1 msg/s", "periodic runs have no rate"),
        ("echo", "p99 > +5%", "a change needs an earlier run"),
        ("echo", "p99 > +5%", "msgpath diff OLD NEW --fail-if 'p99 > +5%'"),
    ] {
        measured(&home, line, &[gate]).ends_with(2).says(&[says]);
    }
    assert!(!home.runs().exists(), "nothing was measured");
}

#[test]
fn two_runs_are_held_to_limits_of_one() {
    let home = Home::new();
    for name in ["old", "new"] {
        home.run(&format!("echo {SHORT} --name {name}")).ends_with(0);
    }
    let diff = |gate: &str| home.msgpath(&["diff", "old", "new", "--i-know", "--fail-if", gate]);
    diff("rate < 0.001 msg/s").ends_with(0).shows(&["passed", "rate < 0.001 msg/s"]);
    diff("rate < 100M msg/s").ends_with(1).shows(&["failed (sure)"]);
}
