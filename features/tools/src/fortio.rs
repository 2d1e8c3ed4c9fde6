//! fortio: whole round trips in Go; at a rate it catches up, and times from the actual send.

use serde::Deserialize;

use super::read::{found, times};
use super::{Commands, Exchange, HOST, Ports, Printed, Tool, Work, words};

pub(super) const TOOL: Tool = Tool {
    name: "fortio",
    install: "go install fortio.org/fortio@latest, and its folder in PATH",
    commands,
    read,
    means,
};

fn commands(exchange: &Exchange, ports: &Ports, seconds: u32) -> Option<Commands> {
    let Exchange { over, work, size, spin } = exchange;
    let rate = match work {
        Work::RoundTrips => 0.0,
        Work::AtRate(rate) => rate.round(),
        Work::Stream => return None,
    };
    let protocol = exchange.protocol();
    let port = ports.0[0];
    // Bins of 1 µs: by default they are of 1 ms, and its median of a round trip on one machine is then half a millisecond.
    (!spin).then(|| Commands {
        server: words(&format!("fortio {protocol}-echo -{protocol}-port {HOST}:{port}")),
        client: words(&format!(
            "fortio load -qps {rate} -c 1 -t {seconds}s -r 0.000001 -p 50,99 -payload-size {size} -json - \
             {protocol}://{HOST}:{port}"
        )),
        listens: *over,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    duration_histogram: Histogram,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Histogram {
    #[serde(default)]
    avg: f64,
    #[serde(default)]
    percentiles: Option<Vec<Percentile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Percentile {
    percentile: f64,
    value: f64,
}

fn read(_: &Exchange, text: &str) -> Result<Printed, String> {
    // The document stands between lines for people.
    let json = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to)).unwrap_or_default();
    let Ok(Document { duration_histogram }) = serde_json::from_str(json) else {
        return found(Printed::default(), text);
    };
    let Histogram { avg, percentiles } = duration_histogram;
    let percentiles = percentiles.unwrap_or_default();
    let at = |p: f64| {
        let value = percentiles.iter().find(|one| (one.percentile - p).abs() < 1e-9).map(|one| one.value);
        times(value, 1e9)
    };
    found(Printed { mean: times(Some(avg), 1e9), p50: at(50.0), p99: at(99.0), ..Printed::default() }, text)
}

fn means(exchange: &Exchange) -> &'static str {
    match exchange.work {
        Work::AtRate(_) => {
            "prints whole round trips from the actual send, one at a time: a message that is late because the one before it was \
             slow does not count as slow"
        }
        _ => "prints whole round trips in Go, whose runtime waits with epoll; bins of 1 µs here, by default 1 ms",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ECHO;

    #[test]
    fn its_document_is_found_between_its_lines() {
        let text = "Fortio running at -1 queries per second\n{\"RunType\":\"TCP\",\"ActualQPS\":36000.5,\
                    \"DurationHistogram\":{\"Count\":36000,\"Min\":0.00002,\"Avg\":0.0000273,\
                    \"Percentiles\":[{\"Percentile\":50,\"Value\":0.0000258},{\"Percentile\":99,\"Value\":0.0000452}]}}\n\
                    All done\n";
        let printed = read(&ECHO, text).unwrap();
        assert!((printed.mean.unwrap() - 27_300.0).abs() < 1e-3 && (printed.p99.unwrap() - 45_200.0).abs() < 1e-3);
        assert!(!printed.half);
        let none = "{\"DurationHistogram\":{\"Count\":0,\"Avg\":0,\"Percentiles\":null}}";
        assert!(read(&ECHO, none).is_err() && read(&ECHO, "} {").is_err() && read(&ECHO, "refused").is_err());
        let at = commands(&Exchange { work: Work::AtRate(1e4), ..ECHO }, &Ports([7, 8]), 1).unwrap();
        assert!(at.client.join(" ").contains("-qps 10000 -c 1"), "{:?}", at.client);
    }
}
