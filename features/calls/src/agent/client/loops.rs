//! The calls of one round on the connections of one thread: a closed loop with one call in flight or several, or an open one, with a
//! thread that receives where several calls may be in flight.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;

use msgpath_core::plan::Load;
use msgpath_core::schema::OpenRound;
use msgpath_core::{CallCounts, Problem};
use msgpath_rpc::command::Step;
use msgpath_rpc::log::first_bytes;
use msgpath_sys::{clock, timer, usage};

use msgpath_agent::meter::{add_usage, tcp_since};
use msgpath_agent::open::{self, Flow, Generator};
use msgpath_agent::team::thread_problem;
use msgpath_agent::wire;
use msgpath_agent::wire::Debt;

use super::cluster::{self, Cluster, Redirect};
use super::connection::{Connection, Inbox, Watch, send};
use super::ledger::Ledger;
use super::maker::{Draws, Maker};
use super::orders::{Broken, CallOrder, CallsOrder, goes_together};
use super::part::{Gone, Got, Part, Place, verify};
use super::stream::Stream;
use super::streams;
use super::together;
use super::wire::{Sent, Wire};
use crate::record::Handshakes;

/// A pause is looked at for an interruption this often, ns.
const SLICE_NS: u64 = 100_000_000;
/// How long the replies to what was sent are awaited when the run is stopped, ns.
const GRACE_NS: u64 = 1_000_000_000;

/// What all threads of a run share.
pub struct Shared {
    /// What holds for the whole run.
    pub order: CallOrder,
    /// The user interrupted, or a connection broke: nobody goes on.
    pub over: AtomicBool,
    /// Where replies are verified.
    pub ledger: Option<Ledger>,
}

impl Shared {
    /// For a run that begins.
    pub fn new(order: CallOrder) -> Self {
        let ledger = order.verify.then(Ledger::default);
        Self { order, over: AtomicBool::new(false), ledger }
    }

    /// A moment of the monotonic clock on the wall clock, µs since 1970: as the record of the run has it, so that what is sent,
    /// recorded and exported is the same number.
    #[inline(always)]
    pub fn unix_us(&self, at: u64) -> i64 {
        self.order.begin_unix_us + (at.saturating_sub(self.order.begin) / 1000) as i64
    }

    /// Nobody goes on.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// One connection as its thread has it.
pub struct Line {
    pub connection: Connection,
    /// To the other nodes of a cluster.
    pub others: Vec<Connection>,
    /// Which of them has a key.
    pub cluster: Option<Cluster>,
    /// Puts requests together.
    pub wire: Wire,
    /// Its registers.
    pub draws: Draws,
    /// Keys and values of the command at hand.
    pub maker: Maker,
    /// Number of that command.
    pub step: usize,
    /// Open loop: where its schedule stands.
    pub debt: Debt,
    pub(super) out: Vec<u8>,
    /// Several calls that go at once.
    batch: Vec<u8>,
}

impl Line {
    /// Ready for the first command.
    pub fn new(connection: Connection, wire: Wire, draws: Draws, shared: &Shared) -> Self {
        let maker = Maker::new(&shared.order.steps[0], connection.index, shared.order.connections);
        Self {
            connection,
            others: Vec::new(),
            cluster: None,
            wire,
            draws,
            maker,
            step: 0,
            debt: Debt::default(),
            out: Vec::new(),
            batch: Vec::new(),
        }
    }

    fn turn_to(&mut self, step: usize, shared: &Shared) {
        if self.step != step {
            self.maker = Maker::new(&shared.order.steps[step], self.connection.index, shared.order.connections);
            (self.step, self.connection.rep, self.debt) = (step, 0, Debt::default());
        }
    }
}

/// Sleeps until `until` (ns), or until the run is over.
fn pause(until: u64, shared: &Shared) {
    while clock::now() < until && !shared.is_over() {
        let _ = timer::sleep_until(until.min(clock::now() + SLICE_NS));
    }
}

/// Carries out an order on the connections of the calling thread.
pub fn round(lines: &mut [Line], order: &CallsOrder, shared: &Shared) -> Part {
    let place = Place { case: order.step as u32, pass: order.pass, begin: shared.order.begin, keep: order.keep };
    let mine = lines.iter().map(|line| share(order, line.connection.index, shared.order.connections)).sum::<u64>();
    let mut part = Part::new(place.keep.min(mine as usize));
    for line in lines.iter_mut() {
        line.turn_to(order.step, shared);
        line.wire.turn_to(&shared.order.steps[order.step].method);
    }
    let tcp = |line: &Line| line.connection.tcp_info().map(|info| (line.connection.renewals, info));
    let counted: Vec<_> = lines.iter().map(tcp).collect();
    let (read_ns, before) = (clock::now(), usage::thread());
    match shared.order.load {
        // A thread has one connection then.
        _ if shared.order.speaks.is_http2() => {
            lines.iter_mut().for_each(|line| streams::round(line, order, shared, &place, &mut part));
        }
        Load::Closed if shared.order.inflight == 1 => closed(lines, order, shared, &place, &mut part),
        // A thread has one connection then.
        load => {
            for line in lines.iter_mut() {
                match (load, shared.order.inflight) {
                    (Load::Closed, _) => pipelined(line, order, shared, &place, &mut part),
                    (Load::Open { .. }, 1) => paced(line, order, shared, &place, &mut part),
                    (Load::Open { .. }, _) => open(line, order, shared, &place, &mut part),
                }
            }
        }
    }
    let after = usage::thread();
    let report = &mut part.report;
    add_usage(report, &before, &after);
    report.metered_ns = Some(clock::now() - read_ns);
    report.elapsed_ns = part.end.saturating_sub(part.begin);
    for (line, before) in lines.iter_mut().zip(counted) {
        // What connections have counted that are gone nobody knows.
        let same = tcp(line).zip(before).filter(|((now, _), (then, _))| now == then);
        if let Some(((_, now), (_, before))) = same {
            let own = tcp_since(now, before);
            report.tcp = Some(report.tcp.map_or(own, |sum| sum.plus(own)));
        }
        part.connect_ns = part.connect_ns.max(line.connection.connect_ns.take());
        for connection in std::iter::once(&mut line.connection).chain(&mut line.others) {
            Handshakes::join(&mut part.handshakes, connection.handshakes.take());
        }
    }
    part
}

/// Calls of an order that fall to a connection.
pub(super) fn share(order: &CallsOrder, index: u32, connections: u32) -> u64 {
    let (at, of) = (u64::from(index), u64::from(connections));
    let below = |end: u64| end / of + u64::from(end % of > at);
    below(order.calls.end) - below(order.calls.start)
}

/// When a round begins no call any more, ns.
pub(super) fn until(order: &CallsOrder) -> u64 {
    order.until_ns.map_or(u64::MAX, |ns| clock::now().saturating_add(ns))
}

/// One call after the other; with several connections in turn, or one on each.
fn closed(lines: &mut [Line], order: &CallsOrder, shared: &Shared, place: &Place, part: &mut Part) {
    let step = &shared.order.steps[order.step];
    if lines.len() > 1 && goes_together(&shared.order.speaks, (shared.order.load, shared.order.inflight), step) {
        return together::round(lines, order, shared, place, part);
    }
    let of = u64::from(shared.order.connections);
    let until = until(order);
    let mut last = 0;
    for call in order.calls.clone() {
        if last >= until {
            return;
        }
        let Some(line) = lines.iter_mut().find(|line| call % of == u64::from(line.connection.index)) else { continue };
        let rep = call / step.k;
        if rep > line.connection.rep && step.wait_ms > 0 {
            pause(clock::now() + (rep - line.connection.rep) * step.wait_ms * 1_000_000, shared);
        }
        line.connection.rep = rep;
        if shared.is_over() {
            part.broken = Some((line.connection.index, Broken::Stopped));
            return;
        }
        match one(line, step, shared, (place, None), part) {
            Ok((_, t4)) => last = t4,
            Err(broken) => {
                part.broken = Some((line.connection.index, broken));
                return;
            }
        }
    }
}

/// The length of a reply and when its first bytes were read, or why there is none; and when that was known: T4.
type Exchanged = (Result<(usize, u64), Broken>, u64);

/// Sends a call. Its time begins here.
#[inline(always)]
pub(super) fn go(
    connection: &mut Connection,
    wire: &mut Wire,
    out: &mut [u8],
    (shared, calls): (&Shared, &mut CallCounts),
    gone: &mut Gone,
) -> Result<(), Broken> {
    gone.t1 = clock::now();
    gone.unix_us = shared.unix_us(gone.t1);
    wire.stamp(out, gone.unix_us);
    connection.watch.sends(gone.t1);
    send(&connection.stream, out, &connection.watch, calls)?;
    gone.sent_at = clock::now();
    Ok(())
}

/// Sends a call and receives its reply.
#[inline(always)]
fn exchange(
    connection: &mut Connection,
    wire: &mut Wire,
    out: &mut [u8],
    (shared, calls): (&Shared, &mut CallCounts),
    gone: &mut Gone,
) -> Exchanged {
    // The measured span.
    let received = go(connection, wire, out, (shared, &mut *calls), gone).and_then(|()| {
        let Connection { inbox, stream, watch, .. } = connection;
        inbox.receive(stream, wire, watch, calls)
    });
    let t4 = clock::now();
    // Up to here.
    connection.watch.received(t4);
    (received, t4)
}

/// The connection to a node of a cluster; the first one is that of the server that was named.
fn node<'a>(own: &'a mut Connection, others: &'a mut [Connection], at: usize) -> &'a mut Connection {
    match at.checked_sub(1).and_then(|at| others.get_mut(at)) {
        Some(other) => other,
        None => own,
    }
}

/// Makes a call again at the node that has its key: both ways are in its time, as they are for any client of a cluster.
fn follow(
    connection: &mut Connection,
    wire: &mut Wire,
    out: &mut [u8],
    (shared, calls, asking): (&Shared, &mut CallCounts, bool),
    gone: &mut Gone,
) -> Exchanged {
    let (t1, unix_us, sent_at) = (gone.t1, gone.unix_us, gone.sent_at);
    gone.renewed = Some("redirected by the cluster to another node (MOVED or ASK): both ways are in its time");
    if asking {
        let (said, t4) = exchange(connection, wire, &mut cluster::asking(), (shared, calls), gone);
        match said {
            Ok((whole, _)) => connection.inbox.consume(whole),
            Err(broken) => return (Err(broken), t4),
        }
    }
    let exchanged = exchange(connection, wire, out, (shared, calls), gone);
    (gone.t1, gone.unix_us, gone.sent_at) = (t1, unix_us, sent_at);
    exchanged
}

/// Over a new connection, because the server had closed the one that was kept.
pub(super) const AGAIN: &str = "made again over a new connection: the server had closed the one that was kept";

/// Puts the next call of a connection together; `due`: when a schedule says that it goes.
#[inline(always)]
pub(super) fn prepare(line: &mut Line, step: &Step, shared: &Shared, due: Option<u64>) -> Result<(Gone, Sent), Broken> {
    let Line { connection, wire, draws, maker, out, .. } = line;
    let mut gone = Gone { due, ..Gone::default() };
    if connection.stale {
        connection.renew(&shared.over).map_err(|problem| Broken::Lost(problem.into()))?;
        gone.renewed = wire.keeps().then_some("over a new connection: the server closes behind a reply");
    }
    let sent = wire.build(&step.method, maker, draws, out);
    maker.advance();
    Ok((gone, sent))
}

/// One call and its reply; `due`: when a schedule says that it goes. Returns T1 and T4.
fn one(
    line: &mut Line,
    step: &Step,
    shared: &Shared,
    (place, due): (&Place, Option<u64>),
    part: &mut Part,
) -> Result<(u64, u64), Broken> {
    let (mut gone, sent) = prepare(line, step, shared, due)?;
    let Line { connection: own, others, cluster, wire, out, .. } = line;
    let at = cluster.as_ref().map_or(0, |cluster| cluster.node_of(&out[sent.key.clone()]));
    let connection = node(own, others, at);
    connection.inbox.room(wire.guess(&sent));
    let calls = &mut part.report.calls;
    let (mut received, mut t4) = exchange(connection, wire, out, (shared, calls), &mut gone);
    let unheard = matches!(received, Err(Broken::Closed(0))) && connection.used;
    if unheard && wire.may_repeat(&step.method) {
        connection.renew(&shared.over).map_err(|problem| Broken::Lost(problem.into()))?;
        gone.renewed = Some(AGAIN);
        (received, t4) = exchange(connection, wire, out, (shared, calls), &mut gone);
    }
    let mut end = at;
    if let (Ok((whole, _)), Some(cluster)) = (&received, cluster)
        && let Some(Redirect { node: to, asking }) = cluster.redirect(connection.inbox.reply(*whole))
    {
        connection.inbox.consume(*whole);
        end = to;
        (received, t4) = follow(node(own, others, to), wire, out, (shared, calls, asking), &mut gone);
    }
    let connection = node(own, others, end);
    gone.note(sent, out, connection.port(), &shared.order);
    finish((connection, wire, out), step, shared, place, (gone, received, t4), part)
}

/// Takes what was received in reply to a call. Returns T1 and T4.
#[inline(always)]
pub(super) fn finish(
    (connection, wire, out): (&mut Connection, &mut Wire, &[u8]),
    step: &Step,
    shared: &Shared,
    place: &Place,
    (gone, received, t4): (Gone, Result<(usize, u64), Broken>, u64),
    part: &mut Part,
) -> Result<(u64, u64), Broken> {
    let (whole, first) = match received {
        Ok(received) => received,
        Err(broken) => {
            part.settle(place, connection.index, &gone, None);
            return Err(broken);
        }
    };
    let message = connection.inbox.reply(whole);
    let answered = wire
        .reply(message)
        .and_then(|reply| wire.belongs(&reply, gone.sent.rpcid, gone.unix_us, &step.method).map(|()| reply));
    let reply = match answered {
        Ok(reply) => reply,
        Err(why) => {
            part.settle(place, connection.index, &gone, None);
            return Err(Broken::Foreign(why));
        }
    };
    let body = &message[reply.body.clone()];
    if step.method == "stats" && reply.status == 0 {
        part.say(wire.value(body).unwrap_or(body));
    }
    let mut wrong = None;
    if let Some(ledger) = &shared.ledger {
        let does = wire.does(&step.method);
        match verify(wire, does, connection.index, (&gone.sent, out), (&reply, message), ledger) {
            Ok(verified) => part.report.delivery.verified += u64::from(verified),
            Err(why) => wrong = Some(why),
        }
    }
    let got = Got { first, t4, bytes: whole, body: first_bytes(body), reply };
    (connection.stale, connection.used) = (got.reply.closes, true);
    let beyond = connection.inbox.beyond(whole);
    let beyond = if wire.may_go_on(beyond) { 0 } else { beyond.len() };
    connection.inbox.consume(whole);
    if let Some(what) = got.impossible(&gone) {
        part.settle(place, connection.index, &gone, None);
        return Err(Broken::Impossible(what));
    }
    part.settle(place, connection.index, &gone, Some(&got));
    match wrong {
        Some(why) => Err(Broken::Wrong(why)),
        None if beyond > 0 => {
            Err(Broken::Foreign(format!("{beyond} bytes more came than the one reply that was asked for")))
        }
        None => Ok((gone.t1, t4)),
    }
}

/// Calls of a closed loop, several in flight on one connection: all that have room go in one send, replies are taken in their order.
fn pipelined(line: &mut Line, order: &CallsOrder, shared: &Shared, place: &Place, part: &mut Part) {
    let step = &shared.order.steps[order.step];
    let index = line.connection.index;
    let mut left = share(order, index, shared.order.connections);
    let mut flight: VecDeque<Gone> = VecDeque::with_capacity(shared.order.inflight as usize);
    let until = until(order);
    let broken = loop {
        if until < u64::MAX && clock::now() >= until {
            left = 0;
        }
        let room = shared.order.inflight - flight.len() as u64;
        let more = if shared.is_over() { 0 } else { left.min(room) };
        left -= more;
        if more > 0
            && let Err(broken) = send_all(line, step, shared, (more, &mut flight), part)
        {
            break Some(broken);
        }
        if flight.is_empty() {
            break (left > 0).then_some(Broken::Stopped);
        }
        if let Err(broken) = take_all(line, step, place, &mut flight, part) {
            break Some(broken);
        }
    };
    flight.iter().for_each(|gone| part.settle(place, index, gone, None));
    part.broken = broken.map(|broken| (index, broken));
}

/// Puts so many calls together and sends them at once; they are in flight then.
fn send_all(
    line: &mut Line,
    step: &Step,
    shared: &Shared,
    (more, flight): (u64, &mut VecDeque<Gone>),
    part: &mut Part,
) -> Result<(), Broken> {
    let Line { connection, wire, draws, maker, out, batch, .. } = line;
    let before = flight.len();
    batch.clear();
    for _ in 0..more {
        let sent = wire.build(&step.method, maker, draws, out);
        maker.advance();
        flight.push_back(Gone { sent, ..Gone::default() });
        batch.extend_from_slice(out);
    }
    let t1 = clock::now();
    let unix_us = shared.unix_us(t1);
    let mut rest = &mut batch[..];
    for gone in flight.iter_mut().skip(before) {
        let (message, behind) = rest.split_at_mut(gone.sent.bytes);
        wire.stamp(message, unix_us);
        (gone.t1, gone.unix_us) = (t1, unix_us);
        gone.note(gone.sent.clone(), message, connection.port(), &shared.order);
        connection.watch.sends(t1);
        rest = behind;
    }
    send(&connection.stream, batch, &connection.watch, &mut part.report.calls)?;
    let sent_at = clock::now();
    flight.iter_mut().skip(before).for_each(|gone| gone.sent_at = sent_at);
    Ok(())
}

/// Waits for the next reply, and takes it with all that came with it.
fn take_all(
    line: &mut Line,
    step: &Step,
    place: &Place,
    flight: &mut VecDeque<Gone>,
    part: &mut Part,
) -> Result<(), Broken> {
    let Line { connection: Connection { inbox, stream, watch, index, .. }, wire, .. } = line;
    loop {
        let (whole, first) = inbox.receive(stream, wire, watch, &mut part.report.calls)?;
        let t4 = clock::now();
        watch.received(t4);
        let message = inbox.reply(whole);
        let Some(gone) = flight.front() else {
            return Err(Broken::Foreign("more replies came than calls were made".into()));
        };
        let reply = wire.reply(message).map_err(Broken::Foreign)?;
        wire.belongs(&reply, gone.sent.rpcid, gone.unix_us, &step.method).map_err(Broken::Foreign)?;
        let got = Got { first, t4, bytes: whole, body: first_bytes(&message[reply.body.clone()]), reply };
        if let Some(what) = got.impossible(gone) {
            return Err(Broken::Impossible(what));
        }
        part.settle(place, *index, gone, Some(&got));
        flight.pop_front();
        inbox.consume(whole);
        if !inbox.has_reply(wire) {
            return Ok(());
        }
    }
}

/// The thread that takes the replies to calls by a schedule.
struct Replies<'a> {
    inbox: &'a mut Inbox,
    stream: &'a Stream,
    watch: &'a Watch,
    wire: Wire,
    flow: &'a Flow,
    /// How many will be sent.
    last: &'a AtomicU64,
}

/// What it has taken, and what it took.
struct Received {
    got: Vec<Got>,
    /// Why it takes no more, before all had come.
    ended: Option<Broken>,
    calls: CallCounts,
    user_ns: u64,
    system_ns: u64,
}

impl Replies<'_> {
    /// `count`: how many are expected.
    fn take(mut self, count: u64) -> Received {
        let (mut got, mut calls) = (Vec::with_capacity(count as usize), CallCounts::default());
        let before = usage::thread();
        let ended = loop {
            if self.flow.settled() >= self.last.load(Ordering::Acquire) {
                break None;
            }
            let (whole, first) = match self.inbox.receive(self.stream, &mut self.wire, self.watch, &mut calls) {
                Ok(received) => received,
                Err(broken) => break Some(broken),
            };
            let t4 = clock::now();
            self.watch.received(t4);
            self.flow.settle_one();
            let message = self.inbox.reply(whole);
            match self.wire.reply(message) {
                Ok(reply) => {
                    let body = first_bytes(&message[reply.body.clone()]);
                    got.push(Got { first, t4, bytes: whole, body, reply });
                }
                Err(why) => break Some(Broken::Foreign(why)),
            }
            self.inbox.consume(whole);
        };
        let after = usage::thread();
        let (user_ns, system_ns) = (after.user_ns - before.user_ns, after.system_ns - before.system_ns);
        Received { got, ended, calls, user_ns, system_ns }
    }
}

/// Brings calls and replies together, in the order in which they went out; the first reply that cannot be one.
fn settle(
    wire: &Wire,
    step: &Step,
    (gone, got): (&[Gone], &[Got]),
    (place, index): (&Place, u32),
    part: &mut Part,
) -> Option<Broken> {
    let mut refused = None;
    for (at, one) in gone.iter().enumerate() {
        let got = got.get(at).filter(|got| {
            let belongs = wire.belongs(&got.reply, one.sent.rpcid, one.unix_us, &step.method);
            let fits = belongs.map_err(Broken::Foreign).and_then(|()| match got.impossible(one) {
                Some(what) => Err(Broken::Impossible(what)),
                None => Ok(()),
            });
            fits.map_err(|broken| refused.get_or_insert(broken)).is_ok()
        });
        part.settle(place, index, one, got);
    }
    refused
}

/// The schedule of a connection in a round; `None`: none of its calls falls to it.
pub(super) fn flow_of(line: &Line, order: &CallsOrder, shared: &Shared, place: &Place) -> Option<Flow> {
    let Load::Open { rate, arrivals } = shared.order.load else { return None };
    let index = line.connection.index;
    let count = share(order, index, shared.order.connections);
    let gap_ns = rate.gap_ns() * f64::from(shared.order.connections);
    let (seed, most) = ((shared.order.seed, place.case, place.pass), shared.order.inflight);
    let load = wire::Load { gap_ns, arrivals, seed, cpus: Vec::new(), most, debts: Vec::new() };
    (count > 0).then(|| Flow::new(&load, index, 0, count).after(line.debt))
}

/// Calls by a schedule, one in flight: this thread sends and receives, and connects anew where the server has closed.
fn paced(line: &mut Line, order: &CallsOrder, shared: &Shared, place: &Place, part: &mut Part) {
    let Some(flow) = flow_of(line, order, shared, place) else { return };
    let (step, index) = (&shared.order.steps[order.step], line.connection.index);
    let mut arrived = Vec::with_capacity(flow.count() as usize);
    let mut generator = Generator::new(&flow);
    let until = until(order);
    generator.begin();
    for sequence in 0..flow.count() {
        let due = flow.due(sequence);
        if clock::now() >= until {
            break;
        }
        let over = || match shared.is_over() {
            true => Err(std::io::Error::from(std::io::ErrorKind::Interrupted)),
            false => Ok(()),
        };
        if generator.pacer.wait_until(due, over).is_err() || over().is_err() {
            part.broken = Some((index, Broken::Stopped));
            break;
        }
        match one(line, step, shared, (place, Some(due)), part) {
            Ok((t1, t4)) => {
                generator.pacer.sent(due, t1);
                flow.goes(sequence, t1, 0);
                flow.settle_one();
                arrived.push(t4);
            }
            Err(broken) => {
                part.broken = Some((index, broken));
                break;
            }
        }
    }
    arrived.resize(flow.count() as usize, 0);
    let noted = generator.finish();
    account_of(&flow, &arrived, &noted, &mut line.debt, part);
}

/// The account of a round by its schedule: when each reply arrived, ns (0: it did not), and what the sender has noted.
pub(super) fn account_of(flow: &Flow, arrived: &[u64], noted: &OpenRound, debt: &mut Debt, part: &mut Part) {
    let open::Settled { open: mut account, debt: left, .. } = open::settle(flow, arrived, 0);
    account.add(noted);
    *debt = left;
    part.open = Some(account);
}

/// Calls by a schedule, whatever the server does: this thread sends, another receives; what belongs together is brought
/// together after the round.
fn open(line: &mut Line, order: &CallsOrder, shared: &Shared, place: &Place, part: &mut Part) {
    let Some(flow) = flow_of(line, order, shared, place) else { return };
    let (flow, count) = (&flow, flow.count());
    let Line { connection, wire, draws, maker, debt, out, .. } = line;
    let step = &shared.order.steps[order.step];
    let last = AtomicU64::new(count);
    let port = connection.port();
    let Connection { stream, inbox, watch, index, .. } = connection;
    let (index, stream, watch) = (*index, &*stream, &**watch);
    let mut gone: Vec<Gone> = Vec::with_capacity(count as usize);
    let replies = Replies { inbox, stream, watch, wire: wire.clone(), flow, last: &last };
    let taken = std::thread::scope(|scope| {
        let receive = || replies.take(count);
        let receiver = Builder::new().spawn_scoped(scope, receive).map_err(|error| thread_problem(&error))?;
        let mut generator = Generator::new(flow);
        let until = until(order);
        generator.begin();
        let mut ended = None;
        let calls = &mut part.report.calls;
        for sequence in 0..flow.count() {
            let due = flow.due(sequence);
            let sent = wire.build(&step.method, maker, draws, out);
            maker.advance();
            let over = || match shared.is_over() || receiver.is_finished() {
                true => Err(std::io::Error::from(std::io::ErrorKind::Interrupted)),
                false => Ok(()),
            };
            let room = match flow.has_room(sequence) {
                true => Ok(()),
                false => generator.wait_for_room(sequence, |_| over()),
            };
            if room.and_then(|()| generator.pacer.wait_until(due, over)).is_err() || over().is_err() {
                ended = Some(Broken::Stopped);
                break;
            }
            let t1 = clock::now();
            let is_last = t1 >= until;
            if is_last {
                // Told before it goes: its reply ends the receiver.
                last.store(sequence + 1, Ordering::Release);
            }
            flow.goes(sequence, t1, 0);
            let mut one = Gone { unix_us: shared.unix_us(t1), t1, due: Some(due), ..Gone::default() };
            wire.stamp(out, one.unix_us);
            watch.sends(one.t1);
            let result = send(stream, out, watch, calls);
            generator.pacer.sent(due, one.t1);
            if result.is_ok() {
                one.sent_at = clock::now();
            }
            one.note(sent, out, port, &shared.order);
            gone.push(one);
            if let Err(broken) = result {
                ended = Some(broken);
            }
            if is_last || ended.is_some() {
                break;
            }
        }
        last.store(gone.len() as u64, Ordering::Release);
        if ended.is_some() {
            // Replies to what was sent are taken; a receiver that waits for more is cut off.
            let until = clock::now() + GRACE_NS;
            while flow.settled() < gone.len() as u64 && !receiver.is_finished() && clock::now() < until {
                let _ = timer::sleep_until(clock::now() + 1_000_000);
            }
            if !receiver.is_finished() {
                watch.cut(false);
            }
        }
        Ok::<_, Problem>((receiver.join().expect("the receiver does not panic"), ended, generator.finish()))
    });
    let (received, sent, noted) = match taken {
        Ok(taken) => taken,
        Err(problem) => {
            part.broken = Some((index, Broken::Lost(problem.into())));
            return;
        }
    };
    let Received { got, ended: receive_ended, calls, user_ns, system_ns } = received;
    part.report.calls.add(&calls);
    part.report.user_ns += user_ns;
    part.report.system_ns += system_ns;
    // A server may answer what it was not asked yet; that it did is found out below.
    let mut arrived: Vec<u64> = gone.iter().zip(&got).map(|(gone, got)| got.t4.max(gone.t1)).collect();
    arrived.resize(count as usize, 0);
    account_of(flow, &arrived, &noted, debt, part);
    // What the receiver found out says why the sender had to stop, unless it was cut off because of it.
    let ended = match (receive_ended, sent) {
        (Some(Broken::Stopped) | None, sent) => sent,
        (found, _) => found,
    };
    let refused = settle(wire, step, (&gone, &got), (place, index), part);
    part.broken = refused.or(ended).map(|broken| (index, broken));
}
