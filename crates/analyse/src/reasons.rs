//! Why a number of the summary is `null` under `--json`.

use std::borrow::Cow;

use msgpath_core::explained;
use msgpath_core::explained::Explained;
use serde_json::Value;

use crate::cost::why_unread;
use crate::gates::RunGate;
use crate::summary::{AblationResult, CaseSummary, Comparison, Cost, EndSummary, Expected, Layer, LoadCurve, Summary};

explained!(AblationResult, CaseSummary, Comparison, EndSummary, Expected, Layer, LoadCurve);
explained!(read RunGate);

const NO_INTERVAL: &str = "no interval can be claimed";
const NOT_COUNTED: &str = "the file of another program does not tell how long messages were, nor how many";

fn is_end(path: &str) -> bool {
    path.ends_with("low") || path.ends_with("high")
}

impl Summary {
    /// Why a part of a run is `null`.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [
            (self.comparison.is_none(), "comparison", "there is no second path, or nothing that pairs with it"),
            (
                self.calm.is_none(),
                "calm",
                "the version that recorded the run did not tell calm rounds from disturbed ones",
            ),
            (self.expectation.is_none(), "expectation", "no estimate was typed before the run"),
            (self.totals.messages.is_none(), "totals.messages", NOT_COUNTED),
        ]
        .into_iter()
        .filter_map(|(null, field, why)| null.then_some((field, why)))
    }
}

impl Explained for CaseSummary {
    fn hide(&self, object: &mut Value) {
        if !self.counts_messages() {
            object["messages"] = Value::Null;
            object["delivery"] = Value::Null;
            object["throughput"]["messages_per_s"] = Value::Null;
        }
    }

    fn reason(&self, path: &str) -> Cow<'_, str> {
        let untimed = self.throughput.is_some();
        let open = self.open.as_ref();
        match path {
            "open.sustained" => open.and_then(|open| open.why.as_deref()).unwrap_or("it was not measured"),
            "fastest_ns" | "slowest_ns" | "slowest_at_ns" | "mean_ns" | "effective_messages" | "first"
            | "steadiness" | "one_way" | "open.little"
                if self.is_overloaded() =>
            {
                "the rate was not sustained"
            }
            "messages" | "delivery" | "throughput.messages_per_s" => NOT_COUNTED,
            "throughput" => "only a stream has a throughput",
            "rate_per_s"
            | "fastest_ns"
            | "slowest_ns"
            | "slowest_at_ns"
            | "mean_ns"
            | "effective_messages"
            | "first"
            | "threads.scaling.time_factor"
            | "threads.implied"
                if untimed =>
            {
                "a stream does not time single messages"
            }
            _ if untimed && path.contains("_share_over_") => "a stream does not time single messages",
            _ if open.is_some() && path.contains("_share_over_") => "it belongs to a closed loop",
            "fastest_ns" | "slowest_ns" | "slowest_at_ns" | "mean_ns" | "first.slowest_ns" => "no message arrived",
            "zerocopy" => "nothing asked for zero copy",
            "copied_bytes" => &self.copied.why,
            _ if path.starts_with("throughput.beginning") && !is_end(path) => "no part of a round was thrown away",
            "connect_ns" => "the transport does not connect",
            "one_way" => "arrival was not stamped, or the ends do not share a clock (then both ways are in `ways`)",
            "steadiness" | "steadiness.kpss" => "too few rounds to say",
            "threads.oversubscribed" => "there is a CPU for every thread",
            "threads.scaling" => "there is no other thread count to compare with, or this is the case with one thread",
            _ if path.starts_with("threads.") && path.ends_with("cpu") => "the thread was not pinned",
            _ if path.starts_with("threads.") => "too few rounds, or it was not counted",
            "first" => "no message was kept apart at the start of a connection",
            "first.p50_ns" => "the median is a lost message",
            "restarts" => "there was a single start, or too few rounds in each",
            "restarts.best_rounds" => "restarts add no variance, or the cost of one is not known",
            "open" => "closed loop",
            "open.backlog_per_s" => "the backlog was not sampled",
            "open.client_busy" => "the CPU time of the near end was not counted",
            _ if is_end(path) => NO_INTERVAL,
            _ => "could not be estimated from these rounds",
        }
        .into()
    }
}

/// The part of the CPU time into which no tick fell: all of the time stands in the other.
fn without_a_tick(cost: &Cost) -> Option<&'static str> {
    match (cost.user_ns, cost.system_ns) {
        (0.0, both) if both > 0.0 => Some("user_ns"),
        (both, 0.0) if both > 0.0 => Some("system_ns"),
        _ => None,
    }
}

impl Explained for EndSummary {
    fn hide(&self, object: &mut Value) {
        let Cost { unread, cpu_only, calls_unread, .. } = self.cost;
        if unread || cpu_only || calls_unread {
            object["calls"] = Value::Null;
            object["cost"]["calls"] = Value::Null;
        }
        if let (true, Some(cost)) = (unread || cpu_only, object["cost"].as_object_mut()) {
            cost.remove("unread");
            let known = |name: &str| cpu_only && ["user_ns", "cpu_only"].contains(&name);
            cost.iter_mut().filter(|(name, _)| !known(name)).for_each(|(_, field)| *field = Value::Null);
        }
        if let Some(part) = without_a_tick(&self.cost) {
            object["cost"][part] = Value::Null;
        }
    }

    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "calls" | "cost.calls" => why_unread(&self.cost),
            _ if path.starts_with("cost.") && !self.cost.is_whole() => why_unread(&self.cost),
            "cost.user_ns" | "cost.system_ns" if without_a_tick(&self.cost).is_some() => {
                "no tick of the kernel fell into this part of the CPU time; all of it stands in the other"
            }
            "tcp" => "TCP_INFO was not read: the transport is not TCP, or the kernel refused",
            "tcp.pacing_bytes_per_s" => "not paced",
            "tcp.out_of_order" => "not counted by the kernel (before Linux 5.4)",
            "tcp.timeouts" => "not counted by the kernel (before Linux 6.7)",
            "events.per_message" => "not counted: why stands beside it",
            "events.user_share" => "not counted apart from the kernel's part",
            "events.running_share" => "not counted, or on cores that no thread ran on",
            "cost.run_delay_ns" => "not read for calls; else schedstat could not be read",
            "process.run_queue_ns" => "a thread ended meanwhile, or the kernel has no scheduler statistics",
            "process.system_calls" => {
                "counted in a run with -v, where perf may count them; a server's with it on one machine"
            }
            "process.resident_growth_bytes" | "process.data_growth_bytes" | "process.peak_resident_bytes" => {
                "the kernel does not say (/proc/PID/status), or an older msgpath did not read it"
            }
            "process.disk_read_bytes" | "process.disk_written_bytes" => "only its owner may read /proc/PID/io",
            _ if is_end(path) => NO_INTERVAL,
            _ => "not a finite number",
        }
        .into()
    }
}

impl Explained for LoadCurve {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "knee_per_s" => "the quantile never doubled at the rates that were sustained",
            "knee_per_s.low" | "knee_per_s.high" => "it lies outside the rates measured",
            "sustained_per_s" => "no rate below the lowest that was not sustained was",
            "overloaded_per_s" => "no rate was above what is sustained, as far as can be told",
            "points.p50" | "points.p99" => "the rate was not sustained",
            "points.sustained" => "whether it was sustained cannot be told: see its case",
            "points.backlog_per_s" => "the backlog was not sampled",
            _ => NO_INTERVAL,
        }
        .into()
    }
}

impl Explained for AblationResult {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        if is_end(path) { NO_INTERVAL } else { "too few passes" }.into()
    }
}

impl Explained for Expected {
    fn reason(&self, _: &str) -> Cow<'_, str> {
        "not a finite number".into()
    }
}

impl Explained for Layer {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "adds_ns" | "times" => "it stands on no other layer, or no pass has both",
            "times.rounds_needed" => "it is decided, or no number of rounds is known that would decide it",
            "times.p" => "too few passes for a test",
            _ => NO_INTERVAL,
        }
        .into()
    }
}

impl Explained for Comparison {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path.rsplit('.').next().unwrap_or(path) {
            "resolution" => "no A/A control was measured",
            "rounds_needed" => "it is decided, or no number of rounds is known that would decide it",
            "standing" => "there are fewer than three paths, or the metric is a tail",
            "path" | "margin" => "no winner at 95 %",
            "size_bytes" => "no crossing was found",
            "low_bytes" | "high_bytes" => "no interval, or its end lies outside the sizes measured",
            "undecided_bytes" => "every size is decided",
            "p" => "too few passes for a test",
            _ => NO_INTERVAL,
        }
        .into()
    }
}

impl Explained for RunGate {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "worst" => "nothing was measured",
            "cases.high" => "a bound from below, or not known: because beside it says why",
            _ => "not known: because beside it says why",
        }
        .into()
    }
}
