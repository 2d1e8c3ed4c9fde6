//! sockperf: half a round trip, called latency; with `under-load` by a schedule, timed from the actual send.

use super::read::{after, found, times};
use super::{Commands, Exchange, HOST, Over, Ports, Printed, Tool, Work, words};

pub(super) const TOOL: Tool = Tool { name: "sockperf", install: "sudo apt install sockperf", commands, read, means };

/// The least message has its own header, the largest fits into a datagram.
const SIZES: std::ops::RangeInclusive<u64> = 14..=65_000;

fn commands(exchange: &Exchange, ports: &Ports, seconds: u32) -> Option<Commands> {
    let Exchange { over, work, size, spin } = exchange;
    let mode = match work {
        Work::RoundTrips => "ping-pong".to_owned(),
        // A message may wait for the sender, so each is answered: by default only every hundredth is.
        Work::AtRate(rate) => format!("under-load --mps {} --reply-every 1", rate.round()),
        Work::Stream => return None,
    };
    if !SIZES.contains(size) {
        return None;
    }
    let tcp = if *over == Over::Tcp { "--tcp" } else { "" };
    let spin = if *spin { "--nonblocked" } else { "" };
    let at = format!("-i {HOST} -p {} {tcp} {spin}", ports.0[0]);
    Some(Commands {
        server: words(&format!("sockperf server {at}")),
        client: words(&format!("sockperf {mode} {at} -m {size} -t {seconds}")),
        listens: *over,
    })
}

fn read(_: &Exchange, text: &str) -> Result<Printed, String> {
    let half = !text.contains("Summary: Round trip");
    let us = |words: &str| times(after(text, words), 1e3);
    let mean = us("Summary: Latency is").or_else(|| us("Summary: Round trip is"));
    found(Printed { half, mean, p50: us("percentile 50.000 ="), p99: us("percentile 99.000 ="), bits: None }, text)
}

fn means(exchange: &Exchange) -> &'static str {
    match (exchange.work, exchange.spin) {
        (Work::AtRate(_), _) => {
            "prints half a round trip from the actual send: what a late sender made a message wait is not in it; every message \
             is answered here, by default every hundredth"
        }
        (_, true) => "prints half a round trip; both ends spin (--nonblocked)",
        _ => "prints half a round trip and calls it latency; its header of 14 bytes is a part of the message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ECHO;

    /// As version 3.7 prints it, colours and all.
    const PRINTED: &str = "sockperf: == version #3.7-no.git == \n\
        sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=48000; ReceivedMessages=47999\n\
        sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages=26000; ReceivedMessages=26000\n\
        \u{1b}[2;35msockperf: ====> avg-latency=10.571 (std-dev=9.310, mean-ad=2.1, median-ad=1.0)\u{1b}[0m\n\
        sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0\n\
        sockperf: Summary: Latency is 10.571 usec\n\
        \u{1b}[2;35msockperf: Total 26000 observations\u{1b}[0m; each percentile contains 260.00 observations\n\
        sockperf: ---> <MAX> observation = 1311.250\nsockperf: ---> percentile 99.900 =   33.012\n\
        sockperf: ---> percentile 99.000 =   17.804\nsockperf: ---> percentile 50.000 =   10.102\n\
        sockperf: ---> <MIN> observation =    6.750\n";

    #[test]
    fn half_a_round_trip_is_known_as_such() {
        let printed = read(&ECHO, PRINTED).unwrap();
        assert_eq!((printed.half, printed.mean, printed.p99), (true, Some(10_571.0), Some(17_804.0)));
        assert_eq!(printed.round_trip(printed.p50), Some(20_204.0));
        let whole = read(&ECHO, &PRINTED.replace("Latency is", "Round trip is")).unwrap();
        assert_eq!(whole.round_trip(whole.mean), Some(10_571.0));
        assert!(read(&ECHO, "sockperf: No messages were received from the server.").is_err());
    }

    #[test]
    fn a_size_that_it_cannot_send_is_not_asked_for() {
        let of = |size| commands(&Exchange { size, ..ECHO }, &Ports([1, 2]), 1).is_some();
        assert!(of(14) && of(65_000) && !of(13) && !of(65_001));
        let spin = commands(&Exchange { spin: true, over: Over::Udp, ..ECHO }, &Ports([7, 8]), 1).unwrap();
        assert_eq!(spin.server.join(" "), "sockperf server -i 127.0.0.1 -p 7 --nonblocked");
        assert_eq!(spin.listens, Over::Udp);
    }
}
