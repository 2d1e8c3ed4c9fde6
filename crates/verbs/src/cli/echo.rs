//! `msgpath echo`: one message there and back, repeatedly.

use std::process::ExitCode;

use anyhow::Result;

use clap::Args;
use msgpath_core::{Problem, Target};

use crate::measure;
use crate::options::{Common, Options, ServerOptions, TimedOptions};
use crate::request::{Request, Verb, request};
use crate::typed;
use crate::verb::{Asked, Group};

use super::ASIDE;

/// One message there and back, repeatedly
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    /// One row per message and one column per size, from the very first message on (with -c N)
    #[arg(long, help_heading = "Evidence")]
    each: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    timed: TimedOptions,
    #[command(flatten)]
    server: ServerOptions,
}

impl Arguments {
    fn verb(&self) -> Verb {
        Verb::Echo { each: self.each, fresh: self.common.settings().fresh }
    }

    fn options(&self) -> Options {
        Options { timed: self.timed.clone(), server: self.server.clone(), ..self.common.options() }
    }

    /// What will be measured.
    pub(super) fn request(&self) -> Result<Request, Problem> {
        request(self.verb(), &self.options(), self.target.as_ref())
    }
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "echo";
    const GROUP: Group = Group::Measure;
    const ASIDE: &[&str] = ASIDE;
    const SHORT: Option<(&str, &str)> = Some((
        "path len time rounds connections rate server each launch set json verbose",
        "Examples:
  msgpath echo                               64 bytes over TCP, on this machine
  msgpath echo HOST --launch ssh             to another machine, by ssh
  msgpath echo --rate 1k..64k -t 1s          a load curve with its knee
  msgpath echo --server './server {port}'    your own server
  msgpath echo --fail-if 'p99 > 1ms'         for CI: exit 1 where that is sure",
    ));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        measure::measure(self.verb(), Arguments::request(self)?, &self.options(), words)
    }

    fn request(&self) -> Option<Result<Request, Problem>> {
        Some(Arguments::request(self))
    }

    fn asked(&self) -> Asked {
        Asked::of(self.each, &self.options())
    }
}
