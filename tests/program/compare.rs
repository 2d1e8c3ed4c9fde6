//! `msgpath compare`, as a user starts it.

use crate::printed::Value;

use crate::command::Home;

const TINY: &str = "compare -x tcp:send,unix:send -l 64,1K -r 5 -c 500 -w 0.02s";

#[test]
fn the_whole_answer() {
    let home = Home::new();
    let output = home.run(&format!("{TINY} --name whole")).ends_with(0);
    let text = output.out;
    for part in [
        "4 cases × 5 rounds",
        "every payload checked",
        "median round trip",
        "64 B",
        "1 KiB",
        "tcp:send",
        "unix:send",
        "report.html",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    home.run("show whole -v").ends_with(0).shows(&["from which size", "findings", "baseline against itself"]);
    // One row per case and round; the two controls are cases as well.
    let rows = home.run("export whole --to csv").ends_with(0).out;
    assert_eq!(rows.lines().count(), 1 + 6 * 5);
    let columns = rows.lines().next().unwrap().split(',').count();
    assert!(rows.lines().all(|row| row.split(',').count() == columns), "{rows}");

    let value = home.run("show whole --json").ends_with(0).json();
    assert_eq!(value["status"], "ok");
    let comparison = &value["comparison"];
    assert_eq!(comparison["baseline"], "tcp:send");
    assert_eq!(comparison["ratios"].as_array().unwrap().len(), 2, "unix:send at two sizes: {comparison}");
    assert_eq!(comparison["winners"].as_array().unwrap().len(), 2, "{comparison}");
    assert_eq!(comparison["crossovers"].as_array().unwrap().len(), 1, "{comparison}");
    for ratio in comparison["ratios"].as_array().unwrap() {
        let number = |name: &str| ratio[name].as_f64().unwrap_or_else(|| panic!("{name} in {ratio}"));
        assert!(number("low") <= number("ratio") && number("ratio") <= number("high"), "{ratio}");
        // Both quotients come from the same medians: the ratio is that of the paired rounds.
        assert!(number("ratio") > 0.0, "{ratio}");
    }
}

#[test]
fn the_report_needs_no_network() {
    let home = Home::new();
    home.run("compare -x tcp:send,unix:send -l 64 -r 2 -t 0.02s -w 0 --name page").ends_with(0);
    let page = std::fs::read_to_string(home.runs().join("page/report.html")).unwrap();
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"), "no policy");
    assert!(page.contains("<svg") && page.contains("tcp:send") && page.contains("unix:send"), "no picture");
    for fetch in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "<iframe", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(fetch), "{fetch:?} is in the report");
    }
    for (at, _) in page.match_indices("src=") {
        let rest = &page[at + 4..page.len().min(at + 20)];
        assert!(rest.starts_with("\"data:") || rest.starts_with("'data:"), "src={rest}");
    }
}

/// Case, pass and restart of every round, in the order in which they ran.
fn order(home: &Home, run: &str) -> Vec<(u64, u64, u64)> {
    let value = home.run(&format!("export {run} --to json")).ends_with(0).json();
    let mut rounds = value["rounds"].as_array().unwrap().clone();
    let number = |value: &Value| value.as_u64().unwrap();
    rounds.sort_by_key(|round| number(&round["start_ns"]));
    rounds.iter().map(|round| (number(&round["case"]), number(&round["pass"]), number(&round["restart"]))).collect()
}

#[test]
fn a_seed_reproduces_the_order_of_the_rounds() {
    let home = Home::new();
    let run = |seed: u32, name: &str| {
        let line = "compare -x tcp:send,unix:send,pipe:write -l 64,256 -r 4 -c 40 -w 0";
        home.run(&format!("{line} -o seed={seed} --name {name}")).ends_with(0);
        order(&home, name)
    };
    let (first, again, other) = (run(7, "first"), run(7, "again"), run(8, "other"));
    assert_eq!(first, again);
    assert_ne!(first, other);
    // Interleaved: every case once in every pass, and not in the same order in each.
    let passes: Vec<Vec<u64>> = first.chunks(8).map(|pass| pass.iter().map(|round| round.0).collect()).collect();
    assert_eq!(passes.len(), 4);
    for pass in &passes {
        let mut sorted = pass.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<u64>>(), "{passes:?}");
    }
    assert!(passes.iter().any(|pass| *pass != passes[0]), "{passes:?}");
    let show = home.run("show first --json").ends_with(0).json();
    assert_eq!(show["seed"], 7);
}

#[test]
fn restarts_spread_the_rounds_over_fresh_processes() {
    let home = Home::new();
    home.run("compare -x tcp:send,unix:send -l 64 -r 4 -t 0.02s -w 0 -o restarts=2 --name twice").ends_with(0);
    let order = order(&home, "twice");
    for (_, pass, restart) in &order {
        assert_eq!(*restart, u64::from(*pass >= 2), "{order:?}");
    }
    assert_eq!(order.iter().filter(|round| round.2 == 1).count() * 2, order.len());
}

#[test]
fn streams_are_compared_by_throughput() {
    let home = Home::new();
    let text =
        home.run("compare -x tcp:send,unix:send --stream -l 4K,16K -r 5 -c 250 -w 0 --name flow").ends_with(0).out;
    assert!(text.contains("throughput") && text.contains("bit/s"), "{text}");
    let value = home.run("show flow --json").ends_with(0).json();
    assert_eq!(value["comparison"]["ratios"].as_array().unwrap().len(), 2, "{}", value["comparison"]);
    assert!(value["cases"][0]["throughput"]["receiver_bits_per_s"]["value"].is_number(), "{}", value["cases"][0]);
}

#[test]
fn what_cannot_be_measured_does_not_end_a_comparison() {
    let home = Home::new();
    let value = home.run("compare -x tcp:send,udp:send -l 64,64K -r 2 -t 0.02s -w 0 --json").ends_with(0).json();
    let unavailable = value["unavailable"].as_array().unwrap();
    let at_64k = unavailable.iter().find(|case| case["case"]["size_bytes"] == 65_536);
    let at_64k = at_64k.unwrap_or_else(|| panic!("64K by udp is not in {unavailable:?}"));
    assert!(at_64k.to_string().contains("do not fit in one udp message"), "{at_64k}");
    let cases = value["cases"].as_array().unwrap();
    assert!(cases.iter().any(|case| case["case"]["path"] == "tcp:send" && case["case"]["size_bytes"] == 65_536));
    let text = home.run("show").ends_with(0).out;
    assert!(text.contains("not measured") && text.contains("udp:send"), "{text}");
    // On its own nothing is left to measure, and that is said before anything starts.
    home.run("compare -x udp:send -l 64K -r 2 -t 0.02s").ends_with(2).says(&["error[E07]", "try: -l 63K"]);
    home.run("compare -x tcp:send,unix:zerocopy").ends_with(2).says(&["error[E09]", "does not work on unix"]);
}

#[test]
fn the_baseline_can_be_chosen() {
    let home = Home::new();
    let line = "compare -x tcp:send,unix:send -l 64 -r 2 -t 0.02s -w 0 --baseline unix:send --json";
    let value = home.run(line).ends_with(0).json();
    assert_eq!(value["comparison"]["baseline"], "unix:send");
    home.run("compare -x tcp:send,unix:send --baseline pipe").ends_with(2).says(&["error[E11]", "not among"]);
}
