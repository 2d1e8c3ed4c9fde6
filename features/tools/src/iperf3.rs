//! iperf3: streams, counted by the receiver.

use serde::Deserialize;

use super::read::{found, measured};
use super::{Commands, Exchange, HOST, Over, Ports, Printed, Tool, Work, words};

pub(super) const TOOL: Tool = Tool { name: "iperf3", install: "sudo apt install iperf3", commands, read, means };

/// The largest block that it takes.
const LARGEST: u64 = 1 << 20;

fn commands(exchange: &Exchange, ports: &Ports, seconds: u32) -> Option<Commands> {
    let Exchange { over, work, size, spin } = exchange;
    let port = ports.0[0];
    (*work == Work::Stream && *over == Over::Tcp && !spin && *size <= LARGEST).then(|| Commands {
        server: words(&format!("iperf3 -s -1 -B {HOST} -p {port}")),
        client: words(&format!("iperf3 -c {HOST} -p {port} -t {seconds} -l {size} -J")),
        listens: Over::Tcp,
    })
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    end: End,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    sum_received: Sum,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sum {
    bits_per_second: f64,
}

fn read(_: &Exchange, text: &str) -> Result<Printed, String> {
    let Ok(document) = serde_json::from_str::<Document>(text) else { return found(Printed::default(), text) };
    match document.error {
        Some(error) => Err(error.chars().take(160).collect()),
        None => {
            found(Printed { bits: measured(document.end.sum_received.bits_per_second), ..Printed::default() }, text)
        }
    }
}

fn means(_: &Exchange) -> &'static str {
    "counts payload at the receiver (sum_received), one way; it does not time messages"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ECHO;

    #[test]
    fn the_receiver_is_who_counts() {
        let stream = Exchange { work: Work::Stream, size: 131_072, ..ECHO };
        let text = r#"{"start":{"version":"iperf 3.12"},"intervals":[{"sum":{"bits_per_second":9e9}}],
            "end":{"sum_sent":{"bits_per_second":3.2e10},"sum_received":{"seconds":1.0,"bits_per_second":3.1e10}}}"#;
        assert_eq!(read(&stream, text).unwrap().bits, Some(3.1e10));
        let refused = r#"{"start":{},"intervals":[],"end":{},"error":"error - unable to connect to server"}"#;
        assert_eq!(read(&stream, refused).unwrap_err(), "error - unable to connect to server");
        assert!(read(&stream, "{\"end\":{}}").is_err() && read(&stream, "iperf3: error").is_err());
        assert!(read(&stream, &"[".repeat(100_000)).is_err());
        assert!(commands(&ECHO, &Ports([1, 2]), 1).is_none() && commands(&stream, &Ports([1, 2]), 1).is_some());
    }
}
