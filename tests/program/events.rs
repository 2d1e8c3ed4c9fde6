//! Events of CPU and kernel, counted at both ends or refused with a reason, and cachegrind's simulation.

use std::path::Path;

use msgpath_core::Plan;
use msgpath_core::schema::{EndReport, EventCounts, FAR, NEAR, RoundRecord};

use crate::command::{Home, Output};

const ECHO: &str = "echo -c 400 -r 8 -w 0 -o what-ifs=no --no-save";

fn near<'a>(value: &'a crate::printed::Value, name: &str, simulated: bool) -> Option<&'a crate::printed::Value> {
    let rates = value["cases"][0]["ends"][0]["events"].as_array()?;
    rates.iter().find(|rate| rate["name"] == name && rate["simulated"] == simulated)
}

#[test]
fn switches_are_counted_at_both_ends_and_agree_with_getrusage() {
    let home = Home::new();
    let value = home.run(&format!("{} -o events=on --name counted --json", ECHO.replace(" --no-save", "")));
    let value = value.ends_with(0).json();
    for end in [0, 1] {
        let rates = value["cases"][0]["ends"][end]["events"].as_array().unwrap();
        let of = |name: &str| rates.iter().find(|rate| rate["name"] == name).unwrap();
        if of("context-switches")["per_message"].is_null() {
            return println!("skipped: {}", of("context-switches")["why"]);
        }
        // Counted, or null with a reason: never 0 cycles.
        let cycles = of("cycles");
        match cycles["per_message"].get("value").and_then(crate::printed::Value::as_f64) {
            Some(cycles) => assert!(cycles > 0.0),
            None => assert!(cycles["per_message"].is_null() && cycles["why"].is_string(), "{cycles}"),
        }
    }
    // Both counted the same rounds: what a busy machine adds, it adds to both.
    let run = msgpath_record::read(&home.runs().join("counted")).unwrap();
    let counted = |case: u32| run.header.plan.cases.iter().any(|one| one.id == case && Plan::counted(one));
    let rounds: Vec<_> = run.rounds.iter().filter(|round| counted(round.case)).collect();
    assert!(!rounds.is_empty());
    for (end, of) in [
        ("near", (|round| (&round.end(NEAR).events, round.near())) as fn(&RoundRecord) -> (&EventCounts, &EndReport)),
        ("far", |round| (&round.end(FAR).events, round.far())),
    ] {
        let sums = rounds.iter().map(|round| {
            let (events, report) = of(round);
            (events["context-switches"].count, report.voluntary_switches + report.involuntary_switches)
        });
        let (by_event, by_usage) = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(by_event.abs_diff(by_usage) <= by_usage / 10 + 2, "{end}: {by_event} and {by_usage}");
    }
}

#[test]
fn events_can_be_switched_off() {
    let value = Home::new().run(&format!("{ECHO} -o events=off --json")).ends_with(0).json();
    assert_eq!(value["cases"][0]["ends"][0]["events"], serde_json::json!([]));
}

#[test]
fn without_a_cpu_that_counts_nothing_is_counted_unless_it_is_asked_for() {
    let home = Home::new();
    home.run("echo -c 40 -r 5 -w 0 -o what-ifs=no --name auto -qq").ends_with(0);
    let text = std::fs::read_to_string(home.runs().join("auto/run.json")).unwrap();
    let header: crate::printed::Value = serde_json::from_str(&text).unwrap();
    if header["plan"]["events"] == true {
        return println!("skipped: a CPU counts here");
    }
    assert_eq!(header["plan"]["events"], false, "{text}");
    assert!(!text.contains("\"counted\": \"") && header["plan"]["cases"].as_array().unwrap().len() == 1, "{text}");
}

#[test]
fn threads_are_recorded_one_by_one() {
    let home = Home::new();
    home.run("echo -c 400 -r 5 -w 0 -T 2 -o what-ifs=no,events=on --name two -qq").ends_with(0);
    let bytes = std::fs::read(home.runs().join("two/rounds.mpl")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("\"threads\":[{\"cpu\":"));
    home.run("verify two").ends_with(0);
    let csv = home.run("export two --to csv").ends_with(0);
    let head = csv.out.lines().next().unwrap_or_default().to_owned();
    if !head.contains("_events_") {
        return println!("skipped: no event can be counted here (perf_event_open)");
    }
    // Without privileges switches happen in a mode that is not counted; page faults are counted everywhere.
    assert!(head.contains("near_events_page_faults") && head.contains("far_events_page_faults"), "{head}");
}

fn simulated(line: &str) -> Option<Output> {
    let home = Home::new();
    let installed = ["/usr/bin/valgrind", "/usr/local/bin/valgrind"].iter().any(|file| Path::new(file).is_file());
    // Where no case could be simulated the run has not brought what was asked for.
    let output = home.run(line);
    let given_up = output.out.contains("took more than");
    let output = output.ends_with(if installed && !given_up { 0 } else { 4 });
    assert_eq!(std::fs::read_dir(home.temporary()).unwrap().count(), 0, "something is left behind");
    if !installed {
        assert!(output.out.contains("valgrind is not installed"), "{}", output.out);
        println!("skipped: no valgrind");
        return None;
    }
    Some(output)
}

#[test]
fn the_loop_is_simulated_and_the_figures_say_so() {
    let Some(output) = simulated(&format!("{ECHO} -o simulate-cache=yes --json")) else { return };
    let value = output.json();
    let instructions = near(&value, "instructions", true).unwrap();
    if instructions.get("why").and_then(crate::printed::Value::as_str).is_some_and(|why| why.contains("took more than"))
    {
        println!("skipped: {}", instructions["why"]);
        return;
    }
    let each = instructions["per_message"]["value"].as_f64().unwrap_or_else(|| panic!("{instructions}"));
    // Two calls, two stamps and a check of 64 bytes: neither nothing nor a program's start.
    assert!((50.0..100_000.0).contains(&each), "{each}");
    assert!(near(&value, "instructions", false).is_none_or(|counted| counted["simulated"] == false));
}

#[test]
fn what_depends_on_time_is_not_simulated() {
    let Some(output) = simulated(&format!("{ECHO} -x tcp:send/poll,tcp:send/spin -o simulate-cache=yes --json")) else {
        return;
    };
    let value = output.json();
    let spin = value["cases"].as_array().unwrap().iter().find(|case| case["case"]["path"] == "tcp:send/spin");
    let rates = spin.unwrap()["ends"][0]["events"].as_array().unwrap().clone();
    let simulated = rates.iter().find(|rate| rate["simulated"] == true).unwrap();
    assert!(simulated["per_message"].is_null() && simulated["why"].as_str().unwrap().contains("spins"), "{simulated}");
}
