//! netperf: whole round trips, quantiles in whole microseconds.

use super::read::{found, keyed, times};
use super::{Commands, Exchange, HOST, Over, Ports, Printed, Tool, Work, words};

pub(super) const TOOL: Tool = Tool {
    name: "netperf",
    install: "sudo apt install netperf (in Debian from the section non-free)",
    commands,
    read,
    means,
};

fn commands(exchange: &Exchange, ports: &Ports, seconds: u32) -> Option<Commands> {
    let Exchange { over, work, size, spin } = exchange;
    let (test, own) = match (over, work) {
        (Over::Tcp, Work::RoundTrips) => {
            ("TCP_RR", format!("-r {size},{size} -D -k MEAN_LATENCY,P50_LATENCY,P99_LATENCY"))
        }
        (Over::Udp, Work::RoundTrips) => {
            ("UDP_RR", format!("-r {size},{size} -k MEAN_LATENCY,P50_LATENCY,P99_LATENCY"))
        }
        (Over::Tcp, Work::Stream) => ("TCP_STREAM", format!("-m {size} -k THROUGHPUT,THROUGHPUT_UNITS")),
        _ => return None,
    };
    let port = ports.0[0];
    (!spin).then(|| Commands {
        server: words(&format!("netserver -D -4 -L {HOST} -p {port}")),
        client: words(&format!("netperf -4 -H {HOST} -p {port} -t {test} -l {seconds} -P 0 -- {own}")),
        listens: Over::Tcp,
    })
}

fn read(exchange: &Exchange, text: &str) -> Result<Printed, String> {
    if exchange.work == Work::Stream {
        let units = text.lines().find_map(|line| line.trim().strip_prefix("THROUGHPUT_UNITS="));
        let factor = match units.map(str::trim) {
            Some("10^6bits/s") => 1e6,
            Some("10^9bits/s") => 1e9,
            Some("10^3bits/s") => 1e3,
            other => {
                let other: String = other.unwrap_or("units that it does not name").chars().take(40).collect();
                return Err(format!("it counts in {other}"));
            }
        };
        return found(Printed { bits: times(keyed(text, "THROUGHPUT"), factor), ..Printed::default() }, text);
    }
    let us = |key: &str| times(keyed(text, key), 1e3);
    let printed =
        Printed { mean: us("MEAN_LATENCY"), p50: us("P50_LATENCY"), p99: us("P99_LATENCY"), ..Printed::default() };
    found(printed, text)
}

fn means(exchange: &Exchange) -> &'static str {
    match exchange.work {
        Work::Stream => "counts what the receiver took, one way; 10^6 bits",
        _ => "prints whole round trips, quantiles in whole µs: a step of 1 µs is as fine as it tells",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ECHO;

    #[test]
    fn keys_are_read_whatever_stands_around_them() {
        let text = "MEAN_LATENCY=21.36\nP50_LATENCY=20\nP99_LATENCY=32\n";
        let printed = read(&ECHO, text).unwrap();
        assert_eq!((printed.mean, printed.p50, printed.p99), (Some(21_360.0), Some(20_000.0), Some(32_000.0)));
        assert!(!printed.half);
        // What it has not measured is -1.
        assert_eq!(read(&ECHO, "MEAN_LATENCY=21.36\nP50_LATENCY=-1\n").unwrap().p50, None);
        assert!(read(&ECHO, "establish control: are you sure there is a netserver listening").is_err());
        let stream = Exchange { work: Work::Stream, ..ECHO };
        let printed = read(&stream, "THROUGHPUT=30178.42\nTHROUGHPUT_UNITS=10^6bits/s\n").unwrap();
        assert_eq!(printed.bits, Some(30_178.42e6));
        assert!(read(&stream, "THROUGHPUT=3\nTHROUGHPUT_UNITS=MBytes/s\n").unwrap_err().contains("MBytes"));
    }
}
