//! `msgpath __complete WHAT`: names for the shells, one a line.

use crate::verb::Group;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

/// Names for the shells
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Which names
    what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    Paths,
    Runs,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "__complete";
    const GROUP: Group = Group::Hidden;
    const OFTEN: bool = true;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let names: Vec<String> = match arguments.what {
        What::Paths => {
            msgpath_paths::all().into_iter().map(|entry| entry.name.to_string()).chain(["all".into()]).collect()
        }
        What::Runs => crate::runs::names(),
    };
    crate::output::print(names.into_iter().map(|name| name + "\n").collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
