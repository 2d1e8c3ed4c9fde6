//! `msgpath __vehicle`: one process of a periodic run, spoken to over standard input and output.

use std::process::ExitCode;

use anyhow::Result;

pub(super) fn run() -> Result<ExitCode> {
    Ok(msgpath_run::periodic::process())
}
