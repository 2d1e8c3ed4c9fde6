//! The workload: messages by a clock.

use msgpath_core::plan::Metric;
use msgpath_core::workload::{Answer, Duration, Workload};

/// Time-triggered messages, one to many.
pub static PERIODIC: Workload = Workload {
    name: "periodic",
    runs: "periodic runs",
    messages: "messages",
    arrived: "arrived",
    ends: ["senders", "receivers"],
    metric: Metric::P50,
    timed: true,
    duration: Duration {
        name: "one-way time",
        many: "One-way times",
        what: "Time is one way: from when a message was made to its delivery, authentication included, by the one \
               CLOCK_MONOTONIC of its sender. One message is one time for every receiver.",
    },
    open_duration: None,
    answer: Answer::None,
    in_rounds: false,
    for_how_long: None,
    punctual: false,
    paired: Err("the engines of a periodic run are not measured in one another's passes"),
    fans_out: true,
    one_size: true,
    has_rate: false,
    logged: true,
    copies: Err("one message goes to many"),
    stages: Err("a periodic run has no reply to split"),
    resumes: Err("its components start together and run by one clock, from the first message to the last"),
    loss_cure: Some("fewer messages in flight or a larger receive buffer"),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_times_are_not_called_round_trips() {
        let duration = PERIODIC.duration(true);
        let all = [duration.name, duration.many, duration.what].join(" ").to_lowercase();
        assert!(!all.contains("round trip") && !all.contains("half"), "{all}");
    }

    #[test]
    fn gates_watch_what_it_has() {
        assert_eq!(PERIODIC.watched_names(), "p50, p99, mean, cpu or loss", "a clock makes the messages");
    }
}
