//! What does `serve --rpc` cost beyond the path it uses? Its calls and the same path's plain messages in turn, in one
//! run; the server is a process of its own, pinned where msgpath's far end is.
//!
//! `cargo bench --bench rpc_server [-- PASSES]`. The aims: a ping of 64 bytes at most 3 µs above `echo tcp:send`, 1 MB
//! writes and reads at least 90 % of `stream tcp:send`, 1000 connections in less than 64 MiB.
//!
//! Two rows for 1 MB calls: with one call in flight, as the lab's client works, nothing moves while the reply and the
//! next request travel; with two in flight, that gap is filled. The aim is judged on the second, because a stream has no
//! such gap either.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod bare;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use msgpath_calls::agent::server::{Server, ServerOptions};
use msgpath_core::Workload;
use msgpath_rpc::{Header, MARKER_BYTES, Marker, Method, RPC_HEADER_BYTES, put_string};
use msgpath_sys::duplex::{recv_stamped_now, stamp_received};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::{affinity, clock};

const PING: usize = 64;
const PINGS: usize = 4_000;
const VALUE: usize = 1_000_000;
const CALLS: usize = 400;
const CONNECTIONS: usize = 1_000;
const HEAD: usize = MARKER_BYTES + RPC_HEADER_BYTES;

fn main() {
    if bare::is_far_end() || is_server() {
        return;
    }
    let passes: usize = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(15);
    pings(passes);
    values(passes);
    connections();
}

/// The server: `--rpc-server CPU`. Prints its address and serves until it is killed. Returns whether this process is one.
fn is_server() -> bool {
    let words: Vec<String> = std::env::args().collect();
    let Some(at) = words.iter().position(|word| word == "--rpc-server") else { return false };
    let cpu = words[at + 1].parse().expect("a CPU");
    affinity::pin(&[cpu]).expect("an allowed CPU");
    let options = ServerOptions { port: 0, threads: 1, ..ServerOptions::default() };
    let server = Server::bind(options).expect("loopback");
    println!("{}", server.address());
    server.run(&AtomicBool::new(false)).expect("it serves");
    true
}

/// A server in flight; killed when dropped.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Running {
    fn start() -> Self {
        let (_, far) = bare::cpus();
        let mut child = Command::new(std::env::current_exe().expect("own program"))
            .args(["--rpc-server", &far.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it is");
        Self { child, address: line.trim().parse().expect("an address") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream
    }

    /// A field of /proc/PID/status, KiB.
    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a running server");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a field of status");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request(method: &str, strings: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    strings.iter().for_each(|string| put_string(&mut body, string));
    let header = Header { rpcid: 1, method: Method::new(method), ..Header::default() };
    let marker = Marker { header: RPC_HEADER_BYTES as u32, body: body.len() as u32 };
    [&marker.to_bytes()[..], &header.to_bytes(), &body].concat()
}

fn send_all(stream: &TcpStream, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        done += msg::send(stream.as_fd(), &bytes[done..], SendFlags::default()).expect("the server reads");
    }
}

fn receive_all(stream: &TcpStream, buffer: &mut [u8]) {
    let mut got = 0;
    while got < buffer.len() {
        match msg::recv(stream.as_fd(), &mut buffer[got..]).expect("the server answers") {
            0 => panic!("the server closed"),
            more => got += more,
        }
    }
}

/// The middle value, and those that a quarter of the values lie below and above.
fn quartiles(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    (at(0.25), at(0.5), at(0.75))
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "MISSED" }
}

fn pinned<T>(cpu: u32, work: impl FnOnce() -> T) -> T {
    let before = affinity::allowed();
    affinity::pin(&[cpu]).expect("an allowed CPU");
    let result = work();
    affinity::pin(&before).expect("allowed CPUs");
    result
}

fn pings(passes: usize) {
    let server = Running::start();
    let (near, _) = bare::cpus();
    let call = request("ping", &[&[0x5a; PING]]);
    let (mut ours, mut echoes, mut above) = (Vec::new(), Vec::new(), Vec::new());
    for pass in 0..passes {
        let ping = || {
            let stream = server.connect();
            let mut reply = vec![0; call.len()];
            let mut rows = Vec::with_capacity(PINGS);
            pinned(near, || {
                for at in 0..PINGS + 200 {
                    let begun = clock::now();
                    send_all(&stream, &call);
                    receive_all(&stream, &mut reply);
                    if at >= 200 {
                        rows.push((clock::now() - begun) as f64);
                    }
                }
            });
            assert_eq!(reply[HEAD..], call[HEAD..]);
            quartiles(&rows).1
        };
        let echo = || {
            let run = bare::msgpath("tcp:send", Workload::ECHO, PING as u32, PINGS as u64, 1);
            run.rounds[0].latency.quantile(0.5).flatten().expect("messages arrived") as f64
        };
        let (ours_ns, echo_ns) = if pass % 2 == 0 {
            let first = ping();
            (first, echo())
        } else {
            let first = echo();
            (ping(), first)
        };
        ours.push(ours_ns);
        echoes.push(echo_ns);
        above.push(ours_ns - echo_ns);
    }
    let (low, middle, high) = quartiles(&above);
    println!(
        "ping 64 B          rpc {:7.0} ns   echo tcp:send {:7.0} ns   above {middle:6.0} ns   middle half {low:.0} to {high:.0}   ratio {:.3}   limit 3000 ns: {}",
        quartiles(&ours).1,
        quartiles(&echoes).1,
        quartiles(&ours).1 / quartiles(&echoes).1,
        verdict(middle <= 3000.0)
    );
}

/// Values that a client moves in a second, bits, with so many calls in flight; `reply_length` is that of a whole reply.
fn rate(server: &Running, call: &[u8], reply_length: usize, in_flight: usize) -> f64 {
    let (near, _) = bare::cpus();
    let stream = server.connect();
    let mut reply = vec![0; reply_length];
    let elapsed = pinned(near, || {
        let mut begun = 0;
        for at in 0..CALLS + CALLS / 10 {
            if at == CALLS / 10 {
                begun = clock::now();
            }
            if at == 0 {
                (0..in_flight - 1).for_each(|_| send_all(&stream, call));
            }
            send_all(&stream, call);
            receive_all(&stream, &mut reply);
        }
        let elapsed = clock::now() - begun;
        (0..in_flight - 1).for_each(|_| receive_all(&stream, &mut reply));
        elapsed
    });
    let status = Header::parse(&reply[MARKER_BYTES..]).expect("a header").status;
    assert_eq!(status, 0, "the calls worked");
    (VALUE * CALLS) as f64 * 8.0 / elapsed as f64
}

fn values(passes: usize) {
    let server = Running::start();
    let value: Vec<u8> = (0..VALUE).map(|at| at as u8).collect();
    let write = request("write", &[b"kkkkk", &value]);
    let read = request("read", &[b"kkkkk"]);
    // One write before the first read, and what the server found must be what was written.
    let stream = server.connect();
    let mut reply = vec![0; HEAD];
    send_all(&stream, &write);
    receive_all(&stream, &mut reply);
    let mut reply = vec![0; HEAD + 4 + VALUE];
    send_all(&stream, &read);
    receive_all(&stream, &mut reply);
    assert!(reply[HEAD + 4..] == value);
    drop(stream);
    let kinds: [(&str, &[u8], usize, usize); 4] = [
        ("1 MB writes", &write, HEAD, 1),
        ("1 MB reads", &read, HEAD + 4 + VALUE, 1),
        ("1 MB writes, 2", &write, HEAD, 2),
        ("1 MB reads, 2", &read, HEAD + 4 + VALUE, 2),
    ];
    let mut ours = vec![Vec::new(); kinds.len()];
    let mut streams = Vec::new();
    for pass in 0..passes {
        // The stream takes its turn at another place in each pass.
        for at in (0..=kinds.len()).map(|at| (at + pass) % (kinds.len() + 1)) {
            match kinds.get(at) {
                Some((_, call, length, in_flight)) => {
                    ours[at].push(rate(&server, call, *length, *in_flight));
                }
                None => {
                    let run = bare::msgpath("tcp:send", Workload::STREAM, VALUE as u32, CALLS as u64, 1);
                    let far = run.rounds[0].far();
                    streams.push(far.bytes_received as f64 * 8.0 / far.elapsed_ns as f64);
                }
            }
        }
    }
    for ((name, _, _, in_flight), ours) in kinds.iter().zip(&ours) {
        let ratios: Vec<f64> = ours.iter().zip(&streams).map(|(ours, stream)| ours / stream).collect();
        let (low, middle, high) = quartiles(&ratios);
        let judged = if *in_flight > 1 { verdict(middle >= 0.9) } else { "not judged: one in flight" };
        println!(
            "{name:18} rpc {:7.2} Gbit/s   stream tcp:send {:7.2} Gbit/s   ratio {middle:.3}   middle half {low:.3} to {high:.3}   limit 0.900: {judged}",
            quartiles(ours).1,
            quartiles(&streams).1,
        );
    }
}

fn connections() {
    msgpath_sys::limits::allow_open_files(CONNECTIONS as u64 + 64).expect("a limit");
    let server = Running::start();
    let before = server.memory("VmRSS");
    let ping = request("ping", &[&[1; PING]]);
    let long = request("ping", &[&[2; 100_000]]);
    let streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let mut reply = vec![0; ping.len()];
    let mut long_reply = vec![0; long.len()];
    for stream in &streams {
        send_all(stream, &ping);
        receive_all(stream, &mut reply);
        send_all(stream, &long);
        receive_all(stream, &mut long_reply);
    }
    // All of them with half a message at once.
    streams.iter().for_each(|stream| send_all(stream, &ping[..100]));
    streams.iter().for_each(|stream| send_all(stream, &ping[100..]));
    streams.iter().for_each(|stream| receive_all(stream, &mut reply));
    let (now, most) = (server.memory("VmRSS"), server.memory("VmHWM"));
    let kib = |kib: u64| kib as f64 / 1024.0;
    println!(
        "1000 connections   RSS {:.1} MiB before, {:.1} MiB with all of them, {:.1} MiB at most   ratio {:.3}   limit 64 MiB: {}",
        kib(before),
        kib(now),
        kib(most),
        kib(most) / 64.0,
        verdict(kib(most) < 64.0)
    );
    // What --kernel-stamps relies on, on this kernel.
    let (stream, call) = (server.connect(), request("ping", &[b"x"]));
    stamp_received(stream.as_fd()).expect("a socket");
    send_all(&stream, &call);
    msgpath_sys::poll::poll(stream.as_fd(), msgpath_sys::poll::Interest::Read, 1000).expect("a reply");
    let stamped = recv_stamped_now(stream.as_fd(), &mut vec![0; call.len()]).is_ok_and(|(_, stamp)| stamp.is_some());
    println!("kernel stamps      {}", if stamped { "told for TCP" } else { "n/a: this kernel tells none for TCP" });
}
