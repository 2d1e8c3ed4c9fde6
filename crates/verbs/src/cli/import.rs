//! `msgpath import`: what other programs wrote, as a run or as a record of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::{Exit, Problem};

use crate::importers::{self, ForeignFile, Imported, Options};
use crate::options::Look;
use crate::typed;
use crate::verb::Group;

/// Logs of calls as a run; what other programs wrote
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// What another program wrote, as it is
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// What the run is called [default: two random words]
    #[arg(long, value_name = "NAME", value_parser = typed::run_name)]
    name: Option<String>,
    /// A title, for the report and for exports that have one
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    own: Options,
    /// Findings and warnings only
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "import";
    const GROUP: Group = Group::Keep;
    const BESIDE: Option<&str> = Some("write other formats, read foreign logs");

    fn adapted(command: clap::Command) -> clap::Command {
        let all: Vec<&str> = importers::ALL.all().map(|importer| importer.help).collect();
        command.after_help(format!("What each file is, its content tells.\n\n{}", all.join("\n\n")))
    }

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        exist(&self.files)?;
        let files: Vec<ForeignFile> = self.files.iter().cloned().map(ForeignFile::open).collect::<Result<_, _>>()?;
        let importer = importers::of(&files)?;
        self.own.misplaced(importer)?;
        let Self { name, title, quiet, look, own, .. } = self;
        let (name, title) = (name.as_deref(), title.as_ref());
        (importer.import)(Imported { files, words, name, title, quiet: *quiet, look, typed: &own.0 })
    }
}

/// Titles come before files in tools of others, and people type them so.
fn exist(files: &[PathBuf]) -> Result<(), Problem> {
    let (there, missing): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(|file| file.exists());
    let Some(missing) = missing.first() else { return Ok(()) };
    let text = missing.display().to_string();
    let problem = Problem::new("E29", Exit::Usage, format!("{text:?} is not a file"));
    if there.is_empty() {
        return Err(problem.hint("what another program wrote: msgpath import client.log server.log"));
    }
    let others: Vec<String> = there.iter().map(|file| file.display().to_string()).collect();
    Err(problem
        .why("the lab's tools take a title before the files; here it is an option, and files come in any order")
        .hint(format!("msgpath import --title {text:?} {}", others.join(" "))))
}
