//! `msgpath runs`: the runs that are kept.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::options::Look;
use crate::output;
use crate::verb::Group;
use crate::{looks, runs};
use msgpath_core::foreign::shown;
use msgpath_sys::say;

/// List saved runs
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "runs";
    const GROUP: Group = Group::Keep;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rows = runs::list();
    let text = if arguments.look.json {
        msgpath_present::json::runs(&rows) + "\n"
    } else {
        msgpath_present::terminal::runs(&rows, looks::stdout(&arguments.look))
    };
    output::print(&text)?;
    for error in runs::unreadable() {
        say!("not listed: {}", shown(&error.to_string()));
    }
    Ok(ExitCode::SUCCESS)
}
