//! The client: makes connections, as many at a time as there are slots, at once or by a schedule. Where there is one at a time its calls
//! wait, as those of a plain program do; more are told apart by epoll.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use msgpath_agent::loops::{LOST, LoopError, Row};
use msgpath_agent::meter::Meter;
use msgpath_agent::open::{Flow, Generator};
use msgpath_agent::thread::{Job, Outcome, ThreadError};
use msgpath_core::parts::Parts;
use msgpath_core::units::Glyphs;
use msgpath_core::{CallCounts, Delivery, Histogram, Unavailable};
use msgpath_paths::another::{self, Destination};
use msgpath_paths::{AnyChannel, Channel};
use msgpath_sys::ready::{Direction, Event, Events, ReadySet};
use msgpath_sys::{clock, ports};

use super::tls::{Begin, Tls};
use super::{CERTIFICATE, COUNTED, LAST, LOOK_MS, NoEnds, OVER, recv, send, unavailable, waits};
use crate::record::{Asked, Close, Made};

/// Reports of one wait.
const REPORTS: usize = 256;
/// TCP sends a SYN again after a second at the earliest, and after less where it was told so: connections that take so long are asked, ns.
const SLOW_NS: u64 = 100_000_000;

/// When a round ends in which connections are slow, ns.
#[derive(Clone, Copy)]
struct Until {
    /// No further one is begun.
    begin: u64,
    /// Those under way are given up.
    over: u64,
}

impl Until {
    /// Connections have the last sixth of the time to come to their end.
    fn of(patience_ns: u64) -> Self {
        let at = |part_ns| if patience_ns > 0 { clock::now().saturating_add(part_ns) } else { u64::MAX };
        Self { begin: at(patience_ns - patience_ns / 6), over: at(patience_ns) }
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// TLS agrees with the server's.
    Shaking,
    Sending,
    Waiting,
    /// The server is to close it.
    Ending,
}

/// A connection that is being made or used.
struct Slot {
    fd: OwnedFd,
    tls: Option<Box<Tls>>,
    stage: Stage,
    number: u64,
    /// Just before socket(2), and when the connection was there, ns.
    begun: u64,
    connected: u64,
    /// Requests that are to follow the one under way.
    more: u32,
    /// Just before the request under way, ns; of the first one 0.
    sent: u64,
    /// Bytes of the request that went, then of the reply that came.
    done: usize,
}

impl Slot {
    /// Whether the first byte of its first reply has come: it is a connection that was made.
    fn is_answered(&self) -> bool {
        self.sent > 0 || self.stage == Stage::Ending || self.stage == Stage::Waiting && self.done > 0
    }
}

/// A thread of the client.
struct Client<'a> {
    round: &'a dyn Channel,
    asked: Asked,
    to: Destination,
    /// How TLS begins, where it was asked for.
    begins: Option<Begin>,
    set: ReadySet,
    /// How long the calls of the only connection wait; `None`: there are several.
    waits: Option<Duration>,
    /// Lent to whoever goes through them.
    events: Option<Events>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    request: Vec<u8>,
    reply: usize,
    inbox: Vec<u8>,
    /// Connections of a smaller number are not measured.
    trim: u64,
    /// The number of the last connection.
    last: u64,
    made: Made,
    connect: Histogram,
    handshake: Histogram,
    kept: Histogram,
    latency: Histogram,
    first: Histogram,
    rows: Vec<Row>,
    /// By a schedule: when each first byte came, ns; 0: it did not.
    arrived: Vec<u64>,
    delivery: Delivery,
    calls: CallCounts,
    /// No connection could be begun, for want of a port.
    starved: bool,
}

/// A thread's part of a round.
pub(super) fn run(mut job: Job, channels: Vec<AnyChannel>) -> Result<Outcome, ThreadError> {
    let flow = job.flow.take();
    let Some(AnyChannel::Socket(round)) = channels.first() else {
        return Err(unavailable("connections", &io::ErrorKind::Unsupported.into()));
    };
    let to = Destination::of(&channels[0], &job.order.options);
    let set = to.and_then(|to| Ok((to, ReadySet::new()?)));
    let (to, set) = set.map_err(|error| unavailable("connections", &error))?;
    let mut client = Client::new(&job, round, (to, set), flow.as_deref());
    if client.asked.tls {
        client.begins = Some(Begin::client(round.fd(), CERTIFICATE).map_err(|error| unavailable("TLS", &error))?);
    }
    job.wait_for_go(round.granted("near", &job.order.options), None, Vec::new())?;
    let before = ports::overflows();
    let outcome = match &flow {
        None => client.closed(&job),
        Some(flow) => client.by_schedule(&job, flow),
    }?;
    if outcome.report.delivery.received == 0 {
        let overflows = ports::overflows().zip(before).map(|(after, before)| after.saturating_sub(before));
        return Err(ThreadError::Unavailable(client.nothing(overflows.unwrap_or(0))));
    }
    client.made.connect = client.connect.to_sparse();
    client.made.handshake = client.handshake.to_sparse();
    client.made.kept = client.kept.to_sparse();
    Ok(job.finished(Outcome { parts: Parts::default().with(client.made), ..outcome }))
}

impl<'a> Client<'a> {
    fn new(job: &Job, round: &'a dyn Channel, (to, set): (Destination, ReadySet), flow: Option<&Flow>) -> Self {
        let order = &*job.order;
        let slots = flow.map_or(u64::from(order.inflight), Flow::most).clamp(1, 4096) as usize;
        Self {
            round,
            asked: order.parts.get::<Asked>().copied().unwrap_or_default(),
            waits: waits(order),
            to,
            begins: None,
            set,
            events: Some(Events::new(REPORTS)),
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            request: vec![0; order.pieces.total() as usize],
            reply: order.reply as usize,
            inbox: vec![0; (order.reply as usize).clamp(1, 64 << 10)],
            trim: order.trim,
            last: flow.map_or(order.trim + order.messages, Flow::count).saturating_sub(1),
            made: Made::default(),
            connect: Histogram::new(),
            handshake: Histogram::new(),
            kept: Histogram::new(),
            latency: Histogram::new(),
            first: Histogram::new(),
            rows: Vec::with_capacity(if flow.is_none() { job.keep } else { 0 }),
            arrived: vec![0; flow.map_or(0, Flow::count) as usize],
            delivery: Delivery::default(),
            calls: CallCounts::default(),
            starved: false,
        }
    }

    /// One connection after the other in each slot, until all are made or the round has lasted too long.
    fn closed(&mut self, job: &Job) -> Result<Outcome, LoopError> {
        let order = &*job.order;
        let until = Until::of(order.patience_ns);
        self.make(0..order.trim, until)?;
        let meter = Meter::start(&job.counting, &mut NoEnds, Delivery::default());
        self.make(order.trim..order.trim + order.messages, until)?;
        let mut report = meter.stop(&mut NoEnds, clock::now(), self.delivery);
        report.calls = self.calls;
        report.bytes_sent = report.delivery.sent * order.pieces.total();
        report.bytes_received = report.delivery.received * order.reply;
        let (latency, first) = (std::mem::take(&mut self.latency), std::mem::take(&mut self.first));
        Ok(Outcome { latency, first, rows: std::mem::take(&mut self.rows), ..Outcome::new(report) })
    }

    /// Each connection when it is due.
    fn by_schedule(&mut self, job: &Job, flow: &Flow) -> Result<Outcome, LoopError> {
        let until = Until::of(job.order.patience_ns);
        let mut generator = Generator::new(flow);
        generator.begin();
        self.make_on_time(&mut generator, 0..flow.trim(), until)?;
        generator.forget();
        let meter = Meter::start(&job.counting, &mut NoEnds, Delivery::default());
        self.make_on_time(&mut generator, flow.trim()..flow.count(), until)?;
        while self.is_busy() && clock::now() < until.over {
            self.wait(u64::MAX)?;
        }
        self.give_up();
        let mut report = meter.stop(&mut NoEnds, clock::now(), self.delivery);
        report.calls = self.calls;
        let mut outcome = job.answered(flow, &self.arrived, report);
        if let Some(open) = &mut outcome.open {
            open.add(&generator.finish());
        }
        Ok(outcome)
    }

    fn is_busy(&self) -> bool {
        self.free.len() < self.slots.len()
    }

    fn make(&mut self, numbers: Range<u64>, until: Until) -> io::Result<()> {
        let mut next = numbers.start;
        while next < numbers.end || self.is_busy() {
            let now = clock::now();
            if now >= until.over || self.starved && !self.is_busy() {
                self.give_up();
                return Ok(());
            }
            if now >= until.begin {
                next = numbers.end;
            }
            while next < numbers.end && !self.free.is_empty() && !self.starved {
                self.begin(next, until)?;
                next += 1;
            }
            if self.is_busy() {
                // What ends gives its port back.
                self.starved = false;
                self.wait(until.over.saturating_sub(clock::now()))?;
            }
        }
        Ok(())
    }

    fn make_on_time(&mut self, generator: &mut Generator<'_>, numbers: Range<u64>, until: Until) -> io::Result<()> {
        let flow = generator.flow;
        for number in numbers {
            let due = flow.due(number);
            let mut now = clock::now();
            while now < due || self.free.is_empty() {
                if now >= until.begin {
                    return Ok(());
                }
                if self.free.is_empty() {
                    self.wait(until.begin - now)?;
                } else {
                    self.calls.wait_calls += 1;
                    let (set, events) = (&self.set, self.events.as_mut());
                    generator.pacer.look(due, |ns| events.map_or(Ok(()), |events| set.wait_ns(events, ns)))?;
                    self.handle()?;
                }
                now = clock::now();
            }
            if now >= until.begin {
                return Ok(());
            }
            flow.goes(number, now, 0);
            self.begin(number, until)?;
            generator.pacer.sent(due, now);
        }
        Ok(())
    }

    /// Begins a connection in a free slot; the only one comes to its end.
    fn begin(&mut self, number: u64, until: Until) -> io::Result<()> {
        let begun = clock::now();
        self.delivery.sent += u64::from(number >= self.trim);
        self.calls.other_calls += 2;
        match self.to.begin(self.waits) {
            Ok(fd) => {
                let Some(at) = self.free.pop() else { return Ok(()) };
                let more = self.asked.requests.max(1) - 1;
                let mut slot = Slot {
                    fd,
                    tls: None,
                    stage: Stage::Connecting,
                    number,
                    begun,
                    connected: 0,
                    more,
                    sent: 0,
                    done: 0,
                };
                if let Err(error) = self.send_at_once(&mut slot) {
                    self.broke(at, &slot, &error);
                    return Ok(());
                }
                if self.waits.is_some() && slot.stage == Stage::Waiting {
                    return self.finish(at, slot, until.over);
                }
                match slot.stage == Stage::Waiting && more == 0 {
                    // Nothing else is sent on it.
                    true => self.set.watch(slot.fd.as_fd(), Direction::Input, at as u64)?,
                    false => self.set.add(slot.fd.as_fd(), at as u64)?,
                }
                self.slots[at] = Some(slot);
            }
            Err(error) => {
                let reason = match error.kind() {
                    io::ErrorKind::AddrNotAvailable => "no local port",
                    io::ErrorKind::WouldBlock => "the accept queue is full",
                    _ => "connect failed",
                };
                self.starved = error.kind() == io::ErrorKind::AddrNotAvailable;
                self.failed((number, begun), reason, || error.to_string());
            }
        }
        Ok(())
    }

    /// Sends the request of a connection that was made before the call returned, as it is within a machine. One that is still being
    /// made stays so.
    fn send_at_once(&mut self, slot: &mut Slot) -> io::Result<()> {
        if self.begins.is_some() {
            return Ok(()); // TLS is agreed upon first
        }
        let at = clock::now();
        let whole = match self.send(slot) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => false,
            sent => sent?,
        };
        if whole || slot.done > 0 {
            self.connected(slot, at)?;
            slot.stage = if whole { Stage::Waiting } else { Stage::Sending };
        }
        Ok(())
    }

    /// A connection that failed: it has no time.
    fn failed(&mut self, (number, begun): (u64, u64), reason: &str, example: impl FnOnce() -> String) {
        if number < self.trim {
            return self.first.record_lost(1);
        }
        self.latency.record_lost(1);
        self.keep(begun, LOST);
        self.delivery.lost += 1;
        self.made.fail(reason, example);
    }

    /// Waits until something happens, at most so long, ns, and goes on with it.
    fn wait(&mut self, most_ns: u64) -> io::Result<()> {
        self.calls.wait_calls += 1;
        let most_ms = most_ns.div_ceil(1_000_000).min(LOOK_MS);
        if let Some(events) = &mut self.events {
            self.set.wait(events, most_ms as i32)?;
        }
        self.handle()
    }

    fn handle(&mut self) -> io::Result<()> {
        self.round.limits().look()?;
        let Some(events) = self.events.take() else { return Ok(()) };
        for event in events.iter() {
            let at = event.token as usize;
            let Some(mut slot) = self.slots.get_mut(at).and_then(Option::take) else { continue };
            match self.go_on(&mut slot, event) {
                Ok(true) => self.slots[at] = Some(slot),
                Ok(false) => self.close(at, slot),
                Err(error) => self.broke(at, &slot, &error),
            }
        }
        self.events = Some(events);
        Ok(())
    }

    /// A connection came to its end before all its replies had come.
    fn broke(&mut self, at: usize, slot: &Slot, error: &io::Error) {
        let reason = match (slot.stage, error.kind()) {
            (_, io::ErrorKind::ConnectionRefused) => "refused",
            (Stage::Connecting, io::ErrorKind::TimedOut) => "no answer to the SYN",
            (Stage::Connecting, _) => "connect failed",
            (Stage::Shaking, _) => "TLS handshake failed",
            (_, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => "closed before the reply",
            _ => "broken",
        };
        if !slot.is_answered() {
            self.failed((slot.number, slot.begun), reason, || error.to_string());
        }
        self.free.push(at);
    }

    /// Closes a connection that brought all its replies.
    fn close(&mut self, at: usize, slot: Slot) {
        self.calls.other_calls += 1;
        match self.asked.close {
            Close::Reset => another::reset(slot.fd),
            Close::Server => drop(slot.fd),
        }
        self.free.push(at);
    }

    /// Goes on with a connection whose calls wait.
    fn finish(&mut self, at: usize, mut slot: Slot, over: u64) -> io::Result<()> {
        while clock::now() < over {
            match self.talk(&mut slot) {
                Ok(true) => self.round.limits().look()?,
                Ok(false) => {
                    self.close(at, slot);
                    return Ok(());
                }
                Err(error) => {
                    self.broke(at, &slot, &error);
                    return Ok(());
                }
            }
        }
        self.slots[at] = Some(slot);
        Ok(())
    }

    /// Whatever is possible on a connection now; `false`: it has brought all its replies, and ended.
    fn go_on(&mut self, slot: &mut Slot, event: Event) -> io::Result<bool> {
        if slot.stage == Stage::Connecting {
            if !event.writable {
                return Ok(true);
            }
            if event.ended {
                another::outcome(slot.fd.as_fd())?;
            }
            self.connected(slot, clock::now())?;
        }
        self.talk(slot)
    }

    /// What is said on a connection that is there, as far as it goes; as [`Self::go_on`].
    fn talk(&mut self, slot: &mut Slot) -> io::Result<bool> {
        loop {
            if slot.stage == Stage::Shaking && !self.shake(slot)? {
                return Ok(true);
            }
            if slot.stage == Stage::Sending && !self.send(slot)? {
                return Ok(true);
            }
            let most = (self.reply - slot.done).clamp(1, self.inbox.len());
            match recv(&mut slot.tls, slot.fd.as_fd(), &mut self.inbox[..most], &mut self.calls) {
                Ok(0) if slot.stage == Stage::Ending => return Ok(false),
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it")),
                Ok(_) if slot.stage == Stage::Ending => return Err(io::ErrorKind::InvalidData.into()),
                Ok(got) => {
                    if slot.done == 0 {
                        self.answered(slot)?;
                    }
                    slot.done += got;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.calls.recv_empty += 1;
                    return Ok(true);
                }
                // What is closed by a reset has ended as well.
                Err(_) if slot.stage == Stage::Ending => return Ok(false),
                Err(error) => return Err(error),
            }
            if slot.done < self.reply {
                continue;
            }
            slot.done = 0;
            if slot.more > 0 {
                slot.more -= 1;
                (slot.stage, slot.sent) = (Stage::Sending, clock::now());
            } else if self.asked.close == Close::Reset {
                return Ok(false);
            } else {
                slot.stage = Stage::Ending;
            }
        }
    }

    /// The connection is there, since `at`.
    fn connected(&mut self, slot: &mut Slot, at: u64) -> io::Result<()> {
        slot.connected = at;
        let took = at - slot.begun;
        if slot.number >= self.trim {
            self.connect.record(took);
            self.look_at_slow(slot, took);
        }
        slot.tls = self.begins.as_ref().map(Begin::connection).transpose()?;
        slot.stage = if slot.tls.is_some() { Stage::Shaking } else { Stage::Sending };
        Ok(())
    }

    /// Goes on with the handshake; `false`: it waits for the server, or for room.
    fn shake(&mut self, slot: &mut Slot) -> io::Result<bool> {
        let Some(tls) = &mut slot.tls else { return Ok(true) };
        if !tls.shake(slot.fd.as_fd(), &mut self.calls)? {
            return Ok(false);
        }
        slot.stage = Stage::Sending;
        if slot.number >= self.trim {
            self.handshake.record(clock::now() - slot.connected);
            self.made.agreed.get_or_insert_with(|| tls.agreed());
        }
        Ok(true)
    }

    /// Counts SYNs that went again for a connection that took so long, ns.
    fn look_at_slow(&mut self, slot: &Slot, took: u64) -> u32 {
        let again = match took > SLOW_NS {
            true => another::tcp_info(slot.fd.as_fd()).map_or(0, |info| info.total_retrans),
            false => 0,
        };
        self.made.retried += u64::from(again > 0);
        self.made.syns += u64::from(again);
        again
    }

    /// Sends what is left of a request; `false`: there is no room.
    fn send(&mut self, slot: &mut Slot) -> io::Result<bool> {
        self.request[0] = self.request_byte(slot);
        while slot.done < self.request.len() {
            match send(&mut slot.tls, slot.fd.as_fd(), &self.request[slot.done..], &mut self.calls) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                sent => slot.done += sent?,
            }
        }
        (slot.stage, slot.done) = (Stage::Waiting, 0);
        Ok(true)
    }

    /// The first byte of a reply is there.
    fn answered(&mut self, slot: &Slot) -> io::Result<()> {
        let now = clock::now();
        if self.inbox[0] != self.request_byte(slot) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to another request"));
        }
        let counted = slot.number >= self.trim;
        if slot.sent > 0 {
            if counted {
                self.kept.record(now - slot.sent);
            }
            return Ok(());
        }
        let ns = now - slot.begun;
        if let Some(arrived) = self.arrived.get_mut(slot.number as usize) {
            *arrived = now;
        }
        if !counted {
            self.first.record(ns);
            return Ok(());
        }
        self.latency.record(ns);
        self.delivery.received += 1;
        self.keep(slot.begun, ns);
        Ok(())
    }

    /// A row for the log of messages, as long as there is room.
    fn keep(&mut self, start: u64, latency: u64) {
        if self.rows.len() < self.rows.capacity() {
            self.rows.push(Row { start, latency });
        }
    }

    /// The first byte of the request under way, which the reply repeats.
    fn request_byte(&self, slot: &Slot) -> u8 {
        let last = slot.more == 0 && self.asked.close == Close::Server;
        let counted = slot.number >= self.trim && slot.sent == 0;
        let marks = [(last, LAST), (counted, COUNTED), (slot.more == 0 && slot.number == self.last, OVER)];
        marks.iter().filter(|(is, _)| *is).map(|(_, mark)| mark).sum::<u8>()
    }

    /// The round is over: whatever is under way has failed, but for connections that only are to be closed.
    fn give_up(&mut self) {
        let now = clock::now();
        for at in 0..self.slots.len() {
            let Some(slot) = self.slots[at].take() else { continue };
            let took = now - slot.begun;
            if !slot.is_answered() {
                let waited = Glyphs::Ascii.time(took as f64);
                let (reason, example) = match slot.stage {
                    Stage::Connecting => {
                        let again = if slot.number >= self.trim { self.look_at_slow(&slot, took) } else { 0 };
                        (
                            "no answer to the SYN",
                            format!("given up after {waited}, in which the SYN was sent {} times", again + 1),
                        )
                    }
                    Stage::Shaking => ("no TLS handshake", format!("connected, and given up after {waited}")),
                    _ => ("no reply", format!("connected, and given up after {waited}")),
                };
                self.failed((slot.number, slot.begun), reason, || example);
            }
            another::reset(slot.fd);
            self.free.push(at);
        }
    }

    /// Why a round without a single reply is none.
    fn nothing(&self, overflows: u64) -> Unavailable {
        let failed = self.made.failed.iter();
        let mut parts: Vec<String> =
            failed.map(|(reason, failed)| format!("{} x {reason} ({})", failed.count, failed.example)).collect();
        let hint = match overflows {
            0 => "msgpath doctor   at both ends",
            _ => {
                parts.push(format!(
                    "the accept queue of a server in this network namespace overflowed {overflows} times"
                ));
                "a server that accepts, or a longer queue: listen(2), net.core.somaxconn"
            }
        };
        if parts.is_empty() {
            parts.push("none was begun".into());
        }
        Unavailable::new(format!("no connection brought a reply: {}", parts.join("; ")), hint)
    }
}
