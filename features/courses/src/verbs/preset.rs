//! `msgpath preset`: ready-made experiments.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::preset::{NOT_ATTEMPTED, PRESETS, PUBLISHED};
use anyhow::Result;
use clap::{ArgAction, Args};
use msgpath_core::foreign::{shell_word, shown, shown_lines};
use msgpath_core::{Problem, units};
use msgpath_sys::say;

use super::presets::{self, Estimate, Found, Wanted};
use msgpath_verbs::options::Look;
use msgpath_verbs::output;
use msgpath_verbs::problems::usage;
use msgpath_verbs::verb::{Group, Planned};

/// A preset that takes longer says so as a warning, ns.
const LONG: u64 = 300_000_000_000;

/// Ready-made experiments
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath preset list
  msgpath preset copy-ladder -o DIR      its tables, CSV, pictures and page
  msgpath preset write-shape -- -t 5s    with an option for each of its runs
  msgpath preset echo-sizes -- HOST      its runs between namespaces against HOST
  msgpath preset own.toml                one of your own (docs/presets.md)
  msgpath preset --repro ipc-ping-pong   a published table, and ours")]
pub(crate) struct Arguments {
    /// list, show, the name of a preset, or a file of your own (own.toml)
    #[arg(value_name = "NAME", required_unless_present = "repro")]
    name: Option<String>,
    /// With show: the preset to show
    #[arg(value_name = "PRESET")]
    shown: Option<String>,
    /// A published table: it is run, and ours stands beside theirs; list: which there are
    #[arg(long, value_name = "TABLE", conflicts_with = "name")]
    repro: Option<String>,
    /// Write the page, tables as CSV, pictures, and a report of each run into this folder
    #[arg(short = 'o', long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// With a file of your own: start the programs that it names (far, tools, simulate-cache), which are shown before
    #[arg(long)]
    allow_programs: bool,
    /// Do not start what is planned for longer than this: 5m is 300s
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_or_seconds)]
    budget: Option<u64>,
    /// All tables of the page, and the screen of each run
    #[arg(short = 'v', long, action = ArgAction::SetTrue)]
    verbose: bool,
    #[command(flatten)]
    look: Look,
    /// Options for each of its runs, in place of those of the preset: msgpath preset vehicles -- --processes 5
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "preset";
    const GROUP: Group = Group::Measure;
    const BESIDE: Option<&str> = Some("programs of courses; questions answered");

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }

    /// What all runs of the preset are planned for.
    fn planned(&self) -> Result<Option<Planned>, Problem> {
        let found = match (&self.repro, self.name.as_deref()) {
            (None, None | Some("list" | "show")) => return Ok(None),
            (Some(table), _) if table == "list" => return Ok(None),
            (Some(table), _) => presets::published(table)?,
            // A file of one's own that an example names need not be there.
            (None, Some(name)) if name.ends_with(".toml") => return Ok(None),
            (None, Some(name)) => presets::find(name)?,
        };
        let Estimate { cases, ns, .. } = presets::estimate(&found.preset, &self.options, false)?;
        Ok(Some(Planned::Time { cases, ns }))
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(table) = &arguments.repro {
        if table == "list" {
            output::print(published()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        return measure(&presets::published(table)?, arguments);
    }
    match (arguments.name.as_deref().unwrap_or("list"), &arguments.shown) {
        ("list", None) => {
            for (name, _) in PRESETS {
                output::print(format!("{name:<20} {}\n", presets::find(name)?.preset.summary))?;
            }
        }
        ("show", Some(name)) => output::print(show(&presets::find(name)?)?)?,
        ("show", None) => return Err(usage("which preset?").hint("msgpath preset list").into()),
        (name, None) => {
            return measure(&presets::find(name)?, arguments);
        }
        (_, Some(word)) => {
            return Err(usage(format!("{word:?} is one word too many")).hint("msgpath preset show NAME").into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The published tables, those that are not attempted with the reason.
fn published() -> Result<String> {
    let mut text = String::new();
    for (name, _) in PUBLISHED {
        let found = presets::published(name)?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<20} {}", found.preset.summary);
    }
    text += "\nnot attempted\n";
    for (name, why) in NOT_ATTEMPTED {
        let _ = writeln!(text, "  {name}: {why}");
    }
    Ok(text)
}

fn show(found: &Found) -> Result<String> {
    let preset = &found.preset;
    let head = format!("{}: {}", found.name, preset.summary);
    let mut text = format!("{}\n\n{}\n\n", shown(&head), shown_lines(&preset.about));
    for run in &preset.runs {
        let words: Vec<String> = run.command(&[], &|_| false).iter().map(|word| shell_word(word)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<12} msgpath {}", run.name, shown(&words.join(" ")));
    }
    let _ = writeln!(text, "\n{}", in_words(&presets::estimate(preset, &[], false)?));
    Ok(text)
}

/// What it will do, in a line.
fn in_words(estimate: &Estimate) -> String {
    let Estimate { runs, cases, ns, unknown } = *estimate;
    let time = format!("about {}", in_minutes(ns as f64 / 1e9));
    let open = match unknown {
        0 => String::new(),
        1 => ", and one run more that takes as long as its server".into(),
        n => format!(", and {n} runs more that take as long as their server"),
    };
    format!("{runs} {}, {cases} cases, {time}{open}", if runs == 1 { "run" } else { "runs" })
}

/// `85 s`, `1 min 41 s`.
fn in_minutes(seconds: f64) -> String {
    let whole = seconds.round();
    if whole >= 90.0 {
        format!("{:.0} min {:02.0} s", (whole / 60.0).floor(), whole % 60.0)
    } else {
        format!("{whole:.0} s")
    }
}

fn measure(found: &Found, arguments: &Arguments) -> Result<ExitCode> {
    let has =
        |option: &str| arguments.options.iter().any(|word| word == option || word.starts_with(&format!("{option}=")));
    if has("--name") || has("--no-save") {
        return Err(usage("the runs of a preset are kept under names of their own")
            .hint("leave out --name and --no-save")
            .into());
    }
    found.may_start(arguments.allow_programs)?;
    if arguments.allow_programs {
        for started in &found.started {
            say!("note: {} starts: {}", shown(&found.name), shown(&started.words()));
        }
    }
    let estimate = presets::estimate(&found.preset, &arguments.options, true)?;
    if let Some(budget) = arguments.budget.filter(|budget| estimate.ns > *budget) {
        return Err(usage(format!("{} is more than the budget of {:.0} s", in_words(&estimate), budget as f64 / 1e9))
            .hint(format!("msgpath preset {} -- -t 0.5s, or a larger --budget", found.name))
            .into());
    }
    // What has no measuring time, as calls and counts have none, takes as long as it does.
    let shorter = || {
        let typed: Vec<String> = arguments.options.iter().cloned().chain(["-t".into(), "0.5s".into()]).collect();
        presets::estimate(&found.preset, &typed, false).is_ok_and(|other| other.ns < estimate.ns)
    };
    let long = if estimate.ns > LONG && shorter() { "; -- -t 0.5s makes it shorter" } else { "" };
    say!("note: {}: {}{long}", shown(&found.name), in_words(&estimate));
    let wanted = Wanted {
        typed: &arguments.options,
        folder: arguments.out.clone(),
        verbose: arguments.verbose,
        look: &arguments.look,
    };
    let begun = std::time::Instant::now();
    let ended = presets::carry_out(found, &wanted);
    let planned = in_minutes(estimate.ns as f64 / 1e9);
    say!("note: {}: planned {planned}, taken {}", shown(&found.name), in_minutes(begun.elapsed().as_secs_f64()));
    ended
}
