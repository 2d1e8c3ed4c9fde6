//! An agent on this machine: a child of this process, and the same program, whatever has happened to its file meanwhile.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use msgpath_agent::role::Role;
use msgpath_agent::team::no_thread;
use msgpath_core::plan::EndPlace;
use msgpath_core::{Exit, Problem};
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::limits::remedy;

use super::{Launcher, Stream};

/// What the program is told to be an agent.
pub const VERB: &str = "__agent";

/// A child of this process, where this process is.
pub struct Local {
    /// Which end it is: `near end`.
    pub end: &'static str,
}

impl Launcher for Local {
    fn launch(&self) -> Result<Stream, Problem> {
        end(self.end, None)
    }
}

/// This program as an agent that is not yet started, with its streams.
pub fn program() -> Command {
    let mut command = child::this_program();
    command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts an agent and tells it what it is. It ends with this process as `ends` says.
///
/// # Errors
/// As spawning and writing. No process is left behind.
pub fn start(command: &mut Command, ends: MakerEnds, role: &Role) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = child::own(command, ends).spawn()?;
    let (mut to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    if let Err(error) = role.give(&mut to) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok((child, to, from))
}

/// An end of this name; `places`: its own, where it moves first, and that of the other end.
///
/// # Errors
/// E19.
pub(crate) fn end(end: &str, places: Option<[EndPlace; 2]>) -> Result<Stream, Problem> {
    let cannot = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::WouldBlock => no_thread(&error).hint,
            _ => remedy(&error).into(),
        };
        Problem::new("E19", Exit::CannotStart, format!("the {end} could not be started: {error}")).hint(hint)
    };
    let role = Role::End { places: places.map(Box::new) };
    let (child, to, from) = start(&mut program(), MakerEnds::ClosesInput, &role).map_err(cannot)?;
    Ok(Stream { process: Some(child), started_here: true, ..Stream::new(from, to) })
}
