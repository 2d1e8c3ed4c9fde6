//! Periodic runs: several processes, each with one or more components that send a message every period to all others.
//!
//! The processes are children of this one and programs of their own, so they have what vehicles have: their own start, their
//! own memory, their own place on the run queue. A session is one start of all of them over one engine; its messages are cut
//! into slices of time, which are the rounds of the record.

pub mod aside;
mod clocks;
mod collected;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::agent::orders::{FromProcess, GroupOrder, HEAD, MAX_COMPONENTS, MAX_ROWS, Order, ROLE, ToProcess};
use crate::agent::{engine, mac};
use crate::record::{GroupFacts, PeriodicFacts, PeriodicSession};
use msgpath_agent::wire::{FromEnd, ToEnd};
use msgpath_agent::{environment, route};
use msgpath_core::group::Group;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{Between, ChannelOptions, EndPlace};
use msgpath_core::schema::{ClockFacts, Environment, FAR, MessageRow, NEAR, RoundRecord, RunEnd, RunHeader};
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{Case, Exit, Launch, Plan, Problem, Unavailable};
use msgpath_record::RunWriter;
use msgpath_sys::area::Area;
use msgpath_sys::{clock, random};
use serde::{Deserialize, Serialize};

pub use crate::agent::mac::Mac;
pub use crate::agent::orders::Start;

use clocks::Clocks;
use collected::{Collected, Place, join, of_another_host, unpack};
use msgpath_run::launch::{Launcher as _, OnHost};
use msgpath_run::{Link, Others, Progress, had, out_of_turn, until_over, written};

/// What all sessions have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Periodic {
    pub processes: u32,
    /// Components in each.
    pub components: u32,
    /// Time between two messages of a component, ns.
    pub period_ns: u64,
    /// Most that chance adds to a message's time, ns; less than the period.
    pub jitter_ns: u64,
    /// Messages of a component in a session.
    pub messages: u64,
    /// The first so many are shown apart.
    pub first: u64,
    /// Slices of the rest: rounds of a session.
    pub slices: u32,
    /// How components begin.
    pub start: Start,
    /// Authentication.
    pub mac: Mac,
    /// A multicast group: the first process sends to it, the others receive.
    pub group: Option<SendTo>,
}

/// How a multicast group is sent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendTo {
    /// The group, with the sender's device.
    pub group: Group,
    /// TTL or hop limit.
    pub hops: u8,
    /// The device that receivers join on, where it is another.
    pub join: Option<String>,
    /// Hosts of the receivers, one each, and what starts them there; empty: they are on this machine.
    #[serde(default)]
    pub hosts: Vec<Launch>,
}

impl SendTo {
    /// What a process in this place is told of it.
    fn order(&self, between: Option<&Between>, place: String) -> GroupOrder {
        GroupOrder {
            group: self.group.clone(),
            hops: self.hops,
            looped: between.is_none_or(|between| between.ends.iter().skip(1).any(|place| place == between.of(NEAR))),
            join: self.join.clone(),
            place,
        }
    }

    /// The address that it is sent from, as a receiver on another host would find the way back to it.
    fn from(&self) -> Option<IpAddr> {
        let from: IpAddr = route::to((self.group.address, self.group.port)).ok()?.from.parse().ok()?;
        let of_one_link = matches!(from, IpAddr::V6(from) if from.is_unicast_link_local());
        (!from.is_loopback() && !of_one_link).then_some(from)
    }
}

/// What to execute: the plan's cases are engines, all with one size; its restarts are sessions of each.
#[derive(Clone, Debug)]
pub struct Request {
    /// The plan; its rounds are `slices` times its restarts.
    pub plan: Plan,
    /// The components and what they send.
    pub periodic: Periodic,
    pub command: Vec<String>,
    pub name: String,
    /// The folder of the run; it must not exist yet.
    pub folder: PathBuf,
}

/// Told what happens between sessions.
pub type Notify<'a> = &'a mut dyn FnMut(&str);

/// How long processes may take to become ready, and to bring their rows home.
const PATIENCE: Duration = Duration::from_secs(30);
/// From the word to the first period, ns.
const LEAD: u64 = 50_000_000;
/// The largest datagram of UDP over IPv4, bytes.
const MOST_DATAGRAM: u64 = 65_507;
/// Bytes that the slots of one writer may take together.
const SLOT_BYTES: u64 = 4 << 20;

impl Periodic {
    /// Checks what no parser can see.
    ///
    /// # Errors
    /// A [`Problem`] with exit code 2.
    pub fn validate(&self, size: u64) -> Result<(), Problem> {
        let usage = |what: String, hint: String| Err(Problem::new("E11", Exit::Usage, what).hint(hint));
        let of = self.processes.saturating_mul(self.components);
        if of < 2 {
            return usage("one component has nobody to send to".into(), "-n 2 or more".into());
        }
        if of > MAX_COMPONENTS && self.group.is_some() {
            return usage(
                format!("{} receivers; the limit is {}", of - 1, MAX_COMPONENTS - 1),
                format!("--receivers {} or fewer", MAX_COMPONENTS - 1),
            );
        }
        if of > MAX_COMPONENTS {
            return usage(
                format!("{of} components; the limit is {MAX_COMPONENTS}"),
                "a smaller -n or --threads".into(),
            );
        }
        let least = (HEAD + self.mac.length()) as u64;
        if size < least {
            return usage(
                format!("{size} bytes have no room for a message's head and tag, which take {least}"),
                format!("-l {least} or more"),
            );
        }
        if size > msgpath_sys::area::MAX_SIZE as u64 {
            return usage(format!("a periodic message of {size} bytes; the limit is 1 MiB"), "-l 256".into());
        }
        if self.messages == 0 || self.slices == 0 {
            return usage("no message measures nothing".into(), "-c 1000".into());
        }
        let rows = self.messages.saturating_mul(u64::from(of)).saturating_mul(u64::from(self.components));
        if rows > MAX_ROWS {
            return usage(
                format!("{} messages of {of} components are more than a process keeps", self.messages),
                format!("-c {}", (MAX_ROWS / u64::from(of) / u64::from(self.components)).max(1)),
            );
        }
        if self.period_ns == 0 || self.period_ns > 60_000_000_000 {
            return usage("a period is more than 0 and at most a minute".into(), "--period 10ms".into());
        }
        if self.on_hosts() && self.start == Start::Storm {
            return usage(
                "on other hosts receivers are ready before the first message: their clocks are read first".into(),
                "without --start storm".into(),
            );
        }
        if self.jitter_ns >= self.period_ns {
            return usage(
                "jitter as long as the period would mix up the messages' order".into(),
                "a smaller --jitter".into(),
            );
        }
        if self.length() > Duration::from_secs(6 * 3600) {
            return usage(
                format!("{} messages take more than six hours at this period", self.messages),
                "a smaller -c or --period".into(),
            );
        }
        Ok(())
    }

    /// Number of the first component at the far side of the link; 0: this engine crosses none.
    fn border(&self, case: &Case, options: &ChannelOptions) -> u32 {
        // All receive from the first one.
        if self.group.is_some() {
            return 1;
        }
        let crosses = options.between.is_some() && case.path.transport == "eth";
        if crosses { self.processes.div_ceil(2) * self.components } else { 0 }
    }

    /// Whether receivers are on other hosts.
    fn on_hosts(&self) -> bool {
        self.group.as_ref().is_some_and(|to| !to.hosts.is_empty())
    }

    /// What starts a process on its host; `None`: it is started here.
    fn launch_of(&self, process: u32) -> Option<&Launch> {
        self.group.as_ref()?.hosts.get(process.checked_sub(1)? as usize)
    }

    /// Where a process is, and the place that it speaks with.
    fn places(&self, between: &Between, process: u32) -> [EndPlace; 2] {
        if self.group.is_some() {
            return places_of_group(between, process);
        }
        let mut ends = [NEAR, FAR].map(|end| between.of(end).clone());
        if process >= self.processes.div_ceil(2) {
            ends.reverse();
        }
        ends
    }

    /// What a process is called.
    fn name_of(&self, process: u32) -> String {
        match (&self.group, process, self.launch_of(process)) {
            (None, ..) => format!("process {process}"),
            (Some(_), 0, _) => "sender".into(),
            (Some(_), receiver, None) => format!("receiver {receiver}"),
            (Some(_), receiver, Some(launch)) => format!("receiver {receiver} on {}", launch.host),
        }
    }

    fn components_of_all(&self) -> u32 {
        self.processes * self.components
    }

    /// From the first to the last send of a session.
    fn length(&self) -> Duration {
        Duration::from_nanos(self.period_ns.saturating_mul(self.messages.saturating_add(1)))
    }

    fn facts(&self) -> PeriodicFacts {
        PeriodicFacts {
            processes: self.processes,
            components: self.components,
            period_ns: self.period_ns,
            jitter_ns: self.jitter_ns,
            messages: self.messages,
            first: self.first,
            start: self.start.name().into(),
            mac: self.mac.name().into(),
            cpus: msgpath_sys::affinity::allowed().len() as u32,
            group: self.group.as_ref().map(|to| GroupFacts {
                group: to.group.to_string(),
                hops: to.hops,
                join: to.join.clone(),
                hosts: to.hosts.iter().map(|launch| launch.host.clone()).collect(),
            }),
            sessions: Vec::new(),
        }
    }
}

/// Whether an engine can be had here.
fn available(case: &Case, options: &ChannelOptions, group: bool) -> Result<(), Unavailable> {
    engine::carries(&case.path)?;
    if group && case.path.transport != "udp" {
        let why = format!("{} does not reach a multicast group", case.path.transport);
        return Err(Unavailable::new(why, "-x udp, udp/epoll, udp/spin ..."));
    }
    if group && case.size > MOST_DATAGRAM {
        return Err(Unavailable::new(format!("a datagram has at most {MOST_DATAGRAM} bytes"), "-l 1400"));
    }
    if group {
        return Ok(());
    }
    if options.between.is_some() && case.path.transport == "udp" {
        return Err(Unavailable::new(
            "udp reaches all processes at loopback addresses, and those do not lead into another namespace",
            "-x eth/sigio, or no --between",
        ));
    }
    written::carrier(case, false)?.transport.suits(options, case.size)
}

/// Frames go through the device of the link, where there is one.
fn across(options: &mut ChannelOptions) {
    if let Some(between) = &options.between
        && let Some(route) = between.of(FAR).address.parse::<IpAddr>().ok().and_then(|to| route::to((to, 0)).ok())
    {
        options.interface = route.device;
    }
}

/// Executes a periodic run and writes its record.
///
/// # Errors
/// A [`Problem`] with its exit code. Where the record had begun, it holds what was measured, and the problem.
pub fn execute(
    request: Request,
    given: Notify<'_>,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<RunEnd, Problem> {
    let Request { mut plan, periodic, command, name, folder } = request;
    for case in &plan.cases {
        periodic.validate(case.size)?;
    }
    plan.validate()?;
    plan.declare(msgpath_paths::traits);
    across(&mut plan.options);
    let options = plan.options.clone();
    let unavailable = written::leave_out(&mut plan, |case| available(case, &options, periodic.group.is_some()))?;
    let (cost_ns, step_ns) = clock::measure(100_000);
    let machine = environment::read();
    let mut header = RunHeader {
        unavailable,
        parts: Parts::default().with(periodic.facts()),
        ..written::header(name, "periodic", command, "this machine".into(), plan)
    };
    header.set_hosts([machine.clone(), machine]);
    header.ends[NEAR].clock = ClockFacts { cost_ns, step_ns };
    let mut writer = RunWriter::create(&folder, &header).map_err(Problem::from)?;
    let begin = clock::now();
    let result = {
        progress.started(&header);
        progress.planned(&header.plan);
        let mut watching = Watching { given, progress, stop };
        sessions(&mut header, &periodic, begin, &mut writer, &mut watching)
    };
    let end = written::ended(&mut writer, &result, BTreeMap::new());
    result.and(end)
}

/// Who looks on, and may stop it.
struct Watching<'a> {
    given: Notify<'a>,
    progress: &'a mut dyn Progress,
    stop: &'a AtomicBool,
}

/// All sessions of all engines: each restart once through, in an order by chance. `Ok(false)`: stopped before the last.
fn sessions(
    header: &mut RunHeader,
    periodic: &Periodic,
    begin: u64,
    writer: &mut RunWriter,
    watching: &mut Watching<'_>,
) -> Result<bool, Problem> {
    let Watching { given, progress, stop } = watching;
    let (mut done, of) = (0, header.plan.total_rounds());
    let (seed, restarts) = (header.plan.seed, header.plan.restarts);
    let mut others = Others::new(true);
    others.sample();
    for restart in 0..restarts {
        for (position, at) in
            msgpath_core::shuffle::order(seed, restart, header.plan.cases.len()).into_iter().enumerate()
        {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let case = header.plan.cases[at].clone();
            let (n, session) = (restart * header.plan.cases.len() as u32 + position as u32 + 1, restarts as usize);
            let who = match &periodic.group {
                Some(to) if periodic.processes == 2 => format!("1 receiver of {}", to.group),
                Some(to) => format!("{} receivers of {}", periodic.processes - 1, to.group),
                None => format!("{} processes", periodic.processes),
            };
            given(&format!(
                "{}: {who}, about {} s ({n} of {})",
                case.path,
                periodic.length().as_secs() + 1,
                session * header.plan.cases.len(),
            ));
            let border = periodic.border(&case, &header.plan.options);
            if let (1.., Some(between), None) = (border, &header.plan.options.between, &periodic.group) {
                let near = border / periodic.components;
                given(&format!(
                    "{near} processes in {}, {} in {}: messages cross the link, and nobody hears his own side",
                    between.of(NEAR).name,
                    periodic.processes - near,
                    between.of(FAR).name
                ));
            }
            let place = |go| Place { restart, position: position as u32, begin, go, border };
            let Carried { all_collected, go, whole, host } = Fleet::run(periodic, &header.plan, &case, restart, stop)?;
            let (rounds, facts) = join(periodic, &case, all_collected, &place(go));
            if let Some(host) = host {
                header.set_hosts([environment::read(), host]);
            }
            (header.others, header.others_unseen) = others.finish();
            let recorded: Vec<RoundRecord> = rounds.iter().map(|(round, _)| round.clone()).collect();
            record(header, writer, rounds, facts)?;
            // The rounds of a session are slices of it: all of them are known when its processes have ended.
            for round in &recorded {
                done += 1;
                progress.round(round, done, of);
            }
            if !whole {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn record(
    header: &mut RunHeader,
    writer: &mut RunWriter,
    rounds: Vec<(RoundRecord, Vec<MessageRow>)>,
    session: PeriodicSession,
) -> Result<(), Problem> {
    for (round, rows) in &rounds {
        written::held(round)?;
        writer.round(round, rows).map_err(Problem::from)?;
    }
    if let Some(facts) = header.parts.get_mut::<PeriodicFacts>() {
        facts.sessions.push(session);
    }
    writer.replace_header(header).map_err(Problem::from)
}

/// Where a process of a group is, and the place that it speaks with: the first one sends from the near place, the others are spread over the
/// rest.
fn places_of_group(between: &Between, process: u32) -> [EndPlace; 2] {
    let far = between.ends.len().saturating_sub(1).max(1);
    match process.checked_sub(1) {
        None => [between.of(NEAR).clone(), between.of(FAR).clone()],
        Some(receiver) => [between.of(FAR + receiver as usize % far).clone(), between.of(NEAR).clone()],
    }
}

/// All processes of one session, and what they are called. Dropped, it ends them: nothing stays behind, whatever went wrong.
struct Fleet {
    links: Vec<Link>,
    names: Vec<String>,
    clocks: Clocks,
    /// Of the authentication.
    key: [u8; mac::KEY],
    /// Shared memory, which the processes open by the descriptor of this one.
    _area: Option<OwnedFd>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // All of them before the first is waited for.
        for process in &mut self.links {
            let _ = process.send(&ToEnd::Bye);
        }
    }
}

/// What a session was.
struct Carried {
    all_collected: Vec<Collected>,
    /// When the first message was due; `None`: each sent when it was ready.
    go: Option<u64>,
    /// It was not cut short.
    whole: bool,
    /// The first receiver's host, where it is another.
    host: Option<Environment>,
}

impl Fleet {
    /// One session: starts the processes, lets them send, collects their rows.
    fn run(periodic: &Periodic, plan: &Plan, case: &Case, restart: u32, stop: &AtomicBool) -> Result<Carried, Problem> {
        let mut fleet = Self::start(periodic, plan, case, restart)?;
        let go = fleet.go(periodic, stop)?;
        let limit = Instant::now() + periodic.length() + PATIENCE;
        let whole = until_over(&mut fleet.links, Some(limit), stop)?;
        if whole {
            fleet.all_told(&ToEnd::Finish)?;
        }
        let host = periodic.on_hosts().then(|| fleet.links[1].environment.clone());
        Ok(Carried { all_collected: fleet.home(periodic)?, go, whole, host })
    }

    /// Starts the processes and tells each what it is to do.
    fn start(periodic: &Periodic, plan: &Plan, case: &Case, restart: u32) -> Result<Self, Problem> {
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Problem::new("E19", Exit::CannotStart, format!("{what}: {error}"))
                .hint("fewer processes (-n) and components (-T), or higher limits: ulimit -n, ulimit -u, ulimit -v")
        };
        let of = periodic.components_of_all();
        let mut chance = SplitMix64::new(plan.seed ^ (u64::from(restart) << 32) ^ u64::from(case.id));
        let area = if case.path.transport == "shm" {
            // A reader that is off its CPU for a while must find what it would have read.
            let slots = periodic.messages.min((SLOT_BYTES / (case.size + 16)).max(16));
            Some(
                Area::create(of as usize, slots as usize, case.size as usize)
                    .map_err(|e| cannot("shared memory", &e))?
                    .0,
            )
        } else {
            None
        };
        let area_at = area.as_ref().map(|fd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
        // A port that is free now, on addresses that nobody else of this machine talks to; that of a group stands behind it.
        let port = match case.path.transport.as_str() {
            "udp" if periodic.group.is_none() => std::net::UdpSocket::bind("127.0.0.1:0")
                .and_then(|socket| socket.local_addr())
                .map_err(|error| cannot("a UDP port", &error))?
                .port(),
            _ => 0,
        };
        let unguessable = |error: std::io::Error| cannot("random bytes", &error);
        let key: [u8; mac::KEY] = random::bytes().map_err(unguessable)?;
        let [tag @ .., low, high] = random::bytes::<6>().map_err(unguessable)?;
        let (tag, network) = (u32::from_le_bytes(tag), [64 + low % 64, high]);
        let clocks = Clocks::of(&[], false);
        let mut fleet = Fleet { links: Vec::new(), names: Vec::new(), clocks, key, _area: area };
        let between = plan.options.between.as_ref();
        let sender = periodic.group.as_ref().filter(|_| periodic.on_hosts()).and_then(SendTo::from);
        for process in 0..periodic.processes {
            let (launch, name) = (periodic.launch_of(process), periodic.name_of(process));
            let places = between.map(|between| periodic.places(between, process));
            let beyond = |[_, other]: &[EndPlace; 2]| other.address.parse::<IpAddr>().ok();
            let place = match (launch, &places) {
                (Some(launch), _) => launch.host.clone(),
                (None, Some([own, _])) => own.name.clone(),
                (None, None) => String::new(),
            };
            let order = Order {
                process,
                components: periodic.components,
                of,
                path: case.path.clone(),
                options: plan.options.clone(),
                size: case.size as u32,
                messages: periodic.messages,
                first: periodic.first,
                slices: periodic.slices,
                period_ns: periodic.period_ns,
                jitter_ns: periodic.jitter_ns,
                seed: chance.next_u64(),
                start: periodic.start,
                mac: periodic.mac,
                tag,
                port,
                network,
                beyond: places.as_ref().and_then(beyond).or(sender.filter(|_| launch.is_some())),
                border: periodic.border(case, &plan.options),
                area: area_at.clone(),
                group: periodic.group.as_ref().map(|to| to.order(between, place)),
                spawned_ns: launch.is_none().then(clock::now),
            };
            let mut link = match launch {
                Some(launch) => Link::of_host(&launch.host, OnHost { launch }.launch()?)?,
                None => Link::ungreeted(name.clone(), places)?,
            };
            link.order(ROLE, &ToProcess::Order(Box::new(order)))?;
            if periodic.start == Start::Storm && periodic.mac == Mac::None {
                link.send(&ToEnd::Go)?;
            }
            fleet.links.push(link);
            fleet.names.push(name);
        }
        fleet.clocks = Clocks::of(&fleet.links, periodic.on_hosts());
        Ok(fleet)
    }

    fn all_told(&mut self, message: &ToEnd) -> Result<(), Problem> {
        self.links.iter_mut().try_for_each(|process| process.send(message))
    }

    /// From the processes as they start to their first message: when that is due; `None`: each sends when it is ready.
    fn go(&mut self, periodic: &Periodic, stop: &AtomicBool) -> Result<Option<u64>, Problem> {
        let storm = periodic.start == Start::Storm;
        if periodic.mac != Mac::None {
            for at in 0..self.links.len() {
                let Ok(FromProcess::Key) = self.answer(at)?.0.of_role() else { return Err(out_of_turn()) };
                self.links[at].order(ROLE, &ToProcess::Key(self.key))?;
                if storm {
                    self.links[at].send(&ToEnd::Go)?;
                }
            }
        }
        self.all_ready()?;
        self.clocks.read(&mut self.links, &self.names)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Problem::new("E15", Exit::Interrupted, "interrupted before the first message"));
        }
        let go = (!storm).then(|| clock::now() + LEAD);
        if let Some(start) = go {
            self.links.iter_mut().try_for_each(|process| process.order(ROLE, &ToProcess::Begin(start)))?;
            self.all_told(&ToEnd::Go)?;
            self.all_ready()?;
        }
        Ok(go)
    }

    /// What the processes bring home, once each is told to, by this machine's clock.
    fn home(&mut self, periodic: &Periodic) -> Result<Vec<Collected>, Problem> {
        let mut home = Vec::new();
        for at in 0..self.links.len() {
            let (said, bytes) = self.answer(at)?;
            let Ok(FromProcess::Done(reports)) = said.of_role() else { return Err(out_of_turn()) };
            let mut own = unpack(reports, &bytes).map_err(|why| self.links[at].vanished(why))?;
            if own.len() != periodic.components as usize {
                return Err(Problem::new("E17", Exit::Unfinished, "a process did not bring all its components home"));
            }
            if let Some(launch) = periodic.launch_of(at as u32) {
                own.iter_mut().for_each(|one| of_another_host(one, &launch.host));
            }
            home.push(own);
        }
        self.clocks.read(&mut self.links, &self.names)?;
        for (at, own) in home.iter_mut().enumerate() {
            self.clocks.onto_this(at, &self.names[at], own)?;
        }
        Ok(home.into_iter().flatten().collect())
    }

    fn all_ready(&mut self) -> Result<(), Problem> {
        (0..self.links.len()).try_for_each(|at| match self.answer(at)?.0 {
            FromEnd::Ready { .. } => Ok(()),
            _ => Err(out_of_turn()),
        })
    }

    /// What a process answers.
    fn answer(&mut self, at: usize) -> Result<(FromEnd, Vec<u8>), Problem> {
        let (said, bytes) = self.links[at].answer_within(PATIENCE)?;
        Ok((had(said, &self.names[at])?, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Periodic {
        Periodic {
            processes: 15,
            components: 1,
            period_ns: 10_000_000,
            jitter_ns: 0,
            messages: 1_000,
            first: 50,
            slices: 10,
            start: Start::Barrier,
            mac: Mac::None,
            group: None,
        }
    }

    #[test]
    fn receivers_are_spread_over_the_places_behind_the_first() {
        let place = |name: &str| EndPlace { name: name.into(), ..EndPlace::default() };
        let names = |between: &Between, process| places_of_group(between, process).map(|place| place.name);
        let three = Between { ends: ["a", "b", "c"].map(place).into(), ..Between::default() };
        assert_eq!((0..4).map(|process| names(&three, process)[0].clone()).collect::<Vec<_>>(), ["a", "b", "c", "b"]);
        assert!((1..4).all(|process| names(&three, process)[1] == "a"));
        let two = Between { ends: ["a", "b"].map(place).into(), ..Between::default() };
        assert_eq!((names(&two, 1), names(&two, 2)), (["b".into(), "a".into()], ["b".into(), "a".into()]));
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_what_can() {
        assert_eq!(good().validate(256), Ok(()));
        let refused = |change: fn(&mut Periodic), size, part: &str| {
            let mut periodic = good();
            change(&mut periodic);
            let problem = periodic.validate(size).unwrap_err();
            assert_eq!(problem.exit, Exit::Usage);
            assert!(problem.what.contains(part) && !problem.hint.is_empty(), "{problem}");
        };
        refused(|periodic| periodic.processes = 1, 256, "nobody");
        refused(|periodic| periodic.components = 5, 256, "limit");
        refused(|periodic| periodic.processes = u32::MAX, 256, "limit");
        refused(|_| (), 15, "head and tag");
        refused(|periodic| periodic.mac = Mac::Hmac, 47, "48");
        refused(|_| (), 2 << 20, "1 MiB");
        refused(|periodic| periodic.messages = 0, 256, "nothing");
        refused(|periodic| periodic.messages = u64::MAX, 256, "keeps");
        refused(|periodic| periodic.jitter_ns = 10_000_000, 256, "order");
        refused(|periodic| periodic.period_ns = 0, 256, "period");
        refused(|periodic| periodic.period_ns = 60_000_000_000, 256, "six hours");
    }
}
