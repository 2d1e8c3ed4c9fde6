//! One message's time, split into stages: their boundaries, which events belong to which message, and every nanosecond
//! after the data are there charged to the state of the receiver (docs/method/attribution.md#stages).

use msgpath_core::Case;
use msgpath_core::schema::{FAR, KernelEvent, MessageRow, NEAR, TraceRound, TracedThread};

use super::index::{Index, NEVER, Packet, Ready};
use super::stage::{Kind, LEGS, Shape, slot};
use super::timeline::{State, Stretch, Timeline, from, timelines};

/// Why a message has no stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No reply came.
    NoReply,
    /// The far end's stamps are missing.
    NoStamps,
    /// Its stamps contradict each other.
    Disorder,
    /// Another message was in flight on its connection.
    Overlap,
    /// Kernel events were lost before its end.
    Lost,
    /// The round has no events.
    NoEvents,
    /// The threads or sockets of its connection are not known.
    NoThread,
    /// Its packet was not seen in the transmit stack.
    NoPacket,
    /// Its packet was not seen in the receive softirq.
    NotReceived,
    /// Its socket was not seen to become readable.
    NoReady,
    /// SIGIO: it had no signal of its own.
    Coalesced,
    /// The receiver's state is not known at the start, or it was not running at the end.
    Unknown,
    /// A stage of more than 4 s.
    TooLong,
}

impl Reason {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoReply => "no reply",
            Reason::NoStamps => "stamps of the far end are missing",
            Reason::Disorder => "its stamps contradict each other",
            Reason::Overlap => "another message was in flight on its connection",
            Reason::Lost => "kernel events were lost",
            Reason::NoEvents => "its round has no kernel events",
            Reason::NoThread => "the threads of its connection are not known",
            Reason::NoPacket => "its packet was not seen in the transmit stack",
            Reason::NotReceived => "its packet was not seen in the receive softirq",
            Reason::NoReady => "its socket was not seen to become readable",
            Reason::Coalesced => "it had no signal of its own (signals coalesce)",
            Reason::Unknown => "the receiver's state is not known",
            Reason::TooLong => "a stage of more than 4 s",
        }
    }
}

/// No idle state was seen.
pub const AWAKE: u8 = u8::MAX;

/// One direction of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Time in each stage of [`LEG`](super::stage::LEG), ns.
    pub ns: [u32; LEGS],
    /// The receiver's state when the data became readable (without such an event: when the send began).
    pub state: State,
    /// Idle state of the receiver's CPU when the data became readable; [`AWAKE`]: it was not idle, or nobody knows.
    pub idle: u8,
    /// The receive softirq ran on another CPU than the transmit stack.
    pub elsewhere: bool,
}

/// A message that is attributed: its parts add up to its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Position in the rows of the round.
    pub row: u32,
    /// Open loop: waiting to be sent, ns.
    pub waiting: u32,
    /// The far end's program, ns.
    pub handler: u32,
    /// Request and reply.
    pub legs: [Leg; 2],
}

impl Split {
    /// Time in a stage, both directions in their order; [`Kind::Waiting`] and [`Kind::Handler`] have one place.
    pub fn ns(&self, direction: usize, kind: Kind) -> u64 {
        u64::from(match kind {
            Kind::Waiting => self.waiting,
            Kind::Handler => self.handler,
            kind => self.legs[direction].ns[slot(kind)],
        })
    }

    /// All stages together: the latency, ns.
    pub fn total(&self) -> u64 {
        let legs = self.legs.iter().flat_map(|leg| leg.ns);
        u64::from(self.waiting) + u64::from(self.handler) + legs.map(u64::from).sum::<u64>()
    }
}

/// What is asked of a round.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The traced case.
    pub case: &'a Case,
    /// Which boundaries its events show.
    pub shape: &'a Shape,
    /// Threads and sockets of the round.
    pub trace: &'a TraceRound,
    /// Its kernel events in the order of time.
    pub events: &'a [KernelEvent],
}

/// The events of a round, ready to be asked for messages.
pub struct Round<'a> {
    question: Question<'a>,
    /// Thread ids, sorted.
    pub tasks: Vec<i32>,
    /// Low 32 bits of the sockets' cookies, sorted.
    cookies: Vec<u32>,
    /// State of each thread.
    pub lines: Vec<Timeline>,
    pub(super) index: Index,
    /// Bytes of headers of a packet, where they could be found out.
    headers: u16,
    /// From here on events may be missing, ns.
    whole_until: u64,
}

/// The two threads and the receiving socket of one direction, and how far the events have been read.
#[derive(Clone, Copy, Debug, Default)]
struct Between {
    sender: usize,
    receiver: usize,
    cookie: Option<usize>,
    /// Where to begin to look in each list: packets, readiness, states, wakings, calls.
    near: [usize; 5],
}

/// What a message waited on beside its stages, told while it is split: stretches of the receiver's time.
pub trait Watch {
    /// The receiver of a message (its position in [`Round::tasks`]) was runnable and not running.
    fn runnable(&mut self, round: &Round<'_>, receiver: usize, stretch: Stretch, row: u32);
}

impl<'a> Round<'a> {
    /// Reads the events once.
    pub fn new(question: Question<'a>) -> Self {
        let Question { case, shape, trace, events } = question;
        let threads = trace.threads.iter().flatten();
        let mut tasks: Vec<i32> = threads.clone().map(|thread| thread.tid).collect();
        let mut cookies: Vec<u32> = threads.flat_map(|thread| &thread.cookies).map(|cookie| *cookie as u32).collect();
        // A socket whose cookie could not be read has none.
        cookies.retain(|cookie| *cookie != 0);
        cookies.sort_unstable();
        cookies.dedup();
        tasks.sort_unstable();
        tasks.dedup();
        let index = Index::new(events, &tasks, &cookies);
        Self {
            lines: timelines(events, &tasks, shape.waking),
            headers: headers(case, &index),
            whole_until: if trace.lost > 0 { whole_until(events) } else { NEVER },
            tasks,
            cookies,
            index,
            question,
        }
    }

    /// The message's stages. `rows` are all messages of the round; they are answered in the order of connections.
    pub fn split(
        &self,
        rows: &[MessageRow],
        watch: &mut impl Watch,
        mut tell: impl FnMut(usize, Result<Split, Reason>),
    ) {
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        let key = |at: &u32| (rows[*at as usize].connection, sent_at(&rows[*at as usize]));
        if !order.is_sorted_by_key(key) {
            order.sort_by_key(key);
        }
        for own in order.chunk_by(|a, b| rows[*a as usize].connection == rows[*b as usize].connection) {
            let mut both = self.both(rows[own[0] as usize].connection);
            // End of the last message to end so far.
            let mut busy_until = 0;
            for (at, row) in own.iter().enumerate() {
                let message = &rows[*row as usize];
                let (start, end) = (sent_at(message), end_of(message));
                let next = own.get(at + 1).map_or(NEVER, |next| sent_at(&rows[*next as usize]));
                let outcome = match &mut both {
                    _ if message.latency_ns.is_none() => Err(Reason::NoReply),
                    _ if start < busy_until || next < end => Err(Reason::Overlap),
                    _ if end > self.whole_until => Err(Reason::Lost),
                    None => Err(Reason::NoThread),
                    Some(both) => self.message(both, *row, message, watch),
                };
                busy_until = busy_until.max(end);
                tell(*row as usize, outcome);
            }
        }
    }

    /// The threads of a connection: each serves `connections / threads` of them; an open loop has a thread for each
    /// direction.
    fn both(&self, connection: u32) -> Option<[Between; 2]> {
        let Question { case, trace, .. } = self.question;
        let share = (case.connections / case.threads.max(1)).max(1);
        let of = |threads: &'a [TracedThread], role: fn(&TracedThread) -> bool| {
            let thread = threads.iter().filter(|thread| role(thread)).nth((connection / share) as usize)?;
            let cookie = thread.cookies.get((connection % share) as usize).map(|cookie| *cookie as u32);
            let cookie = cookie.and_then(|cookie| self.cookies.binary_search(&cookie).ok());
            Some((self.tasks.binary_search(&thread.tid).ok()?, cookie))
        };
        let between = |sender: Option<(usize, _)>, receiver: Option<(usize, Option<usize>)>| {
            let (sender, _) = sender?;
            let (receiver, cookie) = receiver?;
            Some(Between { sender, receiver, cookie, near: [0; 5] })
        };
        let (sends, receives) = (|thread: &TracedThread| thread.sends, |thread: &TracedThread| thread.receives);
        Some([
            between(of(trace.of(NEAR), sends), of(trace.of(FAR), receives))?,
            between(of(trace.of(FAR), sends), of(trace.of(NEAR), receives))?,
        ])
    }

    fn message(
        &self,
        both: &mut [Between; 2],
        at: u32,
        row: &MessageRow,
        watch: &mut impl Watch,
    ) -> Result<Split, Reason> {
        let (Some(latency), Some(far), Some(far_sent)) = (row.latency_ns, row.far_ns, row.far_sent_ns) else {
            return Err(Reason::NoStamps);
        };
        let late = row.late_ns.unwrap_or(0);
        if !(late <= far && far <= far_sent && far_sent <= latency) {
            return Err(Reason::Disorder);
        }
        let time = |ns: u64| row.start_ns.saturating_add(ns);
        let returned = row.sent_ns.map(time);
        let [there, back] = both;
        let request = self.leg(there, time(late), time(far), returned, &mut |receiver, stretch| {
            watch.runnable(self, receiver, stretch, at);
        })?;
        let reply = self.leg(back, time(far_sent), time(latency), None, &mut |receiver, stretch| {
            watch.runnable(self, receiver, stretch, at);
        })?;
        let split = Split { row: at, waiting: short(late)?, handler: short(far_sent - far)?, legs: [request, reply] };
        debug_assert_eq!(split.total(), latency);
        Ok(split)
    }

    /// One direction: from the stamp before the send to the stamp after the receive.
    fn leg(
        &self,
        between: &mut Between,
        start: u64,
        end: u64,
        returned: Option<u64>,
        runnable: &mut impl FnMut(usize, Stretch),
    ) -> Result<Leg, Reason> {
        let Shape { stack, signals, .. } = *self.question.shape;
        if self.question.events.is_empty() {
            return Err(Reason::NoEvents);
        }
        let mut leg = Leg { ns: [0; LEGS], state: State::Running, idle: AWAKE, elsewhere: false };
        let mut readable = if stack.has_device() {
            self.packet_stages(between, (start, end), returned, &mut leg)?
        } else if stack.has_ready() {
            let ready = self.ready(between, start, end, Some(self.tasks[between.sender]))?;
            leg.ns[slot(Kind::Transmit)] = short(ready - start)?;
            ready
        } else {
            start
        };
        let line = &self.lines[between.receiver];
        between.near[2] = line.before(readable, between.near[2]).ok_or(Reason::Unknown)?;
        leg.state = line.changes[between.near[2]].state;
        if leg.state != State::Running {
            leg.idle = self.idle_state(line, between.near[2], readable);
        }
        let mut until = end;
        if signals {
            let generated = &self.index.generated[between.receiver];
            let at = from(generated, |mark| mark.t_ns < readable, 0);
            let signal = generated.get(at).map(|mark| mark.t_ns).filter(|t| *t <= end).ok_or(Reason::Coalesced)?;
            leg.ns[slot(Kind::Signal)] = short(signal - readable)?;
            readable = signal;
            let delivered = &self.index.delivered[between.receiver];
            let after = from(delivered, |mark| mark.t_ns <= end, 0);
            let last = after.checked_sub(1).map(|at| delivered[at].t_ns).filter(|t| *t >= signal);
            until = last.unwrap_or(end);
            leg.ns[slot(Kind::Deliver)] = short(end - until)?;
        }
        let (mut ran, mut last) = (false, None);
        for stretch in line.stretches(readable, until, between.near[2]) {
            let kind = match stretch.state {
                State::Running => Kind::Return,
                State::Runnable | State::Waking if self.question.shape.joined => Kind::InFlight,
                State::Runnable => Kind::Delay,
                State::Waking => Kind::InFlight,
                State::Blocked if ran => Kind::Again,
                State::Blocked => Kind::WakeCall,
            };
            let ns = &mut leg.ns[slot(kind)];
            *ns = short(u64::from(*ns) + (stretch.to_ns - stretch.from_ns))?;
            ran |= stretch.state == State::Running;
            if stretch.state == State::Runnable {
                runnable(between.receiver, stretch);
            }
            last = Some(stretch.state);
        }
        if last == Some(State::Running) { Ok(leg) } else { Err(Reason::Unknown) }
    }

    /// Send call, transmit stack, device and softirq; the time at which the data are readable.
    fn packet_stages(
        &self,
        between: &mut Between,
        (start, end): (u64, u64),
        returned: Option<u64>,
        leg: &mut Leg,
    ) -> Result<u64, Reason> {
        let shape = self.question.shape;
        let sender = self.tasks[between.sender];
        let packet = match self.own_packet(between, start, end) {
            Some(packet) => packet,
            // It left in another context: a timer or an acknowledgement pushed it. The socket that became readable
            // names the packet.
            None => {
                let ready = self.readiness(between, start, end, None).ok_or(Reason::NoPacket)?;
                let packet = self.index.packets.get(ready.packet as usize).ok_or(Reason::NoPacket)?;
                *Some(packet).filter(|packet| packet.first_ns >= start).ok_or(Reason::NoPacket)?
            }
        };
        let received = match packet.receive_ns {
            NEVER if shape.receive => return Err(Reason::NotReceived),
            NEVER => None,
            t if t > end => return Err(Reason::NotReceived),
            t => Some(t),
        };
        // The end of the transmit stack: the driver, or where the discipline of the queue is bypassed the arrival.
        let left = [packet.xmit_ns, packet.arrival_ns, packet.receive_ns].into_iter().find(|t| *t != NEVER);
        let left = left.filter(|t| (start..=end).contains(t)).ok_or(Reason::NoPacket)?;
        let entered = if shape.calls { self.entered(between, start, left) } else { None };
        // Until when the send call worked on it.
        let handed = match returned {
            Some(returned) if returned < left => returned.max(start),
            _ if packet.tid != sender => start,
            _ => left,
        };
        let entered = entered.filter(|t| *t <= handed).unwrap_or(start);
        leg.ns[slot(Kind::SendCall)] = short(entered - start)?;
        leg.ns[slot(Kind::Transmit)] = short(handed - entered)?;
        leg.ns[slot(Kind::HeldBack)] = short(left - handed)?;
        let begun = received.unwrap_or(left);
        let readable = self.ready(between, begun, end, None)?;
        match received {
            Some(received) => {
                leg.ns[slot(Kind::Device)] = short(received.checked_sub(left).ok_or(Reason::NotReceived)?)?;
                leg.ns[slot(Kind::Softirq)] = short(readable - received)?;
                leg.elsewhere = packet.receive_cpu != packet.cpu;
            }
            None => leg.ns[slot(Kind::Device)] = short(readable - left)?,
        }
        Ok(readable)
    }

    /// The first packet of the message that the sender's thread handed to a device.
    fn own_packet(&self, between: &mut Between, start: u64, end: u64) -> Option<Packet> {
        let sent = &self.index.sent[between.sender];
        let packet = |at: &u32| &self.index.packets[*at as usize];
        between.near[0] = from(sent, |at| packet(at).first_ns < start, between.near[0]);
        let own = sent[between.near[0]..].iter().map(packet).take_while(|packet| packet.first_ns <= end);
        own.copied().find(|packet| self.carries(between, packet))
    }

    /// Whether a packet is as long as one with the message: acknowledgements are shorter.
    fn carries(&self, between: &Between, packet: &Packet) -> bool {
        /// A message of more bytes may be cut into segments.
        const SEGMENT: u64 = 1000;
        let case = self.question.case;
        let near = self.question.trace.of(NEAR).iter().any(|thread| thread.tid == self.tasks[between.sender]);
        let whole = if near { case.size } else { case.reply };
        let least = if near && case.traits.apart { u64::from(case.pieces.size) } else { whole };
        let (len, headers) = (u64::from(packet.len), u64::from(self.headers));
        // From netif_rx on the Ethernet header does not count.
        let headers = if packet.xmit_ns == NEVER { headers.saturating_sub(14) } else { headers };
        if case.traits.segments && least == whole && whole < 40 {
            return len == whole + headers;
        }
        len >= (least + headers).min(SEGMENT)
    }

    /// The sender's first call after its stamp.
    fn entered(&self, between: &mut Between, start: u64, until: u64) -> Option<u64> {
        let enters = &self.index.enters[between.sender];
        between.near[4] = from(enters, |mark| mark.t_ns < start, between.near[4]);
        enters.get(between.near[4]).map(|mark| mark.t_ns).filter(|t| *t <= until)
    }

    /// When the data are readable: the receiver's socket says so. On a kernel without that event: when the receiver is
    /// woken, or at once where nobody wakes it.
    fn ready(&self, between: &mut Between, after: u64, end: u64, sender: Option<i32>) -> Result<u64, Reason> {
        if self.question.shape.ready {
            return self.readiness(between, after, end, sender).map(|ready| ready.t_ns).ok_or(Reason::NoReady);
        }
        let wakings = &self.index.wakings[between.receiver];
        between.near[3] = from(wakings, |mark| mark.t_ns < after, between.near[3]);
        Ok(wakings.get(between.near[3]).map(|mark| mark.t_ns).filter(|t| *t <= end).unwrap_or(after))
    }

    /// The first event that says that the receiver's socket has data. A socket without a known cookie is told by the
    /// thread that fills it (`sender`), if there is one, else taken as it comes.
    fn readiness(&self, between: &mut Between, after: u64, end: u64, sender: Option<i32>) -> Option<Ready> {
        let list = between.cookie.map_or(&self.index.others, |at| &self.index.ready[at]);
        between.near[1] = from(list, |ready| ready.t_ns < after, between.near[1]);
        let later = list[between.near[1]..].iter().take_while(|ready| ready.t_ns <= end);
        match (between.cookie, sender) {
            (None, Some(sender)) => later.copied().find(|ready| ready.tid == sender),
            _ => later.copied().next(),
        }
    }

    /// The idle state of the CPU on which the receiver will run next.
    fn idle_state(&self, line: &Timeline, at: usize, t_ns: u64) -> u8 {
        let Some(next) = line.changes[at..].iter().find(|change| change.state == State::Running) else { return AWAKE };
        let Some(states) = self.index.idle.get(&next.cpu) else { return AWAKE };
        let before = states.partition_point(|mark| mark.t_ns <= t_ns).checked_sub(1);
        before.map_or(AWAKE, |before| u8::try_from(states[before].by).unwrap_or(AWAKE))
    }
}

/// A stage's time as it is kept.
fn short(ns: u64) -> Result<u32, Reason> {
    u32::try_from(ns).map_err(|_| Reason::TooLong)
}

/// The actual send, ns since the start of the run.
fn sent_at(row: &MessageRow) -> u64 {
    row.start_ns.saturating_add(row.late_ns.unwrap_or(0))
}

/// The reply, or where there is none the send: a lost message is in flight no longer than anybody knows.
fn end_of(row: &MessageRow) -> u64 {
    row.start_ns.saturating_add(row.latency_ns.or(row.late_ns).unwrap_or(0))
}

/// Until when no CPU has lost an event. Each has room for as many, so the full ones have the most; recording stopped
/// there, and what is kept is whole up to that time.
fn whole_until(events: &[KernelEvent]) -> u64 {
    let mut cpus: std::collections::BTreeMap<u16, (u64, u64)> = Default::default();
    for event in events {
        let (count, last) = cpus.entry(event.cpu).or_default();
        (*count, *last) = (*count + 1, event.t_ns);
    }
    let most = cpus.values().map(|(count, _)| *count).max().unwrap_or(0);
    cpus.values().filter(|(count, _)| *count * 2 > most).map(|(_, last)| *last).min().unwrap_or(0)
}

/// Bytes of headers of the packets that carry messages: of those that occur, what most packets have.
fn headers(case: &Case, index: &Index) -> u16 {
    let candidates = &case.traits.headers;
    if candidates.is_empty() {
        return 0;
    }
    let counted = |headers: &u16| {
        let lens = index.sent.iter().flatten().map(|at| u64::from(index.packets[*at as usize].len));
        let bytes = u64::from(*headers);
        lens.filter(|len| *len == case.size + bytes || *len == case.reply + bytes).count()
    };
    let best = candidates
        .iter()
        .map(|headers| (counted(headers), *headers))
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or(0, |(_, headers)| headers)
}
