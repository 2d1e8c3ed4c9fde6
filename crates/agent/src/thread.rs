//! One measuring thread at either end: pins itself, makes its ends, trims, measures, and says what it counted.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use msgpath_core::parts::Parts;
use msgpath_core::plan::{Dispatch, Stamps};
use msgpath_core::schema::{EndReport, EventCounts, Granted, OpenRound, Slots, TracedThread};
use msgpath_core::units::Pieces;
use msgpath_core::{Delivery, Histogram, Unavailable};
use msgpath_paths::{
    AnyChannel, AnyMethod, AnyWait, Channel, Driver, End, Layout, Method, ReceiverDriver, SenderDriver, Wait, is_lossy,
    with_ends, with_receivers, with_senders,
};
use msgpath_sys::{affinity, clock, priority, socket};

use crate::ends::{EchoEnds, Ends, FarWork, Looped, NearWork, OpenEnds, Pace, ReceiverEnds, SenderEnds, each};
use crate::event_loop::{EventLoop, Sizes};
use crate::events::Counting;
use crate::loops::{Answer, Arrivals, FarStamps, Inbox, LoopError, Messages, Row, Service, Traffic, Windows, record};
use crate::meter::Meter;
use crate::open::{Flow, Generator, sender_is_over, settle};
use crate::payload::{Payload, pattern};
use crate::wire::{Debt, RoundOrder, UNTIL_TOLD};
use crate::works;

/// Rows between two foldings into the histogram: bounds the memory of a long round. Folding is not measured.
const SEGMENT: u64 = 1 << 18;
/// Bytes for which a receiver is woken that is not to be woken for less. On the slowest link it must be seen to go on.
const WOKEN_FOR: u64 = 16 << 10;
/// Messages between two looks at the clock where patience is limited.
const CHUNK: u64 = 16;
/// Most arrival stamps that one connection keeps.
pub const MAX_STAMPS: u64 = 1 << 18;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends, waits for the reply, stamps both.
    EchoNear,
    /// Answers.
    EchoFar,
    /// Sends a stream.
    Sender,
    /// Receives a stream and acknowledges its end.
    Receiver,
    /// Sends by a schedule.
    OpenSender,
    /// Receives what comes back.
    OpenReceiver,
    /// Does both, from one event loop.
    OpenEcho,
}

impl Role {
    /// The role of an end in a round.
    pub fn of(order: &RoundOrder, near: bool) -> Self {
        match (order.workload.is_echoed(), near) {
            (true, true) => Role::EchoNear,
            (true, false) => Role::EchoFar,
            (false, near) if near != order.reverse => Role::Sender,
            (false, _) => Role::Receiver,
        }
    }

    /// What this end sends.
    fn outgoing(self, order: &RoundOrder) -> Pieces {
        match self {
            Role::EchoNear | Role::Sender | Role::OpenSender | Role::OpenReceiver | Role::OpenEcho => order.pieces,
            Role::EchoFar => order.reply_pieces(),
            Role::Receiver => Pieces::whole(1), // the acknowledgement
        }
    }

    /// What this end receives.
    fn incoming(self, order: &RoundOrder) -> Pieces {
        match self {
            Role::EchoNear | Role::OpenSender | Role::OpenReceiver | Role::OpenEcho => order.reply_pieces(),
            Role::EchoFar | Role::Receiver => order.pieces,
            Role::Sender => Pieces::whole(1),
        }
    }
}

/// A thread's work.
pub struct Job {
    /// Its position in its team.
    pub at: usize,
    pub order: Arc<RoundOrder>,
    /// At the near end.
    pub near: bool,
    /// What this thread does.
    pub role: Role,
    pub cpu: Option<u32>,
    /// Messages per stamp pair (near end of an echo).
    pub batch: u64,
    /// Rows to keep for the per-message log.
    pub keep: usize,
    /// What sender and receiver of an open loop share.
    pub flow: Option<Arc<Flow>>,
    /// Set when the other end has finished its part.
    pub finish: Arc<AtomicBool>,
    /// Told when the ends are made, or why not.
    pub ready: Sender<Result<Ready, Unavailable>>,
    /// Says go when all ends are made; closed without it: give up.
    pub go: Receiver<()>,
    /// Its counters of events; none until it has made them itself.
    pub counting: Counting,
    /// The far end, of a workload that makes its own connections: where they come to.
    pub listening: Option<Arc<OwnedFd>>,
}

/// What is known once the ends are made.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Options of the first connection.
    pub granted: Vec<Granted>,
    /// Bytes that can wait without a reader.
    pub room: Option<u64>,
    /// Its position in its team.
    pub at: usize,
    /// The thread, as /proc names it, and its sockets.
    pub thread: TracedThread,
}

/// What a thread brings home.
#[derive(Debug)]
pub struct Outcome {
    pub report: EndReport,
    /// Round trips, ns.
    pub latency: Histogram,
    /// The first rows of the round, as many as were to be kept. Connection by connection in turn, while one message is
    /// in flight; in the order of arrival otherwise.
    pub rows: Vec<Row>,
    /// Stamps of the far end of an echo, in the order of arrival.
    pub stamps: FarStamps,
    /// Traced: when the send call of each of the rows had returned.
    pub sent: Vec<u64>,
    /// Latencies of the messages that were trimmed, ns.
    pub first: Histogram,
    /// Open loop: from the actual send, ns.
    pub service: Histogram,
    /// Open loop: from the intended to the actual send, ns.
    pub lateness: Histogram,
    /// Open loop: the same for each of the rows, ns.
    pub late: Vec<u64>,
    /// Open loop: the rest of the account.
    pub open: Option<OpenRound>,
    /// Open loop: where the schedule stands, of the thread that receives.
    pub debt: Option<Debt>,
    /// The CPU that it was pinned to.
    pub cpu: Option<u32>,
    pub events: EventCounts,
    /// What the workload of a feature has to say besides.
    pub parts: Parts,
    /// What came, in slots of time, in a round that goes on for a time.
    pub slots: Option<Slots>,
}

impl Outcome {
    /// Of a thread that counted this, and timed nothing.
    pub fn new(report: EndReport) -> Self {
        Self {
            report,
            latency: Histogram::new(),
            rows: Vec::new(),
            stamps: FarStamps::default(),
            sent: Vec::new(),
            first: Histogram::new(),
            service: Histogram::new(),
            lateness: Histogram::new(),
            late: Vec::new(),
            open: None,
            debt: None,
            cpu: None,
            events: EventCounts::new(),
            parts: Parts::default(),
            slots: None,
        }
    }
}

/// Keeps the calling thread on this CPU; `None`: it stays where it may run.
///
/// # Errors
/// It may not run there, or there is no such CPU.
pub fn pin(cpu: Option<u32>) -> Result<(), Unavailable> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut had = HAD.lock().unwrap_or_else(PoisonError::into_inner);
    let Err(error) = affinity::pin(&[cpu]) else {
        had.insert(cpu);
        return Ok(());
    };
    let allowed = affinity::allowed();
    if had.contains(&cpu) && !allowed.contains(&cpu) {
        return Ok(());
    }
    Err(affinity::refusal(cpu, &allowed, &error))
}

/// CPUs that a thread of this process was kept on before. One that was taken away since, by a cpuset or because it went offline, ends no
/// run: its threads run where they may, and the counters of the round tell (`taken.cpu1`).
static HAD: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Runs a thread's part of a round on its channels.
///
/// # Errors
/// [`ThreadError`].
pub fn run(job: Job, channels: Vec<AnyChannel>) -> Result<Outcome, ThreadError> {
    if let Err(reason) = pin(job.cpu) {
        let _ = job.ready.send(Err(reason.clone()));
        return Err(ThreadError::Unavailable(reason));
    }
    if let Some(work) = works::find(job.order.workload) {
        return work.run(job, channels);
    }
    if job.order.options.whole_messages && !is_lossy(&job.order.path.transport) {
        let bytes = job.role.incoming(&job.order).total().min(WOKEN_FOR);
        // One that is woken for less only takes more of a CPU.
        channels.iter().filter_map(AnyChannel::socket).for_each(|fd| _ = socket::wake_for(fd, bytes));
    }
    let pieces = job.role.outgoing(&job.order);
    let copies = if job.role == Role::Receiver { 1 } else { copies(&job.order, pieces) };
    let program = job.order.program.as_ref().map(|program| Payload::of_program(pieces, &program.talk, false));
    let content = |at| program.as_ref().map_or_else(|| pattern(at), |payload| payload.at(at));
    let inflight = match job.role {
        // One acknowledgement, or nothing.
        Role::Receiver | Role::OpenReceiver => 1,
        Role::OpenSender | Role::OpenEcho => Layout::UNANSWERED,
        _ if job.order.is_bounded() => job.order.inflight,
        _ => Layout::UNANSWERED,
    };
    let layout = Layout { pieces, inflight, copies, content: &content };
    let (order, ready) = (Arc::clone(&job.order), job.ready.clone());
    let (path, options) = (&order.path, &order.options);
    let result = match (job.role, order.dispatch) {
        (Role::EchoNear | Role::EchoFar, Dispatch::Turns) => with_ends(path, channels, layout, options, Echo(job)),
        (Role::OpenEcho, _) | (Role::EchoNear | Role::EchoFar, Dispatch::EventLoop) => {
            with_senders(path, channels, layout, options, LoopedEcho(job))
        }
        (Role::Sender | Role::OpenSender, _) => with_senders(path, channels, layout, options, Sends(job)),
        (Role::Receiver | Role::OpenReceiver, _) => with_receivers(path, channels, layout, options, Receives(job)),
    };
    match result {
        Ok(result) => result.map_err(ThreadError::Loop),
        Err(unavailable) => {
            let _ = ready.send(Err(unavailable.clone()));
            Err(ThreadError::Unavailable(unavailable))
        }
    }
}

/// Buffers that lie over the working set of a round: of one thread's connection, in one direction. An acknowledgement has
/// one, and nothing has more than there are messages: a working set of single bytes would be all book-keeping.
fn copies(order: &RoundOrder, pieces: Pieces) -> usize {
    let all = order.working_set / u64::from(order.connections) / pieces.total().max(1);
    all.min(order.messages.saturating_add(order.trim)).max(1) as usize
}

/// Why a thread has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The path is not to be had here.
    #[error("{0}")]
    Unavailable(Unavailable),
    /// It broke on the way.
    #[error("{0}")]
    Loop(#[from] LoopError),
}

/// Times that were touched: no page fault in the loop.
fn touched(count: usize) -> Vec<u64> {
    let mut times = vec![1; count];
    times.fill(0);
    times
}

pub(crate) fn fold(rows: &[Row], into: &mut Histogram) {
    rows.iter().for_each(|row| record(into, row.latency));
}

/// Whether the other end has closed, or this one was told to stop waiting.
pub(crate) fn is_the_end(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionAborted | ConnectionReset | BrokenPipe)
}

/// An echo whose ends take turns.
struct Echo(Job);

impl Driver for Echo {
    type Out = Result<Outcome, LoopError>;

    fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) -> Self::Out {
        self.0.echo(&mut ends)
    }
}

/// An echo from one event loop; the set waits, so its ends are those of senders.
struct LoopedEcho(Job);

impl SenderDriver for LoopedEcho {
    type Out = Result<Outcome, LoopError>;

    fn drive<C: Channel, S: Method<C>>(self, mut ends: Vec<End<C, S, AnyWait<C>>>) -> Self::Out {
        let Self(job) = self;
        let order = &job.order;
        let sizes = Sizes {
            incoming: job.role.incoming(order),
            largest: order.largest(),
            inflight: order.inflight,
            copies: job.copies(),
            read: order.options.read_size.unwrap_or(0) as usize,
        };
        match EventLoop::new(&mut ends, sizes) {
            Ok(event_loop) => {
                let mut looped = Looped { ends, event_loop };
                if job.role == Role::OpenEcho { job.open_echo(&mut looped) } else { job.echo(&mut looped) }
            }
            Err(reason) => {
                let _ = job.ready.send(Err(reason));
                Err(std::io::Error::from(std::io::ErrorKind::Unsupported).into())
            }
        }
    }
}

/// A role that only sends.
struct Sends(Job);

impl SenderDriver for Sends {
    type Out = Result<Outcome, LoopError>;

    fn drive<C: Channel, S: Method<C>>(self, mut ends: Vec<End<C, S, AnyWait<C>>>) -> Self::Out {
        self.0.sends(&mut ends)
    }
}

/// A role that only receives.
struct Receives(Job);

impl ReceiverDriver for Receives {
    type Out = Result<Outcome, LoopError>;

    fn drive<C: Channel, W: Wait<C>>(self, mut ends: Vec<End<C, AnyMethod<C>, W>>) -> Self::Out {
        self.0.receives(&mut ends)
    }
}

impl Job {
    /// Copies of the buffer into which this end receives, used in turn.
    fn copies(&self) -> usize {
        if self.role == Role::Sender { 1 } else { copies(&self.order, self.role.incoming(&self.order)) }
    }

    /// Everything before the loop: says that the ends are made, and waits for the word to go.
    fn begin(&mut self, ends: &mut dyn Ends) -> Result<Inbox, LoopError> {
        if self.order.events {
            self.counting = Counting::open();
        }
        let order = &*self.order;
        let message = self.role.incoming(order).total() as usize;
        let cookies = each(ends, |channel| channel.cookie()).into_iter().flatten().collect();
        let connections = ends.count();
        // One stands for all: they were made alike.
        let channel = ends.end(0).channel();
        let mut inbox = Inbox::new(message, order.largest() as usize, channel.framed(), self.copies());
        if let Some(bytes) = order.options.read_size.filter(|_| !channel.framed()) {
            inbox = inbox.reading_ahead(connections, bytes as usize);
        }
        let granted = channel.granted(if self.near { "near" } else { "far" }, &order.options);
        let room = channel.room();
        self.wait_for_go(granted, room, cookies)?;
        Ok(inbox)
    }

    /// Says that the ends are made, of which one has these options and this room, and waits for the word to go.
    ///
    /// # Errors
    /// The round was given up.
    pub fn wait_for_go(&self, granted: Vec<Granted>, room: Option<u64>, cookies: Vec<u64>) -> Result<(), LoopError> {
        let _ = self.ready.send(Ok(Ready {
            granted,
            room,
            at: self.at,
            thread: TracedThread {
                tid: affinity::thread_id(),
                sends: self.role != Role::OpenReceiver,
                receives: self.role != Role::OpenSender,
                cookies,
            },
        }));
        if self.order.urgent {
            priority::raise()?;
        }
        self.go.recv().map_err(|_| std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into())
    }

    /// What is sent and what is received, filled by the role.
    fn payloads(&self) -> (Payload, Payload, bool) {
        let order = &*self.order;
        let lossy = is_lossy(&order.path.transport);
        let (outgoing, incoming) = (self.role.outgoing(order), self.role.incoming(order));
        match &order.program {
            None => (Payload::new(outgoing), Payload::new(incoming), lossy),
            Some(program) => {
                let of = |pieces, reply| Payload::of_program(pieces, &program.talk, reply);
                (of(outgoing, false), of(incoming, true), lossy)
            }
        }
    }

    fn echo(mut self, ends: &mut dyn EchoEnds) -> Result<Outcome, LoopError> {
        let (outgoing, incoming, lossy) = self.payloads();
        let messages = Messages { outgoing: &outgoing, incoming: &incoming, lossy };
        let mut inbox = self.begin(ends)?;
        let mut outcome = match self.role {
            Role::EchoNear => match self.order.timed {
                Some(timed) => self.echo_in_time(ends, &messages, &mut inbox, timed),
                None => self.echo_near(ends, &messages, &mut inbox),
            },
            _ => self.echo_far(ends, &messages, &mut inbox),
        }?;
        if !incoming.is_compared() {
            outcome.report.delivery.verified = 0;
        }
        Ok(self.finished(outcome))
    }

    fn sends(mut self, ends: &mut dyn SenderEnds) -> Result<Outcome, LoopError> {
        let (outgoing, incoming, lossy) = self.payloads();
        let messages = Messages { outgoing: &outgoing, incoming: &incoming, lossy };
        let mut inbox = self.begin(ends)?;
        let outcome = match self.role {
            Role::Sender => match self.order.timed {
                Some(timed) => self.send_in_time(ends, &messages, timed),
                None => self.sender(ends, &messages, &mut inbox),
            },
            _ => self.open_sender(ends, &messages),
        }?;
        Ok(self.finished(outcome))
    }

    fn receives(mut self, ends: &mut dyn ReceiverEnds) -> Result<Outcome, LoopError> {
        let (outgoing, incoming, lossy) = self.payloads();
        let messages = Messages { outgoing: &outgoing, incoming: &incoming, lossy };
        let mut inbox = self.begin(ends)?;
        let outcome = match self.role {
            Role::Receiver => match self.order.timed {
                Some(timed) => self.receive_in_time(ends, &messages, &mut inbox, timed),
                None => self.receiver(ends, &messages, &mut inbox),
            },
            _ => self.open_receiver(ends, &messages, &mut inbox),
        }?;
        Ok(self.finished(outcome))
    }

    fn open_echo(mut self, ends: &mut dyn OpenEnds) -> Result<Outcome, LoopError> {
        let (outgoing, incoming, lossy) = self.payloads();
        let messages = &Messages { outgoing: &outgoing, incoming: &incoming, lossy };
        self.begin(ends)?;
        let flow = &*Arc::clone(self.flow.as_ref().expect("an open loop has a flow"));
        let mut arrived = touched(flow.count() as usize);
        let mut generator = Generator::new(flow).until(self.order.patience_ns).told(&self.finish);
        let mut delivery = Delivery::default();
        let traffic = Traffic { messages, delivery: &mut delivery };
        ends.on_time(traffic, &mut generator, 0..flow.trim(), &mut arrived)?;
        generator.forget();
        let meter = Meter::start(&self.counting, ends, delivery);
        let traffic = Traffic { messages, delivery: &mut delivery };
        ends.on_time(traffic, &mut generator, flow.trim()..flow.count(), &mut arrived)?;
        let report = meter.stop(ends, clock::now(), delivery);
        let mut outcome = self.answered(flow, &arrived, report);
        if let Some(open) = &mut outcome.open {
            open.add(&generator.finish());
        }
        self.settle(ends, &mut outcome.report)?;
        Ok(self.finished(outcome))
    }

    /// What is known of an open loop when everything was answered that will be: the three times of its messages.
    pub fn answered(&self, flow: &Flow, arrived: &[u64], mut report: EndReport) -> Outcome {
        let settled = settle(flow, arrived, self.keep);
        report.delivery = Delivery {
            sent: settled.delivery.sent,
            received: settled.delivery.received,
            lost: settled.delivery.lost,
            ..report.delivery
        };
        report.elapsed_ns = settled.elapsed_ns;
        report.bytes_sent = report.delivery.sent * self.order.pieces.total();
        report.bytes_received = report.delivery.received * self.order.reply;
        Outcome {
            latency: settled.latency,
            service: settled.service,
            lateness: settled.lateness,
            first: settled.first,
            rows: settled.rows,
            late: settled.late,
            open: Some(settled.open),
            debt: Some(settled.debt),
            ..Outcome::new(report)
        }
    }

    /// An outcome with what the thread itself knows: its CPU, its events.
    pub fn finished(&self, outcome: Outcome) -> Outcome {
        Outcome { cpu: self.cpu, events: self.counting.read(), ..outcome }
    }

    fn echo_near(
        &self,
        ends: &mut dyn EchoEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let connections = ends.count() as u64;
        let segment = (SEGMENT / connections / self.batch).max(1) * self.batch;
        let most_rows = (segment.min(order.messages.max(order.trim)) * connections) as usize;
        let mut rows = Vec::with_capacity(most_rows + order.inflight as usize * ends.count());
        rows.resize(rows.capacity(), Row { start: 0, latency: 0 }); // touched: no page fault in the loop
        let mut windows = Windows::new(ends.count(), order.inflight);
        let mut latency = Histogram::new();
        let mut kept = Vec::with_capacity(self.keep.min((order.messages * connections) as usize));
        // Stamps of the trimmed messages come first.
        let trimmed = (order.trim * connections) as usize;
        let mut sent = match order.traced {
            true => vec![1; kept.capacity() + trimmed], // touched
            false => Vec::new(),
        };
        sent.clear();
        let mut delivery = Delivery::default();
        let mut first = Histogram::new();

        let pace = if !order.traced && self.batch > 1 {
            Pace::Batch(self.batch)
        } else if !order.traced && order.inflight > 1 {
            Pace::Window
        } else {
            Pace::Single
        };
        let mut measure = |ends: &mut dyn EchoEnds, rows: &mut Vec<Row>, range: (u64, u64), delivery: &mut Delivery| {
            let (windows, sent) = (&mut windows, &mut sent);
            let traffic = Traffic { messages, delivery };
            ends.near(range, NearWork { pace, traffic, inbox, windows, rows, sent })
        };
        let mut next = 0;
        while next < order.trim {
            let count = segment.min(order.trim - next);
            rows.clear();
            measure(ends, &mut rows, (next, count), &mut delivery)?;
            next += count;
            if self.batch == 1 {
                fold(&rows, &mut first);
            }
        }
        // Between chunks the clock is asked whether the patience is over. A window is emptied at the end of each chunk,
        // so there it is long.
        let chunk = match order.patience_ns {
            0 => segment,
            UNTIL_TOLD => (self.batch * u64::from(order.inflight)).min(segment),
            _ => (CHUNK * self.batch * u64::from(order.inflight)).min(segment),
        };
        let meter = Meter::start(&self.counting, ends, delivery);
        let (mut begin, mut end, mut elapsed_ns) = (meter.start, meter.start, 0);
        let is_over = |now: u64| match order.patience_ns {
            0 => false,
            UNTIL_TOLD => self.finish.load(Ordering::Relaxed),
            ns => now - meter.start > ns,
        };
        while next < order.trim + order.messages && !is_over(end) {
            let segment_end = (next + segment).min(order.trim + order.messages);
            rows.clear();
            while next < segment_end {
                let count = chunk.min(segment_end - next);
                measure(ends, &mut rows, (next, count), &mut delivery)?;
                next += count;
                end = clock::now();
                if is_over(end) {
                    break;
                }
            }
            elapsed_ns += end - begin;
            self.counting.pause(); // folding is not part of the events
            fold(&rows, &mut latency);
            let room = kept.capacity() - kept.len();
            kept.extend(rows.iter().take(room));
            if next < order.trim + order.messages && !is_over(end) {
                self.counting.go();
            }
            begin = clock::now(); // nor of the time
        }
        let mut report = EndReport { elapsed_ns, ..meter.stop(ends, end, delivery) };
        report.bytes_sent = report.delivery.sent * order.pieces.total();
        report.bytes_received = report.delivery.received * order.reply;
        self.settle(ends, &mut report)?;
        sent.drain(..trimmed.min(sent.len()));
        sent.truncate(kept.len());
        Ok(Outcome { latency, rows: kept, sent, first, ..Outcome::new(report) })
    }

    fn echo_far(
        &self,
        ends: &mut dyn EchoEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        // The very bytes go back where the reply is as long and lies in one buffer.
        let same_bytes = order.reply == order.pieces.total() && ends.end(0).is_whole()?;
        let service = Service::new(order.service_time, order.seed);
        let answer = &Answer { same_bytes, finish: &self.finish, service: &service };
        let mut answering = |ends: &mut dyn EchoEnds, range, stamps: &mut FarStamps, delivery: &mut Delivery| {
            ends.far(range, FarWork { traffic: Traffic { messages, delivery }, inbox, answer, stamps })
        };
        let mut delivery = Delivery::default();
        let mut no_stamps = FarStamps::default();
        let may_end = |result: Result<(), LoopError>| match result {
            Err(LoopError::Io(error)) if order.patience_ns > 0 && is_the_end(&error) => Ok(()),
            // The near end has given up what this answers, and closed its socket.
            Err(LoopError::Io(error)) if messages.lossy && error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            result => result,
        };
        may_end(answering(ends, (0, order.trim), &mut no_stamps, &mut delivery))?;
        let room = match order.stamps {
            Stamps::Near => 0,
            Stamps::Both => (order.messages.min(MAX_STAMPS) * ends.count() as u64) as usize,
        };
        // Touched: no page fault in the loop.
        let mut stamps =
            FarStamps { arrived: vec![1; room], left: if order.departures { vec![1; room] } else { Vec::new() } };
        // The event loop writes each into its place, the others one behind the other.
        for column in [&mut stamps.arrived, &mut stamps.left] {
            match order.dispatch {
                Dispatch::Turns => column.clear(),
                Dispatch::EventLoop => column.fill(0),
            }
        }
        let meter = Meter::start(&self.counting, ends, delivery);
        let range = (order.trim, order.messages);
        may_end(answering(ends, range, &mut stamps, &mut delivery))?;
        let mut report = meter.stop(ends, clock::now(), delivery);
        report.bytes_received = report.delivery.received * order.pieces.total();
        report.bytes_sent = report.delivery.sent * order.reply;
        self.settle(ends, &mut report)?;
        Ok(Outcome { stamps, ..Outcome::new(report) })
    }

    fn sender(
        &self,
        ends: &mut dyn SenderEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let mut delivery = Delivery::default();
        let begin = clock::now();
        ends.send(messages, (0, order.trim), &mut delivery)?;
        let trimmed_ns = if order.trim > 0 { clock::now() - begin } else { 0 };
        let meter = Meter::start(&self.counting, ends, delivery);
        ends.send(messages, (order.trim, order.messages), &mut delivery)?;
        let handed_over = clock::now();
        if !messages.lossy {
            ends.acknowledged(messages, inbox)?;
        }
        let end = clock::now();
        let mut report = meter.stop(ends, end, delivery);
        (report.trimmed_ns, report.drain_ns) = (trimmed_ns, if messages.lossy { 0 } else { end - handed_over });
        report.bytes_sent = report.delivery.sent * order.pieces.total();
        self.settle(ends, &mut report)?;
        Ok(Outcome::new(report))
    }

    fn receiver(
        &self,
        ends: &mut dyn ReceiverEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let mut arrivals: Vec<Arrivals> = match messages.lossy {
            true => (0..ends.count()).map(|_| Arrivals::new(order.trim + order.messages)).collect(),
            false => Vec::new(),
        };
        let mut delivery = Delivery::default();
        // Without trimmed messages the first measured one of each connection starts the clock; its bytes do not count.
        let trim = order.trim.max(1).min(order.trim + order.messages - 1);
        let mut receive = |ends: &mut dyn ReceiverEnds, range, delivery: &mut Delivery| {
            ends.receive(Traffic { messages, delivery }, inbox, range, &mut arrivals, &self.finish)
        };
        let begin = receive(ends, (0, trim.min(1)), &mut delivery)?;
        let rest = trim.saturating_sub(1);
        let trimmed_ns = if rest > 0 { receive(ends, (1, rest), &mut delivery)?.saturating_sub(begin) } else { 0 };
        let (counted_from, untimed) = match order.trim {
            0 => (Delivery::default(), delivery.received),
            _ => (delivery, 0),
        };
        let meter = Meter::start(&self.counting, ends, counted_from);
        let end = receive(ends, (trim, order.trim + order.messages - trim), &mut delivery)?.max(meter.start);
        if !messages.lossy {
            ends.acknowledge(messages)?;
        }
        let mut report = meter.stop(ends, end, delivery);
        // Bytes are those of the time that was measured: without the messages that started the clock.
        report.untimed = untimed;
        (report.trimmed_ns, report.trimmed_bytes) = (trimmed_ns, rest * ends.count() as u64 * order.pieces.total());
        report.bytes_received = (report.delivery.received - untimed) * order.pieces.total();
        self.settle(ends, &mut report)?;
        Ok(Outcome::new(report))
    }

    fn open_sender(&self, ends: &mut dyn SenderEnds, messages: &Messages<'_>) -> Result<Outcome, LoopError> {
        let flow = self.flow.as_ref().expect("an open loop has a flow");
        let result = self.sends_on_time(ends, messages, flow);
        sender_is_over(flow);
        result
    }

    fn sends_on_time(
        &self,
        ends: &mut dyn SenderEnds,
        messages: &Messages<'_>,
        flow: &Flow,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let mut delivery = Delivery::default();
        let mut generator = Generator::new(flow).until(order.patience_ns).told(&self.finish);
        ends.send_on_time(Traffic { messages, delivery: &mut delivery }, &mut generator, 0..order.trim)?;
        generator.forget();
        let meter = Meter::start(&self.counting, ends, delivery);
        // A round that was given up while its messages were trimmed has sent its last one.
        if !flow.is_cut() {
            let traffic = Traffic { messages, delivery: &mut delivery };
            ends.send_on_time(traffic, &mut generator, order.trim..flow.count())?;
        }
        let mut report = meter.stop(ends, clock::now(), delivery);
        // The receiver says what became of the messages, and how long it took.
        (report.delivery, report.elapsed_ns) = (Delivery::default(), 0);
        self.settle(ends, &mut report)?;
        Ok(Outcome { open: Some(generator.finish()), ..Outcome::new(report) })
    }

    fn open_receiver(
        &self,
        ends: &mut dyn ReceiverEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let flow = self.flow.as_ref().expect("an open loop has a flow");
        let mut arrived = touched(flow.count() as usize);
        let mut delivery = Delivery::default();
        // Where messages may be lost there is no border between trimmed and measured ones: all are received in one go,
        // and what that costs includes the trimmed ones.
        if !messages.lossy {
            let traffic = Traffic { messages, delivery: &mut delivery };
            ends.receive_answers(traffic, inbox, flow, 0..order.trim, &mut arrived)?;
        }
        let meter = Meter::start(&self.counting, ends, delivery);
        let traffic = Traffic { messages, delivery: &mut delivery };
        ends.receive_answers(traffic, inbox, flow, order.trim..flow.count(), &mut arrived)?;
        let mut report = meter.stop(ends, clock::now(), delivery);
        report.tcp = None; // it is the sender's socket as well
        Ok(self.answered(flow, &arrived, report))
    }

    /// Waits for the buffers the kernel still holds and counts what it said of them, trimmed messages included: a
    /// notification may answer sends on both sides of the border. Not measured.
    pub(crate) fn settle(&self, ends: &mut dyn Ends, report: &mut EndReport) -> Result<(), LoopError> {
        for at in 0..ends.count() {
            report.zerocopy.add(&ends.end(at).drain()?);
        }
        Ok(())
    }
}
