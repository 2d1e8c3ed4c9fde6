//! The workload: calls.

use msgpath_core::plan::Metric;
use msgpath_core::workload::{Answer, Duration, Workload};

/// Calls of a server: a request, its work, a reply.
pub static CALLS: Workload = Workload {
    name: "rpc",
    runs: "runs of calls",
    messages: "calls",
    arrived: "came back",
    ends: ["rpc client", "rpc server"],
    metric: Metric::P50,
    timed: true,
    duration: Duration {
        name: "time of a call",
        many: "Calls",
        what: "Time is T4 - T1: from just before the request is sent until the whole reply is read.",
    },
    open_duration: Some(Duration {
        name: "latency",
        many: "Latencies",
        what: "Latency is from the intended send until the whole reply is read. T4 - T1 begins just before the actual send.",
    }),
    answer: Answer::Server,
    in_rounds: false,
    for_how_long: Some("--duration"),
    punctual: false,
    paired: Ok(()),
    fans_out: false,
    one_size: false,
    has_rate: true,
    logged: false,
    copies: Err("what a server copies is not known"),
    stages: Err("calls are split by the stamps of their server: see the parts of each kind of call"),
    resumes: Err("its server holds what earlier calls left in it, which nobody can bring back"),
    // W71.
    loss_cure: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_times_are_not_called_round_trips() {
        for duration in [false, true].map(|open| CALLS.duration(open)) {
            let all = [duration.name, duration.many, duration.what].join(" ").to_lowercase();
            assert!(!all.contains("round trip") && !all.contains("half"), "{all}");
        }
    }

    #[test]
    fn an_open_loop_counts_from_the_intended_send() {
        assert!(CALLS.duration(true).what.starts_with("Latency is from the intended send"));
        assert!(CALLS.duration(false).what.starts_with("Time is T4 - T1"));
    }

    #[test]
    fn gates_watch_what_it_has() {
        assert_eq!(CALLS.watched_names(), "p50, p99, mean, rate or loss", "a server does not report its CPU time");
    }
}
