//! `msgpath watch` on hosts in different network namespaces that have the same addresses and ports.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::printed::Value;

use crate::command::Home;
use crate::lab::Lab;
use crate::watch::{Program, counts, skip_without_bpf, watch_what};

/// Of each client, and whether its server plants something.
const REQUESTS: u64 = 60;
const CLIENTS: [(&str, &str, &str); 2] = [("asker-1", "replier-1", "0.15"), ("asker-2", "replier-2", "0")];

/// Serves one client. What `sys.argv` says: a port, its name, how long it sleeps for a `p`.
const TCP_SERVER: &str = "
import socket, sys, time
open('/proc/self/comm', 'w').write(sys.argv[2])
listener = socket.socket(); listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('0.0.0.0', int(sys.argv[1]))); listener.listen(8)
print('listens', flush=True)
peer, _ = listener.accept()
while what := peer.recv(1):
    if what == b'p': time.sleep(float(sys.argv[3]))
    peer.sendall(what)
";

/// One request for each line of its input, from a port that is the same on both hosts.
const TCP_CLIENT: &str = "
import socket, sys
open('/proc/self/comm', 'w').write(sys.argv[2])
peer = None
for n, line in enumerate(sys.stdin):
    if not peer: peer = socket.create_connection(('10.66.0.2', int(sys.argv[1])), source_address=('10.66.0.1', int(sys.argv[1]) + 1))
    peer.sendall(b'p' if n % 6 == 5 else b'n'); peer.recv(1)
    print('answered', flush=True)
";

const UDP_SERVER: &str = "
import socket, sys, time
open('/proc/self/comm', 'w').write(sys.argv[2])
own = socket.socket(type=socket.SOCK_DGRAM); own.bind(('0.0.0.0', int(sys.argv[1])))
print('listens', flush=True)
while True:
    what, peer = own.recvfrom(100)
    if what == b'p': time.sleep(float(sys.argv[3]))
    own.sendto(what, peer)
";

const UDP_CLIENT: &str = "
import socket, sys
open('/proc/self/comm', 'w').write(sys.argv[2])
peer = socket.socket(type=socket.SOCK_DGRAM); peer.bind(('10.66.0.1', int(sys.argv[1]) + 1)); peer.connect(('10.66.0.2', int(sys.argv[1])))
for n, line in enumerate(sys.stdin):
    peer.send(b'p' if n % 6 == 5 else b'n'); peer.recv(100)
    print('answered', flush=True)
";

/// Two labs with the same addresses, in each a client and a server on the same ports; the clients ask in turn. What is said of all.
/// `None`: no namespaces here.
fn two_of_the_same(kind: &str, port: u16, scripts: [&str; 2]) -> Option<Value> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3");
        return None;
    }
    let home = Home::new();
    let labs = [Lab::up(&home, &format!("{kind}1"), "")?, Lab::up(&home, &format!("{kind}2"), "")?];
    let start = |lab: &Lab, end: &str, script: &str, name: &str, planted: &str| {
        let mut command = Command::new("ip");
        let namespace = format!("msgpath-{}-{end}", lab.name());
        command.args(["netns", "exec", &namespace, "python3", "-uc", script, &port.to_string(), name, planted]);
        Program(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("ip starts it"))
    };
    let pairs = labs.iter().zip(CLIENTS);
    let mut hosts: Vec<[Program; 2]> = pairs
        .map(|(lab, (asker, replier, planted))| {
            let mut server = start(lab, "b", scripts[1], replier, planted);
            server.0.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 8]).expect("it listens");
            [start(lab, "a", scripts[0], asker, ""), server]
        })
        .collect();
    let pids: Vec<String> = hosts.iter().flatten().map(|host| host.0.id().to_string()).collect();
    let ((), result) = watch_what(&format!("--pid {} --slowest 100", pids.join(",")), || {
        for _ in 0..REQUESTS {
            for [asker, _] in &mut hosts {
                asker.0.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("it reads");
                asker.0.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 9]).expect("it prints");
            }
        }
        // With the end of its input a client closes its connection.
        for [asker, _] in &mut hosts {
            drop(asker.0.stdin.take());
            asker.0.wait().expect("it ends");
        }
    });
    assert_eq!(result["not_adding_up"], 0);
    Some(result)
}

/// The numbers that TCP gives bytes tell which two ends belong together: both connections are there, each with its own server.
#[test]
fn equal_addresses_in_two_namespaces_are_two_connections() {
    skip_without_bpf!();
    let Some(result) = two_of_the_same("n", 7100, [TCP_CLIENT, TCP_SERVER]) else { return };
    let servers = result["servers"].as_array().expect("servers");
    assert_eq!((servers.len(), &servers[0]["host"], &result["ambiguous"]), (1, &"".into(), &0.into()));
    let server = &servers[0];
    let counted = counts(server, ["requests", "incomplete", "torn", "in_flight"]);
    assert_eq!((counted, &result["connections"]), ([2 * REQUESTS, 0, 0, 0], &2.into()));
    let slept = |request: &&Value| {
        let stages = request["stages"].as_array().expect("stages");
        stages.iter().any(|stage| stage[0] == "work_sleep" && stage[1].as_u64().is_some_and(|ns| ns >= 150_000_000))
    };
    let requests = server["slowest"].as_array().expect("requests");
    let planted: Vec<&Value> = requests.iter().filter(slept).collect();
    assert_eq!(planted.len() as u64, REQUESTS / 6);
    assert!(planted.iter().all(|request| request["client"] == "asker-1"), "{planted:#?}");
    let of = |client: &str| -> Vec<u64> {
        let all = server["by_connection"].as_array().expect("connections");
        let own = all.iter().filter(|connection| connection["client"] == client);
        own.map(|connection| connection["requests"].as_u64().expect("a count")).collect()
    };
    assert_eq!(CLIENTS.map(|(asker, ..)| of(asker)), [[REQUESTS], [REQUESTS]]);
}

/// A datagram does not tell: once a second host has the addresses each end is split for itself, and the result says so.
#[test]
fn datagrams_of_equal_addresses_in_two_namespaces_are_not_mixed() {
    skip_without_bpf!();
    let Some(result) = two_of_the_same("o", 7200, [UDP_CLIENT, UDP_SERVER]) else { return };
    assert_eq!(result["ambiguous"], 1);
    let servers = result["servers"].as_array().expect("servers");
    let find = |host: &str| servers.iter().find(|server| server["host"] == host);
    let (Some(here), Some(away)) = (find(""), find("10.66.0.2")) else { panic!("{servers:#?}") };
    for server in [here, away] {
        let count = |name: &str| server[name].as_u64().expect("a count");
        assert!(count("requests") + count("incomplete") <= 2 * REQUESTS, "{server:#}");
        assert!(count("requests") >= 2 * REQUESTS - 4, "{server:#}");
    }
    // Of the first datagrams, before the second host was there, both ends may have been known.
    let clients: Vec<&str> = here["clients"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    assert!(clients.contains(&"other hosts") && !clients.contains(&"asker-2"), "{clients:?}");
}
