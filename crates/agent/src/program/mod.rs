//! Programs of others as far ends: started and watched by the agent of the far end, spoken to by that of the near end.

pub(crate) mod first_reply;
mod listens;
mod running;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicBool;

use msgpath_core::Unavailable;
use msgpath_core::plan::Family;
use msgpath_core::program::{ProgramFacts, Source};
use msgpath_paths::registry::Entry;

use crate::wire::{ProgramOrder, RoundOrder};
use listens::Over;
pub use listens::free_port;
use running::{Place, Running};
pub use running::{ended, sha256};

/// The programs that this agent has started. They end with it.
#[derive(Default)]
pub(crate) struct Programs {
    running: BTreeMap<Key, Running>,
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
                return Ok(runs_already(resolve(address, order.options.family)?.to_string()));
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

/// The address of `HOST:PORT`, of the family that was asked for.
fn resolve(address: &str, family: Family) -> Result<SocketAddr, Unavailable> {
    let found = address.to_socket_addrs().map_err(|error| {
        Unavailable::new(format!("{address} is not known: {error}"), "an address such as raw://127.0.0.1:7")
    })?;
    let mut found: Vec<SocketAddr> = found.filter(|address| family.admits(address.ip())).collect();
    // Where a name has both, most servers listen for IPv4 alone.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| {
        Unavailable::new(format!("{address} has no address of the family that was asked for"), "leave out -o ip")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_family_that_was_asked_for() {
        assert_eq!(resolve("127.0.0.1:7", Family::Any).unwrap().to_string(), "127.0.0.1:7");
        assert_eq!(resolve("[::1]:7", Family::V6).unwrap().to_string(), "[::1]:7");
        assert!(resolve("127.0.0.1:7", Family::V6).unwrap_err().why.contains("family"));
        assert!(resolve("no port", Family::Any).is_err());
    }
}
