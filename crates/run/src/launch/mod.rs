//! How an agent is reached: started here, started in a network namespace, or there already.
//!
//! A launcher gives a stream of bytes to an agent and a way to end it; whatever is said over the stream is the same for all.
//! To add one: a file with its type, and a line in [`of`].

mod listening;
pub mod local;
mod namespace;

use std::io::{Read, Write};
use std::net::IpAddr;
use std::process::Child;

use msgpath_core::plan::ChannelOptions;
use msgpath_core::{Problem, Target};

pub(crate) use listening::connect;

/// Starts an agent, or finds one.
pub trait Launcher {
    /// A stream to an agent that waits for its first order.
    ///
    /// # Errors
    /// E01 nobody answers, E03 another program does, E19 it could not be started.
    fn launch(&self) -> Result<Stream, Problem>;
}

/// A stream of bytes to an agent. The agent ends with it.
pub struct Stream {
    /// To the agent.
    pub to: Box<dyn Write + Send>,
    /// From it.
    pub from: Box<dyn Read + Send>,
    /// What was started for it and is ended where it does not end by itself: the agent, or what carries the stream.
    pub process: Option<Child>,
    /// Its address, where it was reached over IP.
    pub peer: Option<IpAddr>,
}

/// The launcher of a target.
pub fn of<'a>(target: &'a Target, options: &'a ChannelOptions) -> Box<dyn Launcher + 'a> {
    match (target, &options.between) {
        (Target::Local, None) => Box::new(local::Local { end: "far" }),
        (Target::Local, Some(between)) => Box::new(namespace::Namespace(between)),
        (target, _) => Box::new(listening::Listening { target, options }),
    }
}
