//! `msgpath serve --rpc`: the key-value server of the RPC lab.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use msgpath_agent::serve::Event;
use msgpath_core::{Problem, Target, units};
use msgpath_verbs::log::Log;
use msgpath_verbs::problems::{bad_target, bad_value, usage};
use msgpath_verbs::servers::{self, Usual, reached_by_others};
use msgpath_verbs::typed::at_most;

use crate::agent::server::hog::{LONGEST_HOLD, LockHog, MOST_CPU_HOGS};
use crate::agent::server::{LAB_PORT, Server, ServerOptions};

/// The most threads that are taken.
const MOST_THREADS: u32 = 256;
const MOST_PORTS: u32 = 64;

#[derive(Args, Debug)]
#[command(next_help_heading = "RPC server")]
struct RpcArguments {
    /// Be the key-value server of the RPC lab instead [default: loopback only, port 12345]
    ///
    /// Speaks the messages of the lab of "Understanding Software Dynamics": ping, write, read, sink, delete, chksum,
    /// stats, reset, quit. The lab's own client works against it. Nobody is asked who they are. --memory (default 1G) is a limit of
    /// keys, values and messages in flight: a write past it is told TooBusy. --connections (default 4096; more are told
    /// TooBusy), --idle-timeout (default 10m) and --message-timeout (default 10s) apply.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, value_parser = lab_place)]
    rpc: Option<Option<LabPlace>>,
    /// Listen on N consecutive ports: the lab's server4 takes 4 (12345 to 12348) [default: 1]
    #[arg(long, value_name = "N", value_parser = ports)]
    ports: Option<u32>,
    /// Threads that serve [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<u32>,
    /// Let a client stop the server with quit; otherwise quit fails
    #[arg(long)]
    allow_quit: bool,
    /// Write the server's half of the lab's binary log, two records a call
    #[arg(long, value_name = "FILE")]
    lab_log: Option<PathBuf>,
    /// Tell clients of msgpath how long a request lay since the kernel received it, not since this server was woken
    #[arg(long)]
    kernel_stamps: bool,
    /// Show what a busy lock does: a thread holds the store's lock for HOLD, every EVERY [EVERY: twice HOLD unless told]
    #[arg(long, value_name = "HOLD[/EVERY]", value_parser = lock_hog)]
    lock_hog: Option<LockHog>,
    /// Show what busy CPUs do: N server threads spin
    #[arg(long, value_name = "N", value_parser = cpu_hogs)]
    cpu_hog: Option<u32>,
    /// Also print connections that open and close
    #[arg(short = 'v', long, conflicts_with = "quiet")]
    verbose: bool,
}

/// Where the RPC server listens, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabPlace {
    host: String,
    port: Option<u16>,
}

/// The value of `--rpc`: a host, with or without a port. The lab's port stands where none is named.
fn lab_place(text: &str) -> Result<LabPlace, Problem> {
    match text.parse() {
        Ok(Target::Host { host, port, transport: None }) => {
            let address = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
            let named =
                address.matches(':').count() == 1 && address.rsplit_once(':').is_some_and(|(_, p)| !p.is_empty());
            Ok(LabPlace { host, port: named.then_some(port) })
        }
        Ok(target) => Err(usage(format!("the RPC server cannot listen at {target}"))
            .why("the lab's messages go over TCP")
            .hint("--rpc HOST, or --rpc HOST:PORT")),
        Err(error) => {
            Err(bad_target(text, &error).hint(format!("--rpc HOST:PORT, or leave out the port to use {LAB_PORT}")))
        }
    }
}

fn threads(text: &str) -> Result<u32, Problem> {
    at_most("--threads", text, MOST_THREADS)
}

fn ports(text: &str) -> Result<u32, Problem> {
    at_most("--ports", text, MOST_PORTS)
}

fn cpu_hogs(text: &str) -> Result<u32, Problem> {
    at_most("--cpu-hog", text, MOST_CPU_HOGS)
}

/// `--lock-hog`: `2ms`, or `2ms/5ms`.
fn lock_hog(text: &str) -> Result<LockHog, Problem> {
    let bad = |what: String| bad_value("--lock-hog", format!("{what}, got {text:?}"));
    let time = |text: &str| {
        let ns = units::parse_time(text).map_err(|error| bad_value("--lock-hog", error.to_string()))?;
        Ok::<_, Problem>(Duration::from_nanos(ns))
    };
    let (hold, every) = match text.split_once('/') {
        Some((hold, every)) => (time(hold)?, time(every)?),
        None => time(text).map(|hold| (hold, hold.saturating_mul(2)))?,
    };
    match hold.is_zero() || hold > LONGEST_HOLD || every <= hold || every > 60 * LONGEST_HOLD {
        true => Err(bad("more than 0 and at most 1s, in every longer time of at most a minute: 2ms/5ms".into())),
        false => Ok(LockHog { hold, every }),
    }
}

/// The server of the lab, as `msgpath serve` has it.
pub(crate) struct OfTheLab;

impl servers::Server for OfTheLab {
    fn options(&self, serve: Command) -> Command {
        RpcArguments::augment_args(serve)
    }

    fn option(&self) -> &'static str {
        "--rpc"
    }

    fn name(&self) -> &'static str {
        "the RPC server"
    }

    fn is_asked(&self, typed: &ArgMatches) -> bool {
        typed.try_contains_id("rpc").unwrap_or(false)
    }

    fn takes_memory(&self) -> bool {
        true
    }

    fn serve(&self, typed: &ArgMatches, usual: Usual) -> Result<ExitCode> {
        let options = asked(typed, &usual)?;
        let what = "whoever reaches it can read, change and delete every key";
        reached_by_others(usual.insecure, options.host.as_deref(), options.port, what)?;
        let server = Server::bind(options)?;
        let mut output = Log::new(Instant::now());
        // Unlike the sessions of `serve`, calls are not said one by one: what is left is wrong, but for the first line
        // and the last.
        server.run_saying(msgpath_sys::signal::stop_flag(), &mut |event| match event {
            Event::Course(_) if usual.quiet => {}
            Event::Course(line) | Event::Wrong(line) => output.say(line),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the server is asked to be.
///
/// # Errors
/// Options that do not fit together.
pub(crate) fn asked(typed: &ArgMatches, usual: &Usual) -> Result<ServerOptions, Problem> {
    let arguments = RpcArguments::from_arg_matches(typed).map_err(|_| usage("--rpc takes options of a server"))?;
    arguments.server(usual)
}

impl RpcArguments {
    /// What it is asked to be.
    fn server(&self, usual: &Usual) -> Result<ServerOptions, Problem> {
        let listen = &usual.listen;
        let place = self.rpc.as_ref().and_then(Option::as_ref);
        if let Some(address) = &listen.address {
            return Err(usage(format!("{address} stands before --rpc, which takes the address itself"))
                .why("one serve answers either msgpath's own sessions or the lab's calls")
                .hint(format!("msgpath serve --rpc {address}")));
        }
        if let (Some(place), Some(bind)) = (place, &listen.bind) {
            return Err(usage(format!("--rpc names {}, -B names {bind}", place.host)).hint("name the address once"));
        }
        let named = place.and_then(|place| place.port);
        if let (Some(named), Some(other)) = (named, listen.port)
            && named != other
        {
            return Err(usage(format!("--rpc names port {named}, -p names {other}")).hint("name the port once"));
        }
        let ours = ServerOptions::default();
        let port = named.or(listen.port).unwrap_or(LAB_PORT);
        let ports = self.ports.map_or(ours.ports, |ports| ports as u16);
        if port.checked_add(ports - 1).is_none() {
            return Err(usage(format!("there are no {ports} ports from {port} on: the last is 65535"))
                .hint(format!("-p {LAB_PORT}, or fewer --ports")));
        }
        Ok(ServerOptions {
            host: place.map(|place| place.host.clone()).or_else(|| listen.bind.clone()),
            port,
            ports,
            threads: self.threads.map_or(ours.threads, |threads| threads as usize),
            memory: usual.memory.unwrap_or(ours.memory),
            connections: usual.connections.map_or(ours.connections, |connections| connections as usize),
            idle: usual.idle.unwrap_or(ours.idle),
            sure: ours.sure,
            message: usual.message.unwrap_or(ours.message),
            may_quit: self.allow_quit,
            log: self.lab_log.clone(),
            verbose: self.verbose,
            kernel_stamps: self.kernel_stamps,
            lock_hog: self.lock_hog,
            cpu_hogs: self.cpu_hog.unwrap_or(0),
        })
    }
}
