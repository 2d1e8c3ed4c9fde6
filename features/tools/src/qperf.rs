//! qperf: half a round trip, called one way latency; a mean alone.

use super::read::{after, found, leading, times};
use super::{Commands, Exchange, HOST, Over, Ports, Printed, Tool, Work, words};

pub(super) const TOOL: Tool = Tool { name: "qperf", install: "sudo apt install qperf", commands, read, means };

fn commands(exchange: &Exchange, ports: &Ports, seconds: u32) -> Option<Commands> {
    let Exchange { over, work, size, spin } = exchange;
    let test = match work {
        Work::RoundTrips => format!("{}_lat", exchange.protocol()),
        Work::Stream if *over == Over::Tcp => "tcp_bw".to_owned(),
        _ => return None,
    };
    let port = ports.0[0];
    (!spin).then(|| Commands {
        server: words(&format!("qperf -lp {port}")),
        // In the smallest unit and with six digits: by default it prints three.
        client: words(&format!("qperf {HOST} -lp {port} -t {seconds} -m {size} -uu -e 6 {test}")),
        listens: Over::Tcp,
    })
}

fn read(exchange: &Exchange, text: &str) -> Result<Printed, String> {
    if exchange.work == Work::Stream {
        let units = [("bytes/sec", 8.0), ("KB/sec", 8e3), ("MB/sec", 8e6), ("GB/sec", 8e9), ("TB/sec", 8e12)];
        return found(Printed { bits: value(text, "bw", &units), ..Printed::default() }, text);
    }
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("sec", 1e9)];
    found(Printed { half: true, mean: value(text, "latency", &units), ..Printed::default() }, text)
}

/// The value of `name  =  1,234 us`, in the unit of the factor 1.
fn value(text: &str, name: &str, units: &[(&str, f64)]) -> Option<f64> {
    let line = text.lines().find(|line| line.trim_start().split([' ', '=']).next() == Some(name))?;
    let number = after(line, "=").or_else(|| leading(line))?;
    let unit = line.split_whitespace().last()?;
    let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
    times(Some(number), *factor)
}

fn means(exchange: &Exchange) -> &'static str {
    match exchange.work {
        Work::Stream => "counts what the receiver took, one way, in bytes a second (1 GB is 10^9)",
        _ => {
            "prints half the mean round trip and calls it one way; no quantiles; Nagle's algorithm stays on, which one message in flight does not meet"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ECHO;

    #[test]
    fn its_one_way_is_half_of_a_mean_round_trip() {
        let printed = read(&ECHO, "tcp_lat:\n    latency  =  12104.5 ns\n").unwrap();
        assert_eq!((printed.half, printed.round_trip(printed.mean)), (true, Some(24_209.0)));
        assert_eq!(read(&ECHO, "udp_lat:\n    latency  =  1,210.5 us\n").unwrap().mean, Some(1_210_500.0));
        let stream = Exchange { work: Work::Stream, ..ECHO };
        assert_eq!(read(&stream, "tcp_bw:\n    bw  =  4420000000 bytes/sec\n").unwrap().bits, Some(35.36e9));
        assert_eq!(read(&stream, "tcp_bw:\n    bw  =  4.42 GB/sec\n").unwrap().bits, Some(35.36e9));
        assert!(read(&stream, "tcp_bw:\n    bw  =  4.42 parsecs\n").is_err());
        assert!(read(&ECHO, "127.0.0.1: failed to connect").unwrap_err().contains("failed to connect"));
    }
}
