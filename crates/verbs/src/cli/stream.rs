//! `msgpath stream`: one-way flow, counted by the receiver.

use std::process::ExitCode;

use anyhow::Result;

use clap::Args;
use msgpath_core::{Problem, Target};

use crate::measure;
use crate::options::{Common, FlowOptions, Options};
use crate::request::{Request, Verb, request};
use crate::typed;
use crate::verb::{Asked, Group};

use super::ASIDE;

/// One-way flow: throughput
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flow: FlowOptions,
}

impl Arguments {
    fn verb(&self) -> Verb {
        Verb::Stream
    }

    fn options(&self) -> Options {
        Options { flow: self.flow.clone(), ..self.common.options() }.in_units(self.flow.units)
    }

    /// What will be measured.
    pub(super) fn request(&self) -> Result<Request, Problem> {
        request(self.verb(), &self.options(), self.target.as_ref())
    }
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "stream";
    const GROUP: Group = Group::Measure;
    const ASIDE: &[&str] = ASIDE;
    const SHORT: Option<(&str, &str)> = Some((
        "path len pieces time rounds connections reverse launch between cpu json verbose",
        "Examples:
  msgpath stream                             messages of 128 KiB over TCP, here
  msgpath stream HOST -R                     the other machine sends
  msgpath stream --clients 8                 eight clients: sum and fairness
  msgpath stream --pieces 15x100             15 buffers of 100 bytes a message",
    ));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        measure::measure(self.verb(), Arguments::request(self)?, &self.options(), words)
    }

    fn request(&self) -> Option<Result<Request, Problem>> {
        Some(Arguments::request(self))
    }

    fn asked(&self) -> Asked {
        Asked::of(false, &self.options())
    }
}
