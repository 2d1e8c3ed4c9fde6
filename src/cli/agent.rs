//! What msgpath starts of itself: an agent, which is told over its standard input what it is.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use msgpath_agent::role::Role;
use msgpath_agent::{agent, launched, periodic};
use msgpath_core::{Exit, Problem};
use msgpath_run::lab;
use msgpath_run::rpc::own;

use crate::log::Log;

/// An agent
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The lab that it belongs to: by this a relay is found again
    lab: Option<String>,
    /// A launcher started it, so that something else may be before it in the pipe
    #[arg(long)]
    launched: bool,
    /// With --launched: address of this host for data connections
    #[arg(long, value_name = "ADDRESS", requires = "launched")]
    host: Option<std::net::IpAddr>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let begun = msgpath_sys::clock::now();
    let ended = |error| Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}"));
    if arguments.launched {
        launched::say_mark().map_err(ended)?;
    }
    let role = Role::receive().map_err(ended)?;
    match role {
        None => {}
        Some(Role::End { places }) => return Ok(agent(places.as_deref())),
        Some(Role::OnHost(known)) => return Ok(launched::on_host(*known, arguments.host)),
        Some(Role::Component) => return Ok(periodic::process::process(begun)),
        Some(Role::Server { parent, namespace, options }) => {
            let mut log = Log::new(Instant::now());
            let mut wrong = |line: &str| log.say(&format!("server: {line}"));
            own::serve_for(parent, namespace.as_deref(), *options, &mut wrong)?;
        }
        Some(Role::Holder) => lab::hold()?,
        Some(Role::Relay) => lab::relay()?,
    }
    Ok(ExitCode::SUCCESS)
}
