//! `--json`: one object, schema and status first, units in the names, `null` with a reason instead of NaN.

use std::path::Path;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Totals};
use msgpath_core::Problem;
use msgpath_core::plan::Workload;
use msgpath_core::schema::{ClockFacts, Environment, SCHEMA, Status};
use msgpath_record::{Damage, Run};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The object of a run. The order of the fields is the order in the text.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    status: Status,
    name: &'a str,
    verb: &'a str,
    target: &'a str,
    command: &'a [String],
    version: &'a str,
    started: &'a str,
    ended: Option<&'a str>,
    folder: &'a Path,
    seed: u64,
    near: &'a Environment,
    far: &'a Environment,
    clock: ClockFacts,
    totals: Totals,
    warnings: Value,
    findings: Value,
    cases: Vec<Value>,
    comparison: Value,
    unavailable: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<Value>,
}

/// The summary of a run as one JSON object on one line.
pub fn summary_json(run: &Run, summary: &Summary) -> String {
    let header = &run.header;
    let document = Document {
        schema: &summary.schema,
        status: summary.status,
        name: &summary.name,
        verb: &summary.verb,
        target: &summary.target,
        command: &header.command,
        version: &header.version,
        started: &header.started,
        ended: run.end.as_ref().map(|end| end.ended.as_str()),
        folder: &run.folder,
        seed: header.plan.seed,
        near: &header.near,
        far: &header.far,
        clock: header.clock,
        totals: summary.totals,
        warnings: value(&summary.warnings),
        findings: findings(summary),
        cases: summary.cases.iter().map(|case| case_value(case, header.plan.workload)).collect(),
        comparison: comparison(summary),
        unavailable: unavailable(summary),
        error: run.end.as_ref().and_then(|end| end.problem.as_ref()).map(error),
        damage: run.damage.as_ref().map(damage),
    };
    // Strings, numbers and maps with string keys always serialize; only a folder name that is not UTF-8 can fail.
    serde_json::to_string(&document).unwrap_or_else(|error| failure("E90", &error.to_string(), "", Status::Failed))
}

/// A failure as one JSON object on one line: `status` is `failed`, the exit code stays the caller's business.
pub fn problem_json(problem: &Problem) -> String {
    let message =
        if problem.why.is_empty() { problem.what.clone() } else { format!("{}: {}", problem.what, problem.why) };
    failure(&problem.code, &message, &problem.hint, Status::Failed)
}

fn failure(code: &str, message: &str, hint: &str, status: Status) -> String {
    #[derive(Serialize)]
    struct Failure<'a> {
        schema: &'a str,
        status: Status,
        error: Value,
    }
    let error = json!({ "code": code, "message": message, "try": hint });
    serde_json::to_string(&Failure { schema: SCHEMA, status, error }).unwrap_or_default()
}

fn error(problem: &Problem) -> Value {
    json!({ "code": problem.code, "message": problem.what, "why": problem.why, "try": problem.hint })
}

fn damage(damage: &Damage) -> Value {
    json!({ "file": damage.file, "whole_bytes": damage.offset, "why": damage.why })
}

/// Any plain value; a float that is not finite becomes `null`.
fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}

fn rename(object: &mut Value, names: &[(&str, &str)]) {
    if let Value::Object(map) = object {
        for (old, new) in names {
            if let Some(value) = map.remove(*old) {
                map.insert((*new).to_owned(), value);
            }
        }
    }
}

fn findings(summary: &Summary) -> Value {
    let mut findings = value(&summary.findings);
    for finding in findings.as_array_mut().into_iter().flatten() {
        rename(finding, &[("next", "try")]);
    }
    findings
}

const CASE: [(&str, &str); 2] = [("size", "size_bytes"), ("reply", "reply_bytes")];

fn case_value(case: &CaseSummary, workload: Workload) -> Value {
    let mut out = value(case);
    rename(&mut out["case"], &CASE);
    if let Some(pieces) = out.pointer_mut("/case/pieces") {
        rename(pieces, &[("size", "size_bytes")]);
    }
    if case.throughput.is_some() {
        rename(
            &mut out["throughput"],
            &[
                ("receiver_bits", "receiver_bits_per_s"),
                ("sender_bits", "sender_bits_per_s"),
                ("messages", "messages_per_s"),
            ],
        );
    }
    for quantile in out["quantiles"].as_array_mut().into_iter().flatten() {
        tidy_quantile(quantile);
    }
    tidy_quantile(&mut out["one_way"]);
    if let Value::Object(map) = &mut out {
        let why = reasons(case, workload, map);
        map.insert("why".into(), Value::Object(why));
    }
    out
}

/// A quantile says why only where there is something to say.
fn tidy_quantile(quantile: &mut Value) {
    if let Value::Object(map) = quantile {
        if map.get("ns") == Some(&Value::Null) {
            map.insert("why".into(), "the quantile is a lost message".into());
        } else if map.get("why") == Some(&Value::Null) {
            map.remove("why");
        }
    }
}

/// Why each field of a case that is `null` is so.
fn reasons(case: &CaseSummary, workload: Workload, map: &Map<String, Value>) -> Map<String, Value> {
    let mut why = Map::new();
    for (field, _) in map.iter().filter(|(_, value)| value.is_null()) {
        let no_latency = workload == Workload::Stream;
        let reason: &str = match field.as_str() {
            "throughput" => "only a stream has a throughput",
            "rate_per_s"
            | "fastest_ns"
            | "slowest_ns"
            | "slowest_at_ns"
            | "mean_ns"
            | "effective_messages"
            | "time_share_over_10x"
            | "message_share_over_10x"
                if no_latency =>
            {
                "a stream does not time single messages"
            }
            "fastest_ns" | "slowest_ns" | "slowest_at_ns" | "mean_ns" => "no message arrived",
            "zerocopy" => "nothing asked for zero copy",
            "near_tcp" | "far_tcp" => "TCP_INFO was not read: the transport is not TCP, or the kernel refused",
            "copied_bytes" => &case.copied_why,
            "connect_ns" => "the transport does not connect",
            "one_way" => "arrival was not stamped, or the ends do not share a clock",
            _ => "could not be estimated from these rounds",
        };
        why.insert(field.clone(), reason.into());
    }
    for end in ["near_cost", "far_cost"] {
        for (field, _) in map[end].as_object().into_iter().flatten().filter(|(_, value)| value.is_null()) {
            let reason = if field == "run_delay_ns" { "schedstat could not be read" } else { "not a finite number" };
            why.insert(format!("{end}.{field}"), reason.into());
        }
    }
    why
}

fn comparison(summary: &Summary) -> Value {
    let mut comparison = value(&summary.comparison);
    for winner in comparison["winners"].as_array_mut().into_iter().flatten() {
        rename(winner, &[("size", "size_bytes")]);
    }
    for crossover in comparison["crossovers"].as_array_mut().into_iter().flatten() {
        rename(crossover, &[("size", "size_bytes"), ("low", "low_bytes"), ("high", "high_bytes")]);
    }
    comparison
}

fn unavailable(summary: &Summary) -> Value {
    let mut list = value(&summary.unavailable);
    for entry in list.as_array_mut().into_iter().flatten() {
        rename(&mut entry["case"], &CASE);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use msgpath_core::Exit;

    fn parsed(text: &str) -> Value {
        assert!(!text.contains('\n'));
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn schema_and_status_come_first() {
        let (run, summary) = fixture::echo();
        let text = summary_json(&run, &summary);
        assert!(text.starts_with(r#"{"schema":"msgpath/run/1","status":"ok","name":"test-data""#), "{text}");
        let json = parsed(&text);
        assert_eq!(json["cases"][0]["quantiles"][2]["p"], 0.99);
        assert_eq!(json["cases"][0]["quantiles"][2]["claim"], true);
        assert_eq!(json["cases"][0]["case"]["path"], "tcp:send");
        assert_eq!(json["cases"][0]["case"]["size_bytes"], 64);
        assert_eq!(json["findings"][2]["confidence"], "can't tell");
        assert_eq!(json["findings"][2]["try"][0], "msgpath echo 10.0.0.2 -t 3m");
        assert_eq!((json["seed"].as_u64(), json.get("error")), (Some(7), None));
    }

    #[test]
    fn every_null_of_a_case_has_a_reason() {
        for (run, summary) in [fixture::echo(), fixture::echo_sizes(), fixture::compare(), fixture::shapes()] {
            let json = parsed(&summary_json(&run, &summary));
            for case in json["cases"].as_array().unwrap() {
                for (field, _) in case.as_object().unwrap().iter().filter(|(_, value)| value.is_null()) {
                    assert!(!case["why"][field].as_str().unwrap().is_empty(), "{field}");
                }
                for quantile in case["quantiles"].as_array().unwrap() {
                    assert!(!quantile["ns"].is_null() || quantile["why"].is_string());
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_is_null() {
        let (run, mut summary) = fixture::compare();
        summary.cases[0].mean_ns = Some(f64::NAN);
        summary.cases[0].near_cost.user_ns = f64::INFINITY;
        let text = summary_json(&run, &summary);
        assert!(!text.contains("NaN"));
        let json = parsed(&text);
        assert!(json["cases"][0]["mean_ns"].is_null() && json["cases"][0]["why"]["mean_ns"].is_string());
        assert!(json["cases"][0]["why"]["near_cost.user_ns"].is_string());
        assert_eq!(json["comparison"]["crossovers"][1]["size_bytes"], 32_768.0);
        assert!(json["unavailable"][0]["reason"]["why"].as_str().unwrap().contains("io_uring"));
    }

    #[test]
    fn a_failure_is_an_object_too() {
        let problem =
            Problem::new("E01", Exit::CannotStart, "nobody answers").why("no program listens").hint("msgpath serve");
        let text = problem_json(&problem);
        assert!(text.starts_with(r#"{"schema":"msgpath/run/1","status":"failed","#), "{text}");
        let json = parsed(&text);
        assert_eq!(json["error"]["code"], "E01");
        assert_eq!(json["error"]["message"], "nobody answers: no program listens");
        assert_eq!(json["error"]["try"], "msgpath serve");
    }
}
