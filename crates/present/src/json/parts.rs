//! The parts of a run's object.

use msgpath_analyse::Summary;
use msgpath_analyse::gates::RunGate;
use msgpath_analyse::one_way::FarClock;
use msgpath_analyse::summary::{AblationResult, CaseSummary, EndSummary, Expected, Finding, LoadCurve};
use msgpath_core::Workload;
use msgpath_core::plan::{Case, Expectation};
use msgpath_core::schema::Floors;
use msgpath_stats::verdict::Verdict;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::nulls::{explain, rename, rename_one, tidy_quantiles};

/// Any plain value; a float that is not finite becomes `null`.
pub fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}

/// Computed sentences, with the names that they have under `--json`.
pub fn findings(findings: &[Finding]) -> Value {
    let mut findings = value(&findings);
    for finding in findings.as_array_mut().into_iter().flatten() {
        rename(finding, "Finding");
    }
    findings
}

/// A gate, with a reason for what of it is not known.
pub fn gate(gate: &RunGate) -> Value {
    let mut out = value(gate);
    explain(&mut out, |path| {
        match path {
            "worst" => "nothing was measured",
            "cases.high" => "a bound from below, or not known: because beside it says why",
            _ => "not known: because beside it says why",
        }
        .to_owned()
    });
    out
}

/// What a case is.
fn identity(case: &Case) -> Value {
    let mut out = value(case);
    rename(&mut out, "Case");
    rename(&mut out["pieces"], "Pieces");
    if let (Some(rate), Some(open)) = (case.load.rate(), out.pointer_mut("/load/open")) {
        rename(open, "Load");
        open["rate_per_s"] = value(&rate.value());
    }
    if let Some(of) = &case.of_capacity {
        let attempts: Vec<f64> = of.attempts.iter().map(|rate| rate.value()).collect();
        let capacity = of.capacity().map(|rate| rate.value());
        out["of_capacity"] =
            value(&CapacityShare { share: of.share(), capacity_per_s: capacity, attempts_per_s: attempts });
    }
    if let Value::Object(map) = &mut out {
        map.retain(|key, value| !["label", "service_time"].contains(&key.as_str()) || !value.is_null());
        match map.get_mut("ablation") {
            Some(Value::Null) => drop(map.remove("ablation")),
            Some(ablation) => rename(&mut ablation["change"], "AblationChange"),
            None => {}
        }
    }
    out
}

/// A rate that is a share of the capacity.
#[derive(Serialize, JsonSchema)]
pub(super) struct CapacityShare {
    /// Share of the capacity: 0.5 is half of it.
    share: f64,
    /// The best of the attempts, messages a second.
    capacity_per_s: Option<f64>,
    /// What the path took in each attempt, messages a second.
    attempts_per_s: Vec<f64>,
}

pub(super) fn case(case: &CaseSummary, workload: &Workload) -> Value {
    let mut out = value(case);
    out["case"] = identity(&case.case);
    rename(&mut out["throughput"], "Throughput");
    let ends: Vec<Value> = case.ends.iter().map(of_end).collect();
    out["ends"] = Vec::<Value>::new().into();
    tidy_quantiles(&mut out);
    explain(&mut out, |path| reason(case, workload, path));
    out["ends"] = ends.into();
    out
}

/// What an end spent, without what nobody counted.
fn of_end(end: &EndSummary) -> Value {
    let mut out = value(end);
    rename(&mut out["tcp"], "TcpInfo");
    if let (true, Some(fields)) = (end.cost.unread, out["cost"].as_object_mut()) {
        fields.remove("unread");
        fields.values_mut().for_each(|field| *field = Value::Null);
        out["calls"] = Value::Null;
    }
    if end.cost.cpu_only {
        for (_, field) in out["cost"]
            .as_object_mut()
            .into_iter()
            .flatten()
            .filter(|(name, _)| !["user_ns", "cpu_only"].contains(&name.as_str()))
        {
            *field = Value::Null;
        }
        out["calls"] = Value::Null;
    }
    if end.cost.calls_unread {
        out["cost"]["calls"] = Value::Null;
        out["calls"] = Value::Null;
    }
    if let Some(part) = without_a_tick(end.cost) {
        out["cost"][part] = Value::Null;
    }
    explain(&mut out, |path| {
        match path {
            "calls" => msgpath_analyse::cost::why_unread(&end.cost),
            "cost.calls" => msgpath_analyse::cost::why_unread(&end.cost),
            _ if path.starts_with("cost.") && !end.cost.is_whole() => msgpath_analyse::cost::why_unread(&end.cost),
            "cost.user_ns" | "cost.system_ns" if without_a_tick(end.cost).is_some() => {
                "no tick of the kernel fell into this part of the CPU time; all of it stands in the other"
            }
            "tcp" => "TCP_INFO was not read: the transport is not TCP, or the kernel refused",
            "tcp.pacing_bytes_per_s" => "not paced",
            "tcp.out_of_order" => "not counted by the kernel (before Linux 5.4)",
            "events.per_message" => "not counted: why stands beside it",
            "events.user_share" => "not counted apart from the kernel's part",
            "events.running_share" => "not counted, or on cores that no thread ran on",
            "cost.run_delay_ns" => "not read for calls; else schedstat could not be read",
            "process.disk_read_bytes" | "process.disk_written_bytes" => "only its owner may read /proc/PID/io",
            _ if is_end(path) => "no interval can be claimed",
            _ => "not a finite number",
        }
        .to_owned()
    });
    out
}

/// The part of the CPU time into which no tick fell: all of the time stands in the other.
fn without_a_tick(cost: msgpath_analyse::summary::Cost) -> Option<&'static str> {
    match (cost.user_ns, cost.system_ns) {
        (0.0, both) if both > 0.0 => Some("user_ns"),
        (both, 0.0) if both > 0.0 => Some("system_ns"),
        _ => None,
    }
}

/// Why a field of a case is `null`.
fn reason(case: &CaseSummary, workload: &Workload, path: &str) -> String {
    let no_latency = !workload.timed;
    let open = case.open.as_ref();
    match path {
        "open.sustained" => open.and_then(|open| open.why.as_deref()).unwrap_or("it was not measured"),
        "fastest_ns" | "slowest_ns" | "slowest_at_ns" | "mean_ns" | "effective_messages" | "first" | "steadiness"
        | "one_way" | "open.little"
            if case.is_overloaded() =>
        {
            "the rate was not sustained"
        }
        "throughput" => "only a stream has a throughput",
        "rate_per_s" | "fastest_ns" | "slowest_ns" | "slowest_at_ns" | "mean_ns" | "effective_messages" | "first"
            if no_latency =>
        {
            "a stream does not time single messages"
        }
        _ if no_latency && path.contains("_share_over_") => "a stream does not time single messages",
        _ if case.open.is_some() && path.contains("_share_over_") => "it belongs to a closed loop",
        "fastest_ns" | "slowest_ns" | "slowest_at_ns" | "mean_ns" | "first.slowest_ns" => "no message arrived",
        "zerocopy" => "nothing asked for zero copy",
        "copied_bytes" => &case.copied.why,
        _ if path.starts_with("throughput.beginning") && !is_end(path) => "no part of a round was thrown away",
        "connect_ns" => "the transport does not connect",
        "one_way" => "arrival was not stamped, or the ends do not share a clock (then both ways are in `ways`)",
        "steadiness" | "steadiness.kpss" => "too few rounds to say",
        "threads.oversubscribed" => "there is a CPU for every thread",
        "threads.scaling" => "there is no other thread count to compare with, or this is the case with one thread",
        "threads.scaling.time_factor" | "threads.implied" if no_latency => "a stream does not time single messages",
        _ if path.starts_with("threads.") && path.ends_with("cpu") => "the thread was not pinned",
        _ if path.starts_with("threads.") => "too few rounds, or it was not counted",
        "first" => "no message was kept apart at the start of a connection",
        "first.p50_ns" => "the median is a lost message",
        "restarts" => "there was a single start, or too few rounds in each",
        "restarts.best_rounds" => "restarts add no variance, or the cost of one is not known",
        "open" => "closed loop",
        "open.backlog_per_s" => "the backlog was not sampled",
        "open.client_busy" => "the CPU time of the near end was not counted",
        _ if is_end(path) => "no interval can be claimed",
        _ => "could not be estimated from these rounds",
    }
    .to_owned()
}

fn is_end(path: &str) -> bool {
    path.ends_with(".low") || path.ends_with(".high")
}

pub(super) fn load_curve(curve: &LoadCurve) -> Value {
    let mut out = value(curve);
    rename(&mut out, "LoadCurve");
    tidy_quantiles(&mut out);
    explain(&mut out, |path| {
        match path {
            "knee_per_s" => "the quantile never doubled at the rates that were sustained",
            "knee_per_s.low" | "knee_per_s.high" => "it lies outside the rates measured",
            "sustained_per_s" => "no rate below the lowest that was not sustained was",
            "overloaded_per_s" => "no rate was above what is sustained, as far as can be told",
            "points.p50" | "points.p99" => "the rate was not sustained",
            "points.sustained" => "whether it was sustained cannot be told: see its case",
            "points.backlog_per_s" => "the backlog was not sampled",
            _ => "no interval can be claimed",
        }
        .to_owned()
    });
    out
}

pub(super) fn ablation(ablation: &AblationResult, workload: &Workload) -> Value {
    let mut out = value(ablation);
    rename(&mut out["change"], "AblationChange");
    let unit = if workload.timed { "ns" } else { "bits_per_s" };
    ["value", "case_value"].iter().for_each(|name| rename_one(&mut out, name, &format!("{name}_{unit}")));
    explain(&mut out, |path| if is_end(path) { "no interval can be claimed" } else { "too few passes" }.to_owned());
    out
}

/// A layer of `explain --layers`, the stack with most layers first, or of `compare --layers`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Layer<'a> {
    /// Id of its case.
    case: u32,
    /// What it is: the path, and the work of a handler where there is some.
    name: &'a str,
    /// Median round trip, ns: the p50 of its case; null where it is a lost message.
    median_ns: Option<u64>,
    /// Lower end of the p50's range, ns; the case says what the range is.
    median_low_ns: Option<u64>,
    /// Upper end, ns.
    median_high_ns: Option<u64>,
    /// What this layer adds to the one that it stands on, ns; null where there is none, and where no pass has both.
    adds_ns: Option<f64>,
    /// Lower end of its 95 % interval, ns.
    adds_low_ns: Option<f64>,
    /// Upper end, ns.
    adds_high_ns: Option<f64>,
    /// Id of the case that it is added to; null where there is none.
    to: Option<u32>,
    /// Its median divided by that of `to`, paired by pass.
    times: Option<f64>,
    /// Lower end of the interval that the verdict was read from.
    times_low: Option<f64>,
    /// Upper end.
    times_high: Option<f64>,
    /// What the quotient means.
    verdict: Option<Verdict>,
}

/// The layers of `--layers`.
pub(super) fn layers(summary: &Summary) -> Vec<Layer<'_>> {
    fn layer(layer: &msgpath_analyse::summary::Layer) -> Layer<'_> {
        Layer {
            case: layer.case,
            name: &layer.name,
            median_ns: layer.median.ns,
            median_low_ns: layer.median.lo_ns,
            median_high_ns: layer.median.hi_ns,
            adds_ns: layer.adds.as_ref().map(|adds| adds.value),
            adds_low_ns: layer.adds.as_ref().and_then(|adds| adds.low),
            adds_high_ns: layer.adds.as_ref().and_then(|adds| adds.high),
            to: layer.times.as_ref().map(|times| times.baseline),
            times: layer.times.as_ref().map(|times| times.ratio),
            times_low: layer.times.as_ref().and_then(|times| times.low),
            times_high: layer.times.as_ref().and_then(|times| times.high),
            verdict: layer.times.as_ref().map(|times| times.verdict),
        }
    }
    summary.layers.iter().map(layer).collect()
}

pub(super) fn expectation(expected: &Option<Expected>) -> Value {
    let mut out = value(expected);
    let Some(expected) = expected else { return out };
    let unit = match expected.expected {
        Expectation::Time(_) => "ns",
        Expectation::Bits(_) => "bits_per_s",
    };
    rename(&mut out["expected"], "Expectation");
    rename_one(&mut out, "measured", &format!("measured_{unit}"));
    for floor in out["floors"].as_array_mut().into_iter().flatten() {
        rename_one(floor, "value", &format!("value_{unit}"));
    }
    explain(&mut out, |_| "not a finite number".to_owned());
    out
}

pub(super) fn floors(floors: &Option<Floors>) -> Value {
    let mut out = value(floors);
    rename(&mut out, "Floors");
    if let Some(route) = out.get_mut("route") {
        rename(route, "Route");
    }
    if let Some(pieces) = out.get_mut("send").and_then(|send| send.get_mut("pieces")) {
        rename(pieces, "Pieces");
    }
    if floors.is_some() {
        explain(&mut out, |_| "could not be measured or read on this machine".to_owned());
    }
    out
}

pub(super) fn comparison(summary: &Summary) -> Value {
    let mut out = value(&summary.comparison);
    if summary.comparison.is_none() {
        return out;
    }
    for winner in out["winners"].as_array_mut().into_iter().flatten() {
        rename(winner, "Winner");
    }
    for crossover in out["crossovers"].as_array_mut().into_iter().flatten() {
        rename(crossover, "Crossover");
    }
    explain(&mut out, |path| {
        match path.rsplit('.').next().unwrap_or(path) {
            "resolution" => "no A/A control was measured",
            "rounds_needed" => "it is decided, or no number of rounds is known that would decide it",
            "path" | "margin" => "no winner at 95 %",
            "size_bytes" => "no crossing was found",
            "low_bytes" | "high_bytes" => "no interval, or its end lies outside the sizes measured",
            "undecided_bytes" => "every size is decided",
            "p" => "too few passes for a test",
            _ => "no interval can be claimed",
        }
        .to_owned()
    });
    out
}

pub(super) fn unavailable(summary: &Summary) -> Value {
    let mut list = value(&summary.unavailable);
    for (entry, case) in list.as_array_mut().into_iter().flatten().zip(&summary.unavailable) {
        entry["case"] = identity(&case.case);
    }
    list
}

/// The clock of a far end that is not the near end's.
pub(super) fn far_clock(clock: &FarClock) -> Value {
    let mut out = value(clock);
    name_pieces(&mut out);
    out
}

/// The pieces of a clock, with the names that they have in JSON.
pub fn name_pieces(clock: &mut Value) {
    for piece in clock["pieces"].as_array_mut().into_iter().flatten() {
        rename(piece, "ClockPiece");
    }
}
