//! `msgpath stream`: one-way flow, counted by the receiver.

use std::process::ExitCode;

use clap::Args;
use msgpath_core::{Problem, Target};

use super::options::Options;
use crate::measure;
use crate::request::{Request, Verb, request};
use crate::typed;

/// One-way flow: throughput
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    #[command(flatten)]
    pub(super) options: Options,
}

impl Arguments {
    fn verb(&self) -> Verb {
        Verb::Stream
    }

    /// What will be measured.
    pub(super) fn request(&self) -> Result<Request, Problem> {
        request(self.verb(), &self.options, self.target.as_ref())
    }
}

pub(super) fn run(arguments: &Arguments, words: Vec<String>) -> anyhow::Result<ExitCode> {
    measure::measure(arguments.verb(), arguments.request()?, &arguments.options, words)
}
