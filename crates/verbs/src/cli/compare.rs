//! `msgpath compare`: paths by sizes by threads, interleaved in one run.

use std::process::ExitCode;

use anyhow::Result;

use clap::Args;
use msgpath_core::{Problem, Target};

use crate::measure;
use crate::options::{Common, ComparedOptions, FlowOptions, Options, ServerOptions, TimedOptions};
use crate::request::{Request, Verb, ladder, request};
use crate::typed::{self, List, PathArg};
use crate::verb::{Asked, Group};

/// Paths × sizes × threads, crossover
///
/// Without -x the usual carriers of this machine, in about a minute
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    /// Compare throughput instead of round trips
    #[arg(long, help_heading = "Message and path")]
    stream: bool,
    /// What protocols add to the paths beneath them, TLS, HTTP, gRPC and QUIC as their libraries speak them: tcp,tls,http2, or
    /// all (a build with --features layers)
    #[arg(long, value_name = "PATHS", conflicts_with_all = ["paths", "stream"], hide_possible_values = true)]
    #[arg(help_heading = "Message and path")]
    layers: Option<List<PathArg>>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    timed: TimedOptions,
    #[command(flatten)]
    flow: FlowOptions,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    options: ComparedOptions,
}

impl Arguments {
    fn verb(&self) -> Verb {
        Verb::Compare { stream: self.stream }
    }

    fn options(&self) -> Options {
        let options = Options {
            timed: self.timed.clone(),
            flow: self.flow.clone(),
            server: self.server.clone(),
            compared: self.options.clone(),
            ..self.common.options()
        };
        options.in_units(self.flow.units)
    }

    /// What will be measured.
    pub(super) fn request(&self) -> Result<Request, Problem> {
        if let Some(paths) = &self.layers {
            return ladder(paths, &self.options(), self.target.as_ref());
        }
        request(self.verb(), &self.options(), self.target.as_ref())
    }
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "compare";
    const GROUP: Group = Group::Measure;
    const SHORT: Option<(&str, &str)> = Some((
        "path len time rounds server baseline metric stream launch cpu json verbose",
        "Examples:
  msgpath compare                            the usual paths and sizes, here
  msgpath compare -x tcp,unix -l 64          two paths at one size
  msgpath compare --metric p99               by the tail
  msgpath compare --server './old {port}' --server './new {port}'  your servers",
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
