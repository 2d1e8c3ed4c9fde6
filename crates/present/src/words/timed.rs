//! What the time of a message is, by what was measured: the one place that names the duration.

use msgpath_core::plan::Workload;

/// Names of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    /// `round trip`, for axes and heads.
    pub(crate) name: &'static str,
    /// `Round trips`, for headings.
    pub(crate) many: &'static str,
    /// From when until when it is.
    pub(crate) what: &'static str,
}

const ECHO: Timed = Timed {
    name: "round trip",
    many: "Round trips",
    what: "Time is from just before send() to just after recv() returns. One way is not half of this.",
};

/// An open loop has two times.
const OPEN: Timed = Timed {
    name: "latency",
    many: "Latencies",
    what: "Latency is from the intended send to just after recv() returned, the round trip from just before the actual \
           send(). One way is not half of either.",
};

const CALL: Timed = Timed {
    name: "time of a call",
    many: "Calls",
    what: "Time is T4 - T1: from just before the request is sent until the whole reply is read.",
};

const ONE_WAY: Timed = Timed {
    name: "one-way time",
    many: "One-way times",
    what: "Time is one way: from when a message was made to its delivery, authentication included, by the one \
           CLOCK_MONOTONIC of this machine. One message is one time for every receiver.",
};

/// What messages are timed by; `open`: by a schedule.
pub(crate) fn timed(workload: Workload, open: bool) -> Timed {
    match workload {
        Workload::Rpc => CALL,
        Workload::Periodic => ONE_WAY,
        Workload::Echo if open => OPEN,
        Workload::Echo | Workload::Stream => ECHO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_echo_has_a_round_trip() {
        for workload in [Workload::Rpc, Workload::Periodic] {
            let timed = timed(workload, false);
            let all = [timed.name, timed.many, timed.what].join(" ").to_lowercase();
            assert!(!all.contains("round trip") && !all.contains("half"), "{all}");
        }
        assert_eq!(timed(Workload::Echo, false).name, "round trip");
        assert!(timed(Workload::Echo, true).what.contains("intended send"));
    }
}
