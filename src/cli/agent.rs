//! What msgpath starts of itself: the far end, spoken to over standard input and output, the holder of a namespace,
//! and the relay of a lab.

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

/// The near end of one round, as it runs under valgrind
#[derive(Args, Debug)]
pub(super) struct NearArguments {
    /// The round, as JSON
    #[arg(value_name = "TASK")]
    pub(super) task: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    Ok(msgpath_run::agent(&arguments.place))
}

/// Holds a network namespace until its standard input ends.
pub(super) fn hold() -> Result<ExitCode> {
    msgpath_run::lab::hold()?;
    Ok(ExitCode::SUCCESS)
}

/// Passes on the frames of a lab whose kernel has no netem.
pub(super) fn relay() -> Result<ExitCode> {
    msgpath_run::lab::relay()?;
    Ok(ExitCode::SUCCESS)
}
