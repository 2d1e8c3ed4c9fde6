//! The workload: connections.

use msgpath_core::plan::Metric;
use msgpath_core::workload::{Answer, Duration, Workload};

/// Connections, each made for a request or a few.
pub static CONNECT: Workload = Workload {
    name: "connect",
    runs: "runs of connections",
    messages: "connections",
    arrived: "brought a reply",
    ends: ["client", "server"],
    metric: Metric::P50,
    timed: true,
    duration: Duration {
        name: "time to first byte",
        many: "Times to first byte",
        what: "Time is from just before socket() until the first byte of the reply is read: connecting, the first request, its reply. A \
               connection that failed has no time.",
    },
    open_duration: Some(Duration {
        name: "latency",
        many: "Latencies",
        what: "Latency is from the intended start of a connection until the first byte of its reply is read, the service time from just \
               before socket(). A connection that failed has none.",
    }),
    answer: Answer::Agent,
    in_rounds: true,
    for_how_long: Some("-t"),
    punctual: true,
    paired: Ok(()),
    fans_out: false,
    one_size: true,
    has_rate: true,
    logged: true,
    copies: Err("the bytes of a connection are not what it costs"),
    stages: Err("a connection has several messages; msgpath explain splits one"),
    resumes: Ok(()),
    // W170 says what became of them.
    loss_cure: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_counts_from_the_intended_start() {
        assert!(CONNECT.duration(true).what.contains("from the intended start"));
        assert!(CONNECT.duration(false).what.contains("from just before socket()"));
    }

    #[test]
    fn gates_watch_what_it_has() {
        assert_eq!(CONNECT.watched_names(), "p50, p99, mean, cpu, rate or loss");
    }
}
