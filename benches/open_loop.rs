//! Does an open loop sustain what `sockperf under-load` does over TCP on the same two CPUs? In turn in one run, every message
//! answered; and sockperf's usual one answer in a hundred messages, which is other work, beside them.
//!
//! `cargo bench --bench open_loop [-- PAIRS]`: 5 unless another number is named. Wants sockperf and taskset, and says what is missing.
//! Prints messages a second that were answered, of the rates asked for; `max`: as many as go.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod bare;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use msgpath_core::Workload;
use msgpath_core::plan::{Dispatch, Extent, Load};
use msgpath_core::schedule::{Arrivals, Rate};

const SIZE: u32 = 64;
const SECONDS: u64 = 1;
const RATES: [(&str, f64); 3] = [("150000", 150e3), ("200000", 200e3), ("max", 400e3)];
/// A server of sockperf listens after this long.
const BEGINS: Duration = Duration::from_millis(300);

/// What is measured, and how: of the rate by name and by value.
type Way = (&'static str, fn(&str, f64) -> f64);

/// Ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Messages a second that sockperf sent in the time that it counts.
fn sockperf(rate: &str, reply_every: u32) -> f64 {
    let (near, far) = bare::cpus();
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|any| any.local_addr()).expect("loopback").port();
    let at = format!("--tcp -i 127.0.0.1 -p {port}");
    let pinned = |cpu: u32, words: &str| {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sockperf"]).args(words.split(' ')).stderr(Stdio::null());
        command
    };
    let server = pinned(far, &format!("server {at}")).stdout(Stdio::null()).spawn();
    let _server = Server(server.expect("sockperf starts"));
    std::thread::sleep(BEGINS);
    let client = format!("under-load {at} -m {SIZE} -t {SECONDS} --mps {rate} --reply-every {reply_every}");
    let output = pinned(near, &client).output().expect("sockperf runs").stdout;
    let text = String::from_utf8_lossy(&output);
    let valid = text.lines().find(|line| line.contains("[Valid Duration]")).unwrap_or_else(|| panic!("{text}"));
    let number = |name: &str| -> f64 {
        let rest = valid.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {valid}"));
        let end = rest.find(|byte: char| !byte.is_ascii_digit() && byte != '.').unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_else(|_| panic!("no number after {name} in {valid}"))
    };
    number("SentMessages=") / number("RunTime=")
}

/// Messages a second that were answered, from the first intended send to the last answer.
fn ours(rate: f64, dispatch: Dispatch) -> f64 {
    let mut plan = bare::plan("tcp:send", Workload::ECHO, SIZE, 1, 4);
    plan.extent = Extent::Time(SECONDS * 1_000_000_000);
    let case = &mut plan.cases[0];
    case.load = Load::Open { rate: Rate::per_second(rate).expect("a rate"), arrivals: Arrivals::Constant };
    case.dispatch = dispatch;
    case.inflight = 4096;
    if dispatch == Dispatch::EventLoop {
        case.path.wait = "epoll".into();
    }
    let run = bare::execute(plan);
    let own = run.rounds.iter().filter(|round| round.case == 0).map(|round| round.near());
    let (messages, ns) =
        own.fold((0, 0), |(messages, ns), end| (messages + end.delivery.received, ns + end.elapsed_ns));
    messages as f64 * 1e9 / ns as f64
}

fn main() {
    if bare::is_far_end() {
        return;
    }
    for tool in ["sockperf", "taskset"] {
        if Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            println!("skipped: no {tool}");
            return;
        }
    }
    let pairs = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(5);
    let ways: [Way; 4] = [
        ("sockperf, every message answered", |name, _| sockperf(name, 1)),
        ("sockperf, one in a hundred answered", |name, _| sockperf(name, 100)),
        ("msgpath, an event loop", |_, rate| ours(rate, Dispatch::EventLoop)),
        ("msgpath, two threads", |_, rate| ours(rate, Dispatch::Turns)),
    ];
    for (name, rate) in RATES {
        let mut found = [const { Vec::new() }; 4];
        for pair in 0..pairs {
            for at in 0..ways.len() {
                // Who goes first changes from pair to pair.
                let at = if pair % 2 == 0 { at } else { ways.len() - 1 - at };
                found[at].push(ways[at].1(name, rate));
            }
        }
        for ((way, _), rates) in ways.iter().zip(&mut found) {
            rates.sort_by(f64::total_cmp);
            let (least, middle, most) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
            println!("{name:>7} asked   {way:36} {middle:9.0} msg/s   {least:.0} to {most:.0}   {pairs} runs");
        }
    }
}
