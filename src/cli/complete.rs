//! `msgpath __complete WHAT`: names for the shells, one a line.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

/// Names for the shells
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Which names
    what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    Paths,
    Runs,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let names: Vec<String> = match arguments.what {
        What::Paths => {
            msgpath_paths::all().into_iter().map(|entry| entry.name.to_string()).chain(["all".into()]).collect()
        }
        What::Runs => crate::runs::names(),
    };
    crate::output::print(names.into_iter().map(|name| name + "\n").collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
