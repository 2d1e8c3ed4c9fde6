//! What msgpath starts of itself: an agent, which is told over its standard input what it is; and one that comes to the coordinator
//! of a mesh.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};

use anyhow::Result;
use clap::Args;
use msgpath_agent::join::{Caller, Left, REDIAL, started_by};
use msgpath_agent::role::{Channel, Role};
use msgpath_agent::seal::Seals;
use msgpath_agent::token::{self, ENVIRONMENT, Token};
use msgpath_agent::{Reach, agent, launched};
use msgpath_core::{Exit, Problem};
use msgpath_run::launch::local::VERB;
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::say;

use crate::feature::{self, Told};
use crate::problems::usage;
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
    /// Come to the coordinator of a mesh, which listens there (msgpath mesh --listen)
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["launched", "joined"])]
    join: Option<String>,
    /// With --join: the token of the mesh [default: the file that MSGPATH_TOKEN_FILE names]
    #[arg(long, value_name = "FILE", requires = "join")]
    token_file: Option<PathBuf>,
    /// With --join: what it is called in the mesh [default: SLURMD_NODENAME, MSGPATH_NODE, the name of the host]
    #[arg(long, value_name = "NAME", requires = "join")]
    name: Option<String>,
    /// With --launched or --join: address of this host for data connections
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
    let begun = msgpath_sys::clock::now();
    if let Some(to) = &arguments.join {
        return join(arguments, to);
    }
    let ended = |error| Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}"));
    if arguments.launched {
        launched::say_mark().map_err(ended)?;
    }
    // Who has the token of a mesh may measure between hosts, and no more.
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
            return (found.ok_or_else(no_role)?.run)(Told { begun, body });
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn no_role() -> Problem {
    Problem::new("E17", Exit::Unfinished, "the agent ended: it was to be something else")
}

/// Comes to a coordinator, and is an agent as often as it is let in.
fn join(arguments: &Arguments, to: &str) -> Result<ExitCode> {
    let file = arguments.token_file.clone().or_else(|| token::file(None)).ok_or_else(|| {
        usage("an agent that comes to a mesh needs its token")
            .why("on a command line every user of the machine could read it")
            .hint(format!("{ENVIRONMENT}=FILE, or --token-file FILE"))
    })?;
    let (token, _) = Token::read(&file)?;
    let variable = |name: &str| std::env::var(name).ok();
    let host_name = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let caller = Caller {
        to: to.to_owned(),
        token,
        name: arguments.name.clone().or_else(|| started_by::node(variable)).unwrap_or_else(host_name),
        rank: started_by::rank(variable),
        address: arguments.host,
        redial: REDIAL,
    };
    let note = |why: &str| say!("note: {why}; it is called again, {} s in all", REDIAL.as_secs());
    if caller.join(|stream, seals| agent_on(stream, seals)?.wait().map(drop), note)? == Left::Alone {
        say!("note: the coordinator at {to} has ended, so this agent ends too");
    }
    Ok(ExitCode::SUCCESS)
}

/// An agent whose channel is this connection, with its seals. It ends with this process.
fn agent_on(stream: TcpStream, seals: &Seals) -> std::io::Result<Child> {
    let mut command = child::this_program();
    command.args([VERB, "--joined"]).stdin(Stdio::piped()).stdout(Stdio::from(OwnedFd::from(stream)));
    let mut agent = child::own(&mut command, MakerEnds::Kills).spawn()?;
    // Secrets are neither on a command line nor in an environment.
    if let Some(mut input) = agent.stdin.take()
        && let Err(error) = input.write_all(&seals.to_bytes())
    {
        let _ = agent.kill();
        let _ = agent.wait();
        return Err(error);
    }
    Ok(agent)
}
