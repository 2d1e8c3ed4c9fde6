//! `msgpath paths`: every path, whether this kernel offers it, and why not where not.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::PathName;
use msgpath_core::units::size;
use msgpath_paths::Entry;
use msgpath_present::json;
use msgpath_present::terminal::{PathRow, SettingRow, Style, each_path, paths, settings};

use crate::looks;
use crate::options::Look;
use crate::output;
use crate::progress::Doing;
use crate::settings::{KEYS, Key};
use crate::typed::{List, PathArg};
use crate::verb::Group;

/// Which paths work here, and why not
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Only these; of a transport all its paths [default: all]
    #[arg(value_name = "PATHS", hide_possible_values = true)]
    only: Option<List<PathArg>>,
    /// The rare settings that the measuring verbs take as -o KEY=VALUE, what they mean, and for which transports
    #[arg(short = 'o', long, conflicts_with_all = ["only", "json"])]
    options: bool,
    /// Each path with what it does, and why those that do not work cannot be had
    #[arg(short, long)]
    verbose: bool,
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
            PathArg::Spec(spec) => {
                let name = msgpath_paths::resolve(spec, None)?;
                // A transport alone is all of it.
                let all = spec.bare() == Some(name.transport.as_str()) && spec.wait.is_none();
                only.push((name, all));
            }
        }
    }
    let meant = |entry: &&Entry| {
        let named =
            |(name, all): &(PathName, bool)| entry.name == *name || *all && entry.name.transport == name.transport;
        only.is_empty() || only.iter().any(named)
    };
    let rows = tried(msgpath_paths::all().iter().filter(meant));
    let style = Style { verbose: arguments.verbose, ..looks::stdout(&arguments.look) };
    let text = match arguments.look.json {
        true => json::paths(&rows) + "\n",
        false if only.is_empty() => paths(&rows, style),
        false => each_path(&rows, style),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What this kernel answers to each.
fn tried<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<PathRow> {
    let mut doing = Doing::default();
    let mut transport = "";
    let mut rows = Vec::new();
    for entry in entries {
        if transport != entry.name.transport {
            transport = &entry.name.transport;
            doing.show(&format!("trying the paths of {transport}"));
        }
        rows.push(row(entry));
    }
    rows
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
