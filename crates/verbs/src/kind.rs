//! Records that are no runs, as the verbs that take any record need them: `show`, `report`, `verify`, `export`, `diff`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use msgpath_analyse::verify::Verification;
use msgpath_core::Problem;
use msgpath_core::plugged::Plugged;
use msgpath_record::store;

use crate::options::Look;
use crate::problems::usage;

/// Every number of a record once more: its folder, the summary that is stored, the version of this program.
pub type Verify = fn(&Path, Option<&[u8]>, &str) -> Result<Verification, Problem>;
/// Prints what changed between the records in two folders.
pub type Diff = fn(&Path, &Path, &Look) -> Result<ExitCode>;

/// A kind of record of a feature.
pub struct Kind {
    /// How the folder of runs knows it.
    pub stored: &'static store::Kind,
    /// Why what takes runs does not take it, behind its name: `was watched, not measured: it has no rounds`.
    pub no_run: &'static str,
    /// What to type instead, behind `msgpath`, where `{}` is the name: `show {}`.
    pub instead: &'static str,
    /// Prints it.
    pub show: fn(&Path, &Look, Verbosity) -> Result<ExitCode>,
    /// Its page.
    pub page: fn(&Path) -> Result<String, Problem>,
    /// Every number once more.
    pub verify: Verify,
    /// Formats for other programs.
    pub exporters: &'static [Exporter],
    /// Prints what changed between two of them.
    pub diff: Option<Diff>,
    /// What holds one to limits, since `diff --fail-if` is for runs; may be empty.
    pub limits: &'static str,
}

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// The answer, and what it rests on.
    Usual,
    /// `-v`: all of it.
    Verbose,
}

/// A format of a record that is no run.
pub struct Exporter {
    /// What is typed after `--to`.
    pub name: &'static str,
    pub summary: &'static str,
    /// How it is written.
    pub writes: Writes,
}

/// How an [`Exporter`] writes.
#[derive(Clone, Copy)]
pub enum Writes {
    /// A text into one file.
    Text(fn(&Path, &mut dyn Write) -> Result<()>),
    /// Bytes that are nothing for a terminal, into one file.
    Bytes(fn(&Path, &mut dyn Write) -> Result<()>),
    /// Files into a folder, which is made; their names.
    Folder(fn(&Path, &Path) -> Result<Vec<String>, Problem>),
}

impl Kind {
    /// Why what takes runs does not take this one, which is called `name`.
    pub fn is_no_run(&self, name: &str) -> Problem {
        let instead = self.instead.replace("{}", name);
        usage(format!("{name} {}", self.no_run)).hint(format!("msgpath {instead}"))
    }
}

/// All kinds of the features.
pub(crate) static ALL: Plugged<Kind> = Plugged::new();

/// The kind that the folder of runs knows so; `None`: runs.
pub(crate) fn of(stored: &store::Kind) -> Option<&'static Kind> {
    ALL.all().find(|kind| kind.stored == stored)
}
