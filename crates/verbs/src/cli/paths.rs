//! `msgpath paths`: every path, whether this kernel offers it, and why not where not.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::units::size;
use msgpath_paths::Entry;
use msgpath_present::json;
use msgpath_present::terminal::{PathRow, SettingRow, paths, settings};

use crate::looks;
use crate::options::Look;
use crate::output;
use crate::settings::{KEYS, Key};
use crate::typed::{List, PathArg};
use crate::verb::Group;

/// Which paths work here, and why not
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Only these [default: all]
    #[arg(value_name = "PATHS", hide_possible_values = true)]
    only: Option<List<PathArg>>,
    /// The rare settings that the measuring verbs take as -o KEY=VALUE, what they mean, and for which transports
    #[arg(short = 'o', long, conflicts_with_all = ["only", "json"])]
    options: bool,
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "paths";
    const GROUP: Group = Group::Prepare;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.options {
        let rows: Vec<SettingRow> = KEYS.iter().map(setting).collect();
        output::print(settings(&rows, looks::stdout(&arguments.look)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut only = Vec::new();
    for path in arguments.only.iter().flat_map(|List(paths)| paths) {
        match path {
            PathArg::All => {}
            PathArg::Spec(spec) => only.push(msgpath_paths::resolve(spec, None)?),
        }
    }
    let rows: Vec<PathRow> =
        msgpath_paths::all().iter().filter(|entry| only.is_empty() || only.contains(&entry.name)).map(row).collect();
    let text =
        if arguments.look.json { json::paths(&rows) + "\n" } else { paths(&rows, looks::stdout(&arguments.look)) };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn setting(key: &Key) -> SettingRow {
    SettingRow { name: format!("{}={}", key.name, key.value), doc: key.doc.into(), transports: key.transports() }
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
