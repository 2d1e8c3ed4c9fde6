//! An agent: a process whose session is over its standard input and output.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use msgpath_core::plan::EndPlace;
use msgpath_core::{Exit, Problem};
use msgpath_sys::say;

use super::lease::Lease;
use super::{Begun, Terms, session};
use crate::namespace;
use crate::privileges::Peer;
use crate::role::{Channel, Role};
use crate::seal::Sealing;
use crate::team::no_thread;
use crate::wire::{self, FromEnd};

/// A session that has not listened for so many leases hangs.
const HUNG: u64 = 6;

/// The agent: a session over standard input and output. Ends when its parent does (the input ends then), or when the
/// lease is over; in both cases it tidies up, which a signal would not let it do.
///
/// `places`: its own, where it moves first, and that of the near end; nothing to stay where it was started.
pub fn agent(places: Option<&[EndPlace; 2]>) -> std::process::ExitCode {
    let peer = match places.map_or_else(|| Ok(Peer::default()), peer_at) {
        Ok(peer) => peer,
        Err(problem) => {
            say!("{problem}");
            return problem.exit.code().into();
        }
    };
    match Channel::standard() {
        Ok(channel) => agent_at(peer, channel),
        Err(error) => ended(&error),
    }
}

/// Says why an agent ended.
fn ended(error: &io::Error) -> std::process::ExitCode {
    say!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
    Exit::Unfinished.code().into()
}

/// The same for an agent that is where it is to be.
pub(crate) fn agent_at(peer: Peer, mut channel: Channel) -> std::process::ExitCode {
    // It was started as /proc/self/exe, which is not a name to find it by.
    let _ = std::fs::write("/proc/self/comm", "msgpath");
    let lease = Arc::new(Lease::new(Duration::from_secs(10)));
    let watched = Arc::clone(&lease);
    let watch = Builder::new().name("lease".into()).spawn(move || {
        // The session itself sees the end of its lease when it listens. While it makes a round ready it does not, and on a
        // busy machine that takes its time: only one that hangs is ended from here.
        while !watched.is_over_by(HUNG) {
            std::thread::sleep(Duration::from_millis(200));
        }
        say!("{}", Problem::new("E17", Exit::Unfinished, "the agent hangs: it has not listened for too long"));
        std::process::exit(Exit::Unfinished.code().into());
    });
    if let Err(error) = watch {
        let mut out = Sealing::new(io::stdout().lock(), channel.seals.map(|seals| seals.says));
        let _ = wire::write(&mut out, &FromEnd::Busy { reason: no_thread(&error) }, &[]);
        return Exit::CannotStart.code().into();
    }
    let begun = Begun { first: None, seals: channel.seals };
    match session(&mut channel.input, &mut io::stdout().lock(), begun, peer, &Terms::default(), &lease) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => ended(&error),
    }
}

/// An end of messages, for a program that msgpath is part of and that starts itself as an agent.
pub fn started() -> std::process::ExitCode {
    match Role::receive() {
        Ok(Some(Role::End { places })) => agent(places.as_deref()),
        Ok(_) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            say!("the agent ended: {error}");
            Exit::Unfinished.code().into()
        }
    }
}

/// Moves to a place and says who is where.
fn peer_at([own, near]: &[EndPlace; 2]) -> Result<Peer, Problem> {
    namespace::enter(&own.namespace)?;
    let wrong = |_| Problem::new("E19", Exit::CannotStart, "the place of the agent is not what it should be");
    // Frames need no address.
    let address = |place: &EndPlace| match place.address.as_str() {
        "" => Ok((Ipv4Addr::LOCALHOST, 0).into()),
        text => text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0)).map_err(wrong),
    };
    Ok(Peer { host: Some(address(own)?), address: Some(address(near)?), ..Peer::default() })
}
