//! `msgpath serve`: the far end, started by hand on another machine.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::Target;
use msgpath_core::target::DEFAULT_PORT;
use msgpath_run::{ServeAddress, ServeOptions};

use crate::problems::usage;
use crate::typed;

/// Answer on the far machine
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Where to listen: HOST, HOST:PORT, unix:/path, shm:NAME [default: loopback only, port 5210]
    #[arg(value_name = "ADDR", value_parser = typed::target)]
    address: Option<Target>,
    /// Port to listen on [default: 5210]
    #[arg(short = 'p', long, value_name = "PORT", value_parser = typed::port)]
    port: Option<u16>,
    /// Address to listen on; 0.0.0.0 or :: for all
    #[arg(short = 'B', long, value_name = "ADDRESS", conflicts_with = "address")]
    bind: Option<IpAddr>,
    /// Only what goes wrong is said
    #[arg(short = 'q', long)]
    quiet: bool,
}

impl Arguments {
    /// Where to listen: loopback unless told otherwise.
    fn place(&self) -> Result<ServeAddress, msgpath_core::Problem> {
        match (&self.address, self.bind) {
            (Some(Target::Host { host, port, .. }), _) => {
                if let Some(other) = self.port.filter(|other| *port != DEFAULT_PORT && other != port) {
                    return Err(
                        usage(format!("the address names port {port}, -p names {other}")).hint("name the port once")
                    );
                }
                Ok(ServeAddress::Tcp { host: Some(host.clone()), port: self.port.unwrap_or(*port) })
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
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stop = msgpath_sys::signal::stop_flag();
    let quiet = arguments.quiet;
    let mut log = |line: &str| {
        if !quiet {
            eprintln!("{line}");
        }
    };
    msgpath_run::serve(&arguments.place()?, ServeOptions::default(), &mut log, stop)?;
    Ok(ExitCode::SUCCESS)
}
