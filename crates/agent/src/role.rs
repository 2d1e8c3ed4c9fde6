//! The first order of an agent: what it is. All that msgpath starts of itself gets it over its standard input.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use msgpath_core::plan::EndPlace;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::signal;
use serde::{Deserialize, Serialize};

use crate::launched::Surroundings;
use crate::rpc::server::ServerOptions;
use crate::wire::{self, Frame};

/// How long the order may take to come, ms.
const PATIENCE_MS: i32 = 10_000;

/// What an agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An end of messages. It moves to its own place first; the other is where the other end is.
    End {
        /// Both; nothing: it stays where it was started.
        places: Option<Box<[EndPlace; 2]>>,
    },
    /// An end of messages that a launcher started, on another host perhaps.
    OnHost(Box<Surroundings>),
    /// One process of a periodic run.
    Component,
    /// The server of a run of calls.
    Server {
        /// Who started it: it ends with that.
        parent: i32,
        /// The namespace that it moves to first.
        namespace: Option<String>,
        /// How it behaves.
        options: Box<ServerOptions>,
    },
    /// Holds the network namespace of a lab.
    Holder,
    /// Passes on the frames of a lab whose kernel has no netem.
    Relay,
}

impl Frame for Role {
    const MAX_JSON: usize = 64 << 10;
    const MAX_BYTES: usize = 0;
}

impl Role {
    /// Says it to an agent that was just started.
    ///
    /// # Errors
    /// As the writer.
    pub fn give(&self, to: &mut impl Write) -> io::Result<()> {
        wire::write(to, self, &[])
    }

    /// What this process is to be, from its standard input; `None`: that has ended. Nothing behind the order is read.
    ///
    /// # Errors
    /// `InvalidData` for anything else, `TimedOut` for nothing.
    pub fn receive() -> io::Result<Option<Self>> {
        // Who started it decides when it ends: an interrupt of the terminal reaches that one, too.
        signal::ignore_interrupt();
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        if !poll(input.as_fd(), Interest::Read, PATIENCE_MS)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was not told what it is"));
        }
        Ok(wire::read::<Role>(&mut File::from(input))?.map(|(role, _)| role))
    }
}
