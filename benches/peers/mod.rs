//! What other tools report of the same thing on the same CPUs: a value each, or `None` where the tool is not installed or has no
//! such path.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::bare;

/// The median round trip that sockperf reports in 2 s, ns.
pub fn sockperf(path: &str) -> Option<f64> {
    let over: &[&str] = match path {
        "tcp:send" => &["--tcp"],
        "udp:send" => &[],
        _ => return None,
    };
    let port = free_port()?;
    let common = ["-i", "127.0.0.1", "-p", &port];
    let server = Server::start(&[&["sockperf", "server"], &common[..], over].concat())?;
    let text = client(&[&["sockperf", "ping-pong", "-t", "2", "-m", "64", "--full-rtt"], &common[..], over].concat())?;
    drop(server);
    let line = text.lines().find(|line| line.contains("percentile 50.000"))?;
    Some(line.rsplit('=').next()?.trim().parse::<f64>().ok()? * 1e3)
}

/// The median round trip that netperf reports in 2 s, ns: it prints whole microseconds.
pub fn netperf(path: &str) -> Option<f64> {
    let test = match path {
        "tcp:send" => "TCP_RR",
        "udp:send" => "UDP_RR",
        _ => return None,
    };
    let port = free_port()?;
    let server = Server::start(&["netserver", "-D", "-4", "-L", "127.0.0.1", "-p", &port])?;
    let words = ["netperf", "-H", "127.0.0.1", "-4", "-p", &port, "-t", test, "-l", "2", "-P", "0", "-j", "--"];
    let text = client(&[&words[..], &["-r", "64,64", "-o", "P50_LATENCY"]].concat())?;
    drop(server);
    Some(text.trim().parse::<f64>().ok()? * 1e3)
}

/// The median round trip that neper reports in 2 s, ns.
pub fn neper(path: &str) -> Option<f64> {
    let program = match path {
        "tcp:send" => "tcp_rr",
        "udp:send" => "udp_rr",
        _ => return None,
    };
    let (control, data) = (free_port()?, free_port()?);
    let common = ["-4", "-l", "2", "-Q", "64", "-R", "64", "--no-delay", "-C", &control, "-P", &data];
    let common = if program == "udp_rr" { [&common[..7], &common[8..]].concat() } else { common.to_vec() };
    let server = Server::start(&[&[program], &common[..]].concat())?;
    let text = client(&[&[program, "-c", "-H", "127.0.0.1", "-p", "50"], &common[..]].concat())?;
    drop(server);
    let line = text.lines().find_map(|line| line.strip_prefix("latency_p50="))?;
    Some(line.trim().parse::<f64>().ok()? * 1e9)
}

/// What iperf3's receiver counted in 4 s, bits per second.
pub fn iperf3() -> Option<f64> {
    let port = free_port()?;
    let server = Server::start(&["iperf3", "-s", "-1", "-p", &port])?;
    let text = client(&["iperf3", "-c", "127.0.0.1", "-p", &port, "-t", "4", "-l", "128K", "-J"])?;
    drop(server);
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    value["end"]["sum_received"]["bits_per_second"].as_f64()
}

/// A server of another tool, ended when it is dropped.
struct Server(Child);

impl Server {
    fn start(words: &[&str]) -> Option<Self> {
        let server = pinned(bare::cpus().1, words).stdout(Stdio::null()).spawn().ok()?;
        // None of them says when it listens.
        std::thread::sleep(Duration::from_millis(300));
        Some(Self(server))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// What a client prints.
fn client(words: &[&str]) -> Option<String> {
    let output = pinned(bare::cpus().0, words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn pinned(cpu: u32, words: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).args(words).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn free_port() -> Option<String> {
    Some(std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string())
}
