//! `--json`: one object, schema and status first, units in the names, `null` with a reason instead of NaN.

mod nulls;
mod parts;
mod rpc;

use std::path::Path;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::Totals;
use msgpath_core::doctor::{CheckState, Doctor};
use msgpath_core::schema::{ClockFacts, Environment, SCHEMA, Status};
use msgpath_core::{Problem, Workload};
use msgpath_record::{Damage, Run};
use serde::Serialize;
use serde_json::{Map, Value, json};

use parts::value;

/// Schema of [`doctor`].
const DOCTOR_SCHEMA: &str = "msgpath/doctor/1";

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
    doctor: Value,
    floors: Value,
    totals: Totals,
    calm: Value,
    expectation: Value,
    warnings: Value,
    findings: Value,
    cases: Vec<Value>,
    load_curves: Vec<Value>,
    trials: Vec<Value>,
    layers: Vec<Value>,
    attribution: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rpc: Option<Value>,
    comparison: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    periodic: Value,
    unavailable: Value,
    why: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<Value>,
}

/// The summary of a run as one JSON object on one line.
pub fn summary_json(run: &Run, summary: &Summary) -> String {
    let header = &run.header;
    let workload = header.plan.workload;
    let mut document = Document {
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
        doctor: value(&header.doctor),
        floors: parts::floors(&header.floors),
        totals: summary.totals,
        calm: value(&summary.calm),
        expectation: parts::expectation(&summary.expectation),
        warnings: value(&summary.warnings),
        findings: parts::findings(summary),
        cases: summary.cases.iter().map(|case| parts::case(case, workload)).collect(),
        load_curves: summary.load_curves.iter().map(parts::load_curve).collect(),
        trials: summary.trials.iter().map(|trial| parts::trial(trial, workload)).collect(),
        layers: parts::layers(summary),
        attribution: summary.attribution.iter().map(parts::attribution).collect(),
        rpc: rpc::rpc(header.rpc.as_ref(), summary.rpc.as_ref()),
        comparison: parts::comparison(summary),
        periodic: parts::periodic(&summary.periodic),
        unavailable: parts::unavailable(summary),
        why: Map::new(),
        error: run.end.as_ref().and_then(|end| end.problem.as_ref()).map(error),
        damage: run.damage.as_ref().map(damage),
    };
    let no_pairs = match workload {
        Workload::Periodic => "the engines of a periodic run are not measured in one another's passes",
        _ => "there is no second path",
    };
    for (field, part, why) in [
        ("comparison", &document.comparison, no_pairs),
        ("calm", &document.calm, "the version that recorded the run did not tell calm rounds from disturbed ones"),
        ("expectation", &document.expectation, "no estimate was typed before the run"),
        ("doctor", &document.doctor, "the run was recorded without it"),
        ("floors", &document.floors, "they were not measured"),
    ] {
        if part.is_null() {
            document.why.insert(field.into(), why.into());
        }
    }
    if document.ended.is_none() {
        document.why.insert("ended".into(), "the run has no end: it was killed or is still going on".into());
    }
    // Strings, numbers and maps with string keys always serialize; only a folder name that is not UTF-8 can fail.
    serde_json::to_string(&document).unwrap_or_else(|error| failure("E90", &error.to_string(), "", Status::Failed))
}

/// A failure as one JSON object on one line: `status` is `failed`, the exit code stays the caller's business.
pub fn problem_json(problem: &Problem) -> String {
    let message =
        if problem.why.is_empty() { problem.what.clone() } else { format!("{}: {}", problem.what, problem.why) };
    failure(&problem.code, &message, &problem.hint, Status::Failed)
}

/// What `doctor` found as one JSON object on one line. `resolution`: p95 of |A'/A - 1|, where an A/A control was
/// measured.
pub fn doctor(doctor: &Doctor, resolution: Option<f64>) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'a str,
        status: Status,
        worst: CheckState,
        full: bool,
        took_ns: u64,
        resolution: Value,
        checks: Value,
        why: Map<String, Value>,
    }
    let mut why = Map::new();
    if resolution.is_none() {
        why.insert("resolution".into(), "no A/A control was measured".into());
    }
    let document = Document {
        schema: DOCTOR_SCHEMA,
        status: Status::Ok,
        worst: doctor.worst(),
        full: doctor.full,
        took_ns: doctor.took_ns,
        resolution: value(&resolution),
        checks: value(&doctor.checks),
        why,
    };
    serde_json::to_string(&document).unwrap_or_default()
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
        assert_eq!(json["cases"][0]["quantiles"][2]["range"], "interval");
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

    /// Paths of the nulls below `value` that no `why` of an object around them explains, quantiles aside.
    fn unexplained(value: &Value, path: &str, known: &[&Map<String, Value>], out: &mut Vec<String>) {
        match value {
            Value::Object(map) if !map.contains_key("lo_ns") => {
                let mut known = known.to_vec();
                known.extend(map.get("why").and_then(Value::as_object));
                for (key, value) in map {
                    unexplained(value, &format!("{path}.{key}"), &known, out);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| unexplained(value, path, known, out)),
            Value::Null if !known.iter().any(|why| why.keys().any(|key| path.ends_with(&format!(".{key}")))) => {
                out.push(path.to_owned());
            }
            _ => {}
        }
    }

    fn without_rows((run, summary, _): (Run, Summary, Vec<msgpath_core::schema::RpcRow>)) -> (Run, Summary) {
        (run, summary)
    }

    #[test]
    fn every_null_anywhere_has_a_reason() {
        for (run, summary) in [
            fixture::echo(),
            fixture::compare(),
            fixture::stream(),
            fixture::open_loop(),
            fixture::overloaded(),
            fixture::load_curve(),
            fixture::unsettled(),
            fixture::crossings(),
            fixture::explained(),
            without_rows(fixture::rpc()),
            without_rows(fixture::rpc_here()),
        ] {
            let mut out = Vec::new();
            unexplained(&parsed(&summary_json(&run, &summary)), "", &[], &mut out);
            assert!(out.is_empty(), "{out:?}");
        }
    }

    #[test]
    fn rates_sizes_and_estimates_carry_their_units() {
        let (run, summary) = fixture::load_curve();
        let json = parsed(&summary_json(&run, &summary));
        assert_eq!(json["cases"][1]["case"]["load"]["open"], json!({ "rate_per_s": 2_000.0, "arrivals": "poisson" }));
        let curve = &json["load_curves"][0];
        assert_eq!((curve["size_bytes"].as_u64(), curve["knee_per_s"]["value"].as_f64()), (Some(64), Some(18_200.0)));
        assert_eq!(curve["points"][6]["sustained"], false);
        assert_eq!(curve["why"]["points.p99"], "the rate was not sustained");
        let (run, summary) = fixture::unsettled();
        let json = parsed(&summary_json(&run, &summary));
        assert_eq!(json["expectation"]["expected"]["time_ns"], 50_000);
        assert_eq!(json["expectation"]["measured_ns"].as_f64(), Some(8_100.0));
        assert_eq!(json["trials"][1]["change"]["working_set_bytes"], 64 << 20);
        assert!(json["trials"][0]["value_ns"].is_f64());
        let steadiness = &json["cases"][0]["steadiness"];
        assert_eq!(steadiness["class"], "never_settled");
        let (run, summary) = fixture::crossings();
        let json = parsed(&summary_json(&run, &summary));
        assert_eq!(json["comparison"]["crossovers"][0]["crossings_bytes"], json!([1_200.0, 40_960.0]));
    }

    #[test]
    fn stages_carry_their_units_and_reasons() {
        let (run, mut summary) = fixture::explained();
        let json = parsed(&summary_json(&run, &summary));
        let own = &json["attribution"][0];
        assert_eq!(own["stages"][0]["kind"], "transmit");
        assert_eq!(own["stages"][0]["direction"], "request");
        let band = &own["bands"][0];
        let sum: f64 = band["parts_ns"].as_array().unwrap().iter().map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - band["mean_ns"].as_f64().unwrap()).abs() < 1e-6);
        assert_eq!(own["threads"][0]["run_ns"], 8_000_000);
        assert_eq!(own["occupants"]["slow"][0]["name"], "test-hog");
        assert!(own["why"]["first"].is_string() && own.get("not_shown_because").is_none());
        summary.attribution[0].why = Some("too few".into());
        let json = parsed(&summary_json(&run, &summary));
        assert_eq!(json["attribution"][0]["not_shown_because"], "too few");
    }

    #[test]
    fn doctor_is_an_object_of_its_own() {
        let text = doctor(&fixture::doctor(), None);
        assert!(text.starts_with(r#"{"schema":"msgpath/doctor/1","status":"ok","worst":"stop","#), "{text}");
        let json = parsed(&text);
        assert!(json["resolution"].is_null() && json["why"]["resolution"].is_string());
        let fix = json["checks"].as_array().unwrap().iter().find_map(|check| check["commands"].get(0)).unwrap();
        assert!(fix["run"].is_string() && fix["undo"].is_string());
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
    fn a_part_of_the_time_without_a_tick_is_null() {
        let (run, mut summary) = fixture::compare();
        (summary.cases[0].near_cost.user_ns, summary.cases[0].far_cost.system_ns) = (0.0, 0.0);
        let case = &parsed(&summary_json(&run, &summary))["cases"][0];
        assert!(case["near_cost"]["user_ns"].is_null() && case["near_cost"]["system_ns"].is_number());
        assert!(case["far_cost"]["system_ns"].is_null() && case["far_cost"]["user_ns"].is_number());
        assert!(case["why"]["near_cost.user_ns"].as_str().unwrap().contains("no tick"));
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
