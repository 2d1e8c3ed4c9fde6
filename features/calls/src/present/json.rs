//! Calls of a key-value server.

use crate::analyse::{PairClock, RpcKind, RpcSummary};
use crate::record::RpcFacts;
use msgpath_analyse::Summary;
use msgpath_record::Run;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use msgpath_present::json::nulls::{explain, rename_one};
use msgpath_present::json::{Renamed, name_pieces, value};

/// Calls of a key-value server.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema is made of it; the object is put together from the same parts")]
pub(super) struct Rpc {
    #[serde(flatten)]
    facts: RpcFacts,
    /// Each kind of call; null: the run has no log of them.
    kinds: Option<Vec<RpcKind>>,
    /// The clocks of each pair of machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    clocks: Vec<PairClock>,
}

/// The wire between the machines.
#[derive(Serialize, JsonSchema)]
pub(super) struct Wire {
    /// Its speed, bits per second.
    bits_per_s: u64,
    /// Where that is known from: `link speed of eth0`, `--wire`.
    from: String,
}

/// Time that bytes take on the wire, an estimate.
#[derive(Serialize, JsonSchema)]
pub(super) struct WireEstimate {
    /// Those of a request, ns.
    request: f64,
    /// Those of its reply, ns.
    reply: f64,
}

/// Fields that have another name in JSON than in the record, of each shape.
const NAMES: &[Renamed<'_>] = &[
    ("Rpc", &[("expect", "expect_ns"), ("not_kept", "calls_not_kept")]),
    (
        "RpcKind",
        &[
            ("wire_ns", "wire_estimate_ns"),
            ("log2_us", "calls_by_log2_us"),
            ("unseen", "t4_not_known"),
            ("served", "t3_minus_t2"),
            ("received", "t2_minus_t1"),
        ],
    ),
];

fn rename(object: &mut Value, shape: &str) {
    let names = NAMES.iter().filter(|(own, _)| *own == shape).flat_map(|(_, names)| *names);
    names.for_each(|(old, new)| rename_one(object, old, new));
}

/// What is known of the calls as a whole, each kind of call and each pair of clocks; `None`: not a run of calls.
pub(super) fn json(run: &Run, summary: &Summary) -> Option<(&'static str, Value)> {
    let (facts, calls) = (run.header.parts.get::<RpcFacts>(), summary.sections.get::<RpcSummary>());
    (facts.is_some() || calls.is_some()).then(|| ("rpc", rpc(facts, calls)))
}

fn rpc(facts: Option<&RpcFacts>, summary: Option<&RpcSummary>) -> Value {
    let mut out = value(&facts);
    if let Some(wire) = facts.and_then(|facts| facts.wire.as_ref()) {
        out["wire"] = value(&Wire { bits_per_s: wire.0, from: wire.1.clone() });
    }
    rename(&mut out, "Rpc");
    if out.is_null() {
        out = json!({});
    }
    let Some(summary) = summary else {
        out["kinds"] = Value::Null;
        explain(&mut out, |path| reason(path).into());
        return out;
    };
    out["kinds"] = summary.kinds.iter().map(kind).collect();
    out["clocks"] = value(&summary.clocks);
    out["clocks"].as_array_mut().into_iter().flatten().for_each(name_pieces);
    explain(&mut out, |path| reason(path).into());
    out
}

fn kind(kind: &RpcKind) -> Value {
    let mut out = value(kind);
    if let Some((request, reply)) = kind.wire_ns {
        out["wire_ns"] = value(&WireEstimate { request, reply });
    }
    rename(&mut out, "RpcKind");
    out
}

fn reason(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or(path) {
        "wire" => "there is no wire, or nobody knows its speed",
        "wire_estimate_ns" => "the speed of the wire is not known",
        "same_machine" => "they are two machines, as far as is known",
        "expected" => "no estimate was typed before the run",
        "t3_minus_t2" | "t2_minus_t1" => "the server gave no stamps",
        "bands_why" => "the bands are there",
        "later_p50_ns" => "there was no later call",
        "kinds" => "the run has no log of calls",
        _ => "not a finite number",
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::FAR;

    use msgpath_present::json::check::Checker;
    use msgpath_present::json::unexplained;
    use msgpath_present::json::{Added, schema_part, summary_json};

    use super::*;
    use crate::present::fixture;

    #[test]
    fn calls_carry_their_units() {
        let (run, summary, _) = fixture::rpc();
        let json: Value = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
        let rpc = &json["rpc"];
        assert_eq!(rpc["protocol"], "lab");
        assert_eq!(rpc["wire"]["bits_per_s"], 1_000_000_000_u64);
        assert_eq!((rpc["kinds"][1]["method"].as_str(), rpc["kinds"][1]["calls"].as_u64()), (Some("write"), Some(120)));
        assert_eq!(rpc["kinds"][0]["unanswered"], 1);
        assert_eq!(rpc["kinds"][1]["wire_estimate_ns"]["request"], 8_000_808.0);
        assert_eq!(rpc["kinds"][1]["expected"]["estimate_ns"], 10_100_000.0);
        assert_eq!(rpc["kinds"][1]["bands"][1]["parts"][1]["stage"], "request_path");
        assert_eq!(rpc["kinds"][1]["bands"][1]["parts"][1]["within_ns"], 120_000.0);
        assert_eq!(rpc["kinds"][2]["calls_by_log2_us"].as_array().map(Vec::len), Some(32));
        assert_eq!(rpc["clocks"][0]["pieces"][0]["drift_ns_per_ns"], 0.0);
        assert_eq!(json["cases"][1]["case"]["label"], "write");
    }

    #[test]
    fn counters_that_nobody_read_are_null() {
        let (run, mut summary, _) = fixture::rpc();
        summary.cases[0].end_mut(FAR).cost.unread = true;
        let json: Value = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
        let [near, far] = [0, 1].map(|end| &json["cases"][0]["ends"][end]);
        assert!(far["cost"]["faults"].is_null() && far["calls"].is_null(), "{far:#}");
        assert!(far["why"]["cost.faults"].as_str().is_some_and(|why| why.contains("nobody read")), "{far:#}");
        assert!(near["cost"]["faults"].is_number() && near["calls"].is_object());
        assert!(far["cost"].get("unread").is_none());
    }

    #[test]
    fn other_runs_have_none() {
        let (run, summary) = fixture::echo();
        let json: Value = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
        assert_eq!(json.get("rpc"), None);
        assert_eq!(json["cases"][0]["case"].get("label"), None);
        let (run, mut summary, _) = fixture::rpc();
        summary.sections.remove::<RpcSummary>();
        let json: Value = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
        assert!(json["rpc"]["kinds"].is_null() && json["rpc"]["why"]["kinds"].is_string());
    }

    #[test]
    fn the_schema_is_what_the_types_say() {
        let added = Added {
            of_run: &[("rpc", |types| types.subschema_for::<Option<Rpc>>())],
            explained: &["Rpc"],
            names: NAMES,
            replaced: &[
                ("Rpc", "wire", |types| types.subschema_for::<Option<Wire>>()),
                ("RpcKind", "wire_estimate_ns", |types| types.subschema_for::<Option<WireEstimate>>()),
            ],
            ..Added::default()
        };
        let wanted = format!("{:#}\n", schema_part(&added));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/present/schema.json"), &wanted).unwrap();
        } else {
            assert!(wanted == crate::present::SCHEMA, "INSTA_UPDATE=always cargo test -p msgpath-calls the_schema_is");
        }
    }

    #[test]
    fn every_run_fits_and_every_null_has_a_reason() {
        msgpath_present::section::add(&crate::present::SECTION);
        let schema = serde_json::from_str(&msgpath_present::json::schema(&[crate::present::SCHEMA])).unwrap();
        for (run, mut summary, _) in [fixture::rpc(), fixture::rpc_here()] {
            for whole in [true, false] {
                if !whole {
                    summary.sections.remove::<RpcSummary>();
                }
                let json = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
                let faults = Checker::new(&schema).faults("Run", &json);
                assert!(faults.is_empty(), "{faults:#?}");
                let mut out = Vec::new();
                unexplained(&json, "", &[], &mut out);
                assert!(out.is_empty(), "{out:?}");
            }
        }
    }
}
