//! What verbs print under `--json` is what `msgpath schema` says.

#[path = "../../crates/present/src/json/check.rs"]
mod check;

use std::collections::BTreeMap;

use crate::borders::root;
use crate::command::{Home, msgpath};
use crate::printed::Value;
use check::Checker;

#[track_caller]
pub(crate) fn fits(schema: &Value, shape: &str, printed: &Value) {
    let faults = Checker::new(&schema.plain()).faults(shape, &printed.plain());
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_verb_prints_what_the_schema_says() {
    let schema = msgpath(&["schema"]).ends_with(0).json();
    assert!(schema["$schema"].as_str().is_some_and(|draft| draft.contains("2020-12")));
    let home = Home::new();
    for line in [
        "echo -l 64,1K -c 200 -r 5 -w 0 --name one",
        "echo -l 64,1K -c 200 -r 5 -w 0 --name two",
        "echo -c 60 -r 5 -w 0 --rate 2k --expect 30us --no-save",
        "echo -l 64,1K -c 200 -r 5 -w 0 --fail-if p50>10s --fail-if loss>99% --no-save",
        "compare -x tcp:send,unix:send -l 64,4K -c 60 -r 5 -w 0 --no-save",
        "stream -x tcp:writes,tcp:writev -t 0.05s -r 5 -w 0 --no-save",
        "explain -x tcp:send -c 200 -r 5 -w 0 --no-save",
        "rpc here -k 20 write -key k + -value v 3000 --then -k 20 read -key k --no-save",
        "loaded --direction down --streams 1 -t 200ms -r 5 -w 0 --no-save",
        "periodic -x udp,shm -n 3 -c 30 --first 5 --period 10ms -r 5 --mac hmac --no-save",
    ] {
        let output = home.run(&format!("{line} --json"));
        assert!(output.code == Some(0), "{line}: {}", output.err);
        println!("{line}");
        fits(&schema, "Run", &output.json());
    }
    let lines = home
        .run("compare -x tcp:send,unix:send -l 64 -c 60 -r 5 -w 0 -o what-ifs=no --jsonl --no-save")
        .ends_with(0)
        .out;
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect();
    let (run, rounds) = lines.split_last().expect("lines");
    fits(&schema, "Run", run);
    rounds.iter().for_each(|round| fits(&schema, "Round", round));
    let measured: u64 = run["cases"].as_array().unwrap().iter().map(|case| case["rounds"].as_u64().unwrap()).sum();
    assert_eq!(rounds.len() as u64, measured, "{}", run["totals"]);
    assert_eq!(rounds.last().unwrap()["done"], rounds.len());
    fits(&schema, "Run", &home.run("show one --json").ends_with(0).json());
    fits(&schema, "Diff", &home.run("diff one two --i-know --json").ends_with(0).json());
    fits(&schema, "Verification", &home.run("verify one --json").ends_with(0).json());
    fits(&schema, "Runs", &home.run("runs --json").ends_with(0).json());
    fits(&schema, "Paths", &home.run("paths --json").ends_with(0).json());
    fits(&schema, "DoctorReport", &home.run("doctor --json").ends_with(0).json());
    if cfg!(feature = "namespaces") {
        fits(&schema, "Labs", &home.run("lab status --json").ends_with(0).json());
    }
    std::fs::write(home.path().join("own.toml"), crate::own_preset::TWO).unwrap();
    fits(&schema, "PresetPage", &home.run("preset ./own.toml --json -- --count 100").ends_with(0).json());
    fits(&schema, "Failure", &home.run("show nowhere --json").json());
}

/// `docs/json.md` names each object that a verb prints, with the `schema` that stands in it, and no other.
#[test]
fn the_page_names_every_object_that_is_printed() {
    let schema = msgpath(&["schema"]).ends_with(0).json();
    let shape = |name: &str| schema["$defs"][name]["properties"]["schema"]["const"].as_str().unwrap().to_owned();
    let names = schema["anyOf"].as_array().unwrap().iter().map(|one| one["$ref"].as_str().unwrap());
    let names = names.map(|path| path.strip_prefix("#/$defs/").unwrap());
    let printed: BTreeMap<String, String> = names.map(|name| (name.to_owned(), shape(name))).collect();
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    let rows = page.lines().filter(|line| line.ends_with("` |"));
    let cells = rows.map(|row| row.trim_matches(['|', ' ']).rsplitn(3, " | ").collect::<Vec<_>>());
    let cells = cells.filter(|cells| cells[0].starts_with("`msgpath"));
    let named = cells.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[0].trim_matches('`').to_owned()));
    assert_eq!(named.collect::<BTreeMap<_, _>>(), printed, "left: docs/json.md, right: msgpath schema");
}

#[test]
fn a_word_lists_the_fields_that_have_it() {
    let found = msgpath(&["schema", "lateness"]).ends_with(0).out;
    assert!(found.lines().any(|line| line.starts_with("Run.cases[].open.lateness ")), "{found}");
    assert!(found.lines().count() > 1 && found.lines().all(|line| line.chars().count() <= 80), "{found}");
    // What features print is there too.
    if cfg!(feature = "mesh") {
        msgpath(&["schema", "Mesh.cases[]."]).ends_with(0).shows(&["Mesh.cases[].hosts "]);
    }
    msgpath(&["schema", "latenes"]).ends_with(0).shows(&["Run.cases[].open.lateness "]);
    msgpath(&["schema", "zebra"]).ends_with(2).says(&["no field of --json", "zebra"]);
    msgpath(&["schema", "quantlies"]).ends_with(2).says(&["msgpath schema quantiles"]);
}

#[test]
fn the_verb_has_an_example() {
    msgpath(&["schema", "-h"]).ends_with(0).shows(&["msgpath schema >"]);
}
