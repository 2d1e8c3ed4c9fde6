//! `msgpath report`: pictures of a run, or of two compared, as one HTML file.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;
use clap::Args;
use msgpath_core::foreign::shown;
use msgpath_core::{Problem, units};
use msgpath_present::html::figures;
use msgpath_present::html::{self, DEFAULT_EMBED, Earlier, Scene};
use msgpath_sys::say;

use crate::output::{self, OutputFile, write_named};
use crate::problems::{cannot_write, usage};
use crate::report::{self, Reported};
use crate::runs;
use crate::verb::Group;

/// HTML report; two runs: a comparison
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// One run, or two to compare: a name, the folder of a recording, @last or @-2; without one the newest
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Where to write [default: report.html in the folder of the run, the second of two]
    #[arg(short = 'o', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// Show it in a browser
    #[arg(long)]
    open: bool,
    /// Most messages in the file, for the timeline: the slowest, what was around them, and an even sample [default: 100k]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    embed: Option<u64>,
    /// Write every figure as an SVG file into this folder as well
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    svg: Option<PathBuf>,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "report";
    const GROUP: Group = Group::Understand;
    const BESIDE: Option<&str> = Some("did it change; HTML page of runs");

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let embed = arguments.embed.map_or(DEFAULT_EMBED, |n| usize::try_from(n).unwrap_or(usize::MAX));
    match arguments.runs.as_slice() {
        [] => one("@last", embed, arguments),
        [run] => one(run, embed, arguments),
        [a, b] => two(a, b, embed, arguments),
        [first, .., last] => {
            Err(usage(format!("report takes one run, or two to compare, got {}", arguments.runs.len()))
                .hint(format!("msgpath report {first} {last}"))
                .into())
        }
    }
}

fn one(name: &str, embed: usize, arguments: &Arguments) -> Result<ExitCode> {
    let (other, folder) = runs::find_any(name)?;
    if let Some(kind) = other {
        let page = (kind.page)(&folder)?;
        let file = OutputFile::or_named(arguments.out.as_ref(), || folder.join("report.html"));
        file.write(page)?;
        output::print(format!("report   {}\n", file.path().display()))?;
        return Ok(open_if_asked(file.path(), arguments));
    }
    let reported = Reported::of(&folder)?;
    let file = OutputFile::or_named(arguments.out.as_ref(), || reported.run.folder.join("report.html"));
    finish(&reported.scene(embed, None), &file, arguments)
}

fn two(a: &str, b: &str, embed: usize, arguments: &Arguments) -> Result<ExitCode> {
    let (earlier, later) = (Reported::find(a)?, Reported::find(b)?);
    let diff = msgpath_analyse::diff::diff(&earlier.run, &later.run, &[]);
    let name = || format!("report-against-{}.html", file_name(&earlier.run.header.name));
    let file = OutputFile::or_named(arguments.out.as_ref(), || later.run.folder.join(name()));
    let messages = earlier.logged(embed);
    let earlier = Earlier { run: &earlier.run, summary: &earlier.summary, messages, diff: &diff };
    finish(&later.scene(embed, Some(earlier)), &file, arguments)
}

/// The name of a run as part of a file's name: whoever wrote the record chose it.
fn file_name(run: &str) -> String {
    run.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).take(64).collect()
}

fn finish(scene: &Scene<'_>, file: &OutputFile, arguments: &Arguments) -> Result<ExitCode> {
    let note = report::write(scene, file)?;
    let file = file.path();
    output::print(format!("report   {}\n", file.display()))?;
    if let Some(folder) = &arguments.svg {
        let written = write_figures(scene, folder)?;
        output::print(format!("figures  {}: {}\n", folder.display(), written.join(", ")))?;
    }
    if let Some(note) = note {
        say!("note: {}", shown(&note));
    }
    Ok(open_if_asked(file, arguments))
}

/// A page that is written and cannot be shown is written all the same.
fn open_if_asked(file: &Path, arguments: &Arguments) -> ExitCode {
    if arguments.open
        && let Err(why) = open(file)
    {
        say!("note: not opened: {why}");
    }
    ExitCode::SUCCESS
}

/// Writes each figure of the run; the names of those that it has.
fn write_figures(scene: &Scene<'_>, folder: &Path) -> Result<Vec<&'static str>, Problem> {
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    let mut written = Vec::new();
    for figure in figures::all() {
        let Ok(svg) = html::figure_file(scene, figure) else { continue };
        let file = folder.join(format!("{}.svg", figure.name));
        write_named(&file, svg)?;
        written.push(figure.name);
    }
    Ok(written)
}

/// Hands the file to the desktop, in a process of its own that outlives this one.
fn open(file: &Path) -> Result<(), String> {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !set("DISPLAY") && !set("WAYLAND_DISPLAY") {
        return Err("there is no display here (DISPLAY and WAYLAND_DISPLAY are not set)".into());
    }
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.into());
    Command::new("xdg-open")
        .arg(whole)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map(drop)
        .map_err(|error| format!("xdg-open cannot be started ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_run_cannot_leave_its_folder() {
        assert_eq!(file_name("brisk-otter"), "brisk-otter");
        assert_eq!(file_name("../../etc/x y"), "______etc_x_y");
        assert_eq!(file_name(&"a".repeat(500)).len(), 64);
    }
}
