//! `--json`: one object, schema and status first, units in the names, `null` with a reason instead of NaN.

#[cfg(any(test, feature = "testing"))]
pub mod check;
mod fields;
mod schema;
#[cfg(any(test, feature = "testing"))]
mod unexplained;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use crate::answers::{Answer, Missing, Page, Table};
use msgpath_analyse::Summary;
use msgpath_analyse::headline::Headline;
use msgpath_analyse::round_line::RoundLine;
use msgpath_analyse::summary::Finding;
use msgpath_core::Problem;
use msgpath_core::doctor::{Check, CheckState, Doctor};
use msgpath_core::foreign::shown_json;
use msgpath_core::program::ProgramFacts;
use msgpath_core::schema::{End, Environment, Floors, SCHEMA, Status};
use msgpath_record::{Damage, Run};
use schemars::JsonSchema;
use serde::Serialize;

pub use fields::{field_names, fields};
#[cfg(any(test, feature = "testing"))]
pub use schema::check_part;
pub use schema::{Added, Shape, schema, schema_of_types, schema_part};
#[cfg(any(test, feature = "testing"))]
pub use unexplained::unexplained;

use crate::terminal::{PathRow, RunRow};

const DOCTOR_SCHEMA: &str = "msgpath/doctor/1";
const PATHS_SCHEMA: &str = "msgpath/paths/1";
const RUNS_SCHEMA: &str = "msgpath/runs/1";
const PRESET_SCHEMA: &str = "msgpath/preset/1";

/// A run, or several that were compared: what was found, and of what record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunDocument<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    /// The command line, a word each.
    command: &'a [String],
    /// Version of msgpath that recorded it.
    version: &'a str,
    /// Files that it was imported from; only where it was.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    imported: &'a [String],
    /// When it began: UTC, RFC 3339.
    started: &'a str,
    /// When it ended: UTC, RFC 3339; null: it was killed or is still going on.
    ended: Option<&'a str>,
    /// Where it is kept; empty: nowhere.
    #[schemars(with = "String")]
    folder: &'a Path,
    /// Everything that was random follows from it.
    seed: u64,
    /// The machines of the ends, each once.
    hosts: &'a [Environment],
    /// The ends: 0 is the near end, 1 the far end.
    ends: &'a [End],
    /// What `doctor` said of both ends; null: the run was recorded without it.
    doctor: Option<&'a Doctor>,
    /// What no message can be faster than here; null: not measured.
    floors: Option<&'a Floors>,
    /// Programs of others that were far ends, as they were started; in runs with such only.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    programs: &'a [ProgramFacts],
    /// For each null here, why it is null.
    why: BTreeMap<&'static str, &'static str>,
    /// The error, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
    /// From where on the record is not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<DamageObject<'a>>,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
struct ErrorObject<'a> {
    /// Stable code, `E01` ...
    code: &'a str,
    /// What happened; where nothing was measured, with the reason.
    message: Cow<'a, str>,
    /// Why, in a run that ended by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// What to type.
    r#try: &'a str,
}

/// From where on a record is not whole.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Damage")]
struct DamageObject<'a> {
    /// Which file of the run.
    file: &'a str,
    /// It is whole up to this byte.
    whole_bytes: u64,
    /// What is wrong there.
    why: &'a str,
}

/// The whole answer of a verb that failed.
#[derive(Serialize, JsonSchema)]
struct Failure<'a> {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    status: Status,
    error: ErrorObject<'a>,
}

/// What `msgpath doctor` found.
#[derive(Serialize, JsonSchema)]
struct DoctorReport<'a> {
    /// Name and version of this schema.
    #[schemars(extend("const" = DOCTOR_SCHEMA))]
    schema: &'a str,
    status: Status,
    /// The worst state of any check.
    worst: CheckState,
    /// All checks were made, those that take long too.
    full: bool,
    /// How long they took, ns.
    took_ns: u64,
    /// What this machine can tell apart: p95 of |A'/A - 1|; null: no A/A control was measured.
    resolution: Option<f64>,
    /// All checks, by number and end.
    checks: &'a [Check],
    /// For each null here, why it is null.
    why: BTreeMap<&'static str, &'static str>,
}

/// What `msgpath paths` tells.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Paths")]
struct PathList<'a> {
    /// Name and version of this schema.
    #[schemars(extend("const" = PATHS_SCHEMA))]
    schema: &'a str,
    status: Status,
    /// Every path that was asked for.
    paths: Vec<PathEntry<'a>>,
}

/// A path, and whether it works here.
#[derive(Serialize, JsonSchema)]
struct PathEntry<'a> {
    /// Transport, send method and wait: `tcp:send/epoll`.
    path: &'a str,
    /// What it does.
    summary: &'a str,
    /// Anything else worth a line; may be empty.
    notes: &'a str,
    /// It works here.
    available: bool,
    /// Why not; null: it does.
    why: Option<&'a str>,
    /// What to do about it; null: it works.
    r#try: Option<&'a str>,
}

/// What `msgpath runs` lists.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Runs")]
struct RunList<'a> {
    /// Name and version of this schema.
    #[schemars(extend("const" = RUNS_SCHEMA))]
    schema: &'a str,
    status: Status,
    /// The newest first.
    runs: Vec<RunEntry<'a>>,
}

/// A run in the store.
#[derive(Serialize, JsonSchema)]
struct RunEntry<'a> {
    /// Name of the run.
    name: &'a str,
    /// When it began, RFC 3339 in UTC.
    started: &'a str,
    /// The verb that recorded it.
    verb: &'a str,
    /// The far end.
    target: &'a str,
    /// Cases in its plan; null: what was watched has none.
    cases: Option<u64>,
    /// Rounds recorded, of a mesh pairs; null: what was watched has none.
    rounds: Option<u64>,
    status: Status,
    /// Its best case; null: nothing that has such a number was measured.
    headline: Option<&'a Headline>,
}

/// What a preset says at its end.
#[derive(Serialize, JsonSchema)]
struct PresetPage<'a> {
    /// Name and version of this schema.
    #[schemars(extend("const" = PRESET_SCHEMA))]
    schema: &'a str,
    /// Heading of the page.
    title: &'a str,
    /// Tables that come first.
    tables: &'a [Table],
    /// Questions in order.
    answers: &'a [Answer],
    /// The sentences of each run, by the name of the part.
    findings: &'a [(String, Vec<Finding>)],
    /// Parts that there is nothing of.
    missing: &'a [Missing],
}

/// The page of a preset as one JSON object on several lines.
pub fn preset(page: &Page) -> String {
    let Page { title, tables, answers, findings, missing } = page;
    let document = PresetPage { schema: PRESET_SCHEMA, title, tables, answers, findings, missing };
    shown(serde_json::to_string_pretty(&document))
}

/// The paths as one JSON object on one line.
pub fn paths(rows: &[PathRow]) -> String {
    fn entry(row: &PathRow) -> PathEntry<'_> {
        let reason = row.state.as_ref().err();
        PathEntry {
            path: &row.name,
            summary: &row.summary,
            notes: &row.notes,
            available: reason.is_none(),
            why: reason.map(|reason| reason.why.as_str()),
            r#try: reason.map(|reason| reason.hint.as_str()),
        }
    }
    let paths = rows.iter().map(entry).collect();
    shown(serde_json::to_string(&PathList { schema: PATHS_SCHEMA, status: Status::Ok, paths }))
}

/// The runs as one JSON object on one line.
pub fn runs(rows: &[RunRow]) -> String {
    fn entry(row: &RunRow) -> RunEntry<'_> {
        let RunRow { name, when: started, verb, target, cases, rounds, status, headline, .. } = row;
        let (cases, rounds, status, headline) = (*cases, *rounds, *status, headline.as_ref());
        RunEntry { name, started, verb, target, cases, rounds, status, headline }
    }
    let runs = rows.iter().map(entry).collect();
    shown(serde_json::to_string(&RunList { schema: RUNS_SCHEMA, status: Status::Ok, runs }))
}

/// The summary of a run as one JSON object on one line.
pub fn summary_json(run: &Run, summary: &Summary) -> String {
    let header = &run.header;
    let ended = run.end.as_ref().map(|end| end.ended.as_str());
    let of_run = [
        (header.doctor.is_none(), "doctor", "the run was recorded without it"),
        (header.floors.is_none(), "floors", "they were not measured"),
        (ended.is_none(), "ended", "the run has no end: it was killed or is still going on"),
    ];
    let of_run = of_run.into_iter().filter_map(|(null, field, why)| null.then_some((field, why)));
    let document = RunDocument {
        summary,
        command: &header.command,
        version: &header.version,
        imported: &header.imported,
        started: &header.started,
        ended,
        folder: &run.folder,
        seed: header.plan.seed,
        hosts: &header.hosts,
        ends: &header.ends,
        doctor: header.doctor.as_ref(),
        floors: header.floors.as_ref(),
        programs: &header.programs,
        why: summary.reasons().chain(of_run).collect(),
        error: run.end.as_ref().and_then(|end| end.problem.as_ref()).map(error),
        damage: run.damage.as_ref().map(damage),
    };
    // Strings, numbers and maps with string keys always serialize; only a folder name that is not UTF-8 can fail.
    match serde_json::to_string(&document) {
        Ok(document) => shown(Ok(document)),
        Err(error) => failure("E90", &error.to_string(), "", Status::Failed),
    }
}

/// A round as one JSON object on one line.
pub fn round(line: &RoundLine) -> String {
    shown(serde_json::to_string(line))
}

/// A failure as one JSON object on one line: `status` is `failed`, the exit code stays the caller's business.
pub fn problem_json(problem: &Problem) -> String {
    failure(&problem.code, &problem.in_a_line(), &problem.hint, Status::Failed)
}

/// What `doctor` found as one JSON object on one line. `resolution`: p95 of |A'/A - 1|, where an A/A control was
/// measured.
pub fn doctor(doctor: &Doctor, resolution: Option<f64>) -> String {
    let why = resolution.is_none().then_some(("resolution", "no A/A control was measured")).into_iter().collect();
    let document = DoctorReport {
        schema: DOCTOR_SCHEMA,
        status: Status::Ok,
        worst: doctor.worst(),
        full: doctor.full,
        took_ns: doctor.took_ns,
        resolution,
        checks: &doctor.checks,
        why,
    };
    shown(serde_json::to_string(&document))
}

fn failure(code: &str, message: &str, hint: &str, status: Status) -> String {
    let error = ErrorObject { code, message: message.into(), why: None, r#try: hint };
    shown(serde_json::to_string(&Failure { schema: SCHEMA, status, error }))
}

/// A document in which text of others is harmless.
fn shown(document: serde_json::Result<String>) -> String {
    let document = document.unwrap_or_default();
    shown_json(&document).into_owned()
}

fn error(problem: &Problem) -> ErrorObject<'_> {
    let Problem { code, what, why, hint, .. } = problem;
    ErrorObject { code, message: what.into(), why: Some(why), r#try: hint }
}

fn damage(damage: &Damage) -> DamageObject<'_> {
    DamageObject { file: &damage.file, whole_bytes: damage.offset, why: &damage.why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use msgpath_core::Exit;
    use msgpath_core::schema::{FAR, NEAR};
    use serde_json::{Value, json};

    fn parsed(text: &str) -> Value {
        assert!(!text.contains('\n'));
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn schema_and_status_come_first() {
        let (run, summary) = fixture::echo();
        let text = summary_json(&run, &summary);
        assert!(text.starts_with(r#"{"schema":"msgpath/run/3","status":"ok","name":"test-data""#), "{text}");
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

    #[test]
    fn every_null_anywhere_has_a_reason() {
        for (run, summary) in fixture::all() {
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
        assert_eq!(json["expectation"]["measured"].as_f64(), Some(8_100.0));
        assert_eq!(json["ablations"][1]["change"]["working_set_bytes"], 64 << 20);
        assert_eq!(json["ablations"][0]["unit"], "ns");
        let steadiness = &json["cases"][0]["steadiness"];
        assert_eq!(steadiness["class"], "never_settled");
        let (run, summary) = fixture::crossings();
        let json = parsed(&summary_json(&run, &summary));
        assert_eq!(json["comparison"]["crossovers"][0]["crossings_bytes"], json!([1_200.0, 40_960.0]));
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
        summary.cases[0].latency.mean_ns = Some(f64::NAN);
        summary.cases[0].end_mut(NEAR).cost.user_ns = f64::INFINITY;
        let text = summary_json(&run, &summary);
        assert!(!text.contains("NaN"));
        let json = parsed(&text);
        assert!(json["cases"][0]["mean_ns"].is_null() && json["cases"][0]["why"]["mean_ns"].is_string());
        assert!(json["cases"][0]["ends"][0]["why"]["cost.user_ns"].is_string());
        assert_eq!(json["comparison"]["crossovers"][1]["size_bytes"], 32_768.0);
        assert!(json["unavailable"][0]["reason"]["why"].as_str().unwrap().contains("io_uring"));
    }

    #[test]
    fn a_part_of_the_time_without_a_tick_is_null() {
        let (run, mut summary) = fixture::compare();
        summary.cases[0].end_mut(NEAR).cost.user_ns = 0.0;
        summary.cases[0].end_mut(FAR).cost.system_ns = 0.0;
        let ends = &parsed(&summary_json(&run, &summary))["cases"][0]["ends"];
        assert!(ends[0]["cost"]["user_ns"].is_null() && ends[0]["cost"]["system_ns"].is_number());
        assert!(ends[1]["cost"]["system_ns"].is_null() && ends[1]["cost"]["user_ns"].is_number());
        assert!(ends[0]["why"]["cost.user_ns"].as_str().unwrap().contains("no tick"));
    }

    #[test]
    fn a_failure_is_an_object_too() {
        let problem =
            Problem::new("E01", Exit::CannotStart, "nobody answers").why("no program listens").hint("msgpath serve");
        let text = problem_json(&problem);
        assert!(text.starts_with(r#"{"schema":"msgpath/run/3","status":"failed","#), "{text}");
        let json = parsed(&text);
        assert_eq!(json["error"]["code"], "E01");
        assert_eq!(json["error"]["message"], "nobody answers: no program listens");
        assert_eq!(json["error"]["try"], "msgpath serve");
    }
}
