//! What msgpath starts of itself: the far end, spoken to over standard input and output, and the holder of a namespace.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

/// The far end
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Where it moves to first: a namespace, its own address there, the near end's
    #[arg(value_name = "PLACE", num_args = 0..=3)]
    place: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    Ok(msgpath_run::agent(&arguments.place))
}

/// Holds a network namespace until its standard input ends.
pub(super) fn hold() -> Result<ExitCode> {
    msgpath_run::lab::hold()?;
    Ok(ExitCode::SUCCESS)
}
