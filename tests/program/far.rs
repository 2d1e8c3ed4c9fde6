//! Programs of others as far ends: `--server` and `raw://`, as a user starts them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, LIMIT, Output, Running, free_port, within};

/// A server that does what its second argument says; 0 as a port is one that the kernel chooses.
const SERVER: &str = r#"
import os, signal, socket, struct, subprocess, sys, threading, time
port, mode = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "echo"
count = 0

def whole(c, n):
    data = b""
    while len(data) < n:
        more = c.recv(n - len(data))
        if not more: return None
        data += more
    return data

def serve(c):
    global count
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, mode != "parts")
    f = c.makefile("rb")
    while True:
        if mode == "line": data = f.readline()
        elif mode == "length":
            head = whole(c, 4)
            data = head and head + whole(c, struct.unpack(">I", head)[0])
        else: data = c.recv(1 << 16)
        if not data: return
        count += 1
        if mode == "slow":
            until = time.perf_counter() + 0.0003
            while time.perf_counter() < until: pass
        if mode == "wrong" and count > 50: data = data[:-1] + bytes([data[-1] ^ 1])
        if mode == "strip": data = data.rstrip(b"\n")
        if mode == "upper": data = bytes(b ^ 0x20 for b in data)
        if mode == "hello": data = b"+PONG\r\n"
        if mode == "twice": data = data + data
        if mode == "late" and count > 50 and count % 100 == 0: data = data + b"!"
        if mode == "silent": continue
        if mode == "parts":
            c.sendall(data[:1])
            data = data[1:]
        if mode == "dies" and count > 50:
            print("planted end", file=sys.stderr, flush=True)
            os._exit(3)
        c.sendall(data)
        if mode == "once":
            c.close()
            return

s = socket.create_server(("127.0.0.1", port), backlog=64)
print("ready", flush=True)
if mode == "fork": signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if mode == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    c, _ = s.accept()
    if mode == "one": serve(c)
    elif mode == "fork":
        if os.fork() == 0:
            serve(c)
            os._exit(0)
        c.close()
    else: threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// A home with the server in it; `None`: there is no python3 here.
fn home() -> Option<Home> {
    let there = Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no python3");
        return None;
    }
    let home = Home::new();
    std::fs::write(home.path().join("server.py"), SERVER).unwrap();
    Some(home)
}

/// `--server` for the server in this mode, under this name.
fn far(name: &str, mode: &str) -> String {
    format!("{name}=python3 server.py {{port}} {mode}")
}

/// Processes with the path of this home in their command line, or in it as their folder.
fn left(home: &Home) -> Vec<String> {
    let own = home.path().canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let there = processes.filter(|process| std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == own));
    let line = |process: std::fs::DirEntry| std::fs::read_to_string(process.path().join("cmdline")).ok();
    there.filter_map(line).map(|line| line.replace('\0', " ")).filter(|line| line.contains("server.py")).collect()
}

/// Asserts that no server is left behind.
#[track_caller]
fn nothing_is_left(home: &Home) {
    assert!(within(Duration::from_secs(60), || left(home).is_empty()), "{:?}", left(home));
}

#[track_caller]
fn run(home: &Home, line: &str, far: &[&str]) -> Output {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    far.iter().for_each(|far| words.extend(["--server", far]));
    home.msgpath(&words)
}

const SHORT: &str = "-w 0 -r 10 -c 1000 -o extend=no";

#[test]
fn a_program_is_started_measured_and_stopped() {
    let Some(home) = home() else { return };
    run(&home, &format!("echo {SHORT} --name own --progress none"), &["python3 server.py {port}"]).ends_with(0).shows(
        &["tcp:send@server.py", "python3 server.py {port}", "every payload checked", "cpu far", "listened after"],
    );
    nothing_is_left(&home);
    let json = home.run("show own --json").ends_with(0).json();
    let program = &json["programs"][0];
    assert_eq!(program["name"], "server.py");
    assert!(program["ready_ns"].as_u64() > Some(0), "{program}");
    let files: Vec<&str> = program["files"].as_array().unwrap().iter().map(|file| file[0].as_str().unwrap()).collect();
    assert!(files.len() == 2 && files[1].ends_with("/server.py"), "the interpreter and the script: {files:?}");
    assert!(json["cases"][0]["case"]["traits"]["program"].as_bool().unwrap());
    let cost = &json["cases"][0]["ends"][1]["cost"];
    assert!(cost["user_ns"].as_f64() > Some(0.0) && cost["system_ns"].is_null() && cost["calls"].is_null(), "{cost}");
    home.run("show own -v").ends_with(0).shows(&["n/a: the far end is a program of others"]);
    home.run("verify own").ends_with(0);
    home.run("report own -o page.html").ends_with(0);
    let page = std::fs::read_to_string(home.path().join("page.html")).unwrap();
    assert!(page.contains("Programs at the far end") && page.contains("SHA-256"), "the page has its table");
    for format in ["csv", "json", "messages-csv", "hgrm", "perfetto"] {
        home.run(&format!("export own --to {format} -o out.{format}")).ends_with(0);
    }
    let csv = std::fs::read_to_string(home.path().join("out.csv")).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    let cell =
        |name: &str| row[head.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {head:?}"))];
    assert!(cell("far_user_ns").parse::<u64>().unwrap() > 0 && cell("far_system_ns").is_empty(), "{row:?}");
    assert_eq!((cell("far_sent"), cell("far_voluntary_switches")), ("", ""));
}

#[test]
fn it_is_found_without_its_port_and_in_every_process_of_its_own() {
    let Some(home) = home() else { return };
    run(&home, &format!("echo {SHORT}"), &["python3 server.py 0"]).ends_with(0);
    // Behind a shell, and with a process for each connection: what that took is counted.
    run(&home, &format!("echo {SHORT} --name shell"), &["sh -c 'python3 server.py {port} fork & wait'"]).ends_with(0);
    nothing_is_left(&home);
    let cost = &home.run("show shell --json").json()["cases"][0]["ends"][1]["cost"];
    assert!(cost["user_ns"].as_f64() > Some(1000.0), "{cost}");
    // One that does not end when it is asked to is ended.
    run(&home, "echo -c 20 -w 0 -r 1", &[&far("deaf", "deaf")]).ends_with(0);
    nothing_is_left(&home);
}

#[test]
fn messages_are_what_the_program_understands() {
    let Some(home) = home() else { return };
    for mode in ["line", "length"] {
        let line = format!("echo {SHORT} -o frame={mode} -l 5,64,20K");
        run(&home, &line, &[&far("framed", mode)]).ends_with(0).shows(&["framed", "20 KiB"]);
    }
    run(&home, &format!("echo {SHORT} -x tcp:writes -o frame=line --pieces 3x20"), &[&far("line", "line")])
        .ends_with(0);
    std::fs::write(home.path().join("ping"), "PING\r\n").unwrap();
    run(&home, &format!("echo {SHORT} -o request-file=ping --reply 7"), &[&far("pong", "hello")])
        .ends_with(0)
        .shows(&["no payload checked"]);
    run(&home, &format!("echo {SHORT} -o request-file=ping"), &[&far("echo", "")]).ends_with(0);
    run(&home, &format!("echo {SHORT} -P 4 -T 2 --inflight 3"), &[&far("many", "")]).ends_with(0);
    run(&home, "echo -w 0 -t 300ms -r 10 --rate 500", &[&far("scheduled", "")]).ends_with(0);
}

#[test]
fn programs_are_compared_and_the_slow_one_is_named() {
    let Some(home) = home() else { return };
    let line = "compare -l 64 -w 0 -r 20 -c 2000 -o extend=no --name planted";
    let text = run(&home, line, &[&far("quick", ""), &far("slow", "slow")]).ends_with(0).out;
    // On a machine that is busy with other things nothing may be decided, and that is said.
    let busy = text.contains("W46");
    assert!(busy || text.contains("tcp:send@slow is") && text.contains("times slower than tcp:send"), "{text}");
    let json = home.run("show planted --json").json();
    let ratio = |json: &Value, path: &str| {
        let is_path = |ratio: &Value| {
            let case = ratio["case"].as_u64().and_then(|id| json["cases"].as_array()?.get(id as usize));
            case.is_some_and(|case| case["case"]["path"] == path)
        };
        let ratios = json["comparison"]["ratios"].as_array().unwrap();
        ratios.iter().find(|ratio| is_path(ratio)).unwrap_or_else(|| panic!("{path} in {ratios:?}")).clone()
    };
    let slow = ratio(&json, "tcp:send@slow");
    assert!(busy || slow["verdict"] == "worse" && slow["low"].as_f64() > Some(1.0), "{slow}");
    let p50 = |path: &str| {
        let cases = json["cases"].as_array().unwrap();
        let case =
            cases.iter().find(|case| case["case"]["path"] == path && case["case"]["role"] == "measured").unwrap();
        case["quantiles"][0]["ns"].as_f64().unwrap()
    };
    let planted = p50("tcp:send@slow") - p50("tcp:send@quick");
    assert!(busy || (250_000.0..50_000_000.0).contains(&planted), "{planted} ns of 300 000");
    // One against the other, without ours.
    let line = "compare -x tcp:send@quick,tcp:send@slow -l 64 -w 0 -r 10 -c 500 -o extend=no --name alone";
    let busy = run(&home, line, &[&far("quick", ""), &far("slow", "slow")]).ends_with(0).out.contains("W46");
    let json = home.run("show alone --json").json();
    assert_eq!(json["comparison"]["baseline"], "tcp:send@quick");
    assert!(busy || ratio(&json, "tcp:send@slow")["verdict"] == "worse", "{json}");
    nothing_is_left(&home);
}

#[test]
fn a_server_that_writes_a_reply_in_two_sends_is_named() {
    let Some(home) = home() else { return };
    let output = run(&home, "echo -w 0 -r 6 -c 30 -o extend=no --no-save --json", &[&far("own", "parts")]).ends_with(0);
    let json = output.json();
    // One wait for a delayed acknowledgement, as far as this machine lets it be so long.
    let most = json["cases"][0]["quantiles"][1]["ns"].as_f64().unwrap_or(f64::INFINITY);
    if most > 55e6 {
        println!("skipped: other programs keep the CPUs for so long that a wait of 40 ms takes {:.0} ms", most / 1e6);
        return;
    }
    let findings = json["findings"].as_array().unwrap();
    let named = findings.iter().find(|finding| finding["code"] == "W36").map(|finding| finding["text"].to_string());
    let named = named.unwrap_or_else(|| panic!("no W36: {findings:?}"));
    assert!(named.contains("server writes a reply in several sends") && named.contains("At the server"), "{named}");
    nothing_is_left(&home);
}

#[test]
fn a_change_that_made_a_server_slower_fails_in_ci() {
    let Some(home) = home() else { return };
    // A round lasts 0.2 s, longer than a busy machine keeps a program off its CPU: most of a few quick messages could fall into that.
    let measure = |name: &str| {
        run(&home, &format!("echo -w 0 -r 20 -t 4s -o extend=no --name {name}"), &["python3 server.py {port}"])
            .ends_with(0)
    };
    measure("before");
    // Many times as long: less of it is not sure beside other work.
    let source = SERVER.replace("count += 1", "count += 1; time.sleep(0.02)");
    std::fs::write(home.path().join("server.py"), source).unwrap();
    measure("after");
    home.msgpath(&["diff", "before", "after", "--fail-if", "p50 > +50%"])
        .ends_with(1)
        .shows(&["program server.py"])
        .says(&["E25"]);
    home.msgpath(&["diff", "before", "before", "--fail-if", "p50 > +50%"]).ends_with(0);
    run(&home, "echo -w 0 -r 20 -c 200 --no-save --fail-if p50>1ns", &["python3 server.py {port}"]).ends_with(1);
}

#[test]
fn what_is_no_echo_is_named_and_nothing_hangs() {
    let Some(home) = home() else { return };
    let faults = [
        ("upper", "", "its reply is not an echo: byte 0"),
        ("twice", "", "it sends more than the 64 bytes"),
        ("hello", "", "of a reply of 64 bytes 7 came"),
        ("once", "", "closes the connection"),
        ("silent", "", "does not answer a message of 64 bytes within 2 s"),
        ("strip", "-o frame=line", "of a reply of 64 bytes 63 came"),
        ("one", "-P 2", "while another connection is open"),
    ];
    for (mode, options, says) in faults {
        let failed = run(&home, &format!("echo -c 100 -w 0 {options}"), &[&far(mode, mode)]).ends_with(3);
        // Whether it has closed when the reply is there, or a moment later, is its own affair.
        let said = failed.err.contains(says) || (mode == "once" && failed.err.contains("the connection broke"));
        assert!(failed.err.contains("E05") && said, "{mode}: {}", failed.err);
    }
    // In a comparison the others go on.
    run(&home, "compare -l 64 -c 200 -w 0 -r 5 -o extend=no", &[&far("good", ""), &far("silent", "silent")])
        .ends_with(4)
        .shows(&["not measured", "does not answer"]);
    nothing_is_left(&home);
}

#[test]
fn a_fault_in_the_middle_ends_the_run_with_its_cause() {
    let Some(home) = home() else { return };
    // The pilot has a few messages; the faults come later.
    let line = "echo -c 4000 -w 0 -r 4 -o extend=no";
    let later = SERVER.replace("count > 50", "count > 1500");
    std::fs::write(home.path().join("server.py"), later).unwrap();
    run(&home, line, &[&far("wrong", "wrong")]).ends_with(4).says(&["E06", "wrong: message", "came back different"]);
    run(&home, &format!("{line} --reply 64"), &[&far("late", "late")]).ends_with(4).says(&["E06", "more came back"]);
    let died = run(&home, line, &[&far("dies", "dies")]).ends_with(4);
    assert!(died.err.contains("E63") && died.err.contains("status 3"), "{}", died.err);
    assert!(died.err.contains("planted end"), "its last line: {}", died.err);
    nothing_is_left(&home);
}

#[test]
fn what_cannot_be_started_or_never_listens_is_said() {
    let Some(home) = home() else { return };
    run(&home, "echo -c 10", &["./absent {port}"]).ends_with(3).says(&["could not be started", "./server"]);
    run(&home, "echo -c 10", &["sh -c 'echo sorry >&2; exit 7'"]).ends_with(3).says(&["status 7", "sorry"]);
    let usage = [
        (vec!["echo", "--server", "a {port}", "--server", "b {port}"], "one server"),
        (vec!["compare", "--server", "x=a", "--server", "x=b"], "two programs are called x"),
        (vec!["echo", "--server", "a 'b"], "not closed"),
        (vec!["echo", "-o", "frame=line"], "--server"),
        (vec!["stream", "--server", "a"], "--server is an option of"),
        (vec!["compare", "--stream", "--server", "a"], "acknowledges no stream"),
        (vec!["echo", "--server", "a", "--stages", "light"], "--stages"),
        (vec!["echo", "--server", "a", "-o", "service-time=5us"], "-o service-time"),
        (vec!["echo", "127.0.0.1", "--server", "a"], "and so is a target"),
        (vec!["echo", "--server", "a", "-o", "frame=length", "-l", "4"], "no room for its length"),
        (vec!["echo", "-x", "tcp:send@b", "--server", "a=./a"], "names the program b"),
        (vec!["echo", "raw://nobody"], "is not a target"),
        (vec!["echo", "--server", "raw://nobody"], "HOST:PORT"),
    ];
    for (words, says) in usage {
        let refused = home.msgpath(&words).ends_with(2);
        assert!(refused.err.contains(says), "{words:?}: {}", refused.err);
    }
    let over = |path: &str| home.msgpath(&["echo", "-x", path, "--server", "python3 server.py {port}"]).ends_with(3);
    over("shm").says(&["does not reach"]);
    over("udp").says(&["it listens at TCP port", "-x tcp:send"]);
}

/// A server that a test started itself.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that this test has started, and its port.
fn running(home: &Home, mode: &str) -> (Own, u16) {
    let port = free_port();
    let server = Command::new("python3").args(["server.py", &port.to_string(), mode]).current_dir(home.path()).spawn();
    let server = Own(server.unwrap());
    assert!(within(LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()));
    (server, port)
}

#[test]
fn server_that_was_stopped_delays_every_message_that_was_due() {
    let Some(home) = home() else { return };
    // It is stopped for 1.7 of 5 s: what was due then waits up to 1.7 s, so a tenth of all waits longer than 1.2 s, in rounds that are
    // nearly as long as the stall and in rounds that are a third of it. Who does not answer for 2 s cannot be measured.
    for rounds in [4, 8] {
        let (server, port) = running(&home, "echo");
        let name = format!("stopped-{rounds}");
        let mut echo =
            home.start(&format!("echo raw://localhost:{port} -w 0 --rate 100 -t 5s -r {rounds} --name {name} --json"));
        assert!(echo.meets(&home.runs().join(name), 1), "a round is recorded");
        echo.send_to("STOP", server.0.id());
        std::thread::sleep(Duration::from_millis(1700));
        echo.send_to("CONT", server.0.id());
        let case = echo.finish(LIMIT).ends_with(0).json()["cases"][0].clone();
        let p90 = &case["quantiles"][1];
        assert!(p90["p"] == 0.9 && p90["ns"].as_u64().is_some_and(|ns| ns > 600_000_000), "{rounds}: {p90}");
        assert_ne!(case["open"]["sustained"], false, "{rounds}: {}", case["open"]);
    }
}

#[test]
fn one_that_runs_already_is_measured_and_left_alone() {
    let Some(home) = home() else { return };
    let (mut server, port) = running(&home, "echo");
    home.run(&format!("echo raw://localhost:{port} {SHORT} --name raw"))
        .ends_with(0)
        .shows(&[&format!("raw://localhost:{port}"), "n/a"]);
    let far = &home.run("show raw --json").json()["cases"][0]["ends"][1];
    assert!(far["cost"]["user_ns"].is_null() && far["calls"].is_null(), "{far}");
    home.run("verify raw").ends_with(0);
    assert!(server.0.try_wait().unwrap().is_none(), "it runs on");
    drop(server);
    home.run(&format!("echo raw://localhost:{port} -c 10")).ends_with(3).says(&["refused"]);
}

/// Waits until so many rounds of the run `cut` are on the disk.
fn met(home: &Home, running: &mut Running, rounds: usize) {
    let there = || msgpath_record::read(&home.runs().join("cut")).map_or(0, |run| run.rounds.len());
    assert!(within(LIMIT, || there() >= rounds || running.has_ended()), "{} rounds", there());
    assert!(!running.has_ended(), "it was too quick");
}

fn start(home: &Home, line: &str, far: &str) -> Running {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    words.extend(["--server", far]);
    Running::new(home.command(&words))
}

#[test]
fn a_killed_run_leaves_no_program_and_goes_on_with_the_same() {
    let Some(home) = home() else { return };
    let line = "echo -t 20s -r 100 -w 0 -o extend=no --name cut";
    let mut running = start(&home, line, &far("it", ""));
    met(&home, &mut running, 3);
    running.signal("KILL");
    let _ = running.finish(LIMIT);
    nothing_is_left(&home);
    let source = std::fs::read_to_string(home.path().join("server.py")).unwrap();
    let changed = |text: &str| std::fs::write(Path::new(&home.path().join("server.py")), text).unwrap();
    changed(&format!("{source}\n# new"));
    home.run("resume cut").ends_with(3).says(&["E59", "is not the file that it was"]);
    changed(&source);
    let mut again = home.start("resume cut");
    met(&home, &mut again, 6);
    again.signal("INT");
    let ended = again.finish(LIMIT);
    assert!(ended.out.contains("tcp:send@it"), "{ended:?}");
    nothing_is_left(&home);
}

#[test]
fn examples_in_other_languages_are_built_where_they_can_be() {
    let home = Home::new();
    let line = "compare -l 64 -c 200 -w 0 -r 5 -o extend=no --progress none";
    // Rust is there wherever this test was built; its folder is that of the tests' user.
    let mut command = home.command(&line.split_whitespace().collect::<Vec<_>>());
    command.args(["--server", "example:rust", "--server", "example:cobol", "--name", "built"]);
    for name in ["RUSTUP_HOME", "CARGO_HOME"] {
        let usual = std::env::var_os("HOME")
            .map(|home| Path::new(&home).join(format!(".{}", &name[..name.len() - 5].to_lowercase())));
        if let Some(folder) = std::env::var_os(name).map(Into::into).or(usual) {
            command.env(name, folder);
        }
    }
    let output = Running::new(command).finish(LIMIT).ends_with(4);
    assert!(output.out.contains("there is no example server in cobol"), "{}", output.out);
    let cache = home.path().join(".cache/msgpath/servers");
    let built = std::fs::read_dir(cache)
        .is_ok_and(|folders| folders.flatten().any(|folder| folder.path().join("echo").is_file()));
    // Where it is not built, the table says what became of the compiler.
    let refused = output.out.lines().find(|line| line.contains("tcp:send@rust") && line.contains("rustc"));
    assert_eq!(built, refused.is_none(), "{}", output.out);
    if let Some(why) = refused {
        eprintln!("skipped: {}", why.trim());
    }
}

/// A server of datagrams, or of a Unix socket, at the place that its second argument names.
const PLACES: &str = r#"
import os, socket, sys, time
kind, place, count = sys.argv[1], sys.argv[2], 0
loses = sys.argv[3:] == ["loses"]
time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 and not loses else 0)
if kind in ("udp", "gram"):
    s = socket.socket(socket.AF_INET if kind == "udp" else socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", int(place)) if kind == "udp" else place)
    while True:
        data, who = s.recvfrom(1 << 16)
        count += 1
        if not (loses and count % 20 == 0): s.sendto(data, who)
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if kind == "stream" else socket.SOCK_SEQPACKET)
s.bind(place)
s.listen()
while True:
    c, _ = s.accept()
    while data := c.recv(1 << 16): c.sendall(data)
"#;

#[test]
fn programs_at_udp_ports_and_unix_sockets_are_measured() {
    let Some(home) = home() else { return };
    std::fs::write(home.path().join("places.py"), PLACES).unwrap();
    let started = |path: &str, server: &str| {
        let line = format!("echo {SHORT} -x {path} --name {path} --progress none");
        run(&home, &line, &[&format!("own=python3 places.py {server}")])
    };
    run(&home, &format!("echo {SHORT} -x udp"), &["own=python3 places.py udp 0"]).ends_with(0);
    for (path, server) in
        [("udp", "udp {port}"), ("unix", "stream {socket}"), ("unixgram", "gram {socket}"), ("unixseq", "seq {socket}")]
    {
        started(path, server).ends_with(0).shows(&[&format!("{path}:send@own"), "every payload checked"]);
    }
    let json = home.run("show unixseq --json").ends_with(0).json();
    let socket = json["programs"][0]["address"].as_str().unwrap();
    assert!(socket.starts_with('/') && !Path::new(socket).parent().unwrap().exists(), "{socket} is left behind");
    let line = format!("echo {SHORT} -x udp -o patience=50ms --name late");
    let late = run(&home, &line, &["own=python3 places.py udp {port} 600"]);
    late.says(&["does not listen at UDP port", "-o patience=1m"]);
    // What it does not answer is in no time, has its count, and is told by the exit code where it is asked for.
    let line = "echo -w 0 -r 2 -c 100 -o extend=no -x udp --progress none --fail-if loss>0%";
    let lossy = run(&home, line, &["own=python3 places.py udp {port} loses"]).ends_with(1);
    lossy.shows(&[" lost ("]).says(&["E25", "loss > 0%"]);
    let case = home.run("show @last --json").ends_with(0).json()["cases"][0].clone();
    let [sent, received, lost] = ["sent", "received", "lost"].map(|name| case["delivery"][name].as_u64().unwrap());
    assert!(lost > 0 && sent == received + lost && case["quantiles"][2]["ns"].is_null(), "{case}");
    // What it is told fits to what it is measured over.
    started("tcp", "stream {socket}").says(&["{socket} is the path of a Unix socket"]);
    nothing_is_left(&home);
}

#[test]
fn programs_that_run_at_unix_sockets_and_udp_ports_are_called() {
    let Some(home) = home() else { return };
    std::fs::write(home.path().join("places.py"), PLACES).unwrap();
    let (socket, port) = (home.temporary().join("own.sock"), free_port());
    for (kind, place, target) in [
        ("stream", socket.display().to_string(), format!("raw+unix:{}", socket.display())),
        ("udp", port.to_string(), format!("raw+udp://127.0.0.1:{port}")),
    ] {
        let mut command = Command::new("python3");
        let mut server = command.args(["places.py", kind, &place]).current_dir(home.path()).spawn().unwrap();
        let line = format!("echo {target} {SHORT} --progress none");
        let answered = within(LIMIT, || home.run(&line).code == Some(0));
        assert!(answered, "{}", home.run(&line).err);
        home.run(&format!("echo {target} -x tcp:send")).ends_with(2).says(&["E10", "the target names"]);
        server.kill().unwrap();
        server.wait().unwrap();
    }
    home.run(&format!("echo raw+unix:{} {SHORT}", socket.display())).says(&["refused"]);
}
