//! neper (`tcp_rr`, `udp_rr`, `tcp_stream`): whole round trips over epoll.

use super::read::{found, keyed, times};
use super::{Commands, Exchange, HOST, Over, Ports, Printed, Tool, Work, words};

pub(super) const TOOL: Tool = Tool {
    name: "neper",
    install: "https://github.com/google/neper, built with make; its programs tcp_rr, udp_rr and tcp_stream in PATH",
    commands,
    read,
    means,
};

fn commands(exchange: &Exchange, ports: &Ports, seconds: u32) -> Option<Commands> {
    let Exchange { over, work, size, spin } = exchange;
    let (program, own) = match work {
        Work::RoundTrips => (format!("{}_rr", exchange.protocol()), format!("-Q {size} -R {size} -p 50,99")),
        Work::Stream if *over == Over::Tcp => ("tcp_stream".to_owned(), format!("-B {size}")),
        _ => return None,
    };
    let [control, data] = ports.0;
    // Without --nolog each run leaves files in /tmp.
    let at = format!("--nolog -H {HOST} -C {control} -P {data}");
    let server = if *work == Work::Stream { own.as_str() } else { own.split(" -p").next().unwrap_or_default() };
    (!spin).then(|| Commands {
        server: words(&format!("{program} {at} {server}")),
        client: words(&format!("{program} -c {at} -l {seconds} {own}")),
        listens: Over::Tcp,
    })
}

fn read(exchange: &Exchange, text: &str) -> Result<Printed, String> {
    if exchange.work == Work::Stream {
        return found(Printed { bits: keyed(text, "remote_throughput"), ..Printed::default() }, text);
    }
    let seconds = |key: &str| times(keyed(text, key), 1e9);
    let (p50, p99) = (seconds("latency_p50"), seconds("latency_p99"));
    found(Printed { mean: seconds("latency_mean"), p50, p99, ..Printed::default() }, text)
}

fn means(exchange: &Exchange) -> &'static str {
    match exchange.work {
        Work::Stream => "counts what the receiver took, one way, over epoll",
        _ => "prints whole round trips; each end waits with epoll, one call more a message than a blocking receive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ECHO;

    #[test]
    fn seconds_become_nanoseconds() {
        let text = "num_transactions=36211\nlatency_min=0.000019931\nlatency_max=0.003968\nlatency_mean=0.000027912\n\
                    latency_stddev=0.00002\nlatency_p50=0.000027230\nlatency_p99=0.000042240\nthroughput=35800.12\n";
        let printed = read(&ECHO, text).unwrap();
        assert!((printed.p50.unwrap() - 27_230.0).abs() < 1e-3 && (printed.mean.unwrap() - 27_912.0).abs() < 1e-3);
        let stream = Exchange { work: Work::Stream, ..ECHO };
        assert_eq!(read(&stream, "local_throughput=0\nremote_throughput=25500000000\n").unwrap().bits, Some(25.5e9));
        assert!(read(&stream, "local_throughput=1\n").is_err(), "an old version does not say what the receiver took");
        let commands = commands(&ECHO, &Ports([7, 8]), 1).unwrap();
        assert_eq!(commands.server.join(" "), "tcp_rr --nolog -H 127.0.0.1 -C 7 -P 8 -Q 64 -R 64");
    }
}
