//! `msgpath watch`: which ends of which connections are watched. Cgroups, other hosts, and what older kernels see of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::printed::Value;

use crate::command::{Home, free_port, listening, within};
use crate::lab::Lab;
use crate::watch::{
    PLANTED, Program, all_are_there, client, is_caused_by, is_sound, named, serve, server, skip_without_bpf,
    watch_what, watch_with,
};

/// A cgroup of this test, with one below it; gone when dropped.
struct Cgroups(PathBuf);

impl Cgroups {
    /// `None`: none can be made here.
    fn make() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find_map(|line| line.split(' ').nth(1).filter(|_| line.contains(" cgroup2 ")))?;
        let own = Self(Path::new(mount).join(format!("msgpath-test-inner-{}", std::process::id())));
        std::fs::create_dir_all(own.inner()).ok()?;
        let enter = format!("echo $$ > {}/cgroup.procs", own.inner().display());
        let entered = Command::new("sh").args(["-c", &enter]).stderr(Stdio::null()).status();
        entered.is_ok_and(|status| status.success()).then_some(own)
    }

    fn inner(&self) -> PathBuf {
        self.0.join("inner")
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // A process that has ended leaves it a little later.
        let gone =
            |folder: &Path| within(Duration::from_secs(60), || std::fs::remove_dir(folder).is_ok() || !folder.exists());
        gone(&self.inner());
        gone(&self.0);
    }
}

impl Program {
    /// Listens on a port, and sleeps for each `p`. `enter`: the cgroup that it goes into before.
    fn server(enter: Option<&Path>, port: u16) -> Self {
        let into = enter.map_or_else(String::new, |folder| format!("echo $$ > {}/cgroup.procs && ", folder.display()));
        let script = format!("{into}exec python3 -c \"$0\" {port}");
        let child = Command::new("sh").args(["-c", &script, SERVER]).spawn().expect("a shell");
        let server = Self(child);
        assert!(
            within(Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok()),
            "it does not listen"
        );
        server
    }
}

/// Serves one connection after the other.
const SERVER: &str = "
import socket, sys, time
listener = socket.socket(); listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('0.0.0.0', int(sys.argv[1]))); listener.listen(8)
while True:
    peer, _ = listener.accept()
    while what := peer.recv(1):
        if what == b'p': time.sleep(0.15)
        peer.sendall(what)
";

/// What goes on in a cgroup is seen, also in one below it, and nothing else: a second server stands outside.
#[test]
fn a_cgroup_is_watched_with_those_below_it() {
    skip_without_bpf!();
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: no python3");
    }
    let Some(cgroups) = Cgroups::make() else { return println!("skipped: no cgroup of version 2 can be made here") };
    let (inside, outside) = (free_port(), free_port());
    let _outside = Program::server(None, outside);
    let _inside = Program::server(Some(&cgroups.inner()), inside);
    let folder = cgroups.0.to_str().expect("text").to_owned();
    let ((), result) = watch_what(&format!("--cgroup {folder}"), || {
        for port in [outside, inside] {
            named("asker", move || client(port)).join().expect("the client");
        }
    });
    is_sound(&result, 90);
    let server = server(&result);
    assert_eq!(server["port"], inside);
    is_caused_by(server, "the server sleeping");
    assert_eq!(result["target"], format!("cgroup {folder}"));
    assert!(
        server["stages"].as_array().is_some_and(|stages| stages.iter().any(|stage| stage["stage"] == "send")),
        "{server:#}"
    );
}

/// Answers 60 requests of its own, and says which process it is.
const INSIDE: &str = "
import os, socket, threading, time
one, other = socket.socketpair()
def serve():
    while what := other.recv(100): other.sendall(what)
threading.Thread(target=serve).start()
time.sleep(0.3)
for n in range(60): one.sendall(b'n'); one.recv(100)
one.close()
print('process', os.getpid())
";

/// A program in a pid namespace of its own is seen from the first one, whatever it is called inside.
#[test]
fn programs_in_other_pid_namespaces_are_watched() {
    skip_without_bpf!();
    let unshared = ["unshare", "--pid", "--fork", "python3", "-c"];
    if !Command::new("unshare").args(&unshared[1..]).arg("1").status().is_ok_and(|status| status.success()) {
        return println!("skipped: no unshare that makes a pid namespace, or no python3");
    }
    let command = [&["watch", "--json", "--"][..], &unshared, &[INSIDE]].concat();
    let output = Home::new().msgpath(&command).ends_with(0).says(&["process 1\n"]);
    let result = output.json();
    println!("{result:#}");
    let server = server(&result);
    // The first request of a connection that nobody knew may be seen in part only.
    assert!(server["requests"].as_u64().is_some_and(|requests| (58..=60).contains(&requests)), "{server:#}");
    assert_ne!(server["process"], 1);
}

/// Both ends of a link between two namespaces, each watched as if the other one were on another host.
#[test]
fn of_a_connection_to_another_host_each_end_is_split() {
    skip_without_bpf!();
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: no python3");
    }
    let home = Home::new();
    let Some(lab) = Lab::up(&home, "w", "") else { return };
    let start = |end: &str, script: &str| {
        let mut command = Command::new("ip");
        let namespace = format!("msgpath-{}-{end}", lab.name());
        command.args(["netns", "exec", &namespace, "python3", "-uc", script, "7000"]).stdin(Stdio::piped());
        Program(command.stdout(Stdio::piped()).spawn().expect("ip starts it"))
    };
    let mut replier = start("b", &SERVER.replace("while True", "print('listens', flush=True)\nwhile True"));
    let mut asker = start("a", CLIENT);
    replier.0.stdout.take().expect("a pipe").read_exact(&mut [0; 8]).expect("it listens");
    let options = format!("--pid {},{} --no-peers", replier.0.id(), asker.0.id());
    let (own, result) = watch_what(&options, || {
        asker.0.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
        let mut text = String::new();
        asker.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("it prints");
        text.trim().parse::<f64>().expect("its p90, in seconds")
    });
    assert_eq!(result["not_adding_up"], 0);
    let servers = result["servers"].as_array().expect("servers");
    let find = |host: &str| servers.iter().find(|server| server["host"] == host);
    let (Some(here), Some(away)) = (find(""), find("10.66.0.2")) else { panic!("{servers:#?}") };
    assert_eq!((servers.len(), &away["port"], &here["port"]), (2, &7000.into(), &7000.into()));
    assert_eq!((&here["clients"][0], &away["clients"][0]), (&"other hosts".into(), &"python3".into()));
    for server in [here, away] {
        all_are_there(server, 60);
    }
    // What the one calls the other host is what the other one does.
    is_caused_by(here, "the server sleeping");
    is_caused_by(away, "the link and the other host");
    let p90 = |server: &Value| server["p90_ns"].as_f64().expect("a quantile") / 1e9;
    assert!((p90(away) - own).abs() < 0.03 * own + 0.005, "the client says {own} s, watch says {} s", p90(away));
    assert!(p90(here) < p90(away) * 1.01 + 0.001 && p90(here) > 0.15, "{} {}", p90(here), p90(away));
    let has = |server: &Value, name: &str| {
        server["stages"].as_array().expect("stages").iter().any(|stage| stage["stage"] == name)
    };
    assert!(has(away, "send_out") && has(away, "away") && has(away, "client_softirq"), "{away:#}");
    assert!(has(here, "softirq") && has(here, "reply_out") && !has(here, "send") && !has(here, "away"), "{here:#}");
}

/// 60 requests once it is told to; prints what nine in ten take at most.
const CLIENT: &str = "
import socket, sys, time
sys.stdin.readline()
peer = socket.create_connection(('10.66.0.2', int(sys.argv[1])))
took = []
for n in range(60):
    begin = time.monotonic()
    peer.sendall(b'p' if n % 6 == 5 else b'n'); peer.recv(1)
    took.append(time.monotonic() - begin)
peer.close()
print(sorted(took)[54])
";

/// Kernels before 6.3 tell of TCP alone, where both ends are here: what is sent is known when it arrives.
#[test]
fn still_older_kernels_see_tcp_within_the_machine() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let without = "--without sk_data_ready,sock_recv_length,sock_send_length,sched_switch";
    let ((), result) = watch_with(without, port, move || {
        let server = named("planted", move || serve(&listener, 1, || thread::sleep(PLANTED)));
        named("asker", move || client(port)).join().expect("the client");
        server.join().expect("the server");
    });
    is_sound(&result, 90);
    let missing = result["missing"].as_array().expect("a list");
    assert!(
        ["sock_recv_length", "tcp_sendmsg_locked"].iter().all(|name| missing.contains(&(*name).into())),
        "{missing:?}"
    );
    let server = server(&result);
    is_caused_by(server, "the server sleeping");
    assert_eq!((&server["framed"], &server["in_flight"]), (&0.into(), &0.into()));
    assert_eq!((&server["name"], &server["clients"][0]), (&"planted".into(), &"asker".into()));
}

/// Kernels before 6.16 do not tell when a TCP send begins, those before 5.18 not in which state a thread leaves its CPU.
#[test]
fn older_kernels_see_what_they_can() {
    skip_without_bpf!();
    let listener = listening();
    let port = listener.local_addr().expect("it is bound").port();
    let ((), result) = watch_with("--without tcp_sendmsg_locked,sched_switch", port, move || {
        let server = named("planted", move || serve(&listener, 1, || thread::sleep(PLANTED)));
        named("asker", move || client(port)).join().expect("the client");
        server.join().expect("the server");
    });
    is_sound(&result, 90);
    assert!(result["missing"].as_array().is_some_and(|all| all.contains(&"tcp_sendmsg_locked".into())));
    is_caused_by(server(&result), "the server sleeping");
}
