//! The command line: what was typed becomes a validated plan, `run` executes it, and everything printed is read back from the record.
//! Here are the verbs of the base, and what verbs of features stand on.
#![forbid(unsafe_code)]

pub mod added;
pub mod again;
pub mod beside;
pub mod cli;
pub mod command;
pub mod feature;
pub mod gates;
pub mod importers;
pub mod input;
pub mod kind;
pub mod log;
pub mod looks;
pub mod measure;
pub mod metrics;
pub mod options;
pub mod output;
pub mod place;
pub mod places;
pub mod problems;
pub mod progress;
pub mod report;
pub mod request;
pub mod runs;
pub mod servers;
pub mod settings;
mod strip;
pub mod typed;
pub mod verb;
pub mod verdict;

use std::process::ExitCode;
use std::sync::Once;

use feature::Feature;
use msgpath_core::units;
use msgpath_core::{Exit, Problem};
use msgpath_sys::memory;
use msgpath_sys::say;

/// The least address space with which a verb begins: its threads have stacks of 2 MiB each.
const LEAST_SPACE: u64 = 32 << 20;
/// The least stack of a thread.
const LEAST_STACK: u64 = 1 << 20;

/// The whole program: carries out what was typed, with the verbs of the base and of `features`, and says what went wrong.
pub fn main(features: &'static [&'static Feature]) -> ExitCode {
    begin(features);
    msgpath_sys::signal::ignore_file_size();
    match enough_space().map_err(Into::into).and_then(|()| cli::run(std::env::args_os())) {
        Ok(exit) => exit,
        Err(error) => {
            say!("{error:#}");
            problems::as_problem(&error).exit.code().into()
        }
    }
}

/// Makes the verbs of the base known, and what `features` add to it: before anything else, once, and then for whoever calls it as well.
pub fn begin(features: &'static [&'static Feature]) {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        feature::set(features);
        verb::list(cli::BASE, &features.iter().flat_map(|feature| feature.verbs).collect::<Vec<_>>());
    });
}

/// Whether the limits on stacks and on address space, where there are some, leave what any verb needs.
fn enough_space() -> Result<(), Problem> {
    let least = units::size(LEAST_STACK);
    if let Some(stack) = memory::stack().filter(|stack| *stack < LEAST_STACK) {
        return Err(no_space(format!("the limit on the stack is {}", units::size(stack)))
            .why(format!("msgpath needs {least}"))
            .hint("a higher limit: ulimit -s KIB, or prlimit --stack=BYTES"));
    }
    // As the standard library reads it.
    let threads = std::env::var("RUST_MIN_STACK").ok().and_then(|text| text.parse().ok());
    if let Some(stack) = threads.filter(|stack| *stack < LEAST_STACK) {
        return Err(no_space(format!("RUST_MIN_STACK gives a thread {}", units::size(stack)))
            .why(format!("msgpath needs {least}"))
            .hint("unset RUST_MIN_STACK"));
    }
    match memory::address_space() {
        None => Ok(()),
        Some(left) if left >= LEAST_SPACE => {
            memory::one_heap();
            Ok(())
        }
        Some(left) => Err(no_space(format!("the limit on address space leaves {}", units::size(left)))
            .why(format!("msgpath needs {} and what its messages take", units::size(LEAST_SPACE)))
            .hint("a higher limit: ulimit -v KIB, or prlimit --as=BYTES")),
    }
}

fn no_space(what: String) -> Problem {
    Problem::new("E58", Exit::CannotStart, what)
}
