//! The SQL queries of the book, carried out with DuckDB on what is exported.

use std::process::{Command, Stdio};

use crate::printed::Value;

use crate::command::{Home, LIMIT, Running};

/// All queries of the book whose tables lie in this folder of the home. `None`: DuckDB is not here.
fn asked(home: &Home, folder: &str) -> Option<Vec<Value>> {
    let python = std::env::var("MSGPATH_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(&python);
    command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/queries"), "duckdb", folder]);
    command.current_dir(home.path()).stdin(Stdio::null());
    if Command::new(command.get_program()).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: no {python}");
        return None;
    }
    let output = Running::new(command).finish(LIMIT);
    if output.code == Some(77) {
        eprintln!("{}", output.out.trim());
        return None;
    }
    let output = output.ends_with(0);
    Some(output.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The rows of the query that begins so, each by the names of its columns.
fn rows(found: &[Value], part: &str) -> Vec<crate::printed::Fields> {
    let query = found.iter().find(|one| one["query"].as_str().unwrap().contains(part));
    let query = query.unwrap_or_else(|| panic!("no query of the book has {part}"));
    let columns: Vec<&str> = query["columns"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let row = |row: &Value| {
        columns.iter().zip(row.as_array().unwrap()).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    query["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn messages_are_counted_as_the_run_counted_them() {
    let home = Home::new();
    home.run("compare -x tcp:send,unix:send -l 64,1K -c 200 -r 5 -w 0 -o what-ifs=no --name two -q").ends_with(0);
    home.run("export two --to parquet -o messages.parquet").ends_with(0);
    let Some(found) = asked(&home, ".") else { return };
    assert_eq!(found.len(), 2, "only what reads messages");
    let run = home.run("show two --json").ends_with(0).json();
    let lost = rows(&found, "count(latency_ns)");
    assert_eq!(lost.len(), 4, "a row a case: {lost:?}");
    let p99 = rows(&found, "p99_us");
    assert_eq!((p99.len(), p99[0]["rounds"].as_u64()), (4, Some(5)));
    let cases = run["cases"].as_array().unwrap().iter().map(|case| &case["case"]);
    let cases: Vec<&Value> = cases.filter(|case| case["role"] == "measured").collect();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let of = |row: &&crate::printed::Fields| row["path"] == case["path"] && row["size_bytes"] == case["size_bytes"];
        let row = lost.iter().find(of).unwrap_or_else(|| panic!("{} is not there", case["path"]));
        assert_eq!((row["lost"].as_u64(), row["sent"].as_u64()), (Some(0), Some(200)), "{row:?}");
    }
}

#[test]
fn pairs_of_a_mesh_are_those_that_it_shows() {
    let home = Home::new();
    let launcher =
        format!("sh -c '[ {{host}} != h4 ] || exit 9; exec {} __agent --launched'", env!("CARGO_BIN_EXE_msgpath"));
    let words = ["mesh", "h[1-4]", "--launch", &launcher, "--name", "four", "-t", "60ms", "-r", "3"];
    Running::new(home.command(&words)).finish(LIMIT).ends_with(4);
    home.run("export four --to parquet -o tables").ends_with(0);
    let Some(found) = asked(&home, "tables") else { return };
    let shown = home.run("show four --json").ends_with(0).json();
    assert_eq!(rows(&found, "FROM hosts").len(), 4);
    assert_eq!(rows(&found, "residual").len(), 3);
    let levels = rows(&found, "near_rack");
    let (ours, theirs) = (shown["cases"][0]["levels"][0]["p50_ns"].as_f64(), levels[0]["p50_ns"].as_f64());
    assert!((ours.unwrap() - theirs.unwrap()).abs() <= 1.0, "{ours:?} {theirs:?}");
    let failed = rows(&found, "reason");
    assert_eq!(failed.iter().map(|row| row["pairs"].as_u64().unwrap()).sum::<u64>(), 3, "{failed:?}");
    assert!(failed[0]["reason"].as_str().unwrap().contains("code 9"), "{failed:?}");
}
