//! Carries out the runs of a preset, one process each: a run may move into a network namespace, and a process that has
//! moved stays there. Then everything is read back from the records.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::answers::{self, Missing};
use anyhow::Result;
use msgpath_core::foreign::shown;
use msgpath_core::{Exit, Problem};
use msgpath_present::answers as present;
use msgpath_record::store;
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::say;

use super::{Found, folder};
use msgpath_verbs::looks;
use msgpath_verbs::options::Look;
use msgpath_verbs::output;
use msgpath_verbs::report::Reported;
use msgpath_verbs::request::random_seed;

/// How a preset is carried out.
pub(crate) struct Wanted<'a> {
    /// Options that were typed, for every run.
    pub(crate) typed: &'a [String],
    /// Where table, CSV, pictures and page go.
    pub(crate) folder: Option<PathBuf>,
    /// All of the page, and the tables of each run.
    pub(crate) verbose: bool,
    /// Colours, characters, JSON.
    pub(crate) look: &'a Look,
}

/// Carries out a preset, prints its page and writes its folder.
///
/// # Errors
/// No run could be made, or something could not be written.
pub(crate) fn carry_out(found: &Found, wanted: &Wanted<'_>) -> Result<ExitCode> {
    let preset = &found.preset;
    if let Some(folder) = &wanted.folder {
        folder::can_be_made(folder)?;
    }
    let stop = msgpath_sys::signal::stop_flag();
    let base = store::new_name(&store::default_root(), random_seed());
    let (mut reported, mut missing) = (Vec::new(), Vec::new());
    let mut code = Exit::Ok.code();
    for (at, run) in preset.runs.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            missing.push(Missing { name: run.name.clone(), why: "interrupted before it began".into() });
            continue;
        }
        let name = format!("{base}-{}", run.name);
        let mut words = super::typed::words(preset, run, wanted.typed)?;
        if preset.runs.len() > 1 {
            // What is said of a run is no longer so where a target stands for its namespaces.
            let replaced =
                run.options.iter().any(|own| own.name == "between") && !words.iter().any(|own| own == "--between");
            let about = if replaced { about(&words.join(" ")) } else { about(&run.about) };
            say!("run {} of {}: {}{}", at + 1, preset.runs.len(), run.name, shown(&about));
        }
        words.splice(1..1, ["--name".to_owned(), name.clone()]);
        // The answers of a page stand for the screens of its runs.
        let answered = preset.page.is_some() || !preset.published.is_empty();
        let ended = child(&words, wanted.look.json || answered && !wanted.verbose)?;
        if ended != Exit::Ok.code() && (code == Exit::Ok.code() || ended == Exit::Interrupted.code()) {
            code = ended;
        }
        // What was recorded is shown, however the run ended.
        match Reported::find(&name) {
            Ok(one) => reported.push((run.name.clone(), one)),
            Err(_) => missing.push(Missing {
                name: run.name.clone(),
                why: format!("the run ended with exit code {ended}; it said why above"),
            }),
        }
    }
    if reported.is_empty() {
        let exit = if stop.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::CannotStart };
        return Err(Problem::new("E05", exit, format!("no run of {} could be made", found.name)).into());
    }
    let parts: Vec<answers::Part<'_>> = reported
        .iter()
        .map(|(name, one)| answers::Part { name, run: &one.run, summary: &one.summary, logs: &one.logs })
        .collect();
    let page_name = preset.page.as_ref().map(|(page, _)| page.as_str());
    let page = answers::page(preset, &format!("{}: {}", found.name, preset.summary), &parts, missing);
    let style = looks::stdout(wanted.look);
    let text = match wanted.look.json {
        true => msgpath_present::json::preset(&page) + "\n",
        false if wanted.verbose => present::text(&page, style),
        false => present::brief(&page, style),
    };
    output::print(&text)?;
    if !wanted.look.json && wanted.folder.is_none() {
        output::print(&kept_page(page_name, &page, &parts)?)?;
    }
    if let Some(folder) = &wanted.folder {
        let written = folder::write(folder, page_name, &page, &parts, &reported)?;
        say!("note: {} has {}", shown(&folder.to_string_lossy()), written.join(", "));
    }
    Ok(code.into())
}

/// Keeps the page beside the first run, where no folder was named; where it is, and where the runs are.
fn kept_page(name: Option<&str>, page: &answers::Page, parts: &[answers::Part<'_>]) -> Result<String, Problem> {
    let Some(first) = parts.first().map(|part| part.run) else { return Ok(String::new()) };
    let files = folder::write_page(&first.folder, name, page, parts)?;
    let more = match parts.len() {
        1 => String::new(),
        runs => format!("   and {} more: msgpath runs", runs - 1),
    };
    Ok(format!(
        "\npage  {}\nruns  msgpath show {}{more}\n",
        shown(&files.display().to_string()),
        shown(&first.header.name)
    ))
}

fn about(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(", {text}") }
}

/// Runs `msgpath` with these words; the exit code. A request to stop reaches it as well: from the terminal, or from here.
fn child(words: &[String], silent: bool) -> Result<u8, Problem> {
    let mut command = child::this_program();
    command.args(words).stdin(Stdio::null());
    if silent {
        command.stdout(Stdio::null());
    }
    let cannot =
        |error: std::io::Error| Problem::new("E19", Exit::CannotStart, format!("a run could not be started: {error}"));
    let mut child = child::own(&mut command, MakerEnds::Asks).spawn().map_err(cannot)?;
    let stop = msgpath_sys::signal::stop_flag();
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Unfinished.code()));
        }
        if stop.load(Ordering::Relaxed) && !asked {
            asked = true;
            // A second SIGTERM is not impatience (signal.rs), so it does not matter that the terminal told it already.
            msgpath_sys::signal::ask_to_end(child.id());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
