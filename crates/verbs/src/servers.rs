//! What `msgpath serve` can be instead of the far end of a run: servers of features, each with options of its own.

use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use msgpath_agent::ServeAddress;
use msgpath_core::{Exit, Problem};

use crate::feature;

/// A server of a feature.
pub trait Server: Sync {
    /// The command with its options.
    fn options(&self, serve: Command) -> Command;

    /// The option that asks for it: `--compat`.
    fn option(&self) -> &'static str;

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
    pub address: ServeAddress,
    /// Everybody is let in.
    pub insecure: bool,
    /// Only problems are said.
    pub quiet: bool,
    /// Connections at the same time.
    pub connections: Option<u32>,
    /// How long a connection may send nothing.
    pub idle: Option<Duration>,
    /// How long a message may stay incomplete.
    pub message: Option<Duration>,
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

/// The options of those servers, among those of `serve`.
#[derive(Clone, Debug)]
pub(crate) struct Servers(ArgMatches);

impl Servers {
    /// The one that was asked for, and what was typed for it.
    pub(crate) fn asked(&self) -> Option<(&'static dyn Server, &ArgMatches)> {
        all().find(|server| server.is_asked(&self.0)).map(|server| (server, &self.0))
    }
}

fn all() -> impl Iterator<Item = &'static dyn Server> {
    feature::all().iter().flat_map(|feature| feature.servers.iter().copied())
}

impl FromArgMatches for Servers {
    fn from_arg_matches(typed: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(typed.clone()))
    }

    fn update_from_arg_matches(&mut self, typed: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = typed.clone();
        Ok(())
    }
}

impl Args for Servers {
    fn augment_args(command: Command) -> Command {
        all().fold(command, |command, server| server.options(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
