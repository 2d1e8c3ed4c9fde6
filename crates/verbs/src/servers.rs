//! What `msgpath serve` can be instead of the far end of a run: servers of features, each with options of its own.

use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use msgpath_agent::ServeAddress;
use msgpath_core::plugged::Plugged;
use msgpath_core::target::DEFAULT_PORT;
use msgpath_core::{Exit, Problem, Target, units};

use crate::added::{Added, Adds, typed_among};
use crate::problems::usage;
use crate::typed::at_most;

/// The most connections that are taken.
const MOST_CONNECTIONS: u32 = 100_000;

/// A server of a feature.
pub trait Server: Sync {
    fn options(&self, serve: Command) -> Command;

    /// The option that asks for it: `--compat`.
    fn option(&self) -> &'static str;

    /// What it is called: `the server of X`.
    fn name(&self) -> &'static str;

    /// Whether `--memory` is a limit of it as well.
    fn takes_memory(&self) -> bool {
        false
    }

    /// Whether it was asked for.
    fn is_asked(&self, typed: &ArgMatches) -> bool;

    /// Serves until Ctrl-C.
    ///
    /// # Errors
    /// Options that do not fit together, or it cannot listen.
    fn serve(&self, typed: &ArgMatches, usual: Usual) -> Result<ExitCode>;
}

/// What such a server takes of the options of `serve`.
pub struct Usual {
    /// Where to listen.
    pub listen: Listen,
    /// Everybody is let in.
    pub insecure: bool,
    /// Only problems are said.
    pub quiet: bool,
    /// Its memory, bytes.
    pub memory: Option<u64>,
    /// Connections at the same time.
    pub connections: Option<u32>,
    /// How long a connection may send nothing.
    pub idle: Option<Duration>,
    /// How long a message may stay incomplete.
    pub message: Option<Duration>,
}

/// Where to listen, as typed.
#[derive(Clone, Debug)]
pub struct Listen {
    /// In front of all options.
    pub address: Option<Target>,
    /// An address alone.
    pub bind: Option<String>,
    pub port: Option<u16>,
}

impl Listen {
    /// The address: loopback unless told otherwise.
    ///
    /// # Errors
    /// The three do not fit together.
    pub fn address(&self) -> Result<ServeAddress, Problem> {
        match (&self.address, &self.bind) {
            (Some(Target::Host { host, port, .. }), _) => {
                if let Some(other) = self.port.filter(|other| *port != DEFAULT_PORT && other != port) {
                    return Err(
                        usage(format!("the address names port {port}, -p names {other}")).hint("name the port once")
                    );
                }
                Ok(ServeAddress::Tcp { host: Some(host.clone()), port: self.port.unwrap_or(*port) })
            }
            (Some(named @ Target::Program { .. }), _) => {
                Err(usage(format!("{named} is a program of others, not an address to listen at")).hint("HOST:PORT"))
            }
            (Some(named), _) if self.port.is_some() => Err(usage(format!("{named} has no port")).hint("leave out -p")),
            (Some(Target::Socket { path, .. }), _) => Ok(ServeAddress::Unix(path.into())),
            (Some(Target::Name { name, .. }), _) => Ok(ServeAddress::Name(name.clone())),
            (Some(Target::Local) | None, bind) => {
                Ok(ServeAddress::Tcp { host: bind.clone(), port: self.port.unwrap_or(DEFAULT_PORT) })
            }
        }
    }
}

/// What such servers keep of their clients, as far as they have limits.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Other servers")]
struct Limits {
    /// Connections at the same time
    #[arg(long, value_name = "N", value_parser = connections)]
    connections: Option<u32>,
    /// Close a connection that sends no request for this long
    #[arg(long, value_name = "TIME", value_parser = patience)]
    idle_timeout: Option<Duration>,
    /// Close a connection whose message stays incomplete, or whose reply is not read, for this long
    #[arg(long, value_name = "TIME", value_parser = patience)]
    message_timeout: Option<Duration>,
}

fn connections(text: &str) -> Result<u32, Problem> {
    at_most("--connections", text, MOST_CONNECTIONS)
}

fn patience(text: &str) -> Result<Duration, units::ParseError> {
    let ns = units::parse_time_or_seconds(text)?;
    if ns == 0 {
        return Err(units::ParseError { what: "a time above 0 such as 10s or 5m".into(), input: text.into() });
    }
    Ok(Duration::from_nanos(ns))
}

/// A server that asks nobody who they are, where others reach it: the user says that this is meant.
///
/// # Errors
/// E74: it is reached by others, and `--insecure` is not there. `what`: what they could do.
pub fn reached_by_others(insecure: bool, host: Option<&str>, port: u16, what: &str) -> Result<(), Problem> {
    let Some(host) = host.filter(|_| !insecure) else { return Ok(()) };
    // What is not an address is said when it listens there.
    let addresses = (host, port).to_socket_addrs().into_iter().flatten();
    match addresses.map(|address| address.ip().to_canonical()).find(|address| !address.is_loopback()) {
        None => Ok(()),
        Some(address) => Err(Problem::new("E74", Exit::Usage, format!("{address} is not loopback, and {what}"))
            .why("nobody is asked who they are: its protocol has nothing to prove it with")
            .hint("--insecure to let everybody in")),
    }
}

/// Adds the options of all servers, and those that they have in common.
#[derive(Clone, Debug)]
pub(crate) struct OfServers;

impl Adds for OfServers {
    fn to(command: Command) -> Command {
        match ALL.all().next() {
            None => command,
            Some(_) => ALL.all().fold(Limits::augment_args(command), |command, server| server.options(command)),
        }
    }
}

/// The options of those servers, among those of `serve`.
pub(crate) type Servers = Added<OfServers>;

impl Servers {
    /// The one that was asked for, and what was typed for it.
    pub(crate) fn asked(&self) -> Result<Option<(&'static dyn Server, &ArgMatches)>, Problem> {
        let mut asked = ALL.all().filter(|server| server.is_asked(&self.0));
        match (asked.next(), asked.next()) {
            (Some(one), Some(other)) => {
                let what = format!("{} cannot be used with {}", one.option(), other.option());
                Err(usage(what).hint("one serve for each"))
            }
            (one, _) => Ok(one.map(|server| (server, &self.0))),
        }
    }

    /// Whether an option of another server than this was typed.
    ///
    /// # Errors
    /// It was.
    pub(crate) fn misplaced(&self, asked: Option<&dyn Server>) -> Result<(), Problem> {
        let others = || ALL.all().filter(|server| asked.is_none_or(|asked| asked.option() != server.option()));
        for server in others() {
            self.none_of(&server.options(Command::new("serve")), server.option(), server.name())?;
        }
        if let (None, Some(first)) = (asked, ALL.all().next()) {
            let names: Vec<&str> = ALL.all().map(Server::name).collect();
            self.none_of(&Limits::augment_args(Command::new("serve")), first.option(), &names.join(" and "))?;
        }
        Ok(())
    }

    fn none_of(&self, options: &Command, with: &str, whose: &str) -> Result<(), Problem> {
        let Some(option) = typed_among(options, &self.0) else { return Ok(()) };
        Err(usage(format!("{option} belongs to {whose}"))
            .hint(format!("msgpath serve {with} {option} ...     or leave out {option}")))
    }

    /// Connections, how long one may send nothing, and how long a message may stay incomplete.
    pub(crate) fn limits(&self) -> (Option<u32>, Option<Duration>, Option<Duration>) {
        // Where there is no server nobody can type them.
        let limits = ALL.all().next().and_then(|_| Limits::from_arg_matches(&self.0).ok());
        limits.map_or((None, None, None), |typed| (typed.connections, typed.idle_timeout, typed.message_timeout))
    }
}

/// All of the features.
pub(crate) static ALL: Plugged<dyn Server> = Plugged::new();
