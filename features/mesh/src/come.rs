//! `msgpath __join`: comes to the coordinator of a mesh, and is an agent as often as it is let in.

use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};

use anyhow::Result;
use clap::Args;
use msgpath_agent::seal::Seals;
use msgpath_agent::token::{self, ENVIRONMENT, Token};
use msgpath_run::launch::local;
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::say;
use msgpath_verbs::problems::usage;
use msgpath_verbs::verb::{Group, Verb};

use crate::join::{Caller, Left, REDIAL, started_by};

/// As it is typed.
pub(crate) const VERB: &str = "__join";

/// An agent that comes to the coordinator of a mesh
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where that listens (msgpath mesh --listen)
    #[arg(value_name = "HOST:PORT")]
    to: String,
    /// The token of the mesh [default: the file that MSGPATH_TOKEN_FILE names]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// What it is called in the mesh [default: SLURMD_NODENAME, MSGPATH_NODE, the name of the host]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Address of this host for data connections
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
}

impl Verb for Arguments {
    const NAME: &str = VERB;
    const GROUP: Group = Group::Hidden;
    const OFTEN: bool = true;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.token_file.clone().or_else(|| token::file(None)).ok_or_else(|| {
        usage("an agent that comes to a mesh needs its token")
            .why("on a command line every user of the machine could read it")
            .hint(format!("{ENVIRONMENT}=FILE, or --token-file FILE"))
    })?;
    let (token, _) = Token::read(&file)?;
    let variable = |name: &str| std::env::var(name).ok();
    let host_name = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let caller = Caller {
        to: arguments.to.clone(),
        token,
        name: arguments.name.clone().or_else(|| started_by::node(variable)).unwrap_or_else(host_name),
        rank: started_by::rank(variable),
        address: arguments.host,
        redial: REDIAL,
    };
    let note = |why: &str| say!("note: {why}; it is called again, {} s in all", REDIAL.as_secs());
    if caller.join(|stream, seals| agent_on(stream, seals)?.wait().map(drop), note)? == Left::Alone {
        say!("note: the coordinator at {} has ended, so this agent ends too", arguments.to);
    }
    Ok(ExitCode::SUCCESS)
}

/// An agent whose channel is this connection, with its seals. It ends with this process.
fn agent_on(stream: TcpStream, seals: &Seals) -> std::io::Result<Child> {
    let mut command = child::this_program();
    command.args([local::VERB, "--joined"]).stdin(Stdio::piped()).stdout(Stdio::from(OwnedFd::from(stream)));
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
