//! Programs of others as far ends: started and watched by the agent of the far end, spoken to by that of the near end.

pub(crate) mod first_reply;
mod listens;
mod running;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_core::plan::Family;
use msgpath_core::program::{ProgramFacts, Source};
use msgpath_core::{Problem, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_sys::address::shown;

use crate::names;
use crate::wire::{ProgramOrder, RoundOrder};
use listens::Over;
pub use listens::free_port;
use running::{Place, Running};
pub use running::{ended, sha256};

/// The programs that this agent has started. They end with it.
#[derive(Default)]
pub(crate) struct Programs {
    running: BTreeMap<Key, Running>,
    /// Those that ran already at an address: found once.
    found: BTreeMap<Key, ProgramFacts>,
}

/// A program as it was started: its name, and what it takes messages with.
type Key = (String, Over);

/// The program of a round; `None`: it has none, or its path is no path.
fn key(order: &RoundOrder) -> Option<Key> {
    let over = Over::of(Entry::find(&order.path)?.transport.meta());
    Some((order.program.as_ref()?.program.name.clone(), over))
}

impl Programs {
    /// The program of a round, which listens: started now, unless it was before. `host`: the address of this end; `stop`: nobody
    /// waits for it any more.
    ///
    /// # Errors
    /// It could not be started, has ended, or does not listen.
    pub(crate) fn ready(
        &mut self,
        order: &RoundOrder,
        host: IpAddr,
        stop: &AtomicBool,
    ) -> Result<ProgramFacts, Unavailable> {
        let none = || Unavailable::new("no program", "");
        let key = key(order).ok_or_else(none)?;
        let ProgramOrder { program, talk } = &**order.program.as_ref().ok_or_else(none)?;
        let runs_already = |address| ProgramFacts { name: program.name.clone(), address, ..ProgramFacts::default() };
        let words = match (&program.source, key.1) {
            (Source::Command(words), _) => words,
            (Source::Address(address), Over::Tcp | Over::Udp) => {
                if let Some(facts) = self.found.get(&key) {
                    return Ok(facts.clone());
                }
                let (address, more) = found(address, key.1, order.options.family, stop)?;
                let facts = ProgramFacts { more, ..runs_already(address.to_string()) };
                self.found.insert(key, facts.clone());
                return Ok(facts);
            }
            (Source::Address(_), Over::Unix(_)) => {
                return Err(Unavailable::new(format!("{} is not a Unix socket", program.source), "-x tcp:send"));
            }
            (Source::Socket(path), Over::Unix(_)) => return Ok(runs_already(path.clone())),
            (Source::Socket(_), _) => {
                return Err(Unavailable::new(format!("{} is a Unix socket", program.source), "-x unix:send"));
            }
            (Source::Missing { why, hint, .. }, _) => return Err(Unavailable::new(why.clone(), hint.clone())),
            (Source::Example(name), _) => {
                return Err(Unavailable::new(format!("the example {name} was not built"), ""));
            }
        };
        if let Some(running) = self.running.get_mut(&key) {
            return match running.ended() {
                None => Ok(running.facts.clone()),
                Some(why) => Err(Unavailable::new(why, running::AGAIN)),
            };
        }
        let place = Place { over: key.1, host, cpus: &order.cpus, patience: talk.patience() };
        let running = Running::start(program, words, &place, stop)?;
        let facts = running.facts.clone();
        self.running.insert(key, running);
        Ok(facts)
    }

    /// CPU time that the program of a round has used so far, all its processes together, ns; `None`: it was not started here.
    pub(crate) fn cpu_time(&self, order: &RoundOrder) -> Option<u64> {
        self.running.get(&key(order)?).map(Running::cpu_time)
    }

    /// How the program of a round has ended; `None`: it has not, or was not started here.
    pub(crate) fn ended(&mut self, order: &RoundOrder) -> Option<String> {
        self.running.get_mut(&key(order)?)?.ended()
    }
}

/// How long each address of a name may take to answer, all of them together.
const CONNECT: Duration = Duration::from_secs(5);

/// Which address of `HOST:PORT` is spoken to, and how many others there are: over TCP the first that answers. Nothing is known of a
/// datagram before a reply comes: there it is the first one, IPv4 before IPv6, which most servers do not listen for.
fn found(place: &str, over: Over, family: Family, stop: &AtomicBool) -> Result<(SocketAddr, usize), Unavailable> {
    let unavailable = |problem: Problem| {
        let why = if problem.why.is_empty() { problem.what } else { format!("{}: {}", problem.what, problem.why) };
        Unavailable::new(why, problem.hint)
    };
    let all = names::addresses_of(place, family).map_err(unavailable)?;
    let address = match over {
        Over::Tcp => names::answering(&all, CONNECT, stop).map_err(|error| {
            let tried: Vec<String> = all.iter().map(|address| shown(*address)).collect();
            Unavailable::new(format!("{place} does not answer at {}: {error}", tried.join(", ")), "is it running?")
        })?,
        _ => all.iter().find(|address| address.is_ipv4()).copied().unwrap_or(all[0]),
    };
    Ok((address, all.len() - 1))
}
