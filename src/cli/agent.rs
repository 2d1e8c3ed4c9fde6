//! `msgpath __agent`: the far end, started by a launcher and spoken to over standard input and output.

use std::process::ExitCode;

use anyhow::Result;

pub(super) fn run() -> Result<ExitCode> {
    Ok(msgpath_run::agent())
}
