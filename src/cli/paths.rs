//! `msgpath paths`: every path, whether this kernel offers it, and why not where not.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::units::size;
use msgpath_paths::Entry;
use msgpath_present::terminal::{PathRow, paths};

use super::options::Look;
use crate::looks;
use crate::typed::{List, PathArg};

/// Which paths work here, and why not
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Only these [default: all]
    #[arg(value_name = "PATHS", hide_possible_values = true)]
    only: Option<List<PathArg>>,
    #[command(flatten)]
    look: Look,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut only = Vec::new();
    for path in arguments.only.iter().flat_map(|List(paths)| paths) {
        match path {
            PathArg::All => {}
            PathArg::Spec(spec) => only.push(msgpath_paths::resolve(spec, None)?),
        }
    }
    let rows: Vec<PathRow> =
        msgpath_paths::all().iter().filter(|entry| only.is_empty() || only.contains(&entry.name)).map(row).collect();
    let text = if arguments.look.json { json(&rows) } else { paths(&rows, looks::stdout(&arguments.look)) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A path and what this kernel answers when it is tried.
fn row(entry: &Entry) -> PathRow {
    PathRow {
        name: entry.name.to_string(),
        summary: entry.method.summary.into(),
        state: entry.probe(),
        notes: entry
            .transport
            .max_message()
            .map(|limit| format!("at most {} a message", size(limit)))
            .unwrap_or_default(),
    }
}

fn json(rows: &[PathRow]) -> String {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            let reason = row.state.as_ref().err();
            serde_json::json!({
                "path": row.name,
                "summary": row.summary,
                "notes": row.notes,
                "available": reason.is_none(),
                "why": reason.map(|reason| &reason.why),
                "try": reason.map(|reason| &reason.hint),
            })
        })
        .collect();
    serde_json::json!({ "schema": "msgpath/paths/1", "status": "ok", "paths": rows }).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Unavailable;

    #[test]
    fn a_path_that_does_not_work_says_why() {
        let state = Err(Unavailable::new("io_uring is switched off", "ask the administrator"));
        let row =
            PathRow { name: "tcp:uring".into(), summary: "one entry a message".into(), state, notes: String::new() };
        let value: serde_json::Value =
            serde_json::from_str(&json(&[PathRow { state: Ok(()), ..row.clone() }, row])).unwrap();
        assert_eq!(
            (&value["paths"][1]["why"], &value["paths"][1]["available"]),
            (&"io_uring is switched off".into(), &false.into())
        );
        assert!(value["paths"][0]["why"].is_null());
    }
}
