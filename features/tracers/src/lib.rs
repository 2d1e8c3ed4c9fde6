//! Texts of tracers of others (`perf sched timehist`, `strace`): `msgpath import` keeps them as they are, `show` and `report` say what
//! they say of waits for a CPU, of calls and of threads in the course of time.
//!
//! | module | what |
//! |---|---|
//! | `parse` | the texts, line by line |
//! | `record` | the folder in which they are kept as they were |
//! | `analyse` | waits for a CPU, calls and their times, threads in the course of time |
//! | `present` | questions and answers of these; the page with a lane for each thread |
#![forbid(unsafe_code)]

pub mod analyse;
#[cfg(test)]
mod fifos;
pub mod parse;
mod present;
pub mod record;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use msgpath_analyse::verify::Verification;
use msgpath_core::foreign::shown_json;
use msgpath_core::{Exit, Problem};
use msgpath_present::answers;
use msgpath_record::utc;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::importers::{ForeignFile, Imported, Importer};
use msgpath_verbs::kind::{Kind, Verbosity};
use msgpath_verbs::options::Look;
use msgpath_verbs::place::Place;
use msgpath_verbs::problems::usage;
use msgpath_verbs::{input, looks, output};

use analyse::summarise;
use parse::{LONGEST_BEGIN, Text, Tracer};
use record::{MAX_TEXT, MAX_TEXTS, SCHEMA, TRACERS, TracersHeader};

pub static FEATURE: Feature = Feature {
    kinds: &[Kind {
        stored: &TRACERS,
        no_run: "has texts of tracers, and no rounds",
        instead: "show {}, msgpath report {}",
        show,
        page,
        verify,
        exporters: &[],
        diff: None,
        limits: "",
    }],
    importers: &[Importer {
        are: "of a tracer",
        forms: "text of a tracer",
        written_by: "what strace or perf sched timehist wrote",
        help: HELP,
        options: |import| import,
        takes: |file| tracer_of(file).is_some(),
        import,
    }],
    ..NOTHING
};

const HELP: &str = "\
Tracers: strace -f -ttt -T -o FILE, strace -c -o FILE, perf sched timehist > FILE. Each text stands by itself: \
waits for a CPU, calls and their times, threads in the course of time (msgpath report).";

/// Who printed a file; its first line may be longer than what is known of it.
fn tracer_of(file: &ForeignFile) -> Option<Tracer> {
    let is_cut = !file.begin.contains(&b'\n');
    let known = parse::tracer_of(&file.begin);
    known.or_else(|| parse::tracer_of(&file.first(LONGEST_BEGIN as u64).ok().filter(|_| is_cut)?))
}

/// Keeps the texts, and shows what they say.
fn import(imported: Imported<'_>) -> Result<ExitCode> {
    let Imported { files, name, title, look, .. } = imported;
    if files.len() > MAX_TEXTS {
        return Err(usage(format!("{} texts of tracers at once (at most {MAX_TEXTS})", files.len())).into());
    }
    let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    let read = |(file, name): (&ForeignFile, &String)| {
        let cannot = |why| Problem::new("E13", Exit::CannotStart, format!("{name} cannot be read ({why})"));
        input::read(&file.source(), MAX_TEXT).map_err(cannot)
    };
    let texts: Vec<Vec<u8>> = files.iter().zip(&names).map(read).collect::<Result<_, _>>()?;
    let parsed = |text: &Vec<u8>| parse::tracer_of(text).map(|tracer| parse::parse(tracer, "", text));
    let parsed: Vec<Text> = texts.iter().filter_map(parsed).collect();
    if parsed.iter().all(Text::is_empty) {
        let problem = Problem::new("E31", Exit::CannotStart, format!("{} has no calls", names.join(", ")));
        let why = "the times of all its lines are 0, as perf sched timehist -I prints them: it tells of idle CPUs, not of threads";
        let timeless = parsed.iter().any(|text| text.lines.timeless > 0);
        return Err(if timeless {
            problem.why(why).hint("perf sched timehist without -I")
        } else {
            problem.why("it is the head of a tracer's text, and nothing behind it")
        }
        .into());
    }
    let place = Place::kept(name)?;
    let header = TracersHeader {
        schema: SCHEMA.into(),
        name: place.name.clone(),
        started: utc::now(),
        version: env!("CARGO_PKG_VERSION").into(),
        title: title.cloned(),
        files: names,
        ..TracersHeader::default()
    };
    record::write(&place.folder, &header, &texts).map_err(Problem::from)?;
    show(&place.folder, look, Verbosity::Usual)
}

/// What the texts in `folder` say.
fn show(folder: &Path, look: &Look, _: Verbosity) -> Result<ExitCode> {
    let (header, texts) = record::read(folder).map_err(Problem::from)?;
    let page = present::page(&summarise(&header, &texts));
    let text = match look.json {
        true => shown_json(&serde_json::to_string_pretty(&page)?).into_owned() + "\n",
        false => answers::text(&page, looks::stdout(look)),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of the texts in `folder`.
fn page(folder: &Path) -> Result<String, Problem> {
    let (header, texts) = record::read(folder)?;
    Ok(present::html(&summarise(&header, &texts)))
}

/// What can be checked of them: that they are the texts which were imported.
fn verify(folder: &Path, _: Option<&[u8]>, version: &str) -> Result<Verification, Problem> {
    let (header, texts) = record::read(folder)?;
    Ok(analyse::verify(&header, texts.len(), version))
}
