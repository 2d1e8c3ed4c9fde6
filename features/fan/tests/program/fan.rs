//! `--clients`: what several clients have together is what their link gives, and the one behind a slow link is named.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::printed::Value;

use crate::command::Home;
use crate::lab::Lab;

const SHORT: &str = "-w 100ms --progress none -o extend=no";

fn each(run: &Value) -> &[Value] {
    run["clients"]["each"].as_array().unwrap()
}

fn said(run: &Value, code: &str) -> Option<String> {
    let findings = run["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["code"] == code).map(|finding| finding["text"].as_str().unwrap().to_owned())
}

#[test]
fn an_echo_and_a_stream_of_several_clients_have_each_of_them() {
    let home = Home::new();
    for (verb, path) in [
        ("echo", "tcp:send"),
        ("echo", "udp:send"),
        ("echo", "unix:send"),
        ("stream", "tcp:send"),
        ("stream", "unix:send"),
        ("stream -R", "tcp:send"),
        ("stream", "udp:send"),
    ] {
        let run = home
            .run(&format!("{verb} -x {path} --clients 3 -t 1200ms -r 6 {SHORT} --no-save --json"))
            .ends_with(0)
            .json();
        let fan = &run["clients"];
        assert_eq!((each(&run).len(), fan["rounds"].as_u64()), (3, Some(6)), "{verb} {path}: {fan}");
        let joint = fan["bits_per_s"]["value"].as_f64().unwrap();
        let sum: f64 = each(&run).iter().map(|client| client["bits_per_s"]["value"].as_f64().unwrap()).sum();
        assert!(sum > 0.0 && (joint - sum).abs() < sum * 1e-6, "{verb} {path}: {joint} of {sum}");
        let fairness = fan["fairness"]["value"].as_f64().unwrap();
        assert!((1.0 / 3.0..=1.0).contains(&fairness), "{fairness}");
        assert!(said(&run, "W172").is_some_and(|text| text.contains("3 clients")), "{verb} {path}");
        assert_eq!(fan["p50_ns"].is_null(), verb != "echo", "{fan}");
        assert!(run["totals"]["lost"].as_u64() == Some(0) || path == "udp:send", "{}", run["totals"]);
    }
}

#[test]
fn a_run_of_several_clients_is_kept_shown_and_checked() {
    let home = Home::new();
    home.run(&format!("stream --clients 2 -P 2 -l 16K -t 1s -r 5 {SHORT} -o reuseport=yes --name two"))
        .ends_with(0)
        .shows(&["Together", "2 clients", "SO_REUSEPORT"]);
    home.run("show two").ends_with(0).shows(&["Together", "share"]);
    home.run("verify two").ends_with(0);
    home.run("report two -o two.html").ends_with(0);
    let page = std::fs::read_to_string(home.path().join("two.html")).unwrap();
    assert!(page.contains("fig-clients"), "no figure of the clients");
    let run = home.run("show two --json").ends_with(0).json();
    let granted = run["cases"][0]["granted"].as_array().unwrap();
    let reuse = granted.iter().find(|one| one["option"] == "SO_REUSEPORT" && one["end"] == "far");
    assert_eq!(reuse.map(|one| one["granted"].as_str()), Some(Some("true")), "{granted:?}");
    home.run("resume two").says(&["nothing is missing"]);
}

#[test]
fn what_several_clients_cannot_do_is_refused() {
    let home = Home::new();
    for (line, says) in [
        ("echo --clients 1", "one client"),
        ("echo --clients 400", "too many"),
        ("echo --clients 4 -x pipe:write", "no server that several clients connect to"),
        ("echo --clients 4 --rate 1k", "closed loop"),
        ("stream --clients 4 -c 100", "for a time"),
        ("stream --clients 200 -P 10 -l 64M", "hold"),
        ("stream --clients a,b", "--between"),
    ] {
        home.run(&format!("{line} --no-save")).ends_with(2).says(&[says]);
    }
    home.run("compare --clients 4").ends_with(2);
}

/// Two clients share what their link gives; a busy machine may take much of it, and nothing adds to it.
#[test]
fn two_clients_share_the_rate_of_their_link() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "fan", "--rate 50M") else { return };
    let name = lab.name();
    let run = home
        .run(&format!("stream --between {name} --clients 2 -l 16K -t 6s -r 6 {SHORT} --no-save --json"))
        .ends_with(0)
        .json();
    let joint = run["clients"]["bits_per_s"]["value"].as_f64().unwrap();
    println!("{} Mbit/s together, fairness {}", joint / 1e6, run["clients"]["fairness"]["value"]);
    assert!(joint < 49e6 && joint > 5e6, "{joint}");
    assert!(run["clients"]["fairness"]["value"].as_f64().unwrap() > 0.5);
}

/// The launcher is a program that notes its host and becomes the agent.
#[test]
fn clients_are_started_on_hosts_by_the_launcher_of_the_server() {
    let home = Home::new();
    let (enter, noted) = (home.path().join("enter"), home.path().join("noted"));
    std::fs::write(&enter, format!("#!/bin/sh\necho $1 >>{}\nshift\nexec \"$@\"\n", noted.display())).unwrap();
    std::fs::set_permissions(&enter, std::fs::Permissions::from_mode(0o755)).unwrap();
    let template = format!("{} {{host}} {{program}}", enter.display());
    let launch = ["--launch", &template, "--program", env!("CARGO_BIN_EXE_msgpath")];
    for line in [
        "stream server --clients hosta,hostb",
        "echo server --clients hosta,hostb,hostc",
        "stream server -R --clients hosta,hostb",
    ] {
        std::fs::write(&noted, "").unwrap();
        let words: Vec<&str> = line.split(' ').chain(launch).chain(SHORT.split(' ')).collect();
        let words = [&words[..], &["-t", "1s", "-r", "5", "--no-save", "--json"]].concat();
        let run = home.msgpath(&words).ends_with(0).json();
        let names: Vec<&str> = line.split_once("--clients ").unwrap().1.split(',').collect();
        let places: Vec<&str> = each(&run).iter().map(|client| client["place"].as_str().unwrap()).collect();
        assert_eq!((places, run["clients"]["rounds"].as_u64()), (names.clone(), Some(5)), "{line}");
        assert!(each(&run).iter().all(|client| client["bits_per_s"]["value"].as_f64().unwrap() > 0.0), "{line}");
        let noted = std::fs::read_to_string(&noted).unwrap();
        let started: Vec<&str> = noted.lines().collect();
        assert_eq!(started, [&["server"][..], &names[..]].concat(), "{line}");
    }
    for (clients, says) in [("hosta,-b", "not a host"), ("hosta,b c", "not a host")] {
        let words = [&["stream", "server", "--clients", clients][..], &launch, &["--no-save"]].concat();
        home.msgpath(&words).ends_with(2).says(&[says]);
    }
    let words =
        [&["stream", "server", "--clients", "hosta,hostb", "-x", "unix:send"][..], &launch, &["--no-save"]].concat();
    assert_ne!(home.msgpath(&words).code, Some(0));
}

#[test]
fn a_client_behind_a_slow_link_is_named() {
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "slow", "--hosts 4") else { return };
    let name = lab.name();
    let slow = format!("-n msgpath-{name}-b qdisc replace dev mp0 root tbf rate 10mbit burst 32kb latency 50ms");
    assert!(Command::new("tc").args(slow.split(' ')).status().is_ok_and(|status| status.success()));
    let clients = format!("{name}.a,{name}.b,{name}.c");
    let run = home
        .run(&format!(
            "stream --between {name}.a,{name}.d --clients {clients} -l 16K -t 4s -r 6 {SHORT} --no-save --json"
        ))
        .ends_with(0)
        .json();
    assert_eq!(run["clients"]["slowest"], 2, "{}", run["clients"]);
    let rate = each(&run)[1]["bits_per_s"]["value"].as_f64().unwrap();
    assert!(rate < 11e6, "{rate}");
    let text = said(&run, "W173").unwrap_or_else(|| panic!("{}", run["clients"]));
    assert!(text.starts_with(&format!("Client 2 ({name}.b) has 0.")), "{text}");
    assert!(said(&run, "W172").unwrap().contains("slowest client 2"), "{:?}", said(&run, "W172"));
}
