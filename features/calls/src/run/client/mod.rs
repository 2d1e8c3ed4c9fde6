//! A script of commands becomes calls, and the calls a record. The calls are those of an agent, the near end: it keeps its
//! connections for the whole run, and between two of its rounds the last one is recorded.

mod collected;
mod plan;
#[cfg(feature = "postgres")]
pub mod postgres;
mod target;

pub use crate::agent::client::orders::Record;
pub use plan::ROUNDS;
pub use target::{LAB_PORT, Protocol, RpcTarget, without_password};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agent::client::orders::{
    Answer, Broken, CallOrder, Called, CallsOrder, Checks, Endpoint, Identity, MOST_CALLS_A_ROUND, Order, ROLE, Speaks,
    TlsOrder, goes_together,
};
use crate::agent::client::wire::random_seed;
use crate::record::{RpcFacts, RpcPair, RpcRemark, RpcRow, Wire};
use msgpath_agent::wire::{FloorsOrder, FromEnd, ToEnd};
use msgpath_agent::{environment, names, route};
use msgpath_analyse::expected::rate_of_link;
use msgpath_core::doctor::Examine;
use msgpath_core::gate::Gate;
use msgpath_core::parts::Parts;
use msgpath_core::plan::{Between, DEFAULT_MESSAGE_LOG, Family, Load};
use msgpath_core::schema::{
    DataRoute, DeviceKind, EndRound, Environment, FAR, NEAR, ProcessSpent, RoundRecord, Route, RunHeader,
};
use msgpath_core::units::Pieces;
use msgpath_core::{Exit, Plan, Problem};
use msgpath_record::RunWriter;
use msgpath_rpc::Header;
use msgpath_rpc::command::{Script, Step};
use msgpath_sys::address::{canonical, shown};
use msgpath_sys::clock;

use collected::Collected;
use plan::{plan, rounds_of, time_of_round};

use super::spent::{Watched, uncounted, who_listens};
use msgpath_run::Link;
use msgpath_run::Others;
use msgpath_run::Progress;
use msgpath_run::out_of_turn;
use msgpath_run::written;

/// What is called, how often, and how hard.
#[derive(Clone, Debug)]
pub struct RpcRequest {
    /// Who is called.
    pub target: RpcTarget,
    pub script: Script,
    pub connections: u32,
    /// Threads; each serves `connections / threads` connections. `None`: [`threads`](Self::threads) says how many.
    pub own_threads: Option<u32>,
    /// Closed loop, or a schedule.
    pub load: Load,
    /// Calls in flight on a connection, at most.
    pub inflight: u32,
    /// HTTP only: more fields of the head of every request, each with its line end.
    pub fields: String,
    /// HTTP only: the body of requests that have one and no value.
    pub body: Option<Vec<u8>>,
    /// HTTP only: each call has a connection of its own.
    pub closes: bool,
    /// HTTP only: version 2.
    pub http2: bool,
    /// TLS only: certificates to trust, in PEM; `None`: those of this machine.
    pub roots: Option<String>,
    /// TLS only: what is checked of the server's certificate.
    pub checks: Checks,
    /// TLS only: the certificate that the client shows where it is asked for one.
    pub identity: Option<Identity>,
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
    /// How long each command is called, ns: in a closed loop in place of a number of calls, in an open one what is not sent by then is not
    /// sent any more.
    pub duration_ns: Option<u64>,
    /// Rounds of each command; `None`: [`ROUNDS`], or fewer for few calls.
    pub rounds: Option<u32>,
    /// In one round of each command the system calls of client and server are counted, which makes each a little slower.
    pub counts_system_calls: bool,
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
    pub command: Vec<String>,
    pub name: String,
    /// The folder of the run; it must not exist yet.
    pub folder: PathBuf,
}

impl RpcRequest {
    /// Threads, as many as were asked for; else one a CPU where each keeps several connections busy
    /// (`agent::client::together`), and one a connection where not.
    fn threads(&self, speaks: &Speaks) -> u32 {
        let several = self.script.steps.iter().all(|step| self.goes_together(speaks, step));
        let cpus = if self.cpus.is_empty() { msgpath_sys::affinity::allowed().len() } else { self.cpus.len() };
        let shared = |threads: &u32| self.connections.is_multiple_of(*threads);
        let most = if several { (cpus as u32).clamp(1, self.connections.max(1)) } else { self.connections };
        self.own_threads.or_else(|| (1..=most).rev().find(shared)).unwrap_or(1)
    }

    /// Rounds end by the clock alone.
    fn ends_by_time(&self) -> bool {
        self.duration_ns.is_some() && self.load == Load::Closed
    }

    fn goes_together(&self, speaks: &Speaks, step: &Step) -> bool {
        goes_together(speaks, (self.load, self.inflight.into()), step)
    }
}

/// The way to the server, known once the first connection is there.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Where the server is.
    pub to: Endpoint,
    /// Other addresses that its name has.
    pub more: usize,
    /// The client's address; `None`: it has none of IP.
    pub from: Option<SocketAddr>,
    /// The device, or why it is not known.
    pub route: Result<Route, String>,
    /// The namespaces of client and server, where both are on this machine.
    pub between: Option<Between>,
    /// The nodes of a cluster, the one that was named first; empty: there is none.
    pub nodes: Vec<SocketAddr>,
}

impl Connected {
    /// What the server is called: its address without the port, or its socket.
    fn name(&self) -> String {
        self.to.tcp().map_or_else(|| self.to.to_string(), |to| to.ip().to_string())
    }

    /// The way, where it is one of IP.
    fn data(&self) -> Option<DataRoute> {
        let near = shown(canonical(self.from?));
        let (far, more) = (shown(canonical(self.to.tcp()?)), self.more);
        Some(DataRoute { far, near_seen: near.clone(), near, more, ..DataRoute::default() })
    }

    /// Why both ends are on one machine, where they are known to be.
    pub fn same_machine(&self) -> Option<String> {
        if let Some(between) = &self.between {
            let (near, far) = (between.of(NEAR), between.of(FAR));
            return Some(format!("two network namespaces of it, {} and {}", near.name, far.name));
        }
        let Some(to) = self.to.tcp() else { return Some("a Unix socket joins processes of one machine".into()) };
        if self.from.is_some_and(|from| from.ip() == to.ip()) {
            return Some("both addresses are the same".into());
        }
        let local = self.route.as_ref().is_ok_and(|route| route.kind == DeviceKind::Loopback);
        local.then(|| format!("the route to {} is the loopback device", to.ip()))
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

/// Where a target is, and how many other addresses its name has. The first that answers is called; where IPv4 and IPv6 both do, IPv4:
/// the lab knows no other.
fn resolve(request: &RpcRequest, stop: &AtomicBool) -> Result<(Endpoint, usize), Problem> {
    let target = &request.target;
    if let Some(path) = &target.socket {
        return Ok((Endpoint::Unix(path.into()), 0));
    }
    let mut all = names::addresses(&target.host, target.port(), Family::Any)?;
    all.sort_by_key(SocketAddr::is_ipv6);
    let timeout = Duration::from_nanos(request.connect_timeout_ns);
    let answers = names::answering(&all, timeout, stop).map_err(|error| {
        if let Some(problem) = names::no_port(&error) {
            return problem;
        }
        let tried: Vec<String> = all.iter().map(|address| shown(*address)).collect();
        let what = format!("nobody answers at {}, port {} ({error})", target.host, target.port());
        Problem::new("E01", Exit::CannotStart, what).why(format!("tried at {}", tried.join(", ")))
    })?;
    Ok((Endpoint::Tcp(answers), all.len() - 1))
}

/// What the server of a request understands.
fn speaks(request: &RpcRequest) -> Speaks {
    let RpcTarget { protocol, host, path, login, .. } = &request.target;
    match protocol {
        Protocol::Lab => Speaks::Lab { pad: if request.plain || request.script.seed1 { 0 } else { Header::ASK } },
        Protocol::Redis => Speaks::Redis(login.clone()),
        #[cfg(feature = "postgres")]
        Protocol::Postgres => {
            let database = path.trim_start_matches('/').to_owned();
            Speaks::Postgres { login: login.clone(), database }
        }
        Protocol::Http => {
            // A device of this machine means nothing to the server (RFC 6874).
            let host = host.split('%').next().unwrap_or_default();
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            Speaks::Http {
                host: match request.target.socket {
                    Some(_) => host,
                    None => format!("{host}:{}", request.target.port()),
                },
                path: path.clone(),
                fields: request.fields.clone(),
                body: request.body.clone(),
                closes: request.closes,
                http2: request.http2,
            }
        }
    }
}

/// What the near end is told of the run, which begins at this moment of both clocks.
fn order(request: &RpcRequest, address: Endpoint, (begin, begin_unix_us): (u64, i64)) -> CallOrder {
    let protocol = &request.target.protocol;
    let (speaks, seed1) = (speaks(request), request.script.seed1);
    CallOrder {
        address,
        tls: tls(request),
        threads: request.threads(&speaks),
        speaks,
        steps: request.script.steps.clone(),
        connections: request.connections,
        cpus: request.cpus.clone(),
        load: request.load,
        inflight: request.inflight.into(),
        seed: request.seed,
        register: if seed1 { 1 } else { random_seed(request.seed) },
        verify: request.verify,
        records: request.records && *protocol == Protocol::Lab,
        timeout_ns: request.timeout_ns,
        connect_timeout_ns: request.connect_timeout_ns,
        begin,
        begin_unix_us,
    }
}

/// How TLS is spoken, where the target asks for it.
fn tls(request: &RpcRequest) -> Option<TlsOrder> {
    let RpcTarget { protocol, tls, host, .. } = &request.target;
    let protocol = match protocol {
        Protocol::Http if request.http2 => Some("h2"),
        Protocol::Http => Some("http/1.1"),
        _ => None,
    };
    tls.then(|| TlsOrder {
        name: host.split('%').next().unwrap_or_default().to_owned(),
        roots: request.roots.clone(),
        checks: request.checks,
        identity: request.identity.clone(),
        protocol: protocol.map(str::to_owned),
    })
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
    let (address, more) = resolve(&request, stop)?;
    let begin = begin();
    let mut near = Link::near_here()?;
    near.order(ROLE, &Order::Call(Box::new(order(&request, address.clone(), begin))))?;
    // Connecting takes as long as it may.
    let waits = 1 + u32::from(request.target.tls) + u32::from(request.http2);
    let patience = Duration::from_nanos(request.connect_timeout_ns).saturating_mul(waits * request.connections);
    let answer = near.answer_within(patience.saturating_add(Duration::from_secs(15)))?.0;
    let Ok(Answer::Calling { from, server, counters, nodes }) = had(answer)?.of_role() else {
        return Err(out_of_turn());
    };
    let route = address.tcp().map_or_else(|| Err("a Unix socket has no device".into()), route::to);
    let connected = Connected { to: address, more, from, route, between: request.between.clone(), nodes };
    listener.connected(&connected);
    let here = connected.between.is_none() && connected.same_machine().is_some();
    let server = request.server.or(server);
    let server = server.or_else(|| who_listens(connected.to.tcp()?).filter(|_| here));
    // What one of several nodes spends is not what the calls cost.
    let server = server.filter(|_| connected.nodes.len() < 2);
    plan.baseline = plan.cases[0].path.clone();
    let mut header = header(&request, plan, &connected, counters, begin.1, &mut near)?;
    progress.started(&header);
    progress.planned(&header.plan);
    let mut writer = RunWriter::create(&request.folder, &header).map_err(Problem::from)?;
    let processes = [Watched::alone(near.pid()), Watched::server(server)];
    let mut run = Run {
        request: &request,
        near: &mut near,
        header: &mut header,
        writer: &mut writer,
        progress,
        listener,
        others: Others::new(false),
        processes,
        outcome: Outcome::default(),
        kept: 0,
        done: 0,
        measured_ns: 0,
    };
    run.others.sample();
    let whole = run.steps(stop);
    (run.header.others, run.header.others_unseen) = run.others.finish();
    let mut outcome = run.outcome;
    let result = whole.and_then(|whole| outcome.problem.take().map_or(Ok(whole), Err));
    // What only the replies could tell: their length, and what answered; and who else used the CPUs.
    let replaced = writer.replace_header(&header).map_err(Problem::from);
    let ended = replaced.and_then(|()| written::ended(&mut writer, &result, BTreeMap::new()));
    outcome.problem = result.err();
    match (ended, &outcome.problem) {
        (Err(problem), None) => Err(problem),
        _ => Ok(outcome),
    }
}

/// What an end answers, if it is neither that something is unavailable nor that it failed.
fn had(answer: FromEnd) -> Result<FromEnd, Problem> {
    msgpath_run::had(answer, "these calls cannot be made here")
}

/// The header of the run, as far as it is known before the first call.
fn header(
    request: &RpcRequest,
    plan: Plan,
    connected: &Connected,
    near_counters: Vec<String>,
    begin_unix_us: i64,
    agent: &mut Link,
) -> Result<RunHeader, Problem> {
    let near = agent.environment.clone();
    let same_machine = connected.same_machine();
    // One machine: what is the machine's is the server's as well. What it runs on another one nobody knows.
    let far = match same_machine {
        Some(_) => Environment { cpus: Vec::new(), facts: BTreeMap::new(), ..near.clone() },
        None => Environment { host: connected.name(), ..Environment::default() },
    };
    let nic = connected.route.as_ref().ok().filter(|route| route.kind == DeviceKind::Nic);
    let link = nic.and_then(|route| {
        Some(Wire { bits_per_s: route.bits_per_s?, from: format!("link speed of {}", route.device) })
    });
    let shaped = connected.between.as_ref().and_then(rate_of_link).map(Wire::shaped);
    let expected = |(at, step): (usize, &Step)| Some((at as u32, step.expect_ns?));
    let size = plan.cases.iter().map(|case| case.size).max().unwrap_or(1);
    let peer = connected.to.tcp();
    let (end, cpus) = ("near".to_owned(), request.cpus.clone());
    let order = Examine { end, cpus, full: false, peer, spin: false, other_cpu: None };
    let doctor = msgpath_run::examine_alone(agent, order)?.doctor;
    let cpu = request.cpus.first().copied();
    let order = FloorsOrder { near: cpu, far: None, one_machine: false, size, peer, pieces: None };
    let (floors, clock) = msgpath_run::floors_alone(agent, order)?;
    let rpc = RpcFacts {
        protocol: if request.http2 { "http2" } else { request.target.protocol.name() }.into(),
        begin_unix_us,
        client_step_ns: clock.step_ns.max(1),
        server_step_ns: if request.target.protocol == Protocol::Lab { 1000 } else { 0 },
        pairs: vec![RpcPair {
            client: connected.from.map_or_else(|| connected.name(), |from| from.ip().to_string()),
            server: connected.name(),
            same_machine,
        }],
        wire: request.wire.map(Wire::told).or(shaped).or(link),
        expect: request.script.steps.iter().enumerate().filter_map(expected).collect(),
        system_calls_uncounted: (!request.counts_system_calls).then(|| "only a run with -v counts them".into()),
        ..RpcFacts::default()
    };
    let (name, command, target) = (request.name.clone(), request.command.clone(), request.target.to_string());
    let mut header = RunHeader {
        doctor: Some(doctor),
        floors: Some(floors),
        parts: Parts::default().with(rpc),
        ..written::header(name, "rpc", command, target, plan)
    };
    header.data = connected.data();
    header.set_hosts([near, far]);
    let end = &mut header.ends[NEAR];
    (end.clock, end.counters, end.cpus) = (clock, near_counters, request.cpus.clone());
    Ok(header)
}

struct Run<'a> {
    request: &'a RpcRequest,
    near: &'a mut Link,
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
    /// Time of the rounds so far, ns.
    measured_ns: u64,
}

impl Run<'_> {
    /// All commands. `Ok(false)`: interrupted, or broken off with the reason in the outcome.
    fn steps(&mut self, stop: &AtomicBool) -> Result<bool, Problem> {
        let rounds: Vec<u32> = self.request.script.steps.iter().map(|step| rounds_of(step, self.request)).collect();
        let of = rounds.iter().map(|rounds| u64::from(*rounds)).sum();
        for (step, rounds) in rounds.into_iter().enumerate() {
            let calls = self.request.script.steps[step].calls();
            let (spent, sent) = (self.measured_ns, self.outcome.sent);
            for pass in 0..rounds {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let part = |pass: u32| calls * u64::from(pass) / u64::from(rounds);
                let room = DEFAULT_MESSAGE_LOG.saturating_sub(self.kept);
                let (calls, until_ns) = match (self.request.duration_ns, self.request.load) {
                    (None, _) => (part(pass)..part(pass + 1), None),
                    (Some(ns), load) => {
                        let Some(until) = time_of_round(ns, rounds, load, self.measured_ns - spent) else { break };
                        // A schedule goes on with what the rounds before did not come to.
                        let made = self.outcome.sent - sent;
                        let by_schedule = made..part(pass + 1).min(made + MOST_CALLS_A_ROUND);
                        (if load == Load::Closed { 0..calls } else { by_schedule }, Some(until))
                    }
                };
                // The second one: the first has what happens once.
                if self.request.counts_system_calls && pass == 1.min(rounds - 1) {
                    self.count_system_calls();
                }
                let order = CallsOrder { step, calls, pass, keep: room as usize, until_ns };
                if !self.round(&order, of, stop)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Has the system calls of both processes counted in the round that follows, or says why not.
    fn count_system_calls(&mut self) {
        let refused = self.processes.iter_mut().find_map(|process| process.count_system_calls().err());
        let facts = self.header.parts.get_mut::<RpcFacts>().expect("a run of calls");
        facts.system_calls_uncounted = refused.map(|error| uncounted(&error));
    }

    /// Has one round measured, and records it. `Ok(false)`: it is the last one.
    fn round(&mut self, order: &CallsOrder, of: u64, stop: &AtomicBool) -> Result<bool, Problem> {
        self.near.order(ROLE, &Order::Calls(order.clone()))?;
        let FromEnd::Ready { .. } = had(self.near.answer()?.0)? else { return Err(out_of_turn()) };
        let steal = environment::steal_ticks();
        self.processes.iter_mut().for_each(Watched::begin);
        let begin = clock::now();
        self.near.send(&ToEnd::Go)?;
        let whole = msgpath_run::until_over(std::slice::from_mut(self.near), None, stop)?;
        self.measured_ns += clock::now() - begin;
        let spent = self.processes.each_mut().map(Watched::end);
        let steal_ticks = environment::steal_ticks().zip(steal).map(|(after, before)| after.saturating_sub(before));
        if whole {
            self.near.send(&ToEnd::Finish)?;
        }
        let mut collected = Collected::fetch(self.near)?;
        let (broken, last_status) = (collected.called.broken.take(), collected.called.last_status);
        let (record, rows) = self.record(order, collected, spent, steal_ticks)?;
        written::held(&record)?;
        // A round without a call says nothing.
        if record.near().delivery.sent > 0 {
            self.writer.round(&record, &[]).map_err(Problem::from)?;
            if !rows.is_empty() {
                self.writer.rows::<RpcRow>(&rows).map_err(Problem::from)?;
            }
            self.kept += rows.len() as u64;
            self.done += 1;
            self.others.sample();
            self.progress.round(&record, self.done, of);
        }
        let goes_on = broken.is_none();
        // One that was stopped is a consequence, no cause.
        if let Some((connection, broken)) = broken.filter(|(_, broken)| *broken != Broken::Stopped) {
            self.outcome.problem = Some(self.problem(connection, broken, order.step, last_status));
        }
        Ok(goes_on)
    }

    /// A round as it is recorded, and its rows.
    fn record(
        &mut self,
        order: &CallsOrder,
        Collected { called, histograms, mut rows, records, texts }: Collected,
        spent: [Option<ProcessSpent>; 2],
        steal_ticks: Option<u64>,
    ) -> Result<(RoundRecord, Vec<RpcRow>), Problem> {
        let Called { mut near, mut open, start_ns, not_kept, failed, connect_ns, .. } = called;
        let Called { remarks, waits_known, server, reply_bytes, mut handshakes, .. } = called;
        if let Some(handshakes) = &mut handshakes {
            handshakes.unchecked = self.request.checks == Checks::Nothing && self.request.target.tls;
        }
        let facts = self.header.parts.get_mut::<RpcFacts>().expect("a run of calls");
        facts.not_kept += not_kept;
        remarks.into_iter().for_each(|more| RpcRemark::count(&mut facts.remarks, more));
        match server {
            _ if waits_known => facts.server = "msgpath".into(),
            Some(server) if facts.server.is_empty() => facts.server = server,
            _ => {}
        }
        let case = &mut self.header.plan.cases[order.step];
        if let Some(bytes) = reply_bytes {
            case.reply = bytes;
        }
        if let Some(bytes) = rows.first().map(|row| row.request_bytes).filter(|_| order.pass == 0)
            && self.request.target.protocol != Protocol::Lab
        {
            (case.size, case.pieces) = (bytes, Pieces::whole(bytes as u32));
        }
        rows.iter_mut().for_each(|row| (row.case, row.pass) = (order.step as u32, order.pass));
        texts.iter().for_each(|text| self.listener.server_text(text));
        if !records.is_empty() {
            self.listener.records(&records)?;
        }
        let delivery = near.report.delivery;
        // What a round did not come to the next one offers: the part of its schedule that it sent is as fast as all of it.
        if let Some(open) = open.as_mut().filter(|open| order.until_ns.is_some() && delivery.sent < open.offered) {
            open.span_ns = (u128::from(open.span_ns) * u128::from(delivery.sent) / u128::from(open.offered)) as u64;
            open.offered = delivery.sent;
        }
        self.outcome.sent += delivery.sent;
        self.outcome.answered += delivery.received;
        self.outcome.failed += failed;
        self.outcome.verified += delivery.verified;
        let [near_spent, process] = spent;
        near.process = near_spent;
        let [latency, service, lateness] = histograms.map(|histogram| histogram.to_sparse());
        let mut record = RoundRecord {
            case: order.step as u32,
            pass: order.pass,
            position: order.step as u32,
            start_ns,
            batch: 1,
            connect_ns,
            ends: vec![near, EndRound { process, ..EndRound::default() }],
            steal_ticks,
            latency,
            service,
            lateness,
            open,
            parts: handshakes.into_iter().map(|handshakes| Parts::default().with(handshakes)).collect(),
            ..RoundRecord::default()
        };
        let due = if order.until_ns.is_some() { delivery.sent } else { order.calls.end - order.calls.start };
        record.flags = written::flags(&record, delivery.received < due);
        Ok((record, rows))
    }

    /// What the user reads about a connection that broke.
    fn problem(&self, connection: u32, broken: Broken, step: usize, last_status: u32) -> Problem {
        let of: u64 = match self.request.duration_ns {
            None => self.request.script.steps.iter().map(Step::calls).sum(),
            Some(_) => self.outcome.sent,
        };
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
            Broken::Parted(why) => problem("E35", format!("the server closed {which} after {answered} of {of} calls"))
                .why(format!("it says: {why}")),
            Broken::Foreign(why) => {
                problem("E34", format!("what came over {which} is not a reply to what was asked")).why(why)
            }
            Broken::Wrong(why) => problem("E06", "a reply has other bytes than it must have".into()).why(why),
            Broken::TimedOut => {
                let limit = msgpath_core::units::Glyphs::Ascii.time(self.request.timeout_ns as f64);
                let (why, hint) = match self.request.target.protocol {
                    Protocol::Lab => (
                        "the lab's server4 serves one connection a port: others wait until it is closed",
                        "another port, or a larger --timeout",
                    ),
                    _ => ("", "a larger --timeout, or fewer connections where the server serves one at a time"),
                };
                problem("E36", format!("no reply within {limit} over {which}, after {answered} of {of} calls"))
                    .why(why)
                    .hint(hint)
            }
            Broken::Impossible(what) => problem("E57", format!("the server reports what cannot be: {what}"))
                .why("a result that rests on a wrong report is worthless, so the run stopped")
                .hint("a server whose clock and times are right"),
            Broken::Lost(failure) => Problem { exit: Exit::Unfinished, ..failure.into() },
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
