//! One message's time, split into stages: their boundaries, which events belong to which message, and every nanosecond
//! after the data are there charged to the state of the receiver (docs/method/attribution.md#stages).

use msgpath_core::Case;
use msgpath_core::schema::{FAR, KernelEvent, MessageRow, NEAR, SEGMENT, TraceRound, TracedThread};

use msgpath_analyse::clocks::{self, ClockPiece, Stamps};

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
    /// Two clocks, and nobody knows how they stand to each other.
    NoClock,
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
            Reason::NoClock => "the clocks of the ends could not be aligned",
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
    pub case: &'a Case,
    /// Which boundaries its events show: request and reply.
    pub shapes: &'a [Shape; 2],
    /// Threads and sockets of the round.
    pub trace: &'a TraceRound,
    /// Its kernel events in the order of time: all of them, or those of the near end, each by the clock of its end.
    pub events: &'a [KernelEvent],
    /// Where each end traced itself: the far end's.
    pub apart: Option<Apart<'a>>,
}

/// What there is beside the near end's events where each end traced itself.
#[derive(Clone, Copy)]
pub struct Apart<'a> {
    /// Kernel events of the far end in the order of time.
    pub events: &'a [KernelEvent],
    /// Its clock where their times are 0, less the near end's at the start of the run, ns.
    pub origin_ns: i64,
    /// Events that found no room there.
    pub lost: u64,
    /// What must be added to its clock.
    pub clock: &'a [ClockPiece],
}

/// What one tracer saw of a round.
pub struct Host {
    /// The end that traced itself, 0 where one tracer saw both.
    pub end: u8,
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
    /// There are events.
    seen: bool,
}

/// The events of a round, ready to be asked for messages.
pub struct Round<'a> {
    question: Question<'a>,
    /// One, or where each end traced itself that of the near and that of the far end.
    pub hosts: Vec<Host>,
}

/// The two threads and the receiving socket of one direction, and how far the events have been read.
#[derive(Clone, Copy, Debug, Default)]
struct Between {
    /// 0 request, 1 reply.
    way: usize,
    sender: usize,
    receiver: usize,
    cookie: Option<usize>,
    /// Where to begin to look in each list: packets, readiness, states, wakings, calls.
    near: [usize; 5],
    /// Between two hosts: the last message that was answered, and when, by the far end's clock.
    answered: Option<(u64, u64)>,
}

/// What a message waited on beside its stages, told while it is split: stretches of the receiver's time.
pub trait Watch {
    /// The receiver of a message (its position in [`Host::tasks`]) was runnable and not running.
    fn runnable(&mut self, host: &Host, receiver: usize, stretch: Stretch, row: u32);
}

/// Nobody asks.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn runnable(&mut self, _host: &Host, _receiver: usize, _stretch: Stretch, _row: u32) {}
}

/// A message that is sent, ns of the clock of the run.
#[derive(Clone, Copy)]
struct Sending {
    /// The stamp before the send.
    start: u64,
    /// What is looked for came before.
    end: u64,
    /// When the send call had returned.
    returned: Option<u64>,
}

/// When a message may have come, ns.
#[derive(Clone, Copy)]
struct Awaited {
    after: u64,
    end: u64,
    /// What makes the socket readable in this time is the message; else only the last that does.
    own: bool,
}

/// A message between two hosts: what each of them knows by itself, and where it left one and came to the other.
struct Crossing {
    waiting: u64,
    handler: u64,
    /// All but the time between the hosts.
    legs: [Leg; 2],
    /// When the request left the near end, ns since the start of the run.
    left: u64,
    /// When it came to the far end and when the reply left there, by the far end's clock.
    far: [i64; 2],
    /// When the reply came to the near end.
    back: u64,
}

impl Crossing {
    /// What it says of the two clocks.
    fn stamps(&self) -> Option<Stamps> {
        let since = |far: i64| far.checked_sub(i64::try_from(self.left).ok()?);
        Some(Stamps {
            start_ns: self.left,
            latency_ns: self.back.checked_sub(self.left)?,
            received_ns: since(self.far[0])?,
            replied_ns: since(self.far[1])?,
        })
    }

    /// The time between the hosts, there and back, ns: together it is certain, and the clocks divide it.
    fn between(&self, clock: &[ClockPiece]) -> Result<[u64; 2], Reason> {
        let piece = clocks::at(clock, self.left).ok_or(Reason::NoClock)?;
        let near = self.back.checked_sub(self.left).ok_or(Reason::Disorder)?;
        let far = u64::try_from(self.far[1].wrapping_sub(self.far[0])).map_err(|_| Reason::Disorder)?;
        let both = near.checked_sub(far).ok_or(Reason::Disorder)?;
        let there = self.far[0] as f64 + piece.theta(self.left) - self.left as f64;
        // The resolution of the stamps, and no more.
        let slack = piece.within_ns.min(1e3);
        if !(-slack..=both as f64 + slack).contains(&there) {
            return Err(Reason::Disorder);
        }
        let there = (there.max(0.0) as u64).min(both);
        Ok([there, both - there])
    }
}

impl Host {
    fn new(end: u8, case: &Case, threads: &[&[TracedThread]], events: &[KernelEvent], waking: bool, lost: u64) -> Self {
        let threads = threads.iter().copied().flatten();
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
            lines: timelines(events, &tasks, waking),
            headers: headers(case, &index),
            whole_until: if lost > 0 { whole_until(events) } else { NEVER },
            seen: !events.is_empty(),
            end,
            tasks,
            cookies,
            index,
        }
    }
}

impl<'a> Round<'a> {
    /// Reads the events once.
    pub fn new(question: Question<'a>) -> Self {
        let Question { case, shapes, trace, events, apart } = question;
        let (near, far) = (trace.of(NEAR), trace.of(FAR));
        let hosts = match apart {
            None => vec![Host::new(0, case, &[near, far], events, shapes[0].waking, trace.lost)],
            // A reply is received by the near end, a request by the far one.
            Some(apart) => vec![
                Host::new(NEAR as u8, case, &[near], events, shapes[1].waking, trace.lost),
                Host::new(FAR as u8, case, &[far], apart.events, shapes[0].waking, apart.lost),
            ],
        };
        Self { question, hosts }
    }

    /// What was seen at an end.
    fn at(&self, end: usize) -> &Host {
        &self.hosts[end.min(self.hosts.len() - 1)]
    }

    /// The message's stages. `rows` are all messages of the round; they are answered in the order of connections.
    pub fn split(&self, rows: &[MessageRow], watch: &mut impl Watch, tell: impl FnMut(usize, Result<Split, Reason>)) {
        let message = |both: &mut [Between; 2], at, row: &MessageRow| match self.question.apart {
            None => self.message(both, at, row, watch),
            Some(apart) => self.apart(&apart, both, at, row, watch),
        };
        self.each(rows, message, tell);
    }

    /// Asks `message` of every row whose events can be told from those of others, with its place.
    fn each<T>(
        &self,
        rows: &[MessageRow],
        mut message: impl FnMut(&mut [Between; 2], u32, &MessageRow) -> Result<T, Reason>,
        mut tell: impl FnMut(usize, Result<T, Reason>),
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
                let one = &rows[*row as usize];
                let (start, end) = (sent_at(one), end_of(one));
                let next = own.get(at + 1).map_or(NEVER, |next| sent_at(&rows[*next as usize]));
                let outcome = match &mut both {
                    _ if one.latency_ns.is_none() => Err(Reason::NoReply),
                    _ if start < busy_until || next < end => Err(Reason::Overlap),
                    _ if end > self.at(NEAR).whole_until => Err(Reason::Lost),
                    None => Err(Reason::NoThread),
                    Some(both) => message(both, *row, one),
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
        let of = |end: usize, role: fn(&TracedThread) -> bool| {
            let host = self.at(end);
            let threads = trace.of(end);
            let thread = threads.iter().filter(|thread| role(thread)).nth((connection / share) as usize)?;
            let cookie = thread.cookies.get((connection % share) as usize).map(|cookie| *cookie as u32);
            let cookie = cookie.and_then(|cookie| host.cookies.binary_search(&cookie).ok());
            Some((host.tasks.binary_search(&thread.tid).ok()?, cookie))
        };
        let between = |way: usize, [from, to]: [usize; 2]| {
            let (sender, _) = of(from, |thread| thread.sends)?;
            let (receiver, cookie) = of(to, |thread| thread.receives)?;
            Some(Between { way, sender, receiver, cookie, ..Between::default() })
        };
        Some([between(0, [NEAR, FAR])?, between(1, [FAR, NEAR])?])
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
        let request = Sending { start: time(late), end: time(far), returned: row.sent_ns.map(time) };
        let reply = Sending { start: time(far_sent), end: time(latency), returned: None };
        let [there, back] = both;
        let host = self.at(NEAR);
        let mut runnable = |receiver, stretch| watch.runnable(host, receiver, stretch, at);
        let request = self.leg(host, there, request, &mut runnable)?;
        let reply = self.leg(host, back, reply, &mut runnable)?;
        let split = Split { row: at, waiting: short(late)?, handler: short(far_sent - far)?, legs: [request, reply] };
        debug_assert_eq!(split.total(), latency);
        Ok(split)
    }

    /// The stages of a message between two hosts: each host's by its own clock, and between them what the clocks leave.
    fn apart(
        &self,
        apart: &Apart<'_>,
        both: &mut [Between; 2],
        at: u32,
        row: &MessageRow,
        watch: &mut impl Watch,
    ) -> Result<Split, Reason> {
        let crossing = self.crossing(apart, both, at, row, watch)?;
        let mut legs = crossing.legs;
        for (leg, ns) in legs.iter_mut().zip(crossing.between(apart.clock)?) {
            leg.ns[slot(Kind::Device)] = short(ns)?;
        }
        let split = Split { row: at, waiting: short(crossing.waiting)?, handler: short(crossing.handler)?, legs };
        debug_assert_eq!(Some(split.total()), row.latency_ns);
        Ok(split)
    }

    fn crossing(
        &self,
        apart: &Apart<'_>,
        both: &mut [Between; 2],
        at: u32,
        row: &MessageRow,
        watch: &mut impl Watch,
    ) -> Result<Crossing, Reason> {
        let (Some(latency), Some(received), Some(replied)) = (row.latency_ns, row.received_ns, row.replied_ns) else {
            return Err(Reason::NoStamps);
        };
        let late = row.late_ns.unwrap_or(0);
        let time = |ns: u64| row.start_ns.checked_add(ns).ok_or(Reason::Disorder);
        let (start, end) = (time(late)?, time(latency)?);
        let by_far = |ns: i64| row.start_ns.checked_add_signed(ns.checked_sub(apart.origin_ns)?);
        let (arrived, sent) = by_far(received).zip(by_far(replied)).ok_or(Reason::Disorder)?;
        if late > latency || sent < arrived || sent - arrived > latency {
            return Err(Reason::Disorder);
        }
        if sent > self.at(FAR).whole_until {
            return Err(Reason::Lost);
        }
        let (near, far) = (self.at(NEAR), self.at(FAR));
        let mut legs = [Leg { ns: [0; LEGS], state: State::Running, idle: AWAKE, elsewhere: false }; 2];
        let [there, back] = both;
        let returned = row.sent_ns.map(time).transpose()?;
        let left = self.sent_between(near, there, Sending { start, end, returned }, &mut legs[0])?;
        // It cannot have come before it was sent, nor before the message ahead of it was answered.
        let before = there.answered.replace((row.sequence, sent));
        let before = before.filter(|(ahead, _)| ahead.checked_add(1) == Some(row.sequence)).map(|(_, sent)| sent);
        let earliest = arrived.saturating_sub(latency - late);
        let awaited = Awaited { after: before.unwrap_or(0).max(earliest), end: arrived, own: before.is_some() };
        let came = self.came(far, there, awaited, &mut legs[0], &mut |receiver, stretch| {
            watch.runnable(far, receiver, stretch, at);
        })?;
        let went = self.sent_between(far, back, Sending { start: sent, end: NEVER, returned: None }, &mut legs[1])?;
        let awaited = Awaited { after: left, end, own: true };
        let home = self.came(near, back, awaited, &mut legs[1], &mut |receiver, stretch| {
            watch.runnable(near, receiver, stretch, at);
        })?;
        let by_clock = |ns: u64| i64::try_from(ns).ok()?.checked_add(apart.origin_ns);
        let far = [by_clock(came).ok_or(Reason::Disorder)?, by_clock(went).ok_or(Reason::Disorder)?];
        Ok(Crossing { waiting: late, handler: sent - arrived, legs, left, far, back: home })
    }

    /// When a message left the sender's host, its stages up to there; at the start where the sender is not traced.
    fn sent_between(&self, host: &Host, between: &mut Between, sending: Sending, leg: &mut Leg) -> Result<u64, Reason> {
        let Sending { start, end, .. } = sending;
        if !self.shape(between).sender {
            return Ok(start);
        }
        if !host.seen {
            return Err(Reason::NoEvents);
        }
        let packet = host.own_packet(self.question.case, between, start, end, true).ok_or(Reason::NoPacket)?;
        let left = Some(packet.xmit_ns).filter(|t| *t != NEVER && (start..=end).contains(t));
        let left = left.ok_or(Reason::NoPacket)?;
        self.handed_over(host, between, &packet, Sending { end: left, ..sending }, leg)?;
        Ok(left)
    }

    /// When a message came to the receiver's host, its stages from there on; at the end where the receiver is not traced.
    fn came(
        &self,
        host: &Host,
        between: &mut Between,
        awaited: Awaited,
        leg: &mut Leg,
        runnable: &mut impl FnMut(usize, Stretch),
    ) -> Result<u64, Reason> {
        let Awaited { after, end, own } = awaited;
        let shape = self.shape(between);
        if !shape.receiver {
            return Ok(end);
        }
        if !host.seen {
            return Err(Reason::NoEvents);
        }
        let (readable, packet) = if shape.ready {
            let first = host.readiness(between, after, end, None);
            let ready = if own { first } else { host.latest(between, after, end) };
            let ready = ready.ok_or(Reason::NoReady)?;
            (ready.t_ns, host.index.packets.get(ready.packet as usize))
        } else {
            (host.ready(shape, between, after, end, None)?, None)
        };
        let received = match packet {
            Some(packet) if shape.receive => {
                Some(packet.receive_ns).filter(|t| (after..=readable).contains(t)).ok_or(Reason::NotReceived)?
            }
            None if shape.receive => return Err(Reason::NotReceived),
            _ => readable,
        };
        leg.ns[slot(Kind::Softirq)] = short(readable - received)?;
        self.received(host, between, (readable, end), leg, runnable)?;
        Ok(received)
    }

    /// What the messages of a round between two hosts say of their clocks.
    pub(super) fn exchanges(&self, rows: &[MessageRow]) -> Vec<Stamps> {
        let Some(apart) = self.question.apart else { return Vec::new() };
        let mut own = Vec::new();
        let crossing =
            |both: &mut [Between; 2], at, row: &MessageRow| self.crossing(&apart, both, at, row, &mut Unwatched);
        self.each(rows, crossing, |_, outcome| own.extend(outcome.ok().and_then(|one| one.stamps())));
        own
    }

    /// Which boundaries of a direction are seen.
    fn shape(&self, between: &Between) -> &'a Shape {
        &self.question.shapes[between.way]
    }

    /// One direction: from the stamp before the send to the stamp after the receive.
    fn leg(
        &self,
        host: &Host,
        between: &mut Between,
        sending: Sending,
        runnable: &mut impl FnMut(usize, Stretch),
    ) -> Result<Leg, Reason> {
        let Sending { start, end, .. } = sending;
        let shape = self.shape(between);
        if !host.seen {
            return Err(Reason::NoEvents);
        }
        let mut leg = Leg { ns: [0; LEGS], state: State::Running, idle: AWAKE, elsewhere: false };
        let readable = if shape.stack.has_device() {
            self.packet_stages(host, between, sending, &mut leg)?
        } else if shape.stack.has_ready() {
            let ready = host.ready(shape, between, start, end, Some(host.tasks[between.sender]))?;
            leg.ns[slot(Kind::Transmit)] = short(ready - start)?;
            ready
        } else {
            start
        };
        self.received(host, between, (readable, end), &mut leg, runnable)?;
        Ok(leg)
    }

    /// What the receiver did from when the data were readable to its stamp after the receive.
    fn received(
        &self,
        host: &Host,
        between: &mut Between,
        (mut readable, end): (u64, u64),
        leg: &mut Leg,
        runnable: &mut impl FnMut(usize, Stretch),
    ) -> Result<(), Reason> {
        let Shape { signals, joined, .. } = *self.shape(between);
        let line = &host.lines[between.receiver];
        between.near[2] = line.before(readable, between.near[2]).ok_or(Reason::Unknown)?;
        leg.state = line.changes[between.near[2]].state;
        if leg.state != State::Running {
            leg.idle = host.idle_state(line, between.near[2], readable);
        }
        let mut until = end;
        if signals {
            let generated = &host.index.generated[between.receiver];
            let at = from(generated, |mark| mark.t_ns < readable, 0);
            let signal = generated.get(at).map(|mark| mark.t_ns).filter(|t| *t <= end).ok_or(Reason::Coalesced)?;
            leg.ns[slot(Kind::Signal)] = short(signal - readable)?;
            readable = signal;
            let delivered = &host.index.delivered[between.receiver];
            let after = from(delivered, |mark| mark.t_ns <= end, 0);
            let last = after.checked_sub(1).map(|at| delivered[at].t_ns).filter(|t| *t >= signal);
            until = last.unwrap_or(end);
            leg.ns[slot(Kind::Deliver)] = short(end - until)?;
        }
        let mut ran = false;
        let mut last = None;
        for stretch in line.stretches(readable, until, between.near[2]) {
            let kind = match stretch.state {
                State::Running => Kind::Return,
                State::Runnable | State::Waking if joined => Kind::InFlight,
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
        if last == Some(State::Running) { Ok(()) } else { Err(Reason::Unknown) }
    }

    /// Send call, transmit stack, device and softirq; the time at which the data are readable.
    fn packet_stages(
        &self,
        host: &Host,
        between: &mut Between,
        sending: Sending,
        leg: &mut Leg,
    ) -> Result<u64, Reason> {
        let Sending { start, end, .. } = sending;
        let shape = self.shape(between);
        let packet = match host.own_packet(self.question.case, between, start, end, false) {
            Some(packet) => packet,
            // It left in another context: a timer or an acknowledgement pushed it. The socket that became readable
            // names the packet.
            None => {
                let ready = host.readiness(between, start, end, None).ok_or(Reason::NoPacket)?;
                let packet = host.index.packets.get(ready.packet as usize).ok_or(Reason::NoPacket)?;
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
        self.handed_over(host, between, &packet, Sending { end: left, ..sending }, leg)?;
        let begun = received.unwrap_or(left);
        let readable = host.ready(shape, between, begun, end, None)?;
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

    /// Send call and transmit stack, and what held the packet back that left at the end.
    fn handed_over(
        &self,
        host: &Host,
        between: &mut Between,
        packet: &Packet,
        sending: Sending,
        leg: &mut Leg,
    ) -> Result<(), Reason> {
        let Sending { start, end: left, returned } = sending;
        let entered = if self.shape(between).calls { host.entered(between, start, left) } else { None };
        // Until when the send call worked on it.
        let handed = match returned {
            Some(returned) if returned < left => returned.max(start),
            _ if packet.tid != host.tasks[between.sender] => start,
            _ => left,
        };
        let entered = entered.filter(|t| *t <= handed).unwrap_or(start);
        leg.ns[slot(Kind::SendCall)] = short(entered - start)?;
        leg.ns[slot(Kind::Transmit)] = short(handed - entered)?;
        leg.ns[slot(Kind::HeldBack)] = short(left - handed)?;
        Ok(())
    }
}

impl Host {
    /// The first packet of the message that the sender's thread handed to a device. `driven`: only where its driver was seen to
    /// take it; what comes in while a thread runs may seem to be its own.
    fn own_packet(&self, case: &Case, between: &mut Between, start: u64, end: u64, driven: bool) -> Option<Packet> {
        let sent = &self.index.sent[between.sender];
        let packet = |at: &u32| &self.index.packets[*at as usize];
        between.near[0] = from(sent, |at| packet(at).first_ns < start, between.near[0]);
        let own = sent[between.near[0]..].iter().map(packet).take_while(|packet| packet.first_ns <= end);
        let left = |packet: &Packet| !driven || packet.xmit_ns != NEVER;
        own.copied().find(|packet| left(packet) && self.carries(case, between, packet))
    }

    /// Whether a packet is as long as one with the message: acknowledgements are shorter.
    fn carries(&self, case: &Case, between: &Between, packet: &Packet) -> bool {
        let near = between.way == 0;
        let whole = if near { case.size } else { case.reply };
        let least = if near && case.traits.apart { u64::from(case.pieces.size) } else { whole };
        let len = u64::from(packet.len);
        let headers = u64::from(self.headers);
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
    fn ready(
        &self,
        shape: &Shape,
        between: &mut Between,
        after: u64,
        end: u64,
        sender: Option<i32>,
    ) -> Result<u64, Reason> {
        if shape.ready {
            return self.readiness(between, after, end, sender).map(|ready| ready.t_ns).ok_or(Reason::NoReady);
        }
        let wakings = &self.index.wakings[between.receiver];
        between.near[3] = from(wakings, |mark| mark.t_ns < after, between.near[3]);
        Ok(wakings.get(between.near[3]).map(|mark| mark.t_ns).filter(|t| *t <= end).unwrap_or(after))
    }

    /// The first event that says that the receiver's socket has data. A socket without a known cookie is told by the
    /// thread that fills it (`sender`), if there is one, else taken as it comes.
    fn readiness(&self, between: &mut Between, after: u64, end: u64, sender: Option<i32>) -> Option<Ready> {
        let list = self.of_socket(between);
        between.near[1] = from(list, |ready| ready.t_ns < after, between.near[1]);
        let later = list[between.near[1]..].iter().take_while(|ready| ready.t_ns <= end);
        match (between.cookie, sender) {
            (None, Some(sender)) => later.copied().find(|ready| ready.tid == sender),
            _ => later.copied().next(),
        }
    }

    /// The last event that says so.
    fn latest(&self, between: &Between, after: u64, end: u64) -> Option<Ready> {
        let list = self.of_socket(between);
        let until = from(list, |ready| ready.t_ns <= end, between.near[1]);
        list[..until].last().copied().filter(|ready| ready.t_ns >= after)
    }

    /// What says that the receiver's socket has data; without a known cookie, that any unknown one has.
    fn of_socket(&self, between: &Between) -> &[Ready] {
        between.cookie.map_or(&self.index.others, |at| &self.index.ready[at])
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
