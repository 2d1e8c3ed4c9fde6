//! Stages in the JSON of a run, and the part of its schema.

use msgpath_analyse::Summary;
use msgpath_present::json::check::Checker;
use msgpath_present::json::unexplained;
use msgpath_present::json::{Added, check_part, schema, summary_json};
use msgpath_present::section;
use msgpath_record::Run;
use serde_json::Value;

use crate::analyse::CaseStages;
use crate::present::{SCHEMA, SECTION, fixture};

fn parsed(run: &Run, summary: &Summary) -> Value {
    section::add(&SECTION);
    serde_json::from_str(&summary_json(run, summary)).unwrap()
}

#[test]
fn the_schema_is_what_the_types_say() {
    let added = Added {
        of_run: &[("attribution", |types| {
            let mut shape = types.subschema_for::<Vec<CaseStages>>();
            shape.insert("description".into(), "Stages of the cases that were traced.".into());
            shape
        })],
        ..Added::default()
    };
    check_part(&added, (env!("CARGO_PKG_NAME"), env!("CARGO_MANIFEST_DIR")), SCHEMA);
}

#[test]
fn every_run_fits_and_every_null_has_a_reason() {
    let schema: Value = serde_json::from_str(&schema(&[SCHEMA])).unwrap();
    let (run, mut summary) = fixture::explained();
    for why in [None, Some("too few".to_owned())] {
        fixture::change(&mut summary, |stages| stages.why = why.clone());
        let json = parsed(&run, &summary);
        let faults = Checker::new(&schema).faults("Run", &json);
        assert!(faults.is_empty(), "{faults:#?}");
        let mut out = Vec::new();
        unexplained(&json, "", &[], &mut out);
        assert!(out.is_empty(), "{out:?}");
    }
}

#[test]
fn stages_carry_their_units_and_reasons() {
    let (run, mut summary) = fixture::explained();
    let json = parsed(&run, &summary);
    let own = &json["attribution"][0];
    assert_eq!(own["stages"][0]["kind"], "transmit");
    assert_eq!(own["stages"][0]["direction"], "request");
    let band = &own["bands"][0];
    let sum: f64 = band["parts_ns"].as_array().unwrap().iter().map(|part| part.as_f64().unwrap()).sum();
    assert!((sum - band["mean_ns"].as_f64().unwrap()).abs() < 1e-6);
    assert_eq!(own["threads"][0]["run_ns"], 8_000_000);
    assert_eq!(own["occupants"]["slow"][0]["name"], "test-hog");
    assert!(own["why"]["first"].is_string() && own.get("not_shown_because").is_none());
    fixture::change(&mut summary, |stages| stages.why = Some("too few".into()));
    let json = parsed(&run, &summary);
    assert_eq!(json["attribution"][0]["not_shown_because"], "too few");
}

#[test]
fn a_run_that_was_not_traced_has_none() {
    let (run, summary) = msgpath_present::fixture::echo();
    assert_eq!(parsed(&run, &summary).get("attribution"), None);
}
