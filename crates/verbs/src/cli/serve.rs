//! `msgpath serve`: the far end, started by hand on another machine; with `--rpc` the key-value server of the RPC lab, or a
//! server of a feature.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use msgpath_agent::rpc::server::hog::{LONGEST_HOLD, LockHog, MOST_CPU_HOGS};
use msgpath_agent::rpc::server::{Event, LAB_PORT, Server, ServerOptions};
use msgpath_agent::token::Token;
use msgpath_agent::{ServeAddress, ServeOptions};
use msgpath_core::target::DEFAULT_PORT;
use msgpath_core::{Problem, Target, units};

use crate::log::Log;
use crate::problems::{bad_target, bad_value, usage};
use crate::servers::{Servers, Usual, reached_by_others};
use crate::typed;
use crate::verb::Group;

/// The least memory that `--memory` takes: one message of the lab, and a little more.
const LEAST_MEMORY: u64 = 1 << 20;
/// The most threads and connections that are taken.
const MOST_THREADS: u32 = 256;
const MOST_CONNECTIONS: u32 = 100_000;
/// The most ports.
const MOST_PORTS: u32 = 64;

/// Answer on the far machine
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where to listen: HOST, HOST:PORT, unix:/path, shm:NAME [default: loopback only, port 5210]
    #[arg(value_name = "ADDR", value_parser = typed::target)]
    address: Option<Target>,
    /// Port to listen on [default: 5210; with --rpc 12345]
    #[arg(short = 'p', long, value_name = "PORT", value_parser = typed::port)]
    port: Option<u16>,
    /// Address to listen on; 0.0.0.0 or :: for all
    #[arg(short = 'B', long, value_name = "ADDRESS", conflicts_with = "address")]
    bind: Option<IpAddr>,
    /// Let in only near ends that have the token in FILE; FILE is made if it does not exist.
    /// An address that is not loopback takes this, or --insecure
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    token_file: Option<PathBuf>,
    /// With --token-file: near ends may come through a translator of addresses (NAT), a forwarded port or a tunnel
    #[arg(long, requires = "token_file")]
    behind_nat: bool,
    /// Accept anybody on an address that is not loopback
    #[arg(long, conflicts_with = "token_file")]
    insecure: bool,
    /// Print problems only
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Memory that the rounds of all near ends may take together [default: 256M]; with --rpc keys, values and messages
    /// in flight, and a write past it is told TooBusy [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    #[command(flatten)]
    rpc: RpcArguments,
    #[command(flatten)]
    others: Servers,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "RPC server")]
struct RpcArguments {
    /// Be the key-value server of the RPC lab instead [default: loopback only, port 12345]
    ///
    /// Speaks the messages of the lab of "Understanding Software Dynamics": ping, write, read, sink, delete, chksum,
    /// stats, reset, quit. The lab's own client works against it. Nobody is asked who they are.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, value_parser = lab_place)]
    rpc: Option<Option<LabPlace>>,
    /// Listen on N consecutive ports: the lab's server4 takes 4 (12345 to 12348) [default: 1]
    #[arg(long, value_name = "N", value_parser = ports)]
    ports: Option<u32>,
    /// Threads that serve [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<u32>,
    /// Connections at the same time; more are told TooBusy [default: 4096]
    #[arg(long, value_name = "N", value_parser = connections)]
    connections: Option<u32>,
    /// Close a connection that sends no request for this long [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = patience)]
    idle_timeout: Option<Duration>,
    /// Close a connection whose message stays incomplete, or whose reply is not read, for this long [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = patience)]
    message_timeout: Option<Duration>,
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
pub(super) struct LabPlace {
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

fn memory(text: &str) -> Result<u64, Problem> {
    let least = |size: &u64| *size >= LEAST_MEMORY;
    let size = units::parse_size(text).map_err(|error| bad_value("--memory", error.to_string()))?;
    Some(size).filter(least).ok_or_else(|| bad_value("--memory", format!("at least 1M, got {text:?}")))
}

fn at_most(option: &str, text: &str, most: u32) -> Result<u32, Problem> {
    let number = typed::number(text).map_err(|error| bad_value(option, error.to_string()))?;
    Some(number).filter(|number| *number <= most).ok_or_else(|| bad_value(option, format!("1 to {most}, got {number}")))
}

fn threads(text: &str) -> Result<u32, Problem> {
    at_most("--threads", text, MOST_THREADS)
}

fn ports(text: &str) -> Result<u32, Problem> {
    at_most("--ports", text, MOST_PORTS)
}

fn connections(text: &str) -> Result<u32, Problem> {
    at_most("--connections", text, MOST_CONNECTIONS)
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

fn patience(text: &str) -> Result<Duration, units::ParseError> {
    let ns = units::parse_time_or_seconds(text)?;
    if ns == 0 {
        return Err(units::ParseError { what: "a time above 0 such as 10s or 5m".into(), input: text.into() });
    }
    Ok(Duration::from_nanos(ns))
}

impl Arguments {
    /// Where to listen: loopback unless told otherwise.
    fn place(&self) -> Result<ServeAddress, Problem> {
        match (&self.address, self.bind) {
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
            (Some(Target::Local) | None, bind) => Ok(ServeAddress::Tcp {
                host: bind.map(|address| address.to_string()),
                port: self.port.unwrap_or(DEFAULT_PORT),
            }),
        }
    }

    /// Other servers speak protocols in which nobody says who they are.
    fn token_is_for_sessions(&self) -> Result<(), Problem> {
        let asked = || self.others.asked().map(|(server, _)| server.option());
        let other = if self.rpc.rpc.is_some() { Some("--rpc") } else { asked() };
        match other.filter(|_| self.token_file.is_some()) {
            Some(other) => {
                Err(usage(format!("--token-file has no meaning with {other}: its clients cannot prove anything"))
                    .hint("leave out --token-file"))
            }
            None => Ok(()),
        }
    }

    /// What near ends must have. A file that is not there is made.
    fn token(&self, log: &mut dyn FnMut(Event<'_>)) -> Result<Option<Token>, Problem> {
        let Some(file) = &self.token_file else { return Ok(None) };
        if Token::make(file)? {
            let file = file.display();
            log(Event::Course(&format!(
                "made a token: copy {file} to the near machine, and there --token-file {file}"
            )));
        }
        let (token, open) = Token::read(file)?;
        if let Some(open) = open {
            log(Event::Wrong(&format!("warning: {open}")));
        }
        Ok(Some(token))
    }

    /// What a server of a feature takes of these options.
    fn usual(&self) -> Result<Usual, Problem> {
        if let Some(option) = self.only_with_rpc(&["--connections", "--idle-timeout", "--message-timeout"]) {
            return Err(usage(format!("{option} belongs to the RPC server")).hint(format!("leave out {option}")));
        }
        let RpcArguments { connections, idle_timeout: idle, message_timeout: message, .. } = self.rpc;
        let (insecure, quiet) = (self.insecure, self.quiet);
        Ok(Usual { address: self.place()?, insecure, quiet, connections, idle, message })
    }

    /// An option of the RPC server that stands without `--rpc`, but for those that others have as well.
    fn only_with_rpc(&self, shared: &[&str]) -> Option<&'static str> {
        let rpc = &self.rpc;
        let given = [
            ("--memory", self.memory.is_some()),
            ("--ports", rpc.ports.is_some()),
            ("--threads", rpc.threads.is_some()),
            ("--connections", rpc.connections.is_some()),
            ("--idle-timeout", rpc.idle_timeout.is_some()),
            ("--message-timeout", rpc.message_timeout.is_some()),
            ("--allow-quit", rpc.allow_quit),
            ("--lab-log", rpc.lab_log.is_some()),
            ("--kernel-stamps", rpc.kernel_stamps),
            ("--lock-hog", rpc.lock_hog.is_some()),
            ("--cpu-hog", rpc.cpu_hog.is_some()),
            ("-v", rpc.verbose),
        ];
        given.into_iter().find(|(option, given)| *given && !shared.contains(option)).map(|(option, _)| option)
    }

    /// What the RPC server is asked to be; `place` is the value of `--rpc`.
    pub(super) fn server(&self, place: Option<&LabPlace>) -> Result<ServerOptions, Problem> {
        let rpc = &self.rpc;
        if let Some(address) = &self.address {
            return Err(usage(format!("{address} stands before --rpc, which takes the address itself"))
                .why("one serve answers either msgpath's own sessions or the lab's calls")
                .hint(format!("msgpath serve --rpc {address}")));
        }
        if let (Some(place), Some(bind)) = (place, self.bind) {
            return Err(usage(format!("--rpc names {}, -B names {bind}", place.host)).hint("name the address once"));
        }
        let named = place.and_then(|place| place.port);
        if let (Some(named), Some(other)) = (named, self.port)
            && named != other
        {
            return Err(usage(format!("--rpc names port {named}, -p names {other}")).hint("name the port once"));
        }
        let usual = ServerOptions::default();
        let port = named.or(self.port).unwrap_or(LAB_PORT);
        let ports = rpc.ports.map_or(usual.ports, |ports| ports as u16);
        if port.checked_add(ports - 1).is_none() {
            return Err(usage(format!("there are no {ports} ports from {port} on: the last is 65535"))
                .hint(format!("-p {LAB_PORT}, or fewer --ports")));
        }
        Ok(ServerOptions {
            host: place.map(|place| place.host.clone()).or_else(|| self.bind.map(|address| address.to_string())),
            port,
            ports,
            threads: rpc.threads.map_or(usual.threads, |threads| threads as usize),
            memory: self.memory.unwrap_or(usual.memory),
            connections: rpc.connections.map_or(usual.connections, |connections| connections as usize),
            idle: rpc.idle_timeout.unwrap_or(usual.idle),
            sure: usual.sure,
            message: rpc.message_timeout.unwrap_or(usual.message),
            may_quit: rpc.allow_quit,
            log: rpc.lab_log.clone(),
            verbose: rpc.verbose,
            kernel_stamps: rpc.kernel_stamps,
            lock_hog: rpc.lock_hog,
            cpu_hogs: rpc.cpu_hog.unwrap_or(0),
        })
    }
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "serve";
    const GROUP: Group = Group::Measure;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stop = msgpath_sys::signal::stop_flag();
    let quiet = arguments.quiet;
    arguments.token_is_for_sessions()?;
    let mut output = Log::new(Instant::now());
    let mut log = |event: Event<'_>| match event {
        Event::Course(line) if !quiet => output.say(line),
        Event::Course(_) => {}
        Event::Wrong(line) => output.say(line),
    };
    if let Some(place) = &arguments.rpc.rpc {
        let options = arguments.server(place.as_ref())?;
        let what = "whoever reaches it can read, change and delete every key";
        reached_by_others(arguments.insecure, options.host.as_deref(), options.port, what)?;
        let server = Server::bind(options)?;
        // Unlike the sessions of `serve`, calls are not said one by one: what is left is wrong, but for the first line
        // and the last.
        server.run_saying(stop, &mut log)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((server, typed)) = arguments.others.asked() {
        return server.serve(typed, arguments.usual()?);
    }
    if let Some(option) = arguments.only_with_rpc(&["--memory"]) {
        return Err(usage(format!("{option} belongs to the RPC server"))
            .hint(format!("msgpath serve --rpc {option} ...     or leave out {option}"))
            .into());
    }
    // `--memory` is a limit of what is resident: nothing is kept for later.
    msgpath_sys::memory::keep_little();
    let usual = ServeOptions::default();
    let options = ServeOptions {
        memory: arguments.memory.unwrap_or(usual.memory),
        token: arguments.token(&mut log)?,
        behind_nat: arguments.behind_nat,
        insecure: arguments.insecure,
        confined: true,
        ..usual
    };
    msgpath_agent::serve(&arguments.place()?, options, &mut log, stop)?;
    Ok(ExitCode::SUCCESS)
}
