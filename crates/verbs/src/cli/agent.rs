//! What msgpath starts of itself: an agent, which is told over its standard input what it is.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_agent::role::{Channel, Role};
use msgpath_agent::{Reach, agent, launched};
use msgpath_core::{Exit, Problem};

use crate::feature::{self, Told};
use crate::verb::Group;

/// An agent
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// What it belongs to: by this word a process that stays is found again
    belongs_to: Option<String>,
    /// A launcher started it, so that something else may be before it in the pipe
    #[arg(long)]
    launched: bool,
    /// Its standard output is a connection that was made before it; how its frames are sealed comes over standard input
    #[arg(long, conflicts_with = "launched")]
    joined: bool,
    /// With --launched: address of this host for data connections
    #[arg(long, value_name = "ADDRESS")]
    host: Option<std::net::IpAddr>,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "__agent";
    const GROUP: Group = Group::Hidden;
    const OFTEN: bool = true;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let ended = |error| Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}"));
    if arguments.launched {
        launched::say_mark().map_err(ended)?;
    }
    // Who has come by a token may measure between hosts, and no more.
    let reach = if arguments.joined { Reach::Joined } else { Reach::Own };
    let mut channel = if arguments.joined { Channel::joined() } else { Channel::standard() }.map_err(ended)?;
    let role = Role::receive_over(&mut channel).map_err(ended)?;
    match role {
        None => {}
        Some(Role::OnHost(known)) => return Ok(launched::on_host(*known, arguments.host, reach, channel)),
        Some(_) if arguments.joined => return Err(no_role().into()),
        Some(Role::End { places }) => return Ok(agent(places.as_deref())),
        Some(Role::Of { process, body }) => {
            let mut processes = feature::all().iter().flat_map(|feature| feature.processes);
            let found = processes.find(|one| one.name == process);
            return (found.ok_or_else(no_role)?.run)(Told { body });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn no_role() -> Problem {
    Problem::new("E17", Exit::Unfinished, "the agent ended: it was to be something else")
}
