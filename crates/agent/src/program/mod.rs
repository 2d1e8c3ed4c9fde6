//! Programs of others as far ends: started and watched by the agent of the far end, spoken to by that of the near end.

pub(crate) mod first_reply;
mod listens;
mod running;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicBool;

use msgpath_core::Unavailable;
use msgpath_core::plan::Family;
use msgpath_core::program::{Program, ProgramFacts, Source};

pub use listens::free_port;
use running::Running;
pub use running::{ended, sha256};

/// The programs that this agent has started. They end with it.
#[derive(Default)]
pub(crate) struct Programs {
    running: BTreeMap<String, Running>,
}

impl Programs {
    /// A program that listens: started now, unless it was before. `host`: the address of this end; `stop`: nobody waits for it
    /// any more.
    ///
    /// # Errors
    /// It could not be started, has ended, or does not listen.
    pub(crate) fn ready(
        &mut self,
        program: &Program,
        cpus: &[u32],
        host: IpAddr,
        family: Family,
        stop: &AtomicBool,
    ) -> Result<ProgramFacts, Unavailable> {
        let words = match &program.source {
            Source::Command(words) => words,
            Source::Address(address) => {
                let address = resolve(address, family)?.to_string();
                return Ok(ProgramFacts { name: program.name.clone(), address, ..ProgramFacts::default() });
            }
            Source::Missing { why, hint, .. } => return Err(Unavailable::new(why.clone(), hint.clone())),
            Source::Example(name) => return Err(Unavailable::new(format!("the example {name} was not built"), "")),
        };
        if let Some(running) = self.running.get_mut(&program.name) {
            return match running.ended() {
                None => Ok(running.facts.clone()),
                Some(why) => Err(Unavailable::new(why, running::AGAIN)),
            };
        }
        let running = Running::start(program, words, cpus, host, stop)?;
        let facts = running.facts.clone();
        self.running.insert(program.name.clone(), running);
        Ok(facts)
    }

    /// CPU time that a program has used so far, all its processes together, ns; `None`: it was not started here.
    pub(crate) fn cpu_time(&self, name: &str) -> Option<u64> {
        self.running.get(name).map(Running::cpu_time)
    }

    /// How a program has ended; `None`: it has not, or was not started here.
    pub(crate) fn ended(&mut self, name: &str) -> Option<String> {
        self.running.get_mut(name)?.ended()
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
