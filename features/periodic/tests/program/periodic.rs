//! Periodic runs and presets, as a user starts them.

use std::time::Duration;

use crate::command::{Home, LIMIT, Running, within};
use crate::eth;

/// Processes of periodic runs that were started in this home and still run.
fn vehicles(home: &Home) -> usize {
    let mark = format!("HOME={}\0", home.path().display());
    let ids =
        std::fs::read_dir("/proc").expect("Linux").flatten().filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter(|id| id.parse::<u32>().is_ok())
        .filter(|id| {
            let read = |file: &str| std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
            let ours = read("environ").windows(mark.len()).any(|part| part == mark.as_bytes());
            ours && read("comm") == b"msgpath-vehicle\n"
        })
        .count()
}

#[test]
fn every_engine_delivers_to_all_others() {
    let home = Home::new();
    let engines = if eth::there() { "eth/sigio,udp,shm" } else { "udp,shm" };
    let json = home
        .run(&format!("periodic -x {engines} -n 4 -c 40 --first 10 --period 10ms -r 5 --mac hmac --name all --json"))
        .ends_with(0)
        .json();
    let all = json["periodic"]["engines"].as_array().unwrap();
    assert_eq!(all.len(), engines.split(',').count());
    for engine in all {
        let messages = |part: &str| engine[part]["messages"].as_u64().unwrap() + engine[part]["lost"].as_u64().unwrap();
        assert_eq!((messages("all"), messages("first"), messages("steady")), (480, 120, 360), "{engine}");
        assert_eq!((engine["forged"].as_u64(), engine["all"]["lost"].as_u64()), (Some(0), Some(0)));
        assert!(engine["all"]["min_ns"].as_u64() <= engine["all"]["p50_ns"].as_u64());
        assert!(engine["cold_mac_ns"].is_array() && engine["warm_mac_ns"].is_number());
        let names: Vec<&str> =
            engine["setup"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["process start", "key fetch", "buffer pools", "open engine", "first MACs"]);
    }
    assert_eq!(vehicles(&home), 0);
    home.run("show all").ends_with(0).shows(&["first 10", "steady", "authentication"]);
    home.run("show all -v").ends_with(0).shows(&["process start", "pid"]);
    let series = home.run("export all --to messages-csv").ends_with(0);
    assert_eq!(series.out.lines().count(), 480 * all.len() + 1);
    let report = home.path().join("report.html");
    home.run(&format!("report all -o {}", report.display())).ends_with(0);
    assert!(std::fs::read_to_string(report).unwrap().contains("Fastest, mean and slowest message"));
    home.run("verify all").ends_with(0);
}

#[test]
fn starts_and_components_are_what_was_asked() {
    let home = Home::new();
    for start in ["staggered", "storm"] {
        let options =
            format!("periodic -x shm -n 2 -T 2 -c 20 --first 0 --period 5ms --jitter 1ms -r 5 --start {start}");
        let json = home.run(&format!("{options} --name {start} --json")).ends_with(0).json();
        let engine = &json["periodic"]["engines"][0];
        let counted = |field: &str| engine["all"][field].as_u64().unwrap();
        assert_eq!(counted("messages") + counted("lost") + engine["before_ready"].as_u64().unwrap(), 240, "{engine}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    for (options, part) in [
        ("-n 1", "nobody"),
        ("-l 8", "head"),
        ("--jitter 10ms", "jitter"),
        ("-n 100", "limit"),
        ("-c 0", "message"),
        ("-x tcp", "carry"),
    ] {
        let output = home.run(&format!("periodic {options} --no-save"));
        assert!(matches!(output.code, Some(2 | 3)), "{options}: {:?} {}", output.code, output.err);
        assert!(output.err.contains(part), "{options}: {}", output.err);
    }
    assert_eq!(vehicles(&home), 0);
}

#[test]
fn nothing_outlives_a_run_that_is_killed_or_interrupted() {
    for signal in ["KILL", "INT"] {
        let home = Home::new();
        let running = Running::new(
            home.command(&["periodic", "-x", "shm", "-n", "3", "-c", "10000", "--period", "10ms", "--name", "long"]),
        );
        assert!(within(Duration::from_secs(60), || vehicles(&home) == 3), "they never started");
        std::thread::sleep(Duration::from_millis(700));
        running.signal(signal);
        let _ = running.finish(LIMIT);
        assert!(within(Duration::from_secs(60), || vehicles(&home) == 0), "{signal}: {} still run", vehicles(&home));
    }
}

#[test]
fn a_preset_is_a_command_and_writes_its_files() {
    let home = Home::new();
    home.run("preset list").ends_with(0).shows(&["vehicles", "notify-modes"]);
    home.run("preset show vehicles").ends_with(0).shows(&["msgpath periodic", "--processes 15", "eth/sigio,shm"]);
    home.run("preset vehicle").ends_with(2);
    let folder = home.path().join("out");
    let small = "--path shm --processes 3 --count 60 --first 10 --period 5ms --rounds 5";
    home.run(&format!("preset vehicles -o {} -- {small}", folder.display())).ends_with(0);
    for file in ["answers.html", "vehicles.txt", "barrier/report.html", "barrier/rounds.csv", "barrier/messages.csv"] {
        assert!(std::fs::metadata(folder.join(file)).unwrap().len() > 100, "{file}");
    }
}
