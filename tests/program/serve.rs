//! `msgpath serve`: several near ends, and everything else that may knock at its port.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use msgpath_agent::greeting::{GREETING, service_name};
use msgpath_agent::wire::{self, FromEnd, Opening, RoundOrder, ToEnd};
use msgpath_core::Workload;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{ChannelOptions, Dispatch, Stamps};
use msgpath_core::{PathName, Unavailable, units::Pieces};
use msgpath_paths::Need;
use msgpath_paths::registry::{Entry, TRANSPORTS};

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
    home.run(&format!("echo localhost:{port} -x udp:send {SHORT}")).ends_with(0);
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
    for options in ["", "-o ip=6", "-x udp:send"] {
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
    let opening = msgpath_agent::wire::frame(&msgpath_agent::wire::Opening::Open, &[]).unwrap();
    let first_words = [&msgpath_agent::greeting::GREETING[..], &opening].concat();
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
        assert!(first_words.starts_with(&answer), "{what} gets no answer but the first words");
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

/// The status of every thread of a process, by its name.
fn threads(process: u32) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let both = tasks.map(|task| task.path()).map(|task| (read(task.join("comm")), read(task.join("status"))));
    // One that has ended meanwhile has no status.
    both.filter(|(_, status)| !status.is_empty()).map(|(name, status)| (name.trim().to_owned(), status)).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":")).unwrap_or_default().trim()
}

/// The process below another one whose command line has this word, once it is confined and waits for orders.
pub(crate) fn agent_below(ancestor: u32, word: &str) -> u32 {
    let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let parent = |pid: u32| field(&status(pid), "PPid").parse::<u32>().ok();
    let is_below = |pid: &u32| std::iter::successors(Some(*pid), |pid| parent(*pid)).any(|pid| pid == ancestor);
    let has_word = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|own| own == word)
    };
    // The thread that watches its lease is started afterwards.
    let waits = |pid: &u32| threads(*pid).iter().any(|(name, _)| name == "lease");
    let mut found = None;
    let look = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        found = all.find(|pid| has_word(pid) && is_below(pid) && waits(pid));
        found.is_some()
    };
    assert!(within(Duration::from_secs(60), look), "no agent with {word}");
    found.expect("it was found")
}

/// Asserts what docs/serve.md says of a confined process, as the kernel shows it.
pub(crate) fn is_confined(process: u32) {
    is_confined_but_for(process, &[]);
}

/// The same while threads of these names measure, without the filter of system calls.
fn is_confined_but_for(process: u32, measuring: &[&str]) {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = |status: &str, set: &str| u64::from_str_radix(field(status, set), 16).unwrap();
    let unused = msgpath_sys::confine::unused_capabilities().fold(0, |mask, (bit, _)| mask | bit);
    let setpcap = 1 << 8;
    // Threads that tried the transports, with and without all that, and have ended may still be listed.
    let all = || threads(process).iter().all(|(_, status)| field(status, "NoNewPrivs") == "1");
    let _ = within(Duration::from_secs(60), all);
    let threads: Vec<_> = threads(process).into_iter().filter(|(name, _)| name != "confined").collect();
    let listening = threads.iter().filter(|(name, _)| name != "outside").count();
    assert!(listening >= 1, "{threads:?}");
    for (name, status) in &threads {
        assert_eq!(field(status, "NoNewPrivs"), "1", "{name}");
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(mask(status, set) & unused, 0, "{set} of {name}");
        }
        if mask(&own, "CapEff") & setpcap != 0 {
            assert_eq!(mask(status, "CapBnd") & unused, 0, "CapBnd of {name}");
        }
        if msgpath_sys::seccomp::kernel_has_filters() {
            let free = name == "outside" || measuring.contains(&name.as_str());
            let mode = if free { field(&own, "Seccomp") } else { "2" };
            assert_eq!(field(status, "Seccomp"), mode, "{name}");
        }
    }
    if !msgpath_sys::seccomp::kernel_has_filters() {
        println!("skipped: this kernel has no filters of system calls");
    }
}

#[test]
fn serve_is_confined_in_every_thread_and_says_so() {
    let (home, port) = (Home::new(), free_port());
    let running = serve(&home, &format!("127.0.0.1:{port}"));
    let json = home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(0).json();
    let far = json["ends"][1]["host"].as_u64().unwrap() as usize;
    let says = json["hosts"][far]["facts"]["confinement"].as_str().unwrap().to_owned();
    assert!(says.starts_with("no new privileges"), "{says}");
    is_confined(running.id());
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let permitted = u64::from_str_radix(field(&own, "CapPrm"), 16).unwrap();
    match msgpath_sys::confine::unused_capabilities().filter(|(bit, _)| permitted & bit != 0).count() {
        0 => assert!(says.contains("no capabilities to drop"), "{says}"),
        count => assert!(says.contains(&format!("{count} capabilities dropped")), "{says}"),
    }
    assert_eq!(says.contains("system calls refused to"), msgpath_sys::seccomp::kernel_has_filters(), "{says}");
    if !msgpath_sys::seccomp::kernel_has_filters() {
        return;
    }
    // What measures has the filters that the near end has, which took none: in most places none at all.
    let checks = json["doctor"]["checks"].as_array().unwrap();
    let free = |end: &str| {
        let check = checks.iter().find(|check| check["number"] == 13 && check["end"] == end).unwrap();
        check["what"].as_str().unwrap().contains("no seccomp filter")
    };
    assert_eq!(free("far"), free("near"));
}

#[test]
fn serve_started_by_a_plain_user_has_no_capabilities_to_drop() {
    const PLAIN: [&str; 8] =
        ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all"];
    let may = |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    if !may(&PLAIN).is_ok_and(|status| status.success()) {
        return println!("skipped: another user takes root and setpriv");
    }
    let (home, port) = (Home::new(), free_port());
    let tmp = std::env::temp_dir();
    // A copy that every user can execute.
    let program = tmp.join(format!("msgpath-plain-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_msgpath"), &program).unwrap();
    let mut command = Command::new(PLAIN[0]);
    command.args(&PLAIN[1..]).arg(&program).args(["serve", "-p", &port.to_string()]);
    command.current_dir("/").env("HOME", "/").env("TMPDIR", &tmp).stdin(Stdio::null());
    let running = Running::new(command);
    running.until_it_says("serving at");
    let json = home.run(&format!("echo 127.0.0.1:{port} {SHORT}"));
    std::fs::remove_file(program).unwrap();
    let json = json.ends_with(0).json();
    let far = json["ends"][1]["host"].as_u64().unwrap() as usize;
    let says = json["hosts"][far]["facts"]["confinement"].as_str().unwrap();
    assert!(says.contains("no capabilities to drop"), "{says}");
    for (name, status) in threads(running.id()) {
        assert_eq!(field(&status, "CapPrm"), "0000000000000000", "{name}");
        assert_eq!(field(&status, "NoNewPrivs"), "1", "{name}");
    }
}

/// A round of one message over the usual path of a transport.
fn round(transport: &dyn msgpath_paths::Transport) -> RoundOrder {
    let meta = transport.meta();
    RoundOrder {
        workload: Workload::ECHO,
        reverse: false,
        path: PathName::new(meta.meta.name, meta.default_method, meta.default_wait),
        pieces: Pieces::whole(64),
        reply: 64,
        connections: 1,
        threads: 1,
        dispatch: Dispatch::Turns,
        inflight: 1,
        messages: 1,
        trim: 0,
        patience_ns: 0,
        timed: None,
        cpus: Vec::new(),
        stamps: Stamps::Near,
        departures: false,
        traced: false,
        urgent: false,
        events: false,
        options: ChannelOptions::default(),
        service_time: None,
        seed: 1,
        working_set: 0,
        program: None,
        parts: Parts::default(),
    }
}

/// By hand: the program's own client names one transport for each kind of target.
#[test]
fn every_path_between_processes_works_with_a_confined_serve() {
    let home = Home::new();
    let name = format!("confined-{}", std::process::id());
    let mut command = home.command(&["serve", &format!("shm:{name}")]);
    // The folders of fifo are found by both ends in the same place.
    command.env("TMPDIR", std::env::temp_dir());
    let running = Running::new(command);
    running.until_it_says("serving at");
    let place = SocketAddr::from_abstract_name(service_name(&name)).unwrap();
    let mut control = UnixStream::connect_addr(&place).unwrap();
    control.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    control.read_exact(&mut [0; GREETING.len()]).unwrap();
    assert_eq!(wire::read::<Opening>(&mut control).unwrap().unwrap().0, Opening::Open);
    let mut asks = |message: &ToEnd| {
        wire::write(&mut control, message, &[]).unwrap();
        wire::read::<FromEnd>(&mut control).unwrap().expect("an answer").0
    };
    let hello = asks(&ToEnd::Hello { version: String::new(), lease_ms: 60_000 });
    assert!(matches!(hello, FromEnd::Hello { .. }), "{hello:?}");
    let mut tried = Vec::new();
    let between = TRANSPORTS.iter().filter(|transport| !transport.meta().inet && !transport.meta().device);
    for transport in between.filter(|transport| transport.probe().is_ok()) {
        let name = transport.meta().meta.name;
        let order = round(*transport);
        let entry = Entry::find(&order.path).unwrap();
        let FromEnd::Offered { addresses, .. } = asks(&ToEnd::Round(Box::new(order))) else {
            panic!("{name}: no offer")
        };
        let need = Need { wakes: entry.wakes(), ..Need::local(64) };
        let (_channel, local) = transport.connect(&addresses[0], &need).unwrap();
        let ready = asks(&ToEnd::Connect { locals: vec![local] });
        // A process in a domain of Landlock reads no memory of one outside.
        if name == "procvm" && msgpath_sys::confine::landlock_version().is_ok() {
            let refused = |reason: &Unavailable| reason.why.contains("memory of the other end cannot be read");
            assert!(matches!(&ready, FromEnd::Unavailable(reason) if refused(reason)), "{ready:?}");
            continue;
        }
        assert!(matches!(ready, FromEnd::Ready { .. }), "{name}: {ready:?}");
        tried.push(name);
    }
    // Linux has these everywhere.
    assert!(["unix", "unixgram", "pipe", "fifo", "shm"].iter().all(|known| tried.contains(known)), "{tried:?}");
    println!("worked: {tried:?}");
    is_confined_but_for(running.id(), &["far-0"]);
}

#[test]
fn a_client_without_a_token_gets_all_cpus_but_one() {
    let cpus = msgpath_sys::affinity::allowed().len();
    let home = Home::new();
    for (options, fits) in [("", cpus == 1), ("--token-file token", true)] {
        let port = free_port();
        let _running = serve(&home, &format!("127.0.0.1:{port} {options}"));
        let line = format!("echo 127.0.0.1:{port} {options} -x tcp:send/spin -T {cpus} -c 8 -r 1 -w 0 --json");
        let output = home.run(&line);
        match fits {
            true => drop(output.ends_with(0)),
            false => drop(output.ends_with(3).says(&["clients without a token get", "--token-file"])),
        }
    }
}

/// The most that a process has had in memory, bytes.
fn most_resident(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn memory_limit_holds_for_what_is_resident() {
    const LIMIT_BYTES: u64 = 64 << 20;
    /// Pages of the program itself, and what it says to several at once.
    const PROGRAM: u64 = 48 << 20;
    let (home, port) = (Home::new(), free_port());
    let running = home.start(&format!("serve 127.0.0.1:{port} --memory 64M"));
    running.until_it_says("serving at");
    // Large messages, many connections and threads, many stamps, a large working set: each near what is given, some beyond.
    let rounds = [
        "echo {to} -l 4M -r 2 -c 8",
        "echo {to} -l 30M -r 2 -c 4",
        "echo {to} -l 64 -P 256 -T 256 -r 2 -c 20",
        "echo {to} -l 64K -P 64 -T 64 -r 2 -c 20",
        "stream {to} -l 1M -P 8 -T 8 -r 2 -c 50",
        "stream {to} -R -l 1M -P 8 -T 8 -r 2 -c 50",
        "echo {to} -o stamps=both -P 8 -T 8 -r 2 -c 200000",
        "echo {to} -x udp:send -l 1K -r 2 -c 2000",
    ];
    let ended = |line: &str| {
        let line = format!("{} -w 0 -o what-ifs=no --no-save -q", line.replace("{to}", &format!("127.0.0.1:{port}")));
        home.start(&line)
    };
    for line in rounds {
        ended(line).finish(LIMIT);
    }
    let one_by_one = most_resident(&running);
    assert!(one_by_one < LIMIT_BYTES + PROGRAM, "one after the other: {} MiB", one_by_one >> 20);
    // What does not fit beside others is refused: it is the limit that is looked at here, not who gets it.
    for _ in 0..2 {
        let all: Vec<Running> = rounds.iter().map(|line| ended(line)).collect();
        all.into_iter().for_each(|one| drop(one.finish(LIMIT)));
    }
    let together = most_resident(&running);
    assert!(together < LIMIT_BYTES + PROGRAM, "several at once: {} MiB", together >> 20);
    let value = home.run(&format!("echo 127.0.0.1:{port} {SHORT}")).ends_with(0).json();
    assert_eq!(value["cases"][0]["delivery"]["lost"], 0, "it still serves");
}
