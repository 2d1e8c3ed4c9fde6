//! Where the agents of a mesh come in by themselves: one srun, mpirun or a Kubernetes Job gives no pipe to each process that it
//! starts, so they dial. Who proves that it has the token is greeted as every agent, and stays.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use msgpath_agent::crowd::first_to_go;
use msgpath_agent::greeting::GREETING;
use msgpath_agent::handshake::{Question, read_by, read_sealed_by};
use msgpath_agent::role::{Found, Network, Role, Surroundings};
use msgpath_agent::route;
use msgpath_agent::seal::{Seal, Sealing, Seals, Veil};
use msgpath_agent::serve::cannot_listen;
use msgpath_agent::token::Token;
use msgpath_agent::wire::{self, Addresses, FromDoor, Joining, Nonce, Proves};
use msgpath_core::{Exit, Problem};
use msgpath_run::Link;
use msgpath_run::launch::Stream;
use msgpath_sys::limits::allow_open_files;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::socket::set_backlog;

use crate::hosts::{self, MAX_HOSTS};
use crate::join::{JOIN, PATIENCE};

/// Callers that have not proven anything: in all, and from one address. They are few at a time; the others wait in the kernel.
const UNPROVEN: usize = 64;
const UNPROVEN_OF_ONE: usize = 32;
/// Where there are more, the one that has waited longest goes, once it has waited for longer than an agent takes to answer.
const SLOW: Duration = Duration::from_secs(1);
/// Agents that are greeted at a time: each looks around on its machine first, and has so long for it.
const GREETED: usize = 64;
/// Descriptors of an agent, and of all else.
const FILES_OF_AN_AGENT: usize = 3;
const OTHER_FILES: usize = 256;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;
/// How long an agent may take to say where its data connections go.
const ANSWER: Duration = Duration::from_secs(15);
/// How long a host is waited for whose agent was there before.
const COMES_BACK: Duration = Duration::from_secs(5);
/// How long the end waits for the next of the agents that come once more, to be told that it is over.
const LEAVE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);
const LOOK_MS: i32 = 100;

/// Which agents a mesh waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Those of these hosts.
    Named(Vec<String>),
    /// So many, whatever they are called.
    Count(usize),
}

/// An agent as it came.
struct Agent {
    name: String,
    rank: Option<u32>,
    instance: Nonce,
    /// Not taken yet, or not any more there.
    link: Option<Link>,
    /// It was told that the mesh is over.
    left: bool,
}

#[derive(Default)]
struct Came {
    /// In the order in which they came first; their names are final once `named`.
    agents: Vec<Agent>,
    named: bool,
    /// Those that have not proven anything, the longest wait first.
    unproven: VecDeque<Unproven>,
    /// The number of the next of them.
    next: u64,
}

/// A caller that has not proven anything.
struct Unproven {
    number: u64,
    from: IpAddr,
    since: Instant,
    stream: TcpStream,
}

struct Shared {
    token: Token,
    expected: Expected,
    /// Proofs do not cover the addresses of their connection: a translator of addresses is in between.
    behind_nat: bool,
    /// It listens at all addresses of this host.
    everywhere: bool,
    came: Mutex<Came>,
    greeted: AtomicUsize,
    /// The mesh has ended: whoever comes is told so.
    over: AtomicBool,
    /// Nobody is listened to any more.
    closed: AtomicBool,
}

/// The listening socket, and who has come through it.
pub struct Door {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    fn came(&self) -> MutexGuard<'_, Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// Listens at `place`, HOST:PORT. `behind_nat`: agents may see other addresses of their connection than this end.
    ///
    /// # Errors
    /// E01.
    pub fn open(place: &str, token: Token, expected: Expected, behind_nat: bool) -> Result<Self, Problem> {
        let cannot = |error: io::Error| cannot_listen(place, &error);
        let resolved: Vec<SocketAddr> = place.to_socket_addrs().map_err(cannot)?.collect();
        let address = *resolved.first().ok_or_else(|| cannot(io::ErrorKind::AddrNotAvailable.into()))?;
        let all = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        let listener = if means_itself(place, &resolved) {
            TcpListener::bind(all).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())))
        } else {
            TcpListener::bind(address)
        };
        let listener = listener.map_err(cannot)?;
        set_backlog(listener.as_fd(), BACKLOG).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let agents = match &expected {
            Expected::Named(names) => names.len(),
            Expected::Count(count) => *count,
        };
        allow_open_files((agents * FILES_OF_AN_AGENT + OTHER_FILES) as u64).map_err(cannot)?;
        let shared = Arc::new(Shared {
            token,
            expected,
            behind_nat,
            everywhere: address.ip().is_unspecified(),
            came: Mutex::default(),
            greeted: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("door".into()).spawn(move || listen(&listener, &own));
        Ok(Self { address, shared, thread: Some(thread.map_err(cannot)?) })
    }

    /// Waits until all are there that are expected, so long at most. How many are there.
    pub fn wait(&self, patience: Duration, stop: &AtomicBool) -> usize {
        let expected = match &self.shared.expected {
            Expected::Named(names) => names.len(),
            Expected::Count(count) => *count,
        };
        let until = Instant::now() + patience;
        loop {
            self.keep_alive();
            let there = self.shared.came().agents.iter().filter(|agent| agent.link.is_some()).count();
            if there >= expected || Instant::now() > until || stop.load(Ordering::Relaxed) {
                return there;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The names of those that have come, in their order; from now on they are theirs, and no new ones come in. Several of one
    /// name are told apart by their ranks.
    pub fn names(&self) -> Vec<String> {
        let mut came = self.shared.came();
        if let (Expected::Count(_), false) = (&self.shared.expected, came.named) {
            came.agents.retain(|agent| agent.link.is_some());
            let asked: Vec<(String, Option<u32>)> =
                came.agents.iter().map(|agent| (agent.name.clone(), agent.rank)).collect();
            for (agent, name) in came.agents.iter_mut().zip(apart(&asked)) {
                agent.name = name;
            }
        }
        came.named = true;
        let mut names: Vec<String> = came.agents.iter().map(|agent| agent.name.clone()).collect();
        hosts::sort(&mut names);
        names
    }

    /// The agent of a host.
    ///
    /// # Errors
    /// E19: none has come, or it has not come back.
    pub(super) fn take(&self, name: &str, stop: &AtomicBool) -> Result<Link, Problem> {
        let until = Instant::now() + COMES_BACK;
        loop {
            let mut came = self.shared.came();
            let agent = came.agents.iter_mut().find(|agent| agent.name == name);
            let known = agent.is_some();
            if let Some(link) = agent.and_then(|agent| agent.link.take()) {
                return Ok(link);
            }
            drop(came);
            if !known || Instant::now() > until || stop.load(Ordering::Relaxed) {
                let what = if known {
                    format!("the agent of {name} has not come back")
                } else {
                    format!("no agent of {name} has come")
                };
                return Err(Problem::new("E19", Exit::CannotStart, what));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Keeps the leases of those that are not taken.
    pub(super) fn keep_alive(&self) {
        for agent in &mut self.shared.came().agents {
            if agent.link.as_mut().is_some_and(|link| link.keep_alive().is_err()) {
                agent.link = None;
            }
        }
    }

    /// The mesh has ended: all agents are let go, and told so when they come once more.
    pub(super) fn over(&self) {
        if self.shared.over.swap(true, Ordering::Relaxed) {
            return;
        }
        let links: Vec<Link> = self.shared.came().agents.iter_mut().filter_map(|agent| agent.link.take()).collect();
        drop(links);
        let waiting = || self.shared.came().agents.iter().filter(|agent| !agent.left).count();
        let (mut left, mut until) = (waiting(), Instant::now() + LEAVE);
        while left > 0 && Instant::now() < until {
            std::thread::sleep(LOOK);
            let now = waiting();
            if now < left {
                (left, until) = (now, Instant::now() + LEAVE);
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.over();
        self.shared.closed.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a place is the name of this host, which means 127.0.1.1 on it (Debian): other hosts reach it at its other addresses.
fn means_itself(place: &str, resolved: &[SocketAddr]) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    !is_address && host != "localhost" && resolved.iter().all(|address| address.ip().is_loopback())
}

/// The address of an agent's data connections. One that dialled from this host over its loopback device is reached by the others at the
/// address from which packets to them leave: to one that has come, else to anywhere.
fn reachable(dialled: IpAddr, others: &[IpAddr], own: &[IpAddr]) -> IpAddr {
    if !dialled.is_loopback() {
        return dialled;
    }
    let to = others.iter().filter(|address| !address.is_loopback()).filter_map(|address| route::source(*address));
    to.chain(own.iter().copied()).find(|own| !own.is_loopback()).unwrap_or(dialled)
}

/// Names of which no two are the same: where several have one, each has its rank, or the next number that is free.
fn apart(asked: &[(String, Option<u32>)]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, rank) in asked {
        let alone = asked.iter().filter(|(other, _)| other == name).count() == 1;
        let ranked = rank.map(|rank| format!("{name}.{rank}"));
        let numbered = (0..=asked.len()).map(|number| format!("{name}.{number}"));
        let own = alone.then(|| name.clone());
        let free = own.into_iter().chain(ranked).chain(numbered).find(|name| !names.contains(name));
        names.push(free.unwrap_or_else(|| name.clone()));
    }
    names
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.closed.load(Ordering::Relaxed) {
        if !shared.has_room() {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        if !poll(listener.as_fd(), Interest::Read, LOOK_MS).unwrap_or(false) {
            continue;
        }
        let Ok((stream, from)) = listener.accept() else {
            // No descriptor is left, for instance: later again.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let Some(place) = Place::of(shared, from.ip(), &stream) else { continue };
        let started = std::thread::Builder::new().name("caller".into()).spawn(move || {
            // Whoever does not prove itself is nobody; an agent of ours tries again.
            let _ = place.shared.clone().let_in(stream, place);
        });
        drop(started);
    }
}

/// One of those that have not proven anything.
struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Place {
    fn of(shared: &Arc<Shared>, from: IpAddr, stream: &TcpStream) -> Option<Self> {
        let stream = stream.try_clone().ok()?;
        let mut came = shared.came();
        let waiting = came.unproven.iter().map(|caller| &caller.from);
        if let Some(at) = first_to_go(waiting, &from, UNPROVEN, UNPROVEN_OF_ONE)
            && !came.end(at)
        {
            return None;
        }
        let number = came.next;
        came.next += 1;
        came.unproven.push_back(Unproven { number, from, since: Instant::now(), stream });
        Some(Self { shared: Arc::clone(shared), number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.came().unproven.retain(|caller| caller.number != self.number);
    }
}

impl Came {
    /// Ends a caller, unless it may be about to answer.
    fn end(&mut self, at: usize) -> bool {
        let slow = self.unproven.get(at).is_some_and(|caller| caller.since.elapsed() > SLOW);
        if slow && let Some(caller) = self.unproven.remove(at) {
            let _ = caller.stream.shutdown(Shutdown::Both);
        }
        slow
    }
}

impl Shared {
    /// Whether another caller can be let in now, at the cost of a slow one perhaps. The others wait in the kernel.
    fn has_room(&self) -> bool {
        let mut came = self.came();
        came.unproven.len() < UNPROVEN || came.end(0)
    }

    /// Greets, and asks for the token. `None`: the caller has another one.
    fn proven(&self, stream: &mut TcpStream) -> io::Result<Option<Seals>> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (question, opening) = Question::new(!self.behind_nat)?;
        stream.write_all(&[&GREETING[..], &opening].concat())?;
        let (proves, _) = read_by::<Proves>(stream, Instant::now() + PATIENCE)?;
        let seen = Addresses::of(stream, false)?;
        let (answer, seals) = question.judge(&self.token, JOIN, &proves, Some(&seen));
        wire::write(stream, &answer, &[])?;
        Ok(seals)
    }

    fn let_in(&self, mut stream: TcpStream, place: Place) -> Result<(), Problem> {
        let failed = |error: io::Error| Problem::new("E17", Exit::Unfinished, error.to_string());
        let Some(Seals { says, hears, veil }) = self.proven(&mut stream).map_err(failed)? else { return Ok(()) };
        let mut hears = Some(hears);
        let joining = read_sealed_by::<Joining>(&mut stream, &mut hears, Instant::now() + PATIENCE);
        let (joining, _) = joining.map_err(failed)?;
        let mut to = Sealing::new(Closes(stream.try_clone().map_err(failed)?), Some(says));
        let say = |to: &mut Sealing<Closes>, what: FromDoor| wire::write(to, &what, &[]).map_err(failed);
        drop(place);
        if self.over.load(Ordering::Relaxed) {
            say(&mut to, FromDoor::Over)?;
            let mut came = self.came();
            came.agents
                .iter_mut()
                .filter(|agent| agent.instance == joining.instance)
                .for_each(|agent| agent.left = true);
            return Ok(());
        }
        let placed = self.placed(&mut self.came(), &joining);
        if let Err(why) = placed {
            return say(&mut to, FromDoor::Unwanted { why });
        }
        while self.greeted.fetch_add(1, Ordering::Relaxed) >= GREETED {
            self.greeted.fetch_sub(1, Ordering::Relaxed);
            std::thread::sleep(LOOK);
        }
        let address = self.address(&joining, &stream);
        let link = say(&mut to, FromDoor::Welcome).and_then(|()| greeted(&joining, address, stream, to, (hears, veil)));
        self.greeted.fetch_sub(1, Ordering::Relaxed);
        let mut came = self.came();
        if link.is_err() && !came.named {
            came.agents.retain(|agent| agent.instance != joining.instance || agent.link.is_some());
        }
        let link = link?;
        // Somebody else may have taken the place meanwhile: the link ends then, and its agent comes again.
        if let Ok(at) = self.placed(&mut came, &joining)
            && !self.over.load(Ordering::Relaxed)
        {
            let Joining { instance, .. } = joining;
            (came.agents[at].instance, came.agents[at].link) = (instance, Some(link));
        }
        Ok(())
    }

    /// Where the data connections of an agent go.
    fn address(&self, joining: &Joining, stream: &TcpStream) -> IpAddr {
        // Where all come over the loopback device, nobody needs another address.
        if stream.local_addr().is_ok_and(|own| own.ip().is_loopback()) && !self.everywhere {
            return joining.address;
        }
        let came = self.came();
        let others = came.agents.iter().filter_map(|agent| Some(agent.link.as_ref()?.peer?.ip()));
        reachable(joining.address, &others.collect::<Vec<_>>(), &route::addresses())
    }

    /// The place of an agent among those that have come; it is made if there is one. Why there is none.
    fn placed(&self, came: &mut Came, joining: &Joining) -> Result<usize, String> {
        let Joining { name, rank, instance, .. } = joining;
        hosts::check(name)?;
        if let Some(at) = came.agents.iter().position(|agent| agent.instance == *instance) {
            return Ok(at);
        }
        let ranked = rank.map(|rank| format!("{name}.{rank}"));
        let new = |name: String| Agent { name, rank: *rank, instance: *instance, link: None, left: false };
        let expected = match &self.expected {
            Expected::Count(count) if !came.named => {
                if came.agents.len() >= *count.min(&MAX_HOSTS) {
                    return Err(format!("it has its {count} agents"));
                }
                came.agents.push(new(name.clone()));
                return Ok(came.agents.len() - 1);
            }
            Expected::Count(_) => came.agents.iter().map(|agent| agent.name.clone()).collect(),
            Expected::Named(names) => names.clone(),
        };
        // It was started again, or is one of those that are waited for.
        let mut known = false;
        for own in std::iter::once(name.clone()).chain(ranked).filter(|own| expected.contains(own)) {
            known = true;
            match came.agents.iter().position(|agent| agent.name == own) {
                None => {
                    came.agents.push(new(own));
                    return Ok(came.agents.len() - 1);
                }
                Some(at) if came.agents[at].link.is_none() => return Ok(at),
                Some(_) => {}
            }
        }
        Err(if known { "there is an agent of that name".into() } else { "it is not among its hosts".into() })
    }
}

/// Half of a connection that ends with it.
struct Closes(TcpStream);

impl Write for Closes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Closes {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Tells an agent what it is, and greets it.
fn greeted(
    joining: &Joining,
    address: IpAddr,
    mut from: TcpStream,
    mut to: Sealing<Closes>,
    (mut hears, veil): (Option<Seal>, Veil),
) -> Result<Link, Problem> {
    let name = &joining.name;
    let failed = |error: io::Error| msgpath_run::vanished(&format!("agent of {name}"), error);
    let known =
        Surroundings { address: Some(address), named: Vec::new(), near: route::addresses(), network: Network::own() };
    Role::OnHost(Box::new(known)).give(&mut to).map_err(failed)?;
    let found = read_sealed_by::<Found>(&mut from, &mut hears, Instant::now() + ANSWER).map_err(failed)?.0;
    let Some((address, by)) = found.address else {
        return Err(Problem::new(
            "E71",
            Exit::CannotStart,
            format!("the agent of {name} has no address for data connections"),
        ));
    };
    let (to, says) = to.into_parts();
    let seals = says.zip(hears).map(|(says, hears)| Seals { says, hears, veil });
    let mut stream = Stream::new(from, to);
    (stream.peer, stream.found, stream.seals) = (Some((address, 0).into()), Some(by), seals);
    Link::of_host(name, stream)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn the_name_of_this_host_that_means_loopback_is_listened_at_everywhere() {
        let at = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        assert!(means_itself("n1:7000", &at("127.0.1.1:7000")));
        assert!(!means_itself("n1:7000", &at("10.0.0.1:7000")));
        for (place, address) in [("localhost:7", "127.0.0.1:7"), ("127.0.0.1:7", "127.0.0.1:7"), ("[::1]:7", "[::1]:7")]
        {
            assert!(!means_itself(place, &at(address)), "{place}");
        }
    }

    #[test]
    fn an_agent_that_dialled_over_loopback_is_given_another_address() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (loopback, own) = (ip("127.0.1.1"), ip("192.0.2.7"));
        assert_eq!(reachable(own, &[], &[]), own);
        assert_eq!(reachable(loopback, &[loopback], &[loopback, own]), own);
        assert_eq!(reachable(loopback, &[], &[]), loopback, "there is no other");
    }

    #[test]
    fn agents_of_one_name_are_told_apart() {
        let of = |all: &[(&str, Option<u32>)]| {
            apart(&all.iter().map(|(name, rank)| ((*name).to_owned(), *rank)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[("n1", Some(0)), ("n2", Some(1))]), ["n1", "n2"]);
        assert_eq!(of(&[("n1", Some(4)), ("n2", None), ("n1", Some(0))]), ["n1.4", "n2", "n1.0"]);
        assert_eq!(of(&[("n1", None), ("n1", None), ("n1", Some(1))]), ["n1.0", "n1.1", "n1.2"]);
    }

    /// What both sides have.
    pub fn token() -> Token {
        let file =
            std::env::temp_dir().join(format!("msgpath-door-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::write(&file, "0123456789abcdef").unwrap();
        let token = Token::read(&file).unwrap().0;
        std::fs::remove_file(file).unwrap();
        token
    }

    fn shared(expected: Expected) -> Shared {
        let token = token();
        let (behind_nat, came, greeted, over, closed) = Default::default();
        Shared { token, expected, behind_nat, everywhere: false, came, greeted, over, closed }
    }

    fn joining(name: &str, rank: Option<u32>, instance: u8) -> Joining {
        let nonce = Nonce([instance; 16]);
        let address = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
        Joining { name: name.into(), rank, instance: nonce, address }
    }

    #[test]
    fn silent_callers_make_room_for_one_that_comes() {
        let door = Arc::new(shared(Expected::Count(2)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let calls = |from: u8| {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            (near, Place::of(&door, IpAddr::from([127, 0, 0, from]), &far))
        };
        let mut silent: Vec<_> = (0..UNPROVEN).map(|at| calls(if at % 2 == 0 { 2 } else { 3 })).collect();
        assert!(silent.iter().all(|(_, place)| place.is_some()));
        assert!(!door.has_room() && calls(4).1.is_none(), "they may be about to answer");
        for caller in &mut door.came().unproven {
            caller.since -= 2 * SLOW;
        }
        let (_near, place) = calls(4);
        assert!(place.is_some() && door.came().unproven.len() == UNPROVEN);
        let ended = std::io::Read::read(&mut silent[0].0, &mut [0]);
        assert_eq!(ended.unwrap(), 0, "the one that has waited longest");
        assert!(door.has_room(), "the next one goes when somebody comes");
        drop((silent, place));
        assert!(door.came().unproven.is_empty());
    }

    #[test]
    fn only_who_is_expected_has_a_place() {
        let named = shared(Expected::Named(vec!["n1".into(), "n2.3".into()]));
        let mut came = Came::default();
        assert_eq!(named.placed(&mut came, &joining("n1", Some(0), 1)), Ok(0));
        assert_eq!(named.placed(&mut came, &joining("n2", Some(3), 2)), Ok(1), "by its rank");
        assert_eq!(came.agents[1].name, "n2.3");
        assert_eq!(named.placed(&mut came, &joining("n1", Some(0), 1)), Ok(0), "it comes again");
        assert_eq!(named.placed(&mut came, &joining("n1", Some(7), 9)), Ok(0), "started again, the first is gone");
        assert!(named.placed(&mut came, &joining("n3", None, 3)).unwrap_err().contains("not among"));
        assert!(named.placed(&mut came, &joining("../n1", None, 4)).is_err());
        let two = shared(Expected::Count(2));
        let mut came = Came::default();
        assert_eq!(two.placed(&mut came, &joining("a", None, 1)), Ok(0));
        assert_eq!(two.placed(&mut came, &joining("a", None, 2)), Ok(1));
        assert!(two.placed(&mut came, &joining("a", None, 3)).unwrap_err().contains("2 agents"));
    }
}
