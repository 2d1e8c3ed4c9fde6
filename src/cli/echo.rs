//! `msgpath echo`: one message there and back, repeatedly.

use std::process::ExitCode;

use clap::Args;
use msgpath_core::{Problem, Target};

use super::options::{EvidenceOptions, Options};
use crate::measure;
use crate::request::{Request, Verb, request};
use crate::typed;

/// One message there and back, repeatedly
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    /// One row per message and one column per size, from the very first message on (with -c N)
    #[arg(long, help_heading = "Evidence")]
    each: bool,
    /// With --each: a new connection for every message
    #[arg(long, help_heading = "Evidence", requires = "each")]
    fresh: bool,
    #[command(flatten)]
    options: Options,
}

impl Arguments {
    fn verb(&self) -> Verb {
        Verb::Echo { each: self.each, fresh: self.fresh }
    }

    /// Whether single messages are shown, and what the result is held to.
    pub(super) fn asked(self) -> (bool, EvidenceOptions) {
        (self.each, self.options.evidence)
    }

    /// What will be measured.
    pub(super) fn request(&self) -> Result<Request, Problem> {
        request(self.verb(), &self.options, self.target.as_ref())
    }
}

pub(super) fn run(arguments: &Arguments, words: Vec<String>) -> anyhow::Result<ExitCode> {
    measure::measure(arguments.verb(), arguments.request()?, &arguments.options, words)
}
