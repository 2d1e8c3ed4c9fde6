//! `msgpath serve`: several near ends, and everything else that may knock at its port.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Home, LIMIT, Running, free_port, within};

/// A `serve` that listens. `ADDR` and `PORT` stand for themselves in `line`.
fn serve(home: &Home, line: &str) -> Running {
    let running = home.start(&format!("serve {line}"));
    running.until_it_says("serving at");
    running
}

const SHORT: &str = "-c 60 -r 3 -w 0 --json";

#[test]
fn it_answers_on_loopback_only_unless_told_otherwise() {
    let (home, port) = (Home::new(), free_port());
    let running = serve(&home, &format!("-p {port}"));
    // What the kernel says: local address and port in hex, state 0A is listening.
    let mut listening = BTreeSet::new();
    for (table, loopback) in [("tcp", "0100007F"), ("tcp6", "00000000000000000000000001000000")] {
        let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        for row in rows.filter(|row| row[3] == "0A" && row[1].ends_with(&format!(":{port:04X}"))) {
            assert_eq!(row[1], format!("{loopback}:{port:04X}"), "{row:?}");
            // A table that changes while it is read may have a row twice.
            listening.insert(row[1].to_owned());
        }
    }
    // Both families listen before the first line is there.
    let said = || -> Vec<String> {
        let text = running.until_it_says("serving at");
        text.lines().filter(|line| line.starts_with("serving at")).map(str::to_owned).collect()
    };
    assert!(within(Duration::from_secs(60), || said().len() == listening.len()), "{listening:?}, {:?}", said());
    for line in said() {
        let fine = [format!("127.0.0.1:{port}"), format!("[::1]:{port}")].iter().any(|place| line.contains(place));
        assert!(fine, "{line}");
    }

    let value = home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(0).json();
    assert_eq!(value["target"], format!("127.0.0.1:{port}"));
    assert_eq!(value["cases"][0]["delivery"]["lost"], 0);
    home.run(&format!("echo localhost -p {port} -u {SHORT}")).ends_with(0);
    home.run(&format!("stream tcp://127.0.0.1:{port} -R -l 4K {SHORT}")).ends_with(0);
    running.signal("INT");
    running.finish(LIMIT).ends_with(0).says(&[": begins", ": ends"]);
}

#[test]
fn it_answers_over_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 on loopback");
        return;
    }
    let (home, port) = (Home::new(), free_port());
    let _running = serve(&home, &format!("[::1]:{port}"));
    for options in ["", "-6", "-u"] {
        let value = home.run(&format!("echo [::1]:{port} {options} {SHORT}")).ends_with(0).json();
        assert_eq!(value["cases"][0]["delivery"]["lost"], 0, "{options}");
    }
    home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(3).says(&["error[E01]"]);
}

#[test]
fn it_answers_under_names_of_this_machine() {
    let home = Home::new();
    let socket = home.path().join("serve.sock");
    let named = format!("unix:{}", socket.display());
    let running = serve(&home, &named);
    for path in ["unix:send", "unix:writev/epoll"] {
        let value = home.run(&format!("echo {named} -x {path} {SHORT}")).ends_with(0).json();
        assert_eq!(value["cases"][0]["case"]["path"], path);
    }
    running.signal("INT");
    running.finish(LIMIT).ends_with(0);
    assert!(!socket.exists(), "the socket is removed at the end");

    let name = format!("test-{}", std::process::id());
    let _running = serve(&home, &format!("shm:{name}"));
    let value = home.run(&format!("echo shm:{name} -x shm:ring/futex {SHORT}")).ends_with(0).json();
    assert_eq!(value["cases"][0]["case"]["path"], "shm:ring/futex");
    home.run(&format!("echo pipe:{name} {SHORT}")).ends_with(0);
    home.run(&format!("serve shm:{name}")).ends_with(3).says(&["error[E01]", &name]);
}

#[test]
fn a_socket_that_a_killed_serve_left_is_no_obstacle() {
    let home = Home::new();
    let named = format!("unix:{}", home.path().join("left.sock").display());
    let first = serve(&home, &named);
    home.run(&format!("serve {named}")).ends_with(3).says(&["error[E01]", "in use"]);
    first.signal("KILL");
    first.finish(LIMIT);
    let _second = serve(&home, &named);
    home.run(&format!("echo {named} {SHORT}")).ends_with(0);
}

#[test]
fn two_near_ends_at_once() {
    let (home, port) = (Home::new(), free_port());
    let _running = serve(&home, &format!("127.0.0.1:{port}"));
    let line = |path: &str| format!("echo 127.0.0.1:{port} -x {path} -t 0.4s -r 4 -w 0 --json");
    let clients = [home.start(&line("tcp:send")), home.start(&line("udp:send")), home.start(&line("tcp:writev/poll"))];
    for client in clients {
        let value = client.finish(LIMIT).ends_with(0).json();
        assert_eq!(value["cases"][0]["rounds"], 4);
        assert_eq!(value["cases"][0]["delivery"]["lost"], 0);
    }
}

#[test]
fn nobody_at_that_port() {
    let (home, port) = (Home::new(), free_port());
    let output = home.run(&format!("echo 127.0.0.1:{port}")).ends_with(3);
    output.says(&[
        "error[E01]",
        &format!("nobody answers at 127.0.0.1:{port}"),
        "no program listens there",
        "msgpath serve",
    ]);
    home.run("echo unix:/no/such/socket").ends_with(3).says(&["error[E01]", "there is no such socket"]);
    home.run("echo shm:nobody-has-this-name").ends_with(3).says(&["error[E01]"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    home.run(&format!("serve 127.0.0.1:{port}")).ends_with(3).says(&["error[E01]", "another port with -p"]);
}

#[test]
fn a_killed_serve_ends_the_run_of_its_near_end() {
    for path in ["tcp:send", "tcp:send/spin", "udp:send"] {
        let (home, port) = (Home::new(), free_port());
        let running = serve(&home, &format!("127.0.0.1:{port}"));
        let client = home.start(&format!("echo 127.0.0.1:{port} -x {path} -t 60s -r 200 -w 0 --name cut"));
        let rounds = home.runs().join("cut/rounds.mpl");
        let begun = || std::fs::metadata(&rounds).is_ok_and(|file| file.len() > 1024);
        assert!(crate::command::within(Duration::from_secs(60), begun), "{path}: no round was written");
        std::thread::sleep(Duration::from_millis(50)); // into the next round, which takes 300 ms
        running.signal("KILL");
        client.finish(LIMIT).ends_with(4).says(&["error[E17]", "the far end vanished", "msgpath show cut"]);
        home.run("show cut").ends_with(0).shows(&["round trips"]);
    }
}

#[test]
fn rubbish_costs_its_own_connection_only() {
    let (home, port) = (Home::new(), free_port());
    let running = serve(&home, &format!("127.0.0.1:{port}"));
    let mut whole = Vec::new();
    msgpath_agent::wire::write(&mut whole, &msgpath_agent::wire::ToEnd::Finish, &[]).unwrap();
    let mut huge = whole.clone();
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let noise: Vec<u8> = (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let rubbish: [(&str, &[u8]); 5] = [
        ("noise", &noise),
        ("half a frame", &whole[..whole.len() / 2]),
        ("a request of another protocol", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a frame of 4 GiB", &huge),
        ("the end of a round that was not begun", &whole),
    ];
    for (what, bytes) in rubbish {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        // Noise may have had its answer already: then there is nothing left to close.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        // Closed or reset: either is an end. A timeout is not.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{what}");
        }
        assert!(msgpath_agent::greeting::GREETING.starts_with(&answer), "{what} gets no answer but the greeting");
        let value = home.run(&format!("echo 127.0.0.1:{port} -c 20 -r 1 -w 0 --json")).ends_with(0).json();
        assert_eq!(value["cases"][0]["delivery"]["received"], 20, "after {what}");
    }
    running.signal("INT");
    running.finish(LIMIT).ends_with(0).says(&["ended: "]);
}

#[test]
fn an_idle_connection_delays_nobody() {
    let (home, port) = (Home::new(), free_port());
    let _running = serve(&home, &format!("127.0.0.1:{port}"));
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(0);
}

/// To a peer in another process namespace the kernel gives the process number 0.
#[test]
fn a_far_end_in_another_process_namespace_is_still_ones_own() {
    const APART: [&str; 3] = ["--pid", "--fork", "--kill-child"];
    let made = Command::new("unshare").args(APART).arg("true").stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: a process namespace cannot be had");
    }
    let home = Home::new();
    let name = format!("msgpath-apart-{}", std::process::id());
    let serve = home.command(&["serve", &format!("shm:{name}")]);
    let mut apart = Command::new("unshare");
    apart.args(APART).arg(serve.get_program()).args(serve.get_args()).current_dir(home.path()).stdin(Stdio::null());
    apart.envs(serve.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let running = Running::new(apart);
    running.until_it_says("serving at");
    for transport in ["shm", "pipe", "fifo", "mq"] {
        home.run(&format!("echo {transport}:{name} {SHORT}")).ends_with(0);
    }
}

#[test]
fn serve_keeps_only_what_it_needs_and_says_so() {
    let (home, port) = (Home::new(), free_port());
    let running = serve(&home, &format!("127.0.0.1:{port}"));
    let json = home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(0).json();
    let far = json["ends"][1]["host"].as_u64().unwrap() as usize;
    let says = json["hosts"][far]["facts"]["confinement"].as_str().unwrap().to_owned();
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    assert!(says.starts_with("no new privileges") && status.contains("NoNewPrivs:\t1"), "{says}\n{status}");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    let effective = u64::from_str_radix(effective, 16).unwrap();
    let (sys_module, sys_time, setuid) = (1 << 16, 1 << 25, 1 << 7);
    assert_eq!(effective & (sys_module | sys_time | setuid), 0, "{effective:x}");
    if says.contains("no Landlock") {
        eprintln!("skipped: {says}");
    } else {
        assert!(says.contains("executes nothing, "), "{says}");
    }
    if says.contains("no seccomp") {
        return eprintln!("skipped: {says}");
    }
    assert!(says.contains("system calls refused to threads that do not measure"), "{says}");
    assert!(status.contains("Seccomp:\t2"), "{status}");
    // What measures has the filters that the near end has, which took none: in most places none at all.
    let checks = json["doctor"]["checks"].as_array().unwrap();
    let free = |end: &str| {
        let check = checks.iter().find(|check| check["number"] == 13 && check["end"] == end).unwrap();
        check["what"].as_str().unwrap().contains("no seccomp filter")
    };
    assert_eq!(free("far"), free("near"));
}
