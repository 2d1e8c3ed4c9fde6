//! Texts of tracers of others (`perf sched timehist`, `strace`), as the verbs need them: imported, shown.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use msgpath_analyse::tracers::summarise;
use msgpath_core::foreign::shown_json;
use msgpath_core::{Exit, Problem};
use msgpath_present::{answers, html};
use msgpath_record::tracers::{self, MAX_TEXT, MAX_TEXTS, SCHEMA, TracersHeader};
use msgpath_record::utc;

use crate::cli::options::Look;
use crate::output;
use crate::problems::usage;
use crate::{input, looks, place::Place};

/// The texts of files that are all such; `None`: none is.
///
/// # Errors
/// Only some of them are, there are too many, or one cannot be read.
pub(crate) fn texts(files: &[PathBuf]) -> Result<Option<Vec<Vec<u8>>>, Problem> {
    let (of_tracers, others): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(|file| begins_as_one(file));
    if of_tracers.is_empty() {
        return Ok(None);
    }
    if let Some(other) = others.first() {
        return Err(usage(format!("{} is of a tracer, {} is not", of_tracers[0].display(), other.display()))
            .why("calls become a run; what a tracer saw of threads stands by itself")
            .hint(format!("msgpath import {}", of_tracers[0].display())));
    }
    if files.len() > MAX_TEXTS {
        return Err(usage(format!("{} texts of tracers at once (at most {MAX_TEXTS})", files.len())));
    }
    let read = |file: &PathBuf| {
        let cannot = |why| Problem::new("E13", Exit::CannotStart, format!("{} cannot be read ({why})", file.display()));
        input::read(file, MAX_TEXT).map_err(cannot)
    };
    files.iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// Only of regular files: what is taken from a pipe to look at it is gone.
fn begins_as_one(file: &Path) -> bool {
    let regular = file.metadata().is_ok_and(|facts| facts.is_file());
    regular && tracers::begin(file).is_some_and(|begin| tracers::tracer_of(&begin).is_some())
}

/// Keeps the texts of `files`, and shows what they say.
///
/// # Errors
/// None of them says anything, or they cannot be kept.
pub(crate) fn import(
    files: &[PathBuf],
    texts: &[Vec<u8>],
    (name, title): (Option<&str>, Option<&String>),
    look: &Look,
) -> Result<ExitCode> {
    let says =
        |text: &Vec<u8>| tracers::tracer_of(text).is_some_and(|tracer| !tracers::parse(tracer, "", text).is_empty());
    if !texts.iter().any(says) {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let problem = Problem::new("E31", Exit::CannotStart, format!("{} has no calls", names.join(", ")));
        return Err(problem.why("it is the head of a tracer's text, and nothing behind it").into());
    }
    let place = Place::kept(name)?;
    let header = TracersHeader {
        schema: SCHEMA.into(),
        name: place.name.clone(),
        started: utc::now(),
        version: env!("CARGO_PKG_VERSION").into(),
        title: title.cloned(),
        files: files.iter().map(|file| file.display().to_string()).collect(),
        ..TracersHeader::default()
    };
    tracers::write(&place.folder, &header, texts).map_err(Problem::from)?;
    show(&place.folder, look)
}

/// What the texts in `folder` say.
///
/// # Errors
/// They cannot be read.
pub(crate) fn show(folder: &Path, look: &Look) -> Result<ExitCode> {
    let (header, texts) = tracers::read(folder).map_err(Problem::from)?;
    let page = msgpath_present::tracers::page(&summarise(&header, &texts));
    let text = match look.json {
        true => shown_json(&serde_json::to_string_pretty(&page)?).into_owned() + "\n",
        false => answers::text(&page, looks::stdout(look)),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of the texts in `folder`.
///
/// # Errors
/// They cannot be read.
pub(crate) fn page(folder: &Path) -> Result<String, Problem> {
    let (header, texts) = tracers::read(folder)?;
    Ok(html::tracers(&summarise(&header, &texts)))
}
