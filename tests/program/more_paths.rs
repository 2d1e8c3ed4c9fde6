//! Paths whose truth the kernel tells, as a user starts them: `docs/paths.md`.

use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, within};

const SHORT: &str = "-w 0 -c 200 -r 4 -o what-ifs=no,extend=no --no-save";

/// Whether a path can be had here; else why not is said.
fn is_here(home: &Home, path: &str) -> bool {
    let paths = home.run(&format!("paths {path} --json")).ends_with(0).json();
    let entry = &paths["paths"][0];
    if entry["available"] == false {
        eprintln!("skipped: {path}: {}", entry["why"]);
    }
    entry["available"] == true
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn what_bpf_hands_over_is_counted_and_tcp_carries_nothing() {
    let home = Home::new();
    if !is_here(&home, "sockmap:send") {
        return;
    }
    let output = home.run(&format!("compare -x tcp:send,sockmap:send -l 64 {SHORT} --json")).ends_with(0).json();
    let [tcp, sockmap] = [0, 1].map(|case: usize| output["cases"][case].clone());
    let near = &sockmap["ends"][0];
    assert!(number(&sockmap["delivery"]["received"]) > 0, "{}", sockmap["delivery"]);
    let both = number(&sockmap["delivery"]["sent"]) + number(&sockmap["delivery"]["received"]);
    assert_eq!(number(&near["calls"]["redirected"]), both);
    // TCP may still say that it is there, or that it heard of the connection; what is sent never goes that way.
    assert_eq!(number(&near["tcp"]["data_segs_out"]), 0);
    assert!(number(&near["tcp"]["segs_out"]) < both / 10, "{near}");
    assert!(number(&tcp["ends"][0]["tcp"]["data_segs_out"]) > 0 && tcp["ends"][0]["calls"]["redirected"] == 0);
    assert!(output["warnings"].as_array().unwrap().iter().all(|warning| warning["code"] != "W22"), "{output}");
    home.run("stream -x sockmap:send -l 4K -t 100ms -r 2 -w 0").ends_with(3).says(&["nothing holds its sender back"]);
}

#[test]
fn mptcp_is_told_from_a_connection_that_fell_back() {
    let home = Home::new();
    if !is_here(&home, "mptcp:send") {
        return;
    }
    let warned = |output: &Value| {
        codes(output, "warnings").contains(&"W22") && output["warnings"].to_string().contains("fell back")
    };
    let both = home.run(&format!("echo -x mptcp:send {SHORT} --json")).ends_with(0).json();
    assert!(!warned(&both), "{}", both["warnings"]);
    assert_eq!(both["cases"][0]["delivery"]["received"], 200);
    // A program with plain TCP sockets at the far end: every call succeeds.
    let server = "import socket, sys\ns = socket.create_server((\"127.0.0.1\", int(sys.argv[1])))\nwhile True:\n c, _ = \
                  s.accept()\n while d := c.recv(1 << 16): c.sendall(d)\n";
    std::fs::write(home.path().join("plain.py"), server).unwrap();
    let mut words: Vec<&str> = SHORT.split_whitespace().collect();
    words.extend(["--json", "-x", "mptcp:send", "--server", "python3 plain.py {port}"]);
    words.insert(0, "echo");
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("skipped: no python3");
    }
    let alone = home.msgpath(&words).ends_with(0).json();
    assert!(warned(&alone), "{}", alone["warnings"]);
}

#[test]
fn every_bell_wakes_in_another_process_and_nothing_stays() {
    let home = Home::new();
    let semaphores = || std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default().lines().count();
    let before = semaphores();
    let waits = ["eventfd", "sem", "sysvsem", "sigqueue", "signalfd", "uring-msg", "uring-futex"];
    let here: Vec<String> =
        waits.iter().map(|wait| format!("shm:ring/{wait}")).filter(|path| is_here(&home, path)).collect();
    let output = home.run(&format!("compare -x {} -l 64,4K {SHORT} --json", here.join(","))).ends_with(0).json();
    for case in output["cases"].as_array().unwrap() {
        assert!(case["delivery"]["verified"].as_u64() > Some(0), "{case}");
        assert_eq!(case["delivery"]["sent"], case["delivery"]["received"], "{case}");
        // Whoever slept was woken: as often at most as there were messages.
        let calls = &case["ends"][0]["calls"];
        assert!(number(&calls["send_calls"]) <= number(&case["delivery"]["sent"]), "{calls}");
    }
    home.run("echo -x shm:ring/eventfd --rate 2k -t 200ms -r 2 -w 0 --no-save").ends_with(0);
    let gone = within(Duration::from_secs(60), || semaphores() <= before);
    assert!(gone, "sets of semaphores: {before} before, {} now", semaphores());
}

#[test]
fn other_paths_carry_what_is_sent() {
    let home = Home::new();
    let paths = ["netlink:send", "pipe-packet:write", "pipe:vmsplice", "fifo:vmsplice/epoll"];
    let here: Vec<&str> = paths.into_iter().filter(|path| is_here(&home, path)).collect();
    for verb in ["compare -l 64,4K", "stream -l 4K"] {
        let line = format!("{verb} -x {} {SHORT} --json", here.join(","));
        let output = home.run(&line).ends_with(0).json();
        for case in output["cases"].as_array().unwrap() {
            assert!(case["delivery"]["verified"].as_u64() > Some(0), "{case}");
        }
        let lent = codes(&output, "warnings").into_iter().filter(|code| *code == "W21");
        assert_eq!(lent.count(), 1, "{}", output["warnings"]);
    }
    home.run("echo -x pipe-packet:write -l 5000").ends_with(2).says(&["4096"]);
}

/// Codes of the findings or warnings of a run, as often as they come.
fn codes<'a>(output: &'a Value, of: &str) -> Vec<&'a str> {
    output[of].as_array().unwrap().iter().filter_map(|said| said["code"].as_str()).collect()
}

#[test]
fn pages_that_are_lent_or_never_touched_come_back_as_they_were() {
    let home = Home::new();
    let lend = ["tcp:sendfile", "unix:sendfile/epoll", "procvm:fetch", "procvm:fetch/spin"];
    let touch_nothing = ["pipe:splice", "tcp:splice", "unix:splice"];
    let line = |paths: &[&str], rest: &str| format!("{rest} -x {} {SHORT} --json", paths.join(","));
    let all = [&lend[..], &touch_nothing[..], &["sysvmsg:send", "sysvmsg:send/spin"]].concat();
    let here: Vec<&str> = all.into_iter().filter(|path| is_here(&home, path)).collect();
    let output = home.run(&line(&here, "compare -l 64,4K")).ends_with(0).json();
    assert!(output["cases"].as_array().unwrap().len() >= 2 * here.len());
    for case in output["cases"].as_array().unwrap() {
        assert!(case["delivery"]["verified"].as_u64() > Some(0), "{case}");
        assert_eq!(case["delivery"]["sent"], case["delivery"]["received"], "{case}");
    }
    let said = codes(&output, "warnings").into_iter().filter(|code| *code == "W21").count();
    assert_eq!(said, 2, "{}", output["warnings"]);
    // Nobody answers: whatever was lent must not be written again before it was read.
    let here: Vec<&str> = ["tcp:sendfile", "unix:sendfile", "procvm:fetch", "sysvmsg:send"]
        .into_iter()
        .filter(|path| is_here(&home, path))
        .collect();
    // Often enough that each buffer is used again.
    let often = format!("stream -x {} -l 8000 -o sndbuf=128K,rcvbuf=128K -w 0 -c 3000 -r 2", here.join(","));
    let output = home.run(&(often + " -o what-ifs=no,extend=no --no-save --json")).ends_with(0).json();
    for case in output["cases"].as_array().unwrap() {
        assert!(case["delivery"]["verified"].as_u64() > Some(0), "{case}");
    }
    // Several in flight, one that comes in parts, and by a schedule.
    home.run(&line(&["tcp:splice", "tcp:sendfile"], "compare -l 64K --inflight 4")).ends_with(0);
    home.run("echo -x procvm:fetch --rate 2k -t 200ms -r 2 -w 0 --no-save").ends_with(0);
    home.run("stream -x pipe:splice -l 4K -w 0 --no-save").ends_with(3).says(&["in a stream nothing goes back"]);
    home.run("echo -x tcp:splice --reply 128 -w 0 --no-save").ends_with(3).says(&["as long as it came"]);
    home.run("echo -x tcp:splice/epoll").ends_with(2).says(&["in its own call"]);
}

#[test]
fn datagrams_that_are_handed_over_together_are_taken_with_few_calls() {
    let home = Home::new();
    if !is_here(&home, "udp:gso/gro") {
        return;
    }
    // The first message of a round starts the clock, and those that came with it take no call any more.
    let line = "stream -l 1200 -x udp:gso/gro,udp:send/gro,udp:gso -o rcvbuf=4M -w 0 -c 8000 -r 4 -o what-ifs=no,extend=no \
                --no-save --json";
    let output = home.run(line).ends_with(0).json();
    let calls = |case: usize| {
        let case = &output["cases"][case];
        (number(&case["delivery"]["received"]), number(&case["ends"][1]["calls"]["recv_calls"]))
    };
    let (received, reads) = calls(0);
    assert!(received > 2 * reads && reads > 0, "{received} datagrams, {reads} calls");
    for case in [1, 2] {
        let (received, reads) = calls(case);
        assert!(reads + 4 >= received && received > 0, "{case}: {received} datagrams, {reads} calls");
    }
    assert_eq!(codes(&output, "findings").iter().filter(|code| **code == "W131").count(), 2, "{output}");
    home.run(&format!("echo -x udp:gso/gro,udp:gso -l 64 {SHORT}")).ends_with(0);
}

#[test]
fn what_is_mapped_is_said() {
    let home = Home::new();
    if !is_here(&home, "tcp:zerocopy/zc-receive") {
        return;
    }
    let line = format!("compare -l 64,64K -x tcp:zerocopy/zc-receive,tcp:send/zc-receive {SHORT} --json");
    let output = home.run(&line).ends_with(0).json();
    let cases =
        output["cases"].as_array().unwrap().iter().filter(|case| case["case"]["path"] == "tcp:zerocopy/zc-receive");
    let mapped: Vec<u64> = cases.map(|case| number(&case["ends"][1]["calls"]["mapped_bytes"])).collect();
    assert!(mapped.len() >= 2 && mapped.contains(&0) && mapped.iter().any(|bytes| *bytes > 0), "{mapped:?}");
    assert_eq!(codes(&output, "findings").iter().filter(|code| **code == "W20").count(), 4, "{output}");
}

#[test]
fn queues_of_system_v_are_removed_also_after_a_kill() {
    let home = Home::new();
    if !is_here(&home, "sysvmsg:send") {
        return;
    }
    // Who has sent to a queue or received from it stands in the list: messages in flight are needed to be found there.
    let of = |processes: &[u32]| -> usize {
        let list = std::fs::read_to_string("/proc/sysvipc/msg").unwrap_or_default();
        let words = |line: &str| line.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>();
        let mine =
            |line: &&str| words(line).get(5..7).is_some_and(|ends| ends.iter().any(|pid| processes.contains(pid)));
        list.lines().skip(1).filter(mine).count()
    };
    for signal in ["INT", "KILL"] {
        let mut running = home.start("echo -x sysvmsg:send -l 64 -t 60s -r 2 -w 0 --no-save");
        let begun = within(Duration::from_secs(60), || of(&running.children()) == 2);
        assert!(begun, "no queues of {:?}", running.children());
        let ends = running.children();
        assert_eq!(ends.len(), 2, "near and far");
        if signal == "KILL" {
            running.send_to("KILL", ends[1]);
        } else {
            running.signal("INT");
        }
        assert!(within(Duration::from_secs(60), || of(&ends) == 0), "{signal}: {} queues are left", of(&ends));
        assert!(within(Duration::from_secs(60), || running.has_ended()), "{signal}: it goes on");
    }
}
