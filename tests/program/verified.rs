//! `verify` agrees with every kind of run that the program makes: each transport and send method, each workload, with and without
//! loss.

use std::collections::BTreeSet;

use crate::command::Home;

/// The paths that work here, with the usual wait of each, separated by commas; only datagrams that may be lost, or all.
fn paths(home: &Home, only_lossy: bool) -> String {
    let listed = home.run("paths --json").ends_with(0).json();
    let names: BTreeSet<&str> = listed["paths"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|path| path["available"] == true)
        .map(|path| path["path"].as_str().unwrap())
        .filter(|path| !path.contains('/') && (!only_lossy || path.starts_with("udp:")))
        .collect();
    assert!(names.contains("udp:send") && names.len() >= 2, "{listed}");
    names.into_iter().collect::<Vec<_>>().join(",")
}

/// Runs each line under a name of its own; each record must agree with itself.
#[track_caller]
fn all_verify(home: &Home, lines: &[String]) {
    for (at, line) in lines.iter().enumerate() {
        let made = home.run(&format!("{line} --name v{at}"));
        // 4: a path of the list is not for this line, such as one whose messages must come back in a stream.
        assert!(matches!(made.code, Some(0 | 4)), "{line}:\n{}", made.err);
        let verified = home.run(&format!("verify v{at}"));
        assert_eq!(verified.code, Some(0), "{line}:\n{}{}{}", made.err, verified.out, verified.err);
    }
}

#[test]
fn streams_of_every_path_agree_with_their_record() {
    let home = Home::new();
    let (all, lossy) = (paths(&home, false), paths(&home, true));
    let lines = [
        format!("stream -x {all} -l 64 -c 100 -r 5 -w 0"),
        format!("stream -x {all} -l 64 -c 100 -r 5 -w 0 -R"),
        format!("stream -x {lossy},tcp:send,unix:send -l 64 -c 100 -r 5 -w 0 -P 4 -T 2"),
        "stream -x udp:send -l 64 -t 200ms -r 4 -w 0".into(),
        // A message a round: no clock is started by it.
        "stream -x udp:send,tcp:send -l 64 -c 5 -r 5 -w 0".into(),
        "stream --pieces 100x15 -c 40 -x tcp:writes,udp:writev -w 0".into(),
    ];
    all_verify(&home, &lines);
}

#[test]
fn echoes_of_every_path_agree_with_their_record() {
    let home = Home::new();
    let (all, lossy) = (paths(&home, false), paths(&home, true));
    let some = format!("{lossy},tcp:send,unix:send");
    let lines = [
        format!("echo -x {all} -l 64 -c 60 -r 3 -w 0"),
        format!("echo -x {some} -l 64 --reply 300 -c 200 -r 3 -w 0 --inflight 4"),
        format!("echo -x {some} -l 64 -c 100 -r 3 -w 0 -P 4 -T 2"),
        format!("echo -x {some} -l 64 -t 200ms -r 3 -w 0 --rate 1k"),
        "echo -x udp:send,tcp:send -l 10,100 -c 10 --each -w 0".into(),
        "compare -x udp:send,tcp:send -l 64 -c 60 -r 3 -w 0 -o what-ifs=no,refine=no".into(),
    ];
    all_verify(&home, &lines);
}

#[test]
fn calls_and_periodic_messages_agree_with_their_record() {
    let lines = [
        "rpc here -k 50 ping -r 5".to_owned(),
        "rpc here -k 50 --rate 500 ping -r 5".into(),
        "rpc here -k 20 write -key k0 + -value v 3000 --then -k 20 read -key k0 +".into(),
        "periodic -x udp,shm -n 3 -c 20 --first 5 --period 10ms -r 4".into(),
    ];
    all_verify(&Home::new(), &lines);
}

#[test]
fn runs_over_a_link_that_loses_messages_agree_with_their_record() {
    let home = Home::new();
    let link = "--between lab --link loss=20%,netem=no";
    let first = home.run(&format!("stream -x udp:send {link} -l 64 -c 100 -r 5 -w 0 --no-save"));
    if first.code == Some(3) {
        return eprintln!("skipped: {}", first.err.lines().next().unwrap_or_default());
    }
    let lines = [
        format!("stream -x udp:send {link} -l 64 -c 3000 -r 30 -w 0"),
        format!("stream -x udp:send {link} -l 64 -c 200 -r 10 -w 0 -R"),
        format!("stream -x udp:send {link} -l 64 -c 200 -r 10 -w 0 -P 4"),
        format!("echo -x udp:send {link} -l 64 -c 20 -r 5 -w 0"),
        format!("echo -x udp:send {link} -l 64 -t 300ms -r 3 -w 0 --rate 200"),
    ];
    all_verify(&home, &lines);
    // The message that would have started the clock is lost in a fifth of the rounds; the others of the round arrive all the same.
    let stream = home.run("show v0 --json").ends_with(0).json();
    let delivery = &stream["cases"][0]["delivery"];
    let [sent, received] = ["sent", "received"].map(|field| delivery[field].as_u64().unwrap());
    assert!(sent >= 3000 && received * 4 > sent * 3, "{delivery}");
}
