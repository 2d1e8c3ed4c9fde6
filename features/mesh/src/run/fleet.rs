//! The agents of a mesh: each is started, or comes, once and stays. One that failed is started again, or comes again, before it
//! is needed next, a few times at most.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use msgpath_agent::role::FoundBy;
use msgpath_agent::route;
use msgpath_core::schema::Environment;
use msgpath_core::{Exit, Launch, Problem};
use msgpath_run::Link;
use msgpath_run::launch::{Launcher as _, OnHost};

use super::door::Door;

/// Launchers that start at a time: more logins at once are turned away by sshd (MaxStartups).
const AT_ONCE: usize = 16;
/// A host whose agent could not be started so often in a row is left out.
const GIVEN_UP: u32 = 3;

/// A host and its agent.
pub(super) struct Host {
    launch: Launch,
    link: Option<Link>,
    /// Failed starts in a row.
    failures: u32,
    /// Why there is no agent.
    pub(super) why: Option<Problem>,
    /// Its machine, as its agent found it first.
    pub(super) environment: Option<Environment>,
    /// CPUs in the order in which it would use them.
    pub(super) cpus: Vec<u32>,
}

impl Host {
    /// Where its data connections go.
    fn found(&self) -> Option<(IpAddr, FoundBy)> {
        let link = self.link.as_ref()?;
        Some((link.peer?.ip(), link.found?))
    }
}

/// Of agents with these addresses those that the others cannot reach, with an address that they can.
fn hidden(found: &[Option<(IpAddr, FoundBy)>], source: &dyn Fn(IpAddr) -> Option<IpAddr>) -> Vec<(u32, IpAddr)> {
    let elsewhere = found.iter().flatten().map(|(address, _)| *address).filter(|address| !address.is_loopback());
    let Some(address) = elsewhere.filter_map(source).find(|own| !own.is_loopback()) else { return Vec::new() };
    let is_hidden = |found: &Option<(IpAddr, FoundBy)>| {
        found.is_some_and(|(own, by)| own.is_loopback() && by == FoundBy::SameNetwork)
    };
    (0..).zip(found).filter(|(_, found)| is_hidden(found)).map(|(at, _)| (at, address)).collect()
}

/// All hosts of a mesh.
pub(super) struct Fleet {
    pub(super) hosts: Vec<Host>,
    /// Where they come in by themselves; nothing: they are launched.
    door: Option<Arc<Door>>,
}

impl Fleet {
    pub(super) fn new(launches: Vec<Launch>, door: Option<Arc<Door>>) -> Self {
        let host = |launch| Host { launch, link: None, failures: 0, why: None, environment: None, cpus: Vec::new() };
        Self { hosts: launches.into_iter().map(host).collect(), door }
    }

    /// Starts the agents that these hosts lack. Who is alive is kept so meanwhile.
    pub(super) fn start(&mut self, wanted: &[u32], stop: &AtomicBool) {
        self.start_lacking(wanted, stop);
        let hidden = self.hidden();
        for (at, address) in &hidden {
            let host = &mut self.hosts[*at as usize];
            (host.link, host.launch.address) = (None, Some(*address));
        }
        self.start_lacking(&hidden.iter().map(|(at, _)| *at).collect::<Vec<_>>(), stop);
    }

    /// Hosts whose agents run where this program does and gave 127.0.0.1, while others are elsewhere, each with the address that those
    /// reach: the local one of the route to them. The name of a host may mean 127.0.1.1 on it (Debian), or be one that ssh alone knows.
    fn hidden(&self) -> Vec<(u32, IpAddr)> {
        let found: Vec<Option<(IpAddr, FoundBy)>> = self.hosts.iter().map(Host::found).collect();
        hidden(&found, &route::source)
    }

    fn start_lacking(&mut self, wanted: &[u32], stop: &AtomicBool) {
        let lacking: Vec<(u32, Launch)> = wanted
            .iter()
            .map(|at| (*at, &self.hosts[*at as usize]))
            .filter(|(_, host)| host.link.is_none() && host.failures < GIVEN_UP)
            .map(|(at, host)| (at, host.launch.clone()))
            .collect();
        if lacking.is_empty() {
            return;
        }
        let (next, started, left) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
        let door = self.door.clone();
        std::thread::scope(|scope| {
            let work = || {
                while let Some((at, launch)) = lacking.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !stop.load(Ordering::Relaxed) {
                        let link = match &door {
                            Some(door) => door.take(&launch.host, stop),
                            None => start(launch),
                        };
                        started.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((*at, link));
                    }
                }
                left.fetch_sub(1, Ordering::Release);
            };
            for _ in 0..lacking.len().min(AT_ONCE) {
                left.fetch_add(1, Ordering::Relaxed);
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            }
            while left.load(Ordering::Acquire) > 0 {
                self.keep_alive();
                // What has come in meanwhile has a lease as well.
                let mut started = started.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                started.iter_mut().for_each(|(_, link)| drop(link.as_mut().map(Link::keep_alive)));
                drop(started);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        for (at, link) in started.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            let host = &mut self.hosts[at as usize];
            match link {
                Ok(link) => {
                    host.environment.get_or_insert_with(|| link.environment.clone());
                    host.cpus.clone_from(&link.cpus);
                    (host.link, host.failures, host.why) = (Some(link), 0, None);
                }
                Err(problem) => (host.failures, host.why) = (host.failures + 1, Some(problem)),
            }
        }
    }

    /// Both agents of a pair.
    ///
    /// # Errors
    /// Why one of them is not there.
    pub(super) fn take(&mut self, near: u32, far: u32) -> Result<[Link; 2], Problem> {
        for at in [near, far] {
            let host = &self.hosts[at as usize];
            if host.link.is_none() {
                let missing = || Problem::new("E19", Exit::CannotStart, format!("{} has no agent", host.launch.host));
                return Err(host.why.clone().unwrap_or_else(missing));
            }
        }
        let mut of = |at: u32| self.hosts[at as usize].link.take().expect("it is there");
        Ok([of(near), of(far)])
    }

    /// An agent that stays.
    pub(super) fn put(&mut self, at: u32, link: Link) {
        self.hosts[at as usize].link = Some(link);
    }

    /// Keeps the leases of those who wait. Who is gone is noticed.
    pub(super) fn keep_alive(&mut self) {
        if let Some(door) = &self.door {
            door.keep_alive();
        }
        for host in &mut self.hosts {
            if let Some(link) = &mut host.link
                && let Err(problem) = link.keep_alive()
            {
                (host.link, host.why) = (None, Some(problem));
            }
        }
    }

    /// Hosts whose agents are there.
    pub(super) fn up(&self) -> usize {
        self.hosts.iter().filter(|host| host.link.is_some()).count()
    }

    /// Ends all agents, many at a time: each may take a moment.
    pub(super) fn end(&mut self) {
        let links = Mutex::new(self.hosts.iter_mut().filter_map(|host| host.link.take()).collect::<Vec<_>>());
        let work = || {
            while let Some(link) = { links.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop() } {
                drop(link);
            }
        };
        std::thread::scope(|scope| {
            (0..AT_ONCE).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, work)));
        });
        if let Some(door) = &self.door {
            door.over();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(launch: &Launch) -> Result<Link, Problem> {
    Link::of_host(&launch.host, OnHost { launch }.launch()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_beside_the_coordinator_gets_an_address_that_the_others_reach() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (here, there) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let source = |to: IpAddr| Some(if to == there { here } else { to });
        let own = Some((ip("127.0.0.1"), FoundBy::SameNetwork));
        let other = Some((there, FoundBy::Route));
        assert_eq!(hidden(&[own, other, None, own], &source), [(0, here), (3, here)]);
        assert_eq!(hidden(&[own, own], &source), [], "all of them are here");
        let typed = Some((ip("127.0.0.1"), FoundBy::Typed));
        assert_eq!(hidden(&[typed, other, Some((here, FoundBy::SameNetwork))], &source), []);
    }
}
