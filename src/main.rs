//! `msgpath`: how long a message takes from one program to another, and where that time goes.
//!
//! Command line only: what was typed becomes a validated plan, `run` executes it, and everything printed is read back
//! from the record.
#![forbid(unsafe_code)]

mod cli;
mod input;
mod log;
mod looks;
mod measure;
mod place;
mod preset;
mod problems;
mod progress;
mod report;
mod request;
mod runs;
mod strip;
mod typed;

use std::process::ExitCode;

fn main() -> ExitCode {
    msgpath_sys::signal::ignore_file_size();
    match cli::run(std::env::args_os()) {
        Ok(exit) => exit,
        Err(error) if problems::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            problems::as_problem(&error).exit.code().into()
        }
    }
}
