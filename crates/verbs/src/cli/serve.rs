//! `msgpath serve`: the far end, started by hand on another machine; or a server of a feature.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{ArgMatches, Args, FromArgMatches};
use msgpath_agent::ServeOptions;
use msgpath_agent::serve::Event;
use msgpath_agent::token::Token;
use msgpath_core::target::PortRange;
use msgpath_core::{Problem, Target, units};

use crate::command::{from_clap, parsed};
use crate::log::Log;
use crate::problems::{bad_value, usage};
use crate::servers::{Listen, Server, Servers, Usual};
use crate::typed;
use crate::verb::Group;

/// The least that `--memory` takes: one large message.
const LEAST_MEMORY: u64 = 1 << 20;

/// Answer on the far machine
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Where to listen: HOST, HOST:PORT, unix:/path, shm:NAME [default: loopback only, port 5210]
    #[arg(value_name = "ADDR", value_parser = typed::target)]
    address: Option<Target>,
    /// Port to listen on [default: 5210]
    #[arg(short = 'p', long, value_name = "PORT", value_parser = typed::port)]
    port: Option<u16>,
    /// Address to listen on; 0.0.0.0 or :: for all
    #[arg(short = 'B', long, value_name = "ADDRESS", conflicts_with = "address", value_parser = typed::local_address)]
    bind: Option<String>,
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
    /// Ports that data connections and datagrams come to: 5211-5219, to be opened in a firewall beside -p
    /// [default: any that the kernel chooses]
    #[arg(long, value_name = "RANGE", value_parser = typed::port_range)]
    data_ports: Option<PortRange>,
    /// Print problems only
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Memory that the rounds of all near ends may take together [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    #[command(flatten)]
    others: Servers,
}

fn memory(text: &str) -> Result<u64, Problem> {
    let least = |size: &u64| *size >= LEAST_MEMORY;
    let size = units::parse_size(text).map_err(|error| bad_value("--memory", error.to_string()))?;
    Some(size).filter(least).ok_or_else(|| bad_value("--memory", format!("at least 1M, got {text:?}")))
}

impl Arguments {
    /// What a server of a feature takes of these options.
    ///
    /// # Errors
    /// Some of them are not for it.
    pub(crate) fn usual(&self, server: &dyn Server) -> Result<Usual, Problem> {
        let option = server.option();
        if self.token_file.is_some() {
            // Other servers speak protocols in which nobody says who they are.
            let what = format!("--token-file has no meaning with {option}: its clients cannot prove anything");
            return Err(usage(what).hint("leave out --token-file"));
        }
        self.others.misplaced(Some(server))?;
        if self.data_ports.is_some() {
            let what = format!("--data-ports has no meaning with {option}: its clients use the port of -p");
            return Err(usage(what).hint("leave out --data-ports"));
        }
        if self.memory.is_some() && !server.takes_memory() {
            return Err(usage(format!("--memory has no meaning with {option}")).hint("leave out --memory"));
        }
        let (connections, idle, message) = self.others.limits();
        let (insecure, quiet, memory) = (self.insecure, self.quiet, self.memory);
        Ok(Usual { listen: self.listen(), insecure, quiet, memory, connections, idle, message })
    }

    fn listen(&self) -> Listen {
        Listen { address: self.address.clone(), bind: self.bind.clone(), port: self.port }
    }

    /// The server of a feature that was asked for, and what was typed for it.
    pub(crate) fn asked(&self) -> Result<Option<(&'static dyn Server, &ArgMatches)>, Problem> {
        self.others.asked()
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
}

/// What `msgpath serve` with these words asks for: options of its server, and what that takes of the others.
///
/// # Errors
/// They ask for none, or do not fit together.
pub fn typed(words: Vec<OsString>) -> Result<(ArgMatches, Usual), Problem> {
    let wrong = || usage("these are no options of a server");
    let (_, matches) = parsed(words).map_err(|error| from_clap(&error).unwrap_or_else(wrong))?;
    let arguments = Arguments::from_arg_matches(&matches).map_err(|_| wrong())?;
    let asked = arguments.asked()?.ok_or_else(|| usage("these options ask for no server"))?;
    let usual = arguments.usual(asked.0)?;
    Ok((asked.1.clone(), usual))
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
    if let Some((server, typed)) = arguments.asked()? {
        return server.serve(typed, arguments.usual(server)?);
    }
    arguments.others.misplaced(None)?;
    let quiet = arguments.quiet;
    let mut output = Log::new(Instant::now());
    let mut log = |event: Event<'_>| match event {
        Event::Course(_) if quiet => {}
        Event::Course(line) | Event::Wrong(line) => output.say(line),
    };
    // `--memory` is a limit of what is resident: nothing is kept for later.
    msgpath_sys::memory::keep_little();
    let usual = ServeOptions::default();
    let options = ServeOptions {
        memory: arguments.memory.unwrap_or(usual.memory),
        token: arguments.token(&mut log)?,
        behind_nat: arguments.behind_nat,
        insecure: arguments.insecure,
        data_ports: arguments.data_ports,
        confined: true,
        ..usual
    };
    msgpath_agent::serve(&arguments.listen().address()?, options, &mut log, stop)?;
    Ok(ExitCode::SUCCESS)
}
