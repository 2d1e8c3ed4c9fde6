//! The client: a script of commands becomes calls, and the calls a record.
//!
//! A call is built before its time begins, sent by one call of the kernel, and read into a buffer that is there already.
//! Threads keep their connections for the whole run; between two rounds they wait, and the round is recorded.

mod target;

pub use msgpath_agent::rpc::client::part::Record;
pub use target::{LAB_PORT, Protocol, RpcTarget};

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use msgpath_agent::rpc::client::connection::{Broken, Connection};
use msgpath_agent::rpc::client::http::{self, Http};
use msgpath_agent::rpc::client::ledger::Ledger;
use msgpath_agent::rpc::client::loops::{Line, Order, Shared};
use msgpath_agent::rpc::client::maker::Draws;
use msgpath_agent::rpc::client::part::Part;
use msgpath_agent::rpc::client::redis;
use msgpath_agent::rpc::client::team::Team;
use msgpath_agent::rpc::client::wire::{LAB_HEAD, Wire, random_seed};
use msgpath_agent::{counters, environment, floors, route, speed};
use msgpath_core::doctor::{Doctor, Examine};
use msgpath_core::gate::Gate;
use msgpath_core::plan::{Between, DEFAULT_MESSAGE_LOG, Extent, Load, Workload};
use msgpath_core::schema::{
    ClockFacts, DeviceKind, EndReport, EndRound, Environment, FAR, NEAR, OpenRound, RoundRecord, Route, RpcFacts,
    RpcPair, RunEnd, RunHeader, Status,
};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Exit, Histogram, PathName, Plan, Problem};
use msgpath_record::RunWriter;
use msgpath_rpc::Header;
use msgpath_rpc::command::{Script, Step};
use msgpath_sys::clock;

use super::spent::{Watched, who_listens};
use crate::execute::Progress;
use crate::others::Others;

/// Rounds of a command where there are calls enough.
pub const ROUNDS: u64 = 40;
/// Fewer calls than this are no round of their own.
const CALLS_A_ROUND: u64 = 50;
/// More are several rounds: a round is in memory as a whole.
const MOST_CALLS_A_ROUND: u64 = 250_000;

/// What is called, how often, and how hard.
#[derive(Clone, Debug)]
pub struct RpcRequest {
    /// Who is called.
    pub target: RpcTarget,
    /// The commands.
    pub script: Script,
    /// Connections.
    pub connections: u32,
    /// Threads; each serves `connections / threads` connections in turn.
    pub threads: u32,
    /// Closed loop, or a schedule.
    pub load: Load,
    /// Calls in flight on a connection of an open loop, at most.
    pub inflight: u32,
    /// Replies are compared with what they must be.
    pub verify: bool,
    /// How long a reply may take, ns.
    pub timeout_ns: u64,
    /// How long connecting may take, ns.
    pub connect_timeout_ns: u64,
    /// Nothing is asked for that the lab's client would not ask for.
    pub plain: bool,
    /// The listener is given every call.
    pub records: bool,
    /// Speed of the wire as the user says, bits per second.
    pub wire: Option<u64>,
    /// Rounds of each command; `None`: [`ROUNDS`], or fewer for few calls.
    pub rounds: Option<u32>,
    /// What the result is held to.
    pub gates: Vec<Gate>,
    /// Seed of registers and schedules.
    pub seed: u64,
    /// CPUs of the threads, in turn; empty: not pinned.
    pub cpus: Vec<u32>,
    /// The namespaces of the two ends, where a server of one's own runs in the other one.
    pub between: Option<Between>,
    /// The process of the server, where the run has started it.
    pub server: Option<u32>,
    /// The command line.
    pub command: Vec<String>,
    /// Name of the run.
    pub name: String,
    /// The folder of the run; it must not exist yet.
    pub folder: PathBuf,
}

/// The way to the server, known once the first connection is there.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The server's address.
    pub to: SocketAddr,
    /// The client's.
    pub from: SocketAddr,
    /// The device, or why it is not known.
    pub route: Result<Route, String>,
    /// The namespaces of client and server, where both are on this machine.
    pub between: Option<Between>,
}

impl Connected {
    /// Why both ends are on one machine, where they are known to be.
    pub fn same_machine(&self) -> Option<String> {
        if let Some(between) = &self.between {
            let (near, far) = (between.of(NEAR), between.of(FAR));
            return Some(format!("two network namespaces of it, {} and {}", near.name, far.name));
        }
        if self.to.ip() == self.from.ip() {
            return Some("both addresses are the same".into());
        }
        let local = self.route.as_ref().is_ok_and(|route| route.kind == DeviceKind::Loopback);
        local.then(|| format!("the route to {} is the loopback device", self.to.ip()))
    }
}

/// Told of what happens, outside the measured spans.
pub trait Listener {
    /// All connections are there.
    fn connected(&mut self, connected: &Connected);
    /// A text of the server (`stats`).
    fn server_text(&mut self, text: &str);
    /// The calls of a round, where records are wanted.
    ///
    /// # Errors
    /// A log that cannot be written: it ends the run.
    fn records(&mut self, records: &[Record]) -> Result<(), Problem>;
}

/// How a run went beyond its record.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What ended it before its last call. What was measured until then is recorded.
    pub problem: Option<Problem>,
    /// Calls that were sent.
    pub sent: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Replies with a status other than success.
    pub failed: u64,
    /// Replies whose every byte was compared.
    pub verified: u64,
}

/// The addresses of a host, IPv4 first: the lab knows no other.
fn resolve(target: &RpcTarget) -> Result<SocketAddr, Problem> {
    let found = (target.host.as_str(), target.port()).to_socket_addrs().map_err(|error| {
        Problem::new("E01", Exit::CannotStart, format!("{:?} is no host that this machine knows", target.host))
            .why(error.to_string())
    })?;
    let found: Vec<SocketAddr> = found.collect();
    let v4 = found.iter().find(|address| address.is_ipv4()).or(found.first());
    v4.copied().ok_or_else(|| Problem::new("E01", Exit::CannotStart, format!("{} has no address", target.host)))
}

fn wire(request: &RpcRequest, address: SocketAddr) -> Wire {
    match request.target.protocol {
        Protocol::Lab => Wire::Lab {
            server_ip: match address.ip() {
                IpAddr::V4(ip) => ip.into(),
                IpAddr::V6(_) => 0,
            },
            server_port: address.port(),
            pad: if request.plain || request.script.seed1 { 0 } else { Header::ASK },
        },
        Protocol::Redis => Wire::Redis,
        Protocol::Http => {
            let host = if request.target.host.contains(':') {
                format!("[{}]:{}", request.target.host, request.target.port())
            } else {
                format!("{}:{}", request.target.host, request.target.port())
            };
            Wire::Http(Http::new(host, request.target.path.clone()))
        }
    }
}

/// Rounds of a command: as many calls in each.
fn rounds_of(step: &Step, asked: Option<u32>) -> u32 {
    let usual = (step.calls() / CALLS_A_ROUND).clamp(1, ROUNDS);
    let least = step.calls().div_ceil(MOST_CALLS_A_ROUND);
    asked.map_or(usual, u64::from).min(step.calls()).max(least) as u32
}

/// Bytes of a request, and of its reply as far as it can be known before.
fn sizes(protocol: Protocol, step: &Step) -> (u64, u64) {
    let key = step.sent_key().map_or(0, |text| text.bytes() as u64);
    let value = step.sent_value().map_or(0, |text| text.bytes() as u64);
    match protocol {
        Protocol::Lab => {
            let whole = LAB_HEAD as u64 + step.body_bytes() as u64;
            (whole, if step.method == "ping" { whole } else { LAB_HEAD as u64 })
        }
        // Framing is a few bytes; what was sent is in the calls.
        Protocol::Redis | Protocol::Http => ((key + value).max(1), 1),
    }
}

/// The plan of a script: one case a command.
fn plan(request: &RpcRequest) -> Result<Plan, Problem> {
    let case = |step: &Step| {
        let (size, reply) = sizes(request.target.protocol, step);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let inflight = if request.load == Load::Closed { 1 } else { request.inflight };
        Case {
            reply,
            connections: request.connections,
            threads: request.threads,
            inflight,
            load: request.load,
            label: Some(label(request.target.protocol, &step.method)),
            ..Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(size))
        }
    };
    let mut cases: Vec<Case> = request.script.steps.iter().map(case).collect();
    for (id, case) in cases.iter_mut().enumerate() {
        case.id = id as u32;
    }
    let steps = &request.script.steps;
    let mut plan = Plan {
        rounds: steps.iter().map(|step| rounds_of(step, request.rounds)).max().unwrap_or(1),
        extent: Extent::Count(steps.iter().map(Step::calls).max().unwrap_or(1)),
        seed: request.seed,
        trim: 0,
        message_log: 0,
        gates: request.gates.clone(),
        ..Plan::new(Workload::Rpc, cases)
    };
    plan.declare(msgpath_paths::traits);
    plan.placement.set(NEAR, request.cpus.clone());
    plan.options.between.clone_from(&request.between);
    plan.validate()?;
    Ok(plan)
}

/// What a kind of call is called.
fn label(protocol: Protocol, method: &str) -> String {
    match protocol {
        Protocol::Lab => method.chars().take(64).collect(),
        Protocol::Redis => redis::command(method),
        Protocol::Http => http::command(method),
    }
}

/// Carries out the commands and records them.
///
/// # Errors
/// E01 and others before the first call; E12 where the record cannot be written. What ends a run later is in the
/// [`Outcome`].
pub fn call(
    request: RpcRequest,
    progress: &mut dyn Progress,
    listener: &mut dyn Listener,
    stop: &AtomicBool,
) -> Result<Outcome, Problem> {
    let mut plan = plan(&request)?;
    let address = resolve(&request.target)?;
    let shared = Shared {
        stop,
        halt: AtomicBool::new(false),
        ledger: request.verify.then(Ledger::default),
        records: request.records && request.target.protocol == Protocol::Lab,
        steps: request.script.steps.clone(),
        load: request.load,
        seed: request.seed,
        connections: request.connections,
        begin: 0,
        begin_unix_us: 0,
        inflight: if request.target.protocol == Protocol::Http { 1 } else { u64::from(request.inflight) },
    };
    let connect_timeout = Duration::from_nanos(request.connect_timeout_ns);
    let mut connections = Vec::new();
    for index in 0..request.connections {
        connections.push(Connection::open(index, address, connect_timeout)?);
    }
    let from = connections[0].stream.local_addr().unwrap_or(address);
    let connected = Connected { to: address, from, route: route::to(address.ip()), between: request.between.clone() };
    listener.connected(&connected);
    let here = connected.between.is_none() && connected.same_machine().is_some();
    let server = request.server.or_else(|| who_listens(address).filter(|_| here));
    plan.baseline = plan.cases[0].path.clone();
    let mut counters = counters::Reader::new(&request.cpus);
    let (begin, begin_unix_us) = begin();
    let shared = Shared { begin, begin_unix_us, ..shared };
    let mut header = header(&request, plan, &connected, counters.names(), begin_unix_us);
    progress.started(&header);
    progress.planned(&header.plan);
    let mut writer = RunWriter::create(&request.folder, &header).map_err(Problem::from)?;
    let draws = Draws::of(if request.script.seed1 { 1 } else { random_seed(request.seed) }, request.connections);
    let lines = connections
        .into_iter()
        .zip(draws)
        .map(|(connection, draws)| Line::new(connection, wire(&request, address), draws, &shared))
        .collect();
    let mut run = Run {
        request: &request,
        shared: &shared,
        counters: &mut counters,
        header: &mut header,
        writer: &mut writer,
        progress,
        listener,
        others: Others::new(),
        processes: [Watched::own(), Watched::server(server)],
        outcome: Outcome::default(),
        kept: 0,
        done: 0,
    };
    run.others.sample();
    let result = std::thread::scope(|scope| {
        let team = Team::new(scope, lines, &shared, request.threads, &request.cpus);
        let result = team.and_then(|team| run.steps(&team));
        shared.halt.store(true, Ordering::Relaxed);
        result
    });
    (run.header.others, run.header.others_unseen) = run.others.finish();
    let mut outcome = run.outcome;
    let status = match (&result, &outcome.problem) {
        (Err(_), _) | (_, Some(_)) => Status::Failed,
        (Ok(true), None) => Status::Ok,
        (Ok(false), None) => Status::Partial,
    };
    outcome.problem = result.err().or(outcome.problem);
    // What only the replies could tell: their length, and what answered; and who else used the CPUs.
    let replaced = writer.replace_header(&header);
    let end = RunEnd {
        status,
        ended: msgpath_record::utc::now(),
        problem: outcome.problem.clone(),
        messages_not_kept: 0,
        granted: BTreeMap::new(),
        header_crc32: None,
    };
    let finished = replaced.and_then(|()| writer.finish(end));
    match (finished, &outcome.problem) {
        (Err(error), None) => Err(error.into()),
        _ => Ok(outcome),
    }
}

/// The header of the run, as far as it is known before the first call.
fn header(
    request: &RpcRequest,
    plan: Plan,
    connected: &Connected,
    near_counters: Vec<String>,
    begin_unix_us: i64,
) -> RunHeader {
    let (cost_ns, step_ns) = clock::measure(100_000);
    let near = environment::read();
    let same_machine = connected.same_machine();
    // One machine: what is the machine's is the server's as well. What it runs on another one nobody knows.
    let far = match same_machine {
        Some(_) => Environment { cpus: Vec::new(), facts: BTreeMap::new(), ..near.clone() },
        None => Environment { host: connected.to.ip().to_string(), ..Environment::default() },
    };
    let nic = connected.route.as_ref().ok().filter(|route| route.kind == DeviceKind::Nic);
    let link = nic.and_then(|route| Some((route.bits_per_s?, format!("link speed of {}", route.device))));
    let expected = |(at, step): (usize, &Step)| Some((at as u32, step.expect_ns?));
    let size = plan.cases.iter().map(|case| case.size).max().unwrap_or(1);
    let near_cpu = request.cpus.first().copied();
    let examine = Examine {
        end: "near".into(),
        cpus: request.cpus.clone(),
        full: false,
        peer: Some(connected.to.ip()),
        spin: false,
        other_cpu: None,
    };
    let started = clock::now();
    let checks = msgpath_agent::doctor::examine(&examine);
    let doctor = Doctor { checks, took_ns: clock::now() - started, full: false };
    let rpc = RpcFacts {
        protocol: request.target.protocol.name().into(),
        begin_unix_us,
        client_step_ns: step_ns.max(1),
        server_step_ns: if request.target.protocol == Protocol::Lab { 1000 } else { 0 },
        pairs: vec![RpcPair {
            client: connected.from.ip().to_string(),
            server: connected.to.ip().to_string(),
            same_machine,
        }],
        wire: request.wire.map(|bits| (bits, "--wire".to_owned())).or(link),
        expect: request.script.steps.iter().enumerate().filter_map(expected).collect(),
        ..RpcFacts::default()
    };
    let mut header = RunHeader {
        started: msgpath_record::utc::now(),
        command: request.command.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        target: request.target.to_string(),
        doctor: Some(doctor),
        floors: Some(floors::measure(near_cpu, None, false, size, Some(connected.to.ip()), None)),
        rpc: Some(rpc),
        ..RunHeader::new(request.name.clone(), "rpc", plan)
    };
    header.set_hosts([near, far]);
    let end = &mut header.ends[NEAR];
    (end.clock, end.counters, end.cpus) = (ClockFacts { cost_ns, step_ns }, near_counters, request.cpus.clone());
    header
}

/// A run in progress.
struct Run<'a> {
    request: &'a RpcRequest,
    shared: &'a Shared<'a>,
    counters: &'a mut counters::Reader,
    header: &'a mut RunHeader,
    writer: &'a mut RunWriter,
    progress: &'a mut dyn Progress,
    listener: &'a mut dyn Listener,
    /// Who else uses the CPUs.
    others: Others,
    /// The processes of client and server.
    processes: [Watched; 2],
    outcome: Outcome,
    /// Rows recorded.
    kept: u64,
    /// Rounds recorded.
    done: u64,
}

impl Run<'_> {
    /// All commands. `Ok(false)`: interrupted, or broken off with the reason in the outcome.
    fn steps(&mut self, team: &Team) -> Result<bool, Problem> {
        let rounds: Vec<u32> =
            self.request.script.steps.iter().map(|step| rounds_of(step, self.request.rounds)).collect();
        let of = rounds.iter().map(|rounds| u64::from(*rounds)).sum();
        for (step, rounds) in rounds.into_iter().enumerate() {
            let calls = self.request.script.steps[step].calls();
            for pass in 0..rounds {
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let part = |pass: u32| calls * u64::from(pass) / u64::from(rounds);
                let room = DEFAULT_MESSAGE_LOG.saturating_sub(self.kept);
                let order = Order { step, calls: part(pass)..part(pass + 1), pass, keep: room as usize };
                if !self.round(team, &order, of)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Measures and records one round. `Ok(false)`: it is the last one.
    fn round(&mut self, team: &Team, order: &Order, of: u64) -> Result<bool, Problem> {
        let speed_ns = speed::probe();
        let (steal, before) = (environment::steal_ticks(), self.counters.read());
        self.processes.iter_mut().for_each(Watched::begin);
        let parts = team.round(order, self.shared, self.request.timeout_ns);
        let [near_process, far_process] = self.processes.each_ref().map(Watched::end);
        let near_kernel = self.counters.read().since(&before);
        let steal_ticks = environment::steal_ticks().zip(steal).map(|(after, before)| after.saturating_sub(before));
        let broken = parts.iter().find_map(|part| part.broken.clone().filter(|(_, broken)| is_cause(broken)));
        let stopped = parts.iter().any(|part| part.broken.is_some());
        let last_status = parts.iter().map(|part| part.last_status).max().unwrap_or(0);
        let near =
            EndRound { kernel: near_kernel, speed_ns: Some(speed_ns), process: near_process, ..EndRound::default() };
        let far = EndRound { process: far_process, ..EndRound::default() };
        let (record, rows) = self.join(order, parts, [near, far], steal_ticks)?;
        if record.latency.beyond() > 0 {
            return Err(Problem::new("E20", Exit::Unfinished, "a call took longer than 18 minutes")
                .why("no histogram holds it, and nothing is clipped"));
        }
        // A round without a call says nothing.
        if record.near().delivery.sent > 0 {
            self.writer.round(&record, &[]).map_err(Problem::from)?;
            if !rows.is_empty() {
                self.writer.rpcs(&rows).map_err(Problem::from)?;
            }
            self.kept += rows.len() as u64;
            self.done += 1;
            self.others.sample();
            self.progress.round(&record, self.done, of);
        }
        let goes_on = !stopped && broken.is_none();
        if let Some((connection, broken)) = broken {
            self.outcome.problem = Some(self.problem(connection, broken, order.step, last_status));
        }
        Ok(goes_on)
    }

    /// Brings the threads' parts of a round together.
    fn join(
        &mut self,
        order: &Order,
        mut parts: Vec<Part>,
        [read, far]: [EndRound; 2],
        steal_ticks: Option<u64>,
    ) -> Result<(RoundRecord, Vec<msgpath_core::schema::RpcRow>), Problem> {
        let begin = parts.iter().map(|part| part.begin).min().unwrap_or(u64::MAX);
        let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
        let (mut latency, mut service, mut lateness) = (Histogram::new(), Histogram::new(), Histogram::new());
        let mut near: Option<EndReport> = None;
        let mut open: Option<OpenRound> = None;
        let mut rows = Vec::new();
        for part in &mut parts {
            latency.merge(&part.latency);
            service.merge(&part.service);
            lateness.merge(&part.lateness);
            match &mut near {
                Some(sum) => sum.add(&part.report),
                None => near = Some(part.report),
            }
            match (&mut open, &part.open) {
                (Some(sum), Some(one)) => sum.add(one),
                (sum @ None, Some(one)) => *sum = Some(one.clone()),
                _ => {}
            }
            self.outcome.failed += part.failed;
            rows.append(&mut part.rows);
            let facts = self.header.rpc.as_mut().expect("a run of calls");
            facts.not_kept += part.not_kept;
            match &part.server {
                _ if part.waits_known => facts.server = "msgpath".into(),
                Some(server) if facts.server.is_empty() => facts.server.clone_from(server),
                _ => {}
            }
            if let Some(bytes) = part.reply_bytes {
                self.header.plan.cases[order.step].reply = bytes;
            }
            part.texts.iter().for_each(|text| self.listener.server_text(text));
        }
        let mut records: Vec<Record> = parts.iter_mut().flat_map(|part| part.records.drain(..)).collect();
        if !records.is_empty() {
            // Each connection's are in order; T1 brings them together.
            records.sort_by_key(|record| record.request.t[0]);
            self.listener.records(&records)?;
        }
        rows.sort_by_key(|row| row.start_ns);
        // Each thread may keep as many as there is room for; together they keep no more.
        let room = order.keep.min(rows.len());
        self.header.rpc.as_mut().expect("a run of calls").not_kept += (rows.len() - room) as u64;
        rows.truncate(room);
        if let Some(bytes) = rows.first().map(|row| row.request_bytes).filter(|_| order.pass == 0)
            && self.request.target.protocol != Protocol::Lab
        {
            let case = &mut self.header.plan.cases[order.step];
            (case.size, case.pieces) = (bytes, Pieces::whole(bytes as u32));
        }
        let mut near = near.unwrap_or_default();
        near.elapsed_ns = end.saturating_sub(begin);
        self.outcome.sent += near.delivery.sent;
        self.outcome.answered += near.delivery.received;
        self.outcome.verified += near.delivery.verified;
        let planned = order.calls.end - order.calls.start;
        let mut flags = Vec::new();
        if near.delivery.received < planned {
            flags.push("cut short".to_owned());
        }
        // USER_HZ is 100 on Linux: a tick is 10 ms. One tick of a short round says nothing.
        let stolen_ns = steal_ticks.unwrap_or(0) * 10_000_000;
        if steal_ticks.is_some_and(|ticks| ticks > 1) && stolen_ns as f64 > 0.005 * near.elapsed_ns.max(1) as f64 {
            flags.push("steal".into());
        }
        let record = RoundRecord {
            case: order.step as u32,
            pass: order.pass,
            position: order.step as u32,
            start_ns: begin.saturating_sub(self.shared.begin).min(1 << 61),
            batch: 1,
            connect_ns: parts.iter().filter_map(|part| part.connect_ns).max(),
            ends: vec![EndRound { report: near, ..read }, far],
            steal_ticks,
            flags,
            latency: latency.to_sparse(),
            service: service.to_sparse(),
            lateness: lateness.to_sparse(),
            open,
            ..RoundRecord::default()
        };
        Ok((record, rows))
    }

    /// What the user reads about a connection that broke.
    fn problem(&self, connection: u32, broken: Broken, step: usize, last_status: u32) -> Problem {
        let of: u64 = self.request.script.steps.iter().map(Step::calls).sum();
        let answered = self.outcome.answered;
        let which = match self.request.connections {
            1 => "the connection".to_owned(),
            _ => format!("connection {connection}"),
        };
        let problem = |code: &str, what: String| Problem::new(code, Exit::Unfinished, what);
        match broken {
            Broken::Closed(there) => {
                let half = if there > 0 { format!(", {there} bytes into a reply") } else { String::new() };
                let what = format!("the server closed {which} after {answered} of {of} calls{half}");
                let method = &self.request.script.steps[step].method;
                let why = why_closed(self.request.target.protocol, last_status, method);
                problem("E35", what).why(why)
            }
            Broken::Foreign(why) => {
                problem("E34", format!("what came over {which} is no reply to what was asked")).why(why)
            }
            Broken::Wrong(why) => problem("E06", "a reply has other bytes than it must have".into()).why(why),
            Broken::TimedOut => {
                let limit = msgpath_core::units::Glyphs::Ascii.time(self.request.timeout_ns as f64);
                problem("E36", format!("no reply within {limit} over {which}, after {answered} of {of} calls"))
                    .why("the lab's server4 serves one connection a port: others wait until it is closed")
                    .hint("another port, or a larger --timeout")
            }
            Broken::Lost(lost) => Problem { exit: Exit::Unfinished, ..lost },
            Broken::Stopped => problem("E15", "interrupted".into()),
        }
    }
}

/// Now on the monotonic clock, ns, and the same moment on the wall clock, a whole number of µs since 1970. The two are read
/// beside each other several times and the closest pair counts: a task switch in between would shift every T1.
fn begin() -> (u64, i64) {
    let pair = || {
        let before = clock::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let after = clock::now();
        (after - before, before.midpoint(after), wall)
    };
    let (_, now, wall) = (0..8).map(|_| pair()).min().expect("eight pairs");
    (now.saturating_sub(wall % 1_000), (wall / 1_000) as i64)
}

/// Methods that the lab's server4 knows; after any other it replies Fail and closes.
const KNOWN_TO_SERVER4: [&str; 8] = ["ping", "write", "read", "sink", "delete", "stats", "reset", "quit"];

/// Why a server closed, as far as its last reply tells.
fn why_closed(protocol: Protocol, last_status: u32, method: &str) -> String {
    match (protocol, last_status) {
        (_, 0) => String::new(),
        (Protocol::Lab, 1) if !KNOWN_TO_SERVER4.contains(&method) => {
            format!(
                "the last reply had status 1 (Fail): the lab's server4 closes after a method that it does not know ({method})"
            )
        }
        (Protocol::Lab, status) => {
            let status = msgpath_rpc::Status(status);
            format!("the last reply had status {} ({}); why it closed is not known", status.0, status.name().trim())
        }
        (_, status) => format!("the last reply had status {status}; why it closed is not known"),
    }
}

/// Whether it is the reason why a run ends, not a consequence.
fn is_cause(broken: &Broken) -> bool {
    !matches!(broken, Broken::Stopped)
}
