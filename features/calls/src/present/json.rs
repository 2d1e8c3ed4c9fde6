//! Calls in the JSON of a run, and the part of its schema.

use msgpath_core::schema::FAR;

use msgpath_present::json::check::Checker;
use msgpath_present::json::unexplained;
use msgpath_present::json::{Added, check_part, summary_json};

use serde_json::Value;

use crate::analyse::RpcSummary;
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
}

#[test]
fn the_schema_is_what_the_types_say() {
    let added = Added { of_run: &[("rpc", |types| types.subschema_for::<RpcSummary>())], ..Added::default() };
    check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), crate::present::SCHEMA);
}

#[test]
fn every_run_fits_and_every_null_has_a_reason() {
    msgpath_present::section::add(&crate::present::SECTION);
    let schema = serde_json::from_str(&msgpath_present::json::schema(&[crate::present::SCHEMA])).unwrap();
    for (run, summary, _) in [fixture::rpc(), fixture::rpc_here()] {
        let json = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
        let faults = Checker::new(&schema).faults("Run", &json);
        assert!(faults.is_empty(), "{faults:#?}");
        let mut out = Vec::new();
        unexplained(&json, "", &[], &mut out);
        assert!(out.is_empty(), "{out:?}");
    }
}
