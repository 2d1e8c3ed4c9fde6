//! What can go wrong with a run on disk, and how the user reads it.

use std::io;
use std::path::PathBuf;

use msgpath_core::{Exit, Problem, workload};

/// Which other version of msgpath wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBy {
    Newer,
    /// An earlier one whose form is not read any more.
    Older,
}

impl std::fmt::Display for WrittenBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WrittenBy::Newer => "written by a newer version of msgpath",
            WrittenBy::Older => "written by an older version of msgpath that this one does not read",
        })
    }
}

/// A run that cannot be written, read or exported.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder of a new run is there already and holds something.
    #[error("{} is not empty: a run is never written over another", folder.display())]
    NotEmpty { folder: PathBuf },
    /// A new run could not be started on disk.
    #[error("{} cannot be written ({source})", file.display())]
    Create {
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A block could not be written, for example because the disk is full.
    #[error("{} cannot be written further ({source})", file.display())]
    Write {
        file: PathBuf,
        /// What is whole on disk all the same.
        kept: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process records this run at this moment.
    #[error("{} is still being recorded", folder.display())]
    Busy { folder: PathBuf },
    /// A value that the record refuses because it could not be read back.
    #[error("this cannot be recorded: {0}")]
    Unrecordable(String),
    /// The folder holds no `run.json`.
    #[error("{:?} is not a run", folder.display().to_string())]
    NotARun { folder: PathBuf },
    /// A file of the run cannot be read.
    #[error("{} cannot be read ({source})", file.display())]
    Read {
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another version of msgpath wrote the run.
    #[error("{} was {by}", file.display())]
    OtherVersion {
        /// The file that shows it.
        file: PathBuf,
        by: WrittenBy,
    },
    /// Its messages do what no feature of this program knows.
    #[error("{} is of a workload that this msgpath lacks: {name}", file.display())]
    NoWorkload {
        /// `run.json`.
        file: PathBuf,
        name: String,
    },
    /// `run.json` is not a header.
    #[error("{} is damaged: {why}", file.display())]
    BadHeader {
        /// `run.json`.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A format of rows was asked for of which the run has none.
    #[error("run {run} has no {what}")]
    NoRows {
        run: String,
        /// What it lacks: `per-message log`.
        what: &'static str,
        /// How that comes.
        why: &'static str,
        /// Which format it can be exported to.
        hint: &'static str,
    },
    /// The output of an export could not be written.
    #[error("the export cannot be written ({0})")]
    Export(io::Error),
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Problem {
        let what = error.to_string();
        match error {
            RecordError::NotEmpty { .. } => Problem::new("E12", Exit::CannotStart, what).hint("another folder or name"),
            RecordError::Create { .. } => {
                Problem::new("E12", Exit::CannotStart, what).hint("a folder that you may write to, with free space")
            }
            RecordError::Write { kept, .. } => Problem::new("E12", Exit::Unfinished, what).why(kept),
            RecordError::Busy { .. } => Problem::new("E59", Exit::CannotStart, what)
                .why("two processes would write into one run")
                .hint("wait until it has ended, or end it"),
            RecordError::Export(_) => Problem::new("E12", Exit::Unfinished, what),
            RecordError::Unrecordable(_) => Problem::new("E12", Exit::Unfinished, what).why(
                "the figures would be unreadable or absurd later, so the run stopped; this is a defect of msgpath",
            ),
            RecordError::NotARun { .. } => {
                Problem::new("E08", Exit::Usage, what).why("it has no run.json    list: msgpath runs")
            }
            RecordError::Read { .. } | RecordError::BadHeader { .. } => Problem::new("E13", Exit::CannotStart, what),
            RecordError::OtherVersion { .. } => Problem::new("E37", Exit::CannotStart, what)
                .hint("the version of msgpath that wrote it (`version` in run.json)"),
            RecordError::NoWorkload { .. } => Problem::new("E37", Exit::CannotStart, what)
                .why(format!("it has {}", workload::names()))
                .hint("the msgpath that wrote it: a newer one, or one that was built with that feature"),
            RecordError::NoRows { why, hint, .. } => Problem::new("E14", Exit::CannotStart, what).why(why).hint(hint),
        }
    }
}
