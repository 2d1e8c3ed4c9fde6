//! The first order of an agent: what it is. All that msgpath starts of itself gets it over its standard input. One that a
//! launcher started on another host answers with where its data connections go.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;

use msgpath_core::plan::EndPlace;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::seal::Seals;
use crate::wire::{self, Frame, Incoming};

/// The control channel of an agent: what it hears, and the seals of its frames where it came to a mesh by itself. It answers
/// over standard output.
pub struct Channel {
    /// Where orders come from.
    pub input: File,
    /// `None`: a pipe from whoever started it.
    pub seals: Option<Seals>,
}

impl Channel {
    /// Standard input. Not through a buffer of its own: what is to be read is what poll(2) sees.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn standard() -> io::Result<Self> {
        Ok(Self { input: io::stdin().as_fd().try_clone_to_owned()?.into(), seals: None })
    }

    /// A connection that is standard output as well; its seals come over standard input.
    ///
    /// # Errors
    /// As the descriptors.
    pub fn joined() -> io::Result<Self> {
        let mut seals = [0; Seals::BYTES];
        File::from(io::stdin().as_fd().try_clone_to_owned()?).read_exact(&mut seals)?;
        let input = io::stdout().as_fd().try_clone_to_owned()?.into();
        Ok(Self { input, seals: Some(Seals::from_bytes(&seals)) })
    }
}

/// How long the order may take to come, ms.
const PATIENCE_MS: i32 = 10_000;

/// What an agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An end, of messages or in a role of a feature. It moves to its own place first; the other is where the other end is.
    End {
        /// Both; nothing: it stays where it was started.
        places: Option<Box<[EndPlace; 2]>>,
    },
    /// An end of messages that a launcher started, on another host perhaps.
    OnHost(Box<Surroundings>),
    /// A process of a feature.
    Of {
        /// The feature's name for it.
        process: String,
        /// What it must know from the start.
        body: Value,
    },
}

/// A network namespace: the same for all that are in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Of its machine.
    pub boot_id: String,
    /// Its number there.
    pub namespace: u64,
}

/// What is known of the hosts before the agent has said anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Where data connections go, as the user says.
    pub address: Option<IpAddr>,
    /// What the host's name means where the agent was started from.
    pub named: Vec<IpAddr>,
    /// Addresses of the host from which it was started.
    pub near: Vec<IpAddr>,
    /// The network namespace from which it was started.
    pub network: Option<Network>,
}

/// How an agent found where its data connections go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// The user says so.
    Typed,
    /// It runs in the same network namespace.
    SameNetwork,
    /// Its ssh session came in there.
    Ssh,
    /// The host's name means it where the run was started, and the agent has it.
    Name,
    /// Its way back leaves from there.
    Route,
}

impl std::fmt::Display for FoundBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FoundBy::Typed => "as typed",
            FoundBy::SameNetwork => "the network of this end",
            FoundBy::Ssh => "where its ssh session came in",
            FoundBy::Name => "what its name means here",
            FoundBy::Route => "from where its route back leaves",
        })
    }
}

/// First answer of an agent that a launcher started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Where its data connections go, and how it knows; nothing: no rule finds an address.
    pub address: Option<(IpAddr, FoundBy)>,
    /// Addresses that it has.
    pub own: Vec<IpAddr>,
}

impl Frame for Found {
    const MAX_JSON: usize = 64 << 10;
    const MAX_BYTES: usize = 0;
}

impl Frame for Role {
    const MAX_JSON: usize = 64 << 10;
    const MAX_BYTES: usize = 0;
}

impl Role {
    /// A process of a feature.
    ///
    /// # Panics
    /// `body` is no JSON.
    pub fn of(process: &str, body: &impl Serialize) -> Self {
        Role::Of { process: process.into(), body: serde_json::to_value(body).expect("plain values") }
    }

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
        Self::receive_over(&mut Channel::standard()?)
    }

    /// The same over another channel.
    ///
    /// # Errors
    /// As [`Role::receive`]; `PermissionDenied`: the other end has not said it.
    pub fn receive_over(channel: &mut Channel) -> io::Result<Option<Self>> {
        // Who started it decides when it ends: an interrupt of the terminal reaches that one, too.
        signal::ignore_interrupt();
        if !poll(channel.input.as_fd(), Interest::Read, PATIENCE_MS)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it was not told what it is"));
        }
        let hears = channel.seals.as_ref().map(|seals| seals.hears.clone());
        let mut incoming = Incoming::new::<Role>().sealed(hears);
        let role = incoming.next::<Role>(&mut channel.input)?.map(|(role, _)| role);
        if let (Some(seals), Some(hears)) = (&mut channel.seals, incoming.into_seal()) {
            seals.hears = hears;
        }
        Ok(role)
    }
}
