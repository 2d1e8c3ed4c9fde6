//! The JSON Schema of what `--json` prints: from the types that the objects are made of. The program has it as a text, because what makes it is a twentieth of all its code:
//! `INSTA_UPDATE=always cargo test -p msgpath-present the_schema_is` writes `schema.json`, `build.rs` packs it.

use msgpath_analyse::diff::Diff;
use msgpath_analyse::round_line::RoundLine;
use msgpath_analyse::verify::Verification;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{DoctorReport, Failure, PathList, PresetPage, RunDocument, RunList};

/// The type of an object that is printed.
pub type Shape = fn(&mut SchemaGenerator) -> Schema;

/// What a feature adds to the schema.
#[derive(Clone, Copy, Default)]
pub struct Added<'a> {
    /// Objects that a verb prints.
    pub documents: &'a [Shape],
    /// Objects in that of a run, with their keys.
    pub of_run: &'a [(&'static str, Shape)],
}

/// Lists and failures stand last among the objects: what features print is a result, and stands before them.
const LAST: usize = 3;

/// One schema for every object that a verb prints under `--json`: it is one of `anyOf`, and every shape has one name. `parts` are
/// those of the features ([`schema_part`]).
///
/// # Panics
/// A part that is not one: a defect.
pub fn schema(parts: &[&str]) -> String {
    let text = crate::packed::text(include_bytes!(concat!(env!("OUT_DIR"), "/schema.json")));
    if parts.is_empty() {
        return text;
    }
    let mut all: Value = serde_json::from_str(&text).expect("what the types say");
    for part in parts {
        let mut part: Value = serde_json::from_str(part).expect("what the types say");
        if let (Some(all), Value::Array(part)) = (all["anyOf"].as_array_mut(), part["anyOf"].take()) {
            let at = all.len() - LAST;
            all.splice(at..at, part);
        }
        if let (Some(fields), Value::Object(own)) = (of_run(&mut all), part["run"].take()) {
            fields.extend(own);
        }
        if let (Some(all), Value::Object(part)) = (all["$defs"].as_object_mut(), part["$defs"].take()) {
            all.extend(part);
        }
    }
    format!("{all:#}\n")
}

/// The fields of a run.
fn of_run(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema["$defs"]["Run"]["properties"].as_object_mut()
}

/// What a feature adds to the schema: its objects, those in the object of a run, and the shapes that no other object has.
pub fn schema_part(added: &Added<'_>) -> Value {
    let (mut base, mut all) = (schema_of_types(), of_types(added));
    let known: Vec<String> = of_run(&mut base).into_iter().flat_map(|fields| fields.keys().cloned()).collect();
    let mut run = of_run(&mut all).map(std::mem::take).unwrap_or_default();
    run.retain(|name, _| !known.contains(name));
    let of_base = |schema: &Value| base["anyOf"].as_array().is_some_and(|base| base.contains(schema));
    if let Some(documents) = all["anyOf"].as_array_mut() {
        documents.retain(|document| !of_base(document));
    }
    if let Some(shapes) = all["$defs"].as_object_mut() {
        shapes.retain(|name, _| base["$defs"].get(name).is_none());
    }
    json!({ "anyOf": all["anyOf"].take(), "run": run, "$defs": all["$defs"].take() })
}

/// Compares the part of the schema that a feature keeps, `src/present/schema.json` of a package in this folder, with what its types say.
/// `INSTA_UPDATE=always` writes it.
///
/// # Panics
/// They differ.
#[cfg(any(test, feature = "testing"))]
pub fn check_part(added: &Added<'_>, (package, folder): (&str, &str), kept: &str) {
    check(&schema_part(added), &format!("{folder}/src/present/schema.json"), (package, kept));
}

#[cfg(any(test, feature = "testing"))]
fn check(wanted: &Value, file: &str, (package, kept): (&str, &str)) {
    let wanted = format!("{wanted:#}\n");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(file, wanted).expect("the folder of a package can be written");
    } else {
        assert!(kept == wanted, "schema.json: INSTA_UPDATE=always cargo test -p {package} the_schema_is");
    }
}

/// What the schema of the base must be: from the types.
pub fn schema_of_types() -> Value {
    of_types(&Added::default())
}

fn of_types(added: &Added<'_>) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut documents = vec![
        generator.subschema_for::<RunDocument<'_>>(),
        generator.subschema_for::<RoundLine>(),
        generator.subschema_for::<Diff>(),
        generator.subschema_for::<PresetPage<'_>>(),
        generator.subschema_for::<DoctorReport<'_>>(),
        generator.subschema_for::<Verification>(),
        generator.subschema_for::<PathList<'_>>(),
        generator.subschema_for::<RunList<'_>>(),
        generator.subschema_for::<Failure<'_>>(),
    ];
    documents.extend(added.documents.iter().map(|of| of(&mut generator)));
    let sections: Vec<_> = added.of_run.iter().map(|(key, of)| (*key, of(&mut generator).to_value())).collect();
    let mut shapes = generator.take_definitions(true);
    if let Some(fields) = shapes.get_mut("Run").and_then(|run| run["properties"].as_object_mut()) {
        fields.extend(sections.into_iter().map(|(key, shape)| (key.to_owned(), shape)));
    }
    shapes.values_mut().for_each(|shape| each_object(shape, &mut amend));
    let mut all = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "msgpath --json",
        "description": "What msgpath prints under --json: one of these objects. Fields may be added within a version, never \
                        renamed or removed.",
        "anyOf": documents,
    });
    shapes.iter_mut().for_each(|(_, shape)| plain_words(shape));
    let mut used = Map::new();
    keep_used(&all, &mut shapes, &mut used);
    all["$defs"] = used.into();
    all
}

/// Every schema of an object in a shape, itself first.
fn each_object(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(map) => {
            change(map);
            map.values_mut().for_each(|value| each_object(value, change));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| each_object(value, change)),
        _ => {}
    }
}

/// What JSON has no other way to say.
fn amend(object: &mut Map<String, Value>) {
    // Keys that are numbers are strings in JSON as well.
    if let Some(Value::Object(patterns)) = object.remove("patternProperties") {
        object.extend(patterns.into_iter().map(|(_, schema)| ("additionalProperties".to_owned(), schema)));
    }
    // A number that is not finite is null, and so is one that nobody counted.
    if object.get("type") == Some(&"number".into()) {
        object.insert("type".into(), json!(["number", "null"]));
    }
}

/// Descriptions are comments of the code: without its links, and with the words of JSON.
fn plain_words(schema: &mut Value) {
    each_object(schema, &mut |object| {
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace('\n', " ").replace("[`", "`").replace("`]", "`").replace("`None`", "null");
        } else if object.get("description") == Some(&Value::Null) {
            object.remove("description");
        }
    });
}

/// Moves the shapes that `schema` names, and those that they name, to `used`.
fn keep_used(schema: &Value, shapes: &mut Map<String, Value>, used: &mut Map<String, Value>) {
    match schema {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
            if let Some((name, shape)) = name.and_then(|name| shapes.remove_entry(name)) {
                used.insert(name.clone(), shape.clone());
                keep_used(&shape, shapes, used);
            }
            map.values().for_each(|value| keep_used(value, shapes, used));
        }
        Value::Array(list) => list.iter().for_each(|value| keep_used(value, shapes, used)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::cell::Value as CellValue;
    use crate::answers::{Answer, Cell, Missing, Page, Table};
    use crate::fixture;
    use crate::json::check::Checker;
    use crate::json::{doctor, paths, preset, problem_json, runs, summary_json};
    use crate::terminal::{PathRow, RunRow};
    use msgpath_core::schema::Status;
    use msgpath_core::schema::{FAR, NEAR};
    use msgpath_core::{Exit, Problem, Unavailable};

    #[track_caller]
    fn fits(shape: &str, text: &str) {
        let faults = Checker::new(&schema_of_types()).faults(shape, &serde_json::from_str(text).unwrap());
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn the_schema_is_what_the_types_say() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/json/schema.json");
        check(&schema_of_types(), file, (env!("CARGO_PKG_NAME"), &schema(&[])));
    }

    #[test]
    fn every_run_fits() {
        for (run, mut summary) in fixture::all() {
            fits("Run", &summary_json(&run, &summary));
            for case in &mut summary.cases {
                case.latency.mean_ns = Some(f64::NAN);
                case.end_mut(FAR).cost.unread = true;
                case.end_mut(NEAR).cost.user_ns = 0.0;
            }
            fits("Run", &summary_json(&run, &summary));
            for case in &mut summary.cases {
                let cost = &mut case.end_mut(FAR).cost;
                (cost.unread, cost.cpu_only) = (false, true);
                case.end_mut(NEAR).cost.calls_unread = true;
            }
            fits("Run", &summary_json(&run, &summary));
        }
    }

    #[test]
    fn every_round_fits() {
        for (run, _) in [fixture::echo(), fixture::stream()] {
            let plan = &run.header.plan;
            let line = msgpath_analyse::round_line::round_line("test-data", plan, &run.rounds[0], 1, 8).unwrap();
            fits("Round", &crate::json::round(&line));
        }
    }

    #[test]
    fn gates_that_are_not_known_fit() {
        let (run, mut summary) = fixture::gated();
        let case = &mut summary.gates[0].cases[0];
        (case.value, case.low, case.high, case.p, case.because) = (None, None, None, None, Some("too few".into()));
        (summary.gates[1].worst, summary.gates[1].cases) = (None, Vec::new());
        fits("Run", &summary_json(&run, &summary));
    }

    #[test]
    fn the_other_answers_fit() {
        fits("DoctorReport", &doctor(&fixture::doctor(), None));
        fits("DoctorReport", &doctor(&fixture::doctor(), Some(0.02)));
        fits("Failure", &problem_json(&Problem::new("E01", Exit::CannotStart, "nobody answers").why("no").hint("x")));
        let state = Err(Unavailable::new("io_uring is switched off", "ask the administrator"));
        let row = PathRow { name: "tcp:uring".into(), summary: String::new(), state, notes: String::new() };
        let text = paths(&[PathRow { state: Ok(()), ..row.clone() }, row]);
        fits("Paths", &text);
        assert!(
            text.contains(r#""available":true,"why":null"#) && text.contains(r#""why":"io_uring is switched off""#)
        );
        let text = String::new;
        let (name, when, verb, target) = (text(), text(), text(), text());
        fits(
            "Runs",
            &runs(&[RunRow {
                name,
                when,
                verb,
                target,
                cases: Some(1),
                rounds: None,
                status: Status::Ok,
                ago: None,
                headline: None,
            }]),
        );
    }

    #[test]
    fn every_cell_of_a_page_fits() {
        let value = || CellValue { value: 1.0, low: Some(0.5), high: None };
        let text = String::from("x");
        let mut table = Table::new("t", "title", &["a"]);
        for cell in [
            Cell::Text { text: text.clone() },
            Cell::Time(value()),
            Cell::Bits(value()),
            Cell::Number(value()),
            Cell::Count { count: 1 },
            Cell::Size { bytes: 1 },
            Cell::Share(value()),
            Cell::Ratio(value()),
            Cell::Missing { why: text.clone() },
        ] {
            table.row([cell]);
        }
        let answer = Answer::cannot("why", "nobody asked").with(table.clone());
        let missing = Missing { name: text.clone(), why: text.clone() };
        let (answers, missing) = (vec![answer], vec![missing]);
        let findings = vec![(text.clone(), fixture::echo().1.findings)];
        let page = Page { title: text, tables: vec![table], answers, findings, missing };
        fits("PresetPage", &preset(&page));
    }

    #[test]
    fn every_shape_has_one_name_and_every_field_says_what_it_is() {
        let schema = schema_of_types();
        let shapes = schema["$defs"].as_object().unwrap();
        for (name, shape) in shapes {
            assert!(!name.ends_with(char::is_numeric), "two shapes are called {name}");
            assert!(shape["description"].is_string(), "{name}");
            for (field, schema) in shape["properties"].as_object().into_iter().flatten() {
                let named = schema.get("$ref").is_some();
                assert!(named || schema["description"].is_string(), "{name}.{field}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_found() {
        let (run, summary) = fixture::echo();
        let good: Value = serde_json::from_str(&summary_json(&run, &summary)).unwrap();
        let schema = schema_of_types();
        let faults = |change: &dyn Fn(&mut Value)| {
            let mut value = good.clone();
            change(&mut value);
            Checker::new(&schema).faults("Run", &value)
        };
        assert!(faults(&|_| ()).is_empty());
        assert!(!faults(&|run| run["schema"] = "msgpath/run/1".into()).is_empty());
        assert!(!faults(&|run| run["seed"] = (-1).into()).is_empty());
        assert!(!faults(&|run| run["cases"][0]["case"]["size"] = 64.into()).is_empty());
        assert!(!faults(&|run| run["cases"][0]["quantiles"][0]["range"] = "guess".into()).is_empty());
        assert!(!faults(&|run| drop(run.as_object_mut().unwrap().remove("totals"))).is_empty());
    }
}
