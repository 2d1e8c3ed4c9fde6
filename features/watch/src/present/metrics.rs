//! What was counted of watched programs as OpenMetrics.

use msgpath_core::watch::{ServiceCounts, Times};
use msgpath_present::open_metrics::{BOUNDS, Out, labels, number};
use msgpath_verbs::metrics::Exposition;

/// The metrics of watched programs: told once a second what was counted, asked for their text.
#[derive(Default)]
pub(crate) struct WatchMetrics {
    /// Name of the record.
    pub(crate) run: String,
    /// What is watched, as it was typed.
    pub(crate) target: String,
    /// For how long so far, s.
    pub(crate) seconds: f64,
    /// What was counted of each server, with the name of the threads that read requests.
    pub(crate) servers: Vec<(String, ServiceCounts)>,
}

/// What is counted of a server.
type OfServer = fn(&ServiceCounts) -> u64;

impl Exposition for WatchMetrics {
    fn text(&self) -> String {
        let mut out = Out::default();
        out.family("msgpath_watch", "info", "", "What is watched.");
        out.sample("msgpath_watch_info", &labels([("run", self.run.as_str()), ("target", &self.target)]), "1");
        let run = labels([("run", self.run.as_str())]);
        out.family("msgpath_watched_seconds", "gauge", "seconds", "For how long.");
        out.sample("msgpath_watched_seconds", &run, &number(self.seconds));
        let servers: Vec<(String, &ServiceCounts)> = self
            .servers
            .iter()
            .map(|(name, counts)| {
                let kind = if counts.datagrams { "/udp" } else { "" };
                let port = format!("{}{kind}", counts.port);
                (labels([("run", self.run.as_str()), ("server", name.as_str()), ("port", port.as_str())]), counts)
            })
            .collect();
        let counters: [(&str, &str, OfServer); 7] = [
            ("msgpath_watched_requests", "Requests that were split.", |counts| counts.requests),
            ("msgpath_watched_framed", "Those that were told apart by their protocol.", |counts| counts.framed),
            ("msgpath_watched_incomplete", "Requests not seen from beginning to end.", |counts| counts.incomplete),
            ("msgpath_watched_torn", "Requests whose times do not fit together.", |counts| counts.torn),
            ("msgpath_watched_in_flight", "Turns with several requests in flight, not paired.", |counts| {
                counts.in_flight
            }),
            (
                "msgpath_watched_not_followed",
                "Requests that were not followed, estimated.",
                ServiceCounts::not_followed,
            ),
            ("msgpath_watched_unasked", "Data from servers that nobody had asked for.", |counts| counts.unasked),
        ];
        for (name, help, of) in counters {
            out.family(name, "counter", "", help);
            for (labels, counts) in &servers {
                out.sample(&format!("{name}_total"), labels, &of(counts).to_string());
            }
        }
        let name = "msgpath_request_seconds";
        out.family(name, "histogram", "seconds", "From the client's send call until it has the reply.");
        for (labels, counts) in &servers {
            let middle = |bucket: u16| {
                let (from, to) = Times::range(bucket);
                (from + to) / 2
            };
            for bound in BOUNDS {
                let at_most: u64 =
                    counts.times.0.iter().filter(|(bucket, _)| middle(*bucket) <= bound).map(|(_, count)| count).sum();
                let le = format!("{labels},le=\"{}\"", number(bound as f64 / 1e9));
                out.sample(&format!("{name}_bucket"), &le, &at_most.to_string());
            }
            let (total, sum) = counts.times.0.iter().fold((0_u64, 0.0), |(total, sum), (bucket, count)| {
                (total.saturating_add(*count), sum + middle(*bucket) as f64 * *count as f64)
            });
            out.sample(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), &total.to_string());
            out.sample(&format!("{name}_count"), labels, &total.to_string());
            out.sample(&format!("{name}_sum"), labels, &number(sum / 1e9));
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_programs_as_text() {
        let counts = ServiceCounts {
            port: 6379,
            requests: 12,
            framed: 2,
            times: Times(vec![(Times::bucket(30_000), 10), (Times::bucket(3_000_000), 2)]),
            ..ServiceCounts::default()
        };
        let metrics = WatchMetrics {
            run: "brisk-otter".into(),
            target: "port 6379".into(),
            seconds: 2.5,
            servers: vec![("a\"b".into(), counts)],
        };
        insta::assert_snapshot!("open_metrics_watch", metrics.text());
    }
}
