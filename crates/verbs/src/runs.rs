//! The runs that are kept, as the verbs need them: found, read, listed, named.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use msgpath_analyse::headline::headline;
use msgpath_analyse::one_way::OnOneClock;
use msgpath_analyse::{Logs, Summary, between, summarise_with};
use msgpath_core::schema::{MessageRow, RunHeader, Status};
use msgpath_core::{Problem, Traits};
use msgpath_present::terminal::RunRow;
use msgpath_record::store::{Kept, RUN, Store};
use msgpath_record::{MessageLog, Rows, Run, export, store, utc};
use msgpath_sys::say;

use crate::kind::{self, Kind};
use crate::output::OutputFile;
use crate::problems::{cannot_write, usage};
use crate::request::random_seed;

/// Messages that are shown one by one, at most: half a gigabyte.
const MOST_SHOWN: usize = 4_000_000;

/// Name and folder of a run that is about to start.
///
/// # Errors
/// The name that was asked for is taken, or there is nowhere to keep runs.
pub fn new_place(name: Option<&str>) -> Result<(String, PathBuf), Problem> {
    let (root, homeless) = store::made_root().map_err(|error| cannot_write(&std::env::temp_dir(), &error))?;
    if homeless {
        say!("note: neither HOME nor XDG_DATA_HOME is set: runs are kept in {}", root.display());
    }
    let name = name.map_or_else(|| store::new_name(&root, random_seed()), Into::into);
    let folder = root.join(&name);
    if folder.exists() {
        return Err(usage(format!("there is a run named {name} already")).hint("another --name, or leave it out"));
    }
    Ok((name, folder))
}

/// What is kept by this user, of every kind that this program knows.
pub fn store() -> Store {
    Store::new(store::default_root(), kind::ALL.all().map(|kind| kind.stored))
}

/// The folder of the run that the user means; by its name or folder it may be another record, which [`read`] names.
///
/// # Errors
/// E08: there is none.
pub fn find(text: &str) -> Result<PathBuf, Problem> {
    store().find(text, &[&RUN]).map(|(_, folder)| folder)
}

/// The name of a record for a message.
fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
}

/// A run to be told of: read back as far as it is whole, without the times of rates that were not sustained.
///
/// # Errors
/// It cannot be read at all.
pub fn read(folder: &Path) -> Result<Run, Problem> {
    Ok(msgpath_analyse::open_loop::without_times(&recorded(folder)?).into_owned())
}

/// A run as it was recorded.
///
/// # Errors
/// It cannot be read at all.
pub fn recorded(folder: &Path) -> Result<Run, Problem> {
    if let Some(other) = store().kind(folder).and_then(kind::of) {
        return Err(other.is_no_run(&name_of(folder)));
    }
    let mut run = msgpath_record::read(folder)?;
    // A record from before paths declared their traits says nothing of them.
    if run.header.plan.cases.iter().all(|case| case.traits == Traits::default()) {
        run.header.plan.declare(msgpath_paths::traits);
    }
    Ok(run)
}

/// All that the per-message log holds, to be shown one by one.
///
/// # Errors
/// It cannot be opened, or has too many.
pub fn each_message(run: &Run) -> Result<Vec<MessageRow>, Problem> {
    let log = MessageLog::open(run)?;
    let rows: usize = log.index().into_iter().map(|(_, _, rows)| rows).sum();
    if rows > MOST_SHOWN {
        let what = format!("{rows} messages are too many to be shown one by one; the limit is {MOST_SHOWN}");
        return Err(usage(what).hint("msgpath export --to messages-csv"));
    }
    let mut all = Vec::with_capacity(rows);
    log.rounds(&|_, _| true, &mut |rows| all.extend_from_slice(rows));
    Ok(all)
}

/// Puts the range over earlier runs of the same plan on this machine beside the quantiles of a run.
pub fn with_earlier(run: &Run, summary: &mut Summary) {
    let (own, root) = (&run.header, store::default_root());
    // Runs begin at a second; of two in the same one, what was written first is the earlier.
    let begun = |header: &RunHeader| (header.started.clone(), store::changed(&root.join(&header.name)));
    let own_begun = (own.started.clone(), store::changed(&run.folder));
    let earlier =
        |header: &RunHeader| header.name != own.name && begun(header) < own_begun && between::alike(header, own);
    let summaries = store::summaries(&root, between::MOST - 1, earlier);
    between::add(summary, &summaries);
}

/// The record that the user means, where `@last` and `@-2` count runs and the kinds that are `counted`; `None`: a run.
fn find_among(text: &str, counted: impl Fn(&Kind) -> bool) -> Result<(Option<&'static Kind>, PathBuf), Problem> {
    let others = kind::ALL.all().filter(|kind| counted(kind)).map(|kind| kind.stored);
    let counted: Vec<_> = std::iter::once(&RUN).chain(others).collect();
    store().find(text, &counted).map(|(stored, folder)| (kind::of(stored), folder))
}

/// Anything that is kept.
///
/// # Errors
/// E08: there is none.
pub(crate) fn find_any(text: &str) -> Result<(Option<&'static Kind>, PathBuf), Problem> {
    find_among(text, |_| true)
}

/// What may be compared with its like: by `@last` the newest of all that can be, by `@-2` a run.
///
/// # Errors
/// E08: there is none.
pub(crate) fn find_to_compare(text: &str) -> Result<(Option<&'static Kind>, PathBuf), Problem> {
    find_among(text, |kind| kind.diff.is_some() && (!text.starts_with('@') || text == "@last"))
}

/// What can be exported.
///
/// # Errors
/// E08: there is none.
pub(crate) fn find_to_export(text: &str) -> Result<(Option<&'static Kind>, PathBuf), Problem> {
    find_among(text, |kind| !kind.exporters.is_empty())
}

/// The record of one kind that the user means.
///
/// # Errors
/// E08: there is none. E11: it is of another kind.
pub fn find_kind(text: &str, kind: &'static store::Kind) -> Result<PathBuf, Problem> {
    let (found, folder) = store().find(text, &[kind])?;
    if found == kind {
        return Ok(folder);
    }
    let what = format!("{} is a {}, not a {}", name_of(&folder), found.name, kind.name);
    Err(usage(what).hint(format!("msgpath show {text}")))
}

/// Names of all that is kept, the newest first.
pub fn names() -> Vec<String> {
    store().kept().into_iter().map(|kept| kept.name).collect()
}

/// What [`list`] leaves out, and why.
pub fn unreadable() -> Vec<msgpath_record::RecordError> {
    store().unreadable()
}

/// All that is kept, the newest first.
pub fn list() -> Vec<RunRow> {
    let now = SystemTime::now();
    let row = |Kept { name, folder, listing, .. }: Kept| RunRow {
        name,
        ago: utc::parse(&listing.started).and_then(|began| now.duration_since(began).ok()),
        when: listing.started,
        verb: listing.verb,
        target: listing.target,
        cases: listing.cases,
        rounds: listing.rounds,
        // Without an end it was killed, or is still at it: in both cases what is there is a part.
        status: listing.status.unwrap_or(Status::Partial),
        headline: msgpath_record::read_summary(&folder).ok().flatten().and_then(|stored| headline(&stored)),
    };
    store().kept().into_iter().map(row).collect()
}

/// Writes the run to `file` in one of the record's formats.
///
/// # Errors
/// The file cannot be written, or the run has nothing for this format.
pub fn export_to(run: &Run, format: &dyn export::Exporter, file: &OutputFile) -> Result<(), Problem> {
    file.fill(|out| Ok(format.export(run, out)?))
}

/// The logs of a run that its numbers need.
///
/// # Errors
/// As [`Logs::of`].
pub fn logs(run: &Run) -> Result<Logs, Problem> {
    Ok(Logs::of(run)?)
}

/// The messages of a run, those of traced replicas too, on the near end's clock as far as that can be said.
///
/// # Errors
/// The log cannot be opened.
pub fn on_one_clock(run: &Run, summary: &Summary) -> Result<OnOneClock<MessageLog>, Problem> {
    Ok(OnOneClock::new(MessageLog::with_traced(run)?, summary.far_clock.clone()))
}

/// The numbers of a run, with those of its logs.
///
/// # Errors
/// As [`logs`].
pub fn summarise(run: &Run) -> Result<Summary, Problem> {
    Ok(summarise_with(run, &logs(run)?))
}
