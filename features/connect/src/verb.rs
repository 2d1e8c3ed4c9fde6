//! `msgpath connect`: connections, each made for a request or a few.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::plan::Load;
use msgpath_core::units;
use msgpath_core::{Exit, PathName, Problem, Target};
use msgpath_paths::traits;
use msgpath_verbs::measure;
use msgpath_verbs::options::{Common, Options, ServerOptions, TimedOptions};
use msgpath_verbs::problems::usage;
use msgpath_verbs::request::{Request, Verb, request};
use msgpath_verbs::typed::{self, List};
use msgpath_verbs::verb::{Asked, Group};

use crate::agent::BLOCK;
use crate::record::{self, Close, MOST_REQUESTS};
use crate::workload::CONNECT;

/// Rounds of a case: few and long, so that a SYN that went again after a second still counts in its round.
const ROUNDS: u32 = 10;
const VERB: Verb = Verb::Answered(&CONNECT, ROUNDS);
/// Keys of `-o` that it takes.
const KEYS: [&str; 10] =
    ["ip", "bind", "device", "tos", "arrivals", "service-time", "restarts", "seed", "message-log", "extend"];

/// Connections a second, and how long each takes
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where the far end is [default: started here, on another CPU]
    #[arg(value_name = "TARGET", value_parser = typed::target)]
    target: Option<Target>,
    #[command(flatten)]
    common: Common,
    /// Requests on a connection, one after the other
    #[arg(long, value_name = "N", value_parser = typed::number, default_value_t = 1, help_heading = "Message and path")]
    requests: u32,
    /// Size of the reply [default: as -l, which is 1]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, help_heading = "Message and path")]
    reply: Option<u64>,
    /// Connections a second, begun by a schedule and timed from the intended start: 1k, 1k,5k or 1k..16k (steps of ×2), or shares of
    /// the capacity: 50%; with -P at most so many are under way
    #[arg(long, value_name = "RATES", value_parser = typed::rates, help_heading = "Message and path")]
    rate: Option<List<typed::Offered>>,
    /// Who closes a connection
    #[arg(long, value_enum, value_name = "WHO", default_value_t, help_heading = "Message and path")]
    close: Close,
    /// Connections that wait until the server accepts them, at most (listen) [default: as many as the kernel takes]
    #[arg(long, value_name = "N", value_parser = typed::number, help_heading = "Message and path")]
    backlog: Option<u32>,
    /// TLS 1.3 on each connection, its handshake timed apart (a build with --features tls)
    #[arg(long, help_heading = "Message and path")]
    tls: bool,
}

impl Arguments {
    fn options(&self) -> Options {
        let mut options = self.common.options();
        options.timed = TimedOptions { reply: self.reply, rate: self.rate.clone(), ..TimedOptions::default() };
        // One after the other, each call waits, as those of a plain program do. More are told apart by epoll.
        let one = options.message.connections.is_none_or(|connections| connections == 1)
            && options.message.threads.as_ref().is_none_or(|threads| threads.0 == [1]);
        let blocks = one && self.rate.is_none() && !self.tls;
        options.server = ServerOptions { event_loop: !blocks, ..ServerOptions::default() };
        options.settings.wait = Some(if blocks { BLOCK } else { "epoll" }.into());
        options.message.len.get_or_insert_with(|| List(vec![1]));
        options
    }

    /// What will be measured. What are connections of an echo are slots here: each has one connection after the other.
    fn request(&self) -> Result<Request, Problem> {
        let options = self.options();
        if options.message.pieces.is_some() {
            return Err(usage("--pieces has no meaning for connect: a request is one buffer").hint("-l SIZE"));
        }
        if self.requests > MOST_REQUESTS {
            return Err(usage(format!("at most {MOST_REQUESTS} requests on a connection")).hint("a smaller --requests"));
        }
        if self.tls && !cfg!(feature = "tls") {
            return Err(Problem::new("E136", Exit::Usage, "this build has no TLS, which --tls needs")
                .hint("cargo build --release --features tls"));
        }
        options.settings.only("connect", &KEYS)?;
        let mut request =
            request(VERB, &options, self.target.as_ref()).map_err(|problem| match problem.code.as_str() {
                "E45" => problem.hint("no wait in -x: several connections under way have epoll"),
                _ => problem,
            })?;
        let plan = &mut request.plan;
        if let Some(case) = plan.cases.iter().find(|case| !is_made_by_connect(&case.path)) {
            return Err(usage(format!("connect makes connections of TCP and Unix sockets, not of {}", case.path))
                .hint("-x tcp,unix"));
        }
        for case in &mut plan.cases {
            let slots = case.connections / case.threads;
            if case.load == Load::Closed || options.message.connections.is_some() {
                case.inflight = slots;
            }
            case.connections = case.threads;
        }
        // Each connection is a new one: none has a beginning that is dropped.
        plan.trim = 0;
        plan.events = false;
        let Self { requests, close, backlog, tls, .. } = *self;
        plan.parts.set(record::Asked { requests, close, backlog, tls });
        plan.validate()?;
        Ok(request)
    }
}

/// Whether connect(2) makes a stream of it, which is written by send(2) and awaited in a set or a call.
fn is_made_by_connect(path: &PathName) -> bool {
    let kind = traits(path);
    let parts = path.method == "send" && ["epoll", BLOCK].contains(&path.wait.as_str());
    parts
        && path.setting.is_none()
        && kind.connects
        && !kind.framed
        && !kind.lossy
        && msgpath_paths::transport(&path.transport).is_some_and(plain)
}

/// A transport of the kernel, not a protocol on top of one.
fn plain(transport: &dyn msgpath_paths::Transport) -> bool {
    transport.over().is_empty() && transport.meta().family == msgpath_paths::Family::Socket
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = "connect";
    const GROUP: Group = Group::Measure;
    const BESIDE: Option<&str> = Some("by clock, to a group; connections");
    const SHORT: Option<(&str, &str)> = Some((
        "path len time rounds connections rate requests tls close launch between json verbose",
        "Examples:
  msgpath connect                        TCP, one connection after the other, here
  msgpath connect HOST -P 16             16 under way, to another machine
  msgpath connect --rate 1k -t 10s       1000 a second, from the intended start
  msgpath connect -x tcp,unix            beside those of a Unix socket
  msgpath connect --requests 10          ten requests on each connection",
    ));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        measure::measure(VERB, Arguments::request(self)?, &self.options(), words)
    }

    fn request(&self) -> Option<Result<Request, Problem>> {
        Some(Arguments::request(self))
    }

    fn asked(&self) -> Asked {
        Asked::of(false, &self.options())
    }
}
