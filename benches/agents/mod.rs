//! A mesh whose agents are threads of this process: each comes through the door, proves the token and is an agent as any other, over
//! a socket of loopback; the coordinator is the one that every mesh has. What it costs is what is asked: the times of the messages
//! say little, because all agents share this machine. Some are slow: their data goes through a relay that holds every part of it.

mod control;
mod slow;

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;
use std::time::{Duration, Instant};

use msgpath_agent::handshake::read_sealed_by;
use msgpath_agent::role::{Found, FoundBy, Role};
use msgpath_agent::seal::{Sealing, Seals};
use msgpath_agent::token::Token;
use msgpath_agent::{Begun, Lease, Peer, Reach, Terms, route, session, wire};
use msgpath_analyse::summary::Confidence;
use msgpath_core::Workload;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Launch, Plan};
use msgpath_mesh::analyse::{Fold, MeshSummary};
use msgpath_mesh::hosts_file::HostSpec;
use msgpath_mesh::join::{Caller, REDIAL};
use msgpath_mesh::record::{MESH_FILE, PAIRS_FILE, PairBlock, read_mesh};
use msgpath_mesh::run::{Agents, Door, Expected, MeshProgress, execute};
use msgpath_mesh::schema::{Directions, MESH_SCHEMA, MeshHeader, MeshHost, MeshOrder, Pairs};
use msgpath_sys::limits::allow_open_files;

use control::{Control, Counted};

/// Stack of a thread of an agent that measures nothing: there are thousands of them.
const STACK: usize = 1 << 20;
/// Descriptors of an agent, at both ends of its channel, and of the pairs that are measured.
const FILES_OF_AN_AGENT: u64 = 5;
const OTHER_FILES: u64 = 2_000;
/// All agents are there after this long.
const COME: Duration = Duration::from_secs(300);
/// The lease of an agent until its coordinator has said another.
const LEASE: Duration = Duration::from_secs(60);

/// Which mesh.
pub(crate) struct Asked {
    pub(crate) agents: u32,
    pub(crate) pairs: Pairs,
    /// Pairs at a time.
    pub(crate) at_once: u32,
    /// One agent in so many is slow.
    pub(crate) slow: Option<u32>,
    /// A slow agent's relay holds what it passes on so long, each way.
    pub(crate) delay: Duration,
    /// What is measured of a pair.
    pub(crate) plan: Plan,
}

/// A short echo over the path that a mesh has where none is named.
pub(crate) fn echo(plan: impl FnOnce(Plan) -> Plan) -> Plan {
    let case = Case::new("tcp:send".parse().expect("a path"), Pieces::whole(64));
    plan(Plan { message_log: 0, events: false, ..Plan::new(Workload::ECHO, vec![case]) })
}

/// What came of it.
pub(crate) struct Met {
    agents: u32,
    at_once: u32,
    /// Until all were there.
    coming: Duration,
    /// Memory of one that waits and of what the coordinator keeps of it, KiB.
    kib_of_one: u64,
    /// Control frames of all of them until then, and bytes.
    to_come: [u64; 2],
    /// Threads that wait.
    threads: u64,
    /// Pairs with a result.
    pub(crate) pairs: u64,
    steps: u32,
    took: Duration,
    /// Control frames of the pairs, and bytes.
    pub(crate) control: [u64; 2],
    /// Bytes of the record: of the pairs, of the hosts.
    pub(crate) recorded: [u64; 2],
    /// The most memory that this process ever had, KiB.
    peak_kib: u64,
    /// Nothing is missing.
    pub(crate) complete: bool,
    /// Pairs that were tried again: how many, and why the first of them.
    again: (usize, String),
    /// Agents that are slow.
    pub(crate) planted: usize,
    /// Those that a sentence names, surely or likely; and others that one names.
    found: [usize; 2],
    /// Those among as many agents with the largest effects.
    pub(crate) largest: usize,
    /// Agents that ended because they were told that the mesh is over.
    pub(crate) told: usize,
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |what: u64, of: u64| what as f64 / of.max(1) as f64;
        let (agents, pairs) = (u64::from(self.agents), self.pairs);
        writeln!(
            f,
            "{agents} agents came in {:.1} s: {:.0} frames, {:.1} kB of control and {} KiB of memory each, {} threads",
            self.coming.as_secs_f64(),
            each(self.to_come[0], agents),
            each(self.to_come[1], agents) / 1e3,
            self.kib_of_one,
            self.threads
        )?;
        writeln!(
            f,
            "{pairs} pairs in {} steps of up to {}: {:.1} s, {:.0} pairs a second{}",
            self.steps,
            self.at_once,
            self.took.as_secs_f64(),
            pairs as f64 / self.took.as_secs_f64(),
            if self.complete { "" } else { ", NOT COMPLETE" }
        )?;
        writeln!(
            f,
            "a pair: {:.0} frames and {:.1} kB of control, {:.0} bytes of the record; a host: {:.0} bytes of the record",
            each(self.control[0], pairs),
            each(self.control[1], pairs) / 1e3,
            each(self.recorded[0], pairs),
            each(self.recorded[1], agents)
        )?;
        writeln!(
            f,
            "all: {} frames, {:.1} MB of control, {:.1} MB of record; at most {} MiB of memory, agents and coordinator",
            self.to_come[0] + self.control[0],
            (self.to_come[1] + self.control[1]) as f64 / 1e6,
            (self.recorded[0] + self.recorded[1]) as f64 / 1e6,
            self.peak_kib >> 10
        )?;
        let (found, wrong) = (self.found[0], self.found[1]);
        let (planted, largest) = (self.planted, self.largest);
        writeln!(
            f,
            "{planted} slow agents: {found} found, {wrong} others called slow; {largest} are among the {planted} slowest"
        )?;
        if self.again.0 > 0 {
            writeln!(f, "{} pairs were tried again; the first because {}", self.again.0, self.again.1)?;
        }
        write!(f, "{} of {agents} agents were told that it is over", self.told)
    }
}

/// Carries it out.
pub(crate) fn mesh(asked: &Asked) -> Met {
    allow_open_files(u64::from(asked.agents) * FILES_OF_AN_AGENT + OTHER_FILES).expect("descriptors");
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("token");
    Token::make(&file).expect("a token");
    let token = || Token::read(&file).expect("the token").0;
    let count = asked.agents as usize;
    let door = Door::open("127.0.0.1:0", token(), Expected::Count(count), false).expect("a door");
    let (to, counted, stop) = (door.address.to_string(), Arc::new(Counted::default()), AtomicBool::new(false));
    let (before_kib, begun) = (status("VmRSS:"), Instant::now());
    let is_slow = |rank: u32| asked.slow.is_some_and(|of| rank % of == of / 2);
    let callers: Vec<_> = (0..asked.agents)
        .map(|rank| {
            let (to, token, name) = (to.clone(), token(), named(rank));
            let caller = Caller { to, token, name, rank: None, address: None, redial: REDIAL };
            let (counted, delay) = (Arc::clone(&counted), is_slow(rank).then_some(asked.delay));
            let thread = Builder::new().name("agent".into()).stack_size(STACK);
            // However an agent ends, it asks at the door what follows.
            let work = move || {
                let serve = |stream: TcpStream, seals: &Seals| {
                    let _ = agent(stream, seals, delay, &counted);
                    Ok(())
                };
                caller.join(serve, |why| eprintln!("note: {why}"))
            };
            thread.spawn(work).expect("a thread for each agent")
        })
        .collect();
    assert_eq!(door.wait(COME, &stop), count, "agents that came");
    let (coming, to_come, threads) = (begun.elapsed(), counted.now(), status("Threads:"));
    let kib_of_one = status("VmRSS:").saturating_sub(before_kib) / u64::from(asked.agents);
    let folder = place.path().join("mesh");
    let (header, mut again) = (header(door.names(), asked), Again::default());
    let begun = Instant::now();
    let outcome = execute(header, &folder, Agents::Come(Arc::new(door)), &mut again, &mut |_: &Path| Vec::new(), &stop);
    let (outcome, took, all) = (outcome.expect("a mesh"), begun.elapsed(), counted.now());
    // The coordinator has gone with its door: who has not heard that it is over ends with an error.
    let told = callers.into_iter().filter_map(|one| one.join().ok()).filter(Result::is_ok).count();
    let summary = summary(&folder);
    let planted: Vec<String> = (0..asked.agents).filter(|rank| is_slow(*rank)).map(named).collect();
    let among = |names: &[&str]| names.iter().filter(|name| planted.iter().any(|own| own == *name)).count();
    let called = called_slow(&summary);
    let found = among(&called);
    Met {
        agents: asked.agents,
        at_once: asked.at_once,
        coming,
        kib_of_one,
        to_come,
        threads,
        pairs: summary.measured,
        steps: summary.steps,
        took,
        control: [all[0] - to_come[0], all[1] - to_come[1]],
        recorded: [PAIRS_FILE, MESH_FILE].map(|name| length(&folder.join(name))),
        peak_kib: status("VmHWM:"),
        complete: outcome.complete,
        again: (again.count, again.first),
        found: [found, called.len() - found],
        largest: among(&slowest(&summary, planted.len())),
        planted: planted.len(),
        told,
    }
}

fn named(rank: u32) -> String {
    format!("n{rank}")
}

/// What a process of its own does with such a connection, but for what it takes from itself.
fn agent(stream: TcpStream, seals: &Seals, delay: Option<Duration>, counted: &Arc<Counted>) -> io::Result<()> {
    let (mut from, to) = (Control::new(stream.try_clone()?, counted), Control::new(stream, counted));
    let (mut hears, mut to) = (Some(seals.hears.clone()), Sealing::new(to, Some(seals.says.clone())));
    let (Role::OnHost(known), _) = read_sealed_by::<Role>(&mut from, &mut hears, Instant::now() + COME)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let address = known.address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    wire::write(&mut to, &Found { address: Some((address, FoundBy::Typed)), own: route::addresses() }, &[])?;
    let (peer, lease) =
        (Peer { host: Some((address, 0).into()), reach: Reach::Joined, ..Peer::default() }, Lease::new(LEASE));
    let (mut to, says) = to.into_parts();
    let seals = says.zip(hears).map(|(says, hears)| Seals { says, hears, veil: seals.veil.clone() });
    match delay {
        None => session(&mut from, &mut to, Begun { first: None, seals }, peer, &Terms::default(), &lease),
        Some(delay) => slow::behind_relays((from, to), seals, delay, |from, to| {
            session(from, to, Begun::default(), peer, &Terms::default(), &lease)
        }),
    }
}

/// Pairs that failed.
#[derive(Default)]
struct Again {
    count: usize,
    first: String,
}

impl MeshProgress for Again {
    fn pair(&mut self, _: &MeshHeader, block: &PairBlock) {
        if let PairBlock::Failed(failed) = block {
            if self.count == 0 {
                self.first = format!("{} {}", failed.problem.what, failed.problem.why);
            }
            self.count += 1;
        }
    }
}

/// The mesh of these agents.
pub(crate) fn header(names: Vec<String>, asked: &Asked) -> MeshHeader {
    let host = |name| MeshHost { spec: HostSpec { name, ..HostSpec::default() }, environment: None };
    MeshHeader {
        schema: MESH_SCHEMA.into(),
        name: "agents".into(),
        started: msgpath_record::utc::now(),
        command: Vec::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        plan: asked.plan.clone(),
        launch: Launch::none(),
        hosts: names.into_iter().map(host).collect(),
        order: MeshOrder {
            pairs: asked.pairs.clone(),
            directions: Directions::One,
            parallel: Some(asked.at_once),
            limits: Vec::new(),
            retests: 0,
            alone_ppm: 0,
        },
        planned: 0,
        sla: Vec::new(),
        resumed: Vec::new(),
    }
}

/// What the record of a mesh says.
pub(crate) fn summary(folder: &Path) -> MeshSummary {
    let mut fold = Fold::new(&[]);
    let mesh = read_mesh(folder, |block| fold.take(&block)).expect("its record");
    fold.finish(&mesh.header, mesh.end.as_ref(), mesh.damage.as_ref())
}

/// Hosts that a sentence calls slow to everyone, surely or likely.
pub(crate) fn called_slow(summary: &MeshSummary) -> Vec<&str> {
    let said = summary.findings.iter().filter(|one| one.code == "M01" && one.confidence != Confidence::CantTell);
    said.filter_map(|one| one.text.split(' ').next()).collect()
}

/// So many hosts with the largest effects, by name.
fn slowest(summary: &MeshSummary, count: usize) -> Vec<&str> {
    let hosts = summary.cases.iter().flat_map(|case| &case.hosts);
    let mut effects: Vec<(f64, &str)> = hosts.filter_map(|one| Some((one.factor?[1], one.host.as_str()))).collect();
    effects.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    effects.into_iter().take(count).map(|(_, name)| name).collect()
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

/// A number of this process: KiB, or a count.
pub(crate) fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}
