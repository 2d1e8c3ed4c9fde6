//! `msgpath`: how long a message takes from one program to another, and where that time goes.
//!
//! Command line only: what was typed becomes a validated plan, `run` executes it, and everything printed is read back
//! from the record.
#![forbid(unsafe_code)]

mod again;
mod cli;
mod examples;
mod gates;
mod input;
mod log;
mod looks;
mod measure;
#[cfg(feature = "parquet")]
mod mesh_tables;
mod meshes;
mod metrics;
mod output;
mod place;
mod preset;
mod problems;
mod progress;
mod report;
mod request;
mod runs;
mod strip;
mod tools;
mod tracers;
mod typed;

use std::process::ExitCode;

use msgpath_core::units;
use msgpath_core::{Exit, Problem};
use msgpath_sys::memory;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// The least address space with which a verb begins: its threads have stacks of 2 MiB each.
const LEAST_SPACE: u64 = 32 << 20;

fn main() -> ExitCode {
    msgpath_sys::signal::ignore_file_size();
    #[cfg(feature = "layers")]
    msgpath_layers::register();
    match enough_space().map_err(Into::into).and_then(|()| cli::run(std::env::args_os())) {
        Ok(exit) => exit,
        Err(error) if problems::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            problems::as_problem(&error).exit.code().into()
        }
    }
}

/// Whether the limit on address space, where there is one, leaves what any verb needs.
fn enough_space() -> Result<(), Problem> {
    match memory::address_space() {
        None => Ok(()),
        Some(left) if left >= LEAST_SPACE => {
            memory::one_heap();
            Ok(())
        }
        Some(left) => {
            let (left, least) = (units::size(left), units::size(LEAST_SPACE));
            Err(Problem::new("E58", Exit::CannotStart, format!("the limit on address space leaves {left}"))
                .why(format!("msgpath needs {least} and what its messages take"))
                .hint("a higher limit: ulimit -v KIB, or prlimit --as=BYTES"))
        }
    }
}
