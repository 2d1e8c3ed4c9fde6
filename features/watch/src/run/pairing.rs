//! Requests and replies of connections on which several are in flight: from the log of a connection to rows that add up.
//!
//! Messages are told apart by their protocol (`framing`); the n-th reply answers the n-th request. Which moments belong to a message
//! follows from its place in the stream: it is sent by the call that sends its first byte, and received by the one that receives it.
//! What cannot be followed is counted and given up, and so is everything that grows too large.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use msgpath_core::watch::{Culprit, RequestRow, Stage, Stages};
use msgpath_sys::watch::{Event, KINDS, PARTS, Role, Verdict, What};

use super::framing::{Frame, Framer, Framing, Lost, Protocol};
use crate::record::flag;

/// Connections that are followed at once.
const MOST_STREAMS: usize = 4096;
/// Events of a connection that wait for an earlier one, or for the end of a send call.
const MOST_WAITING: usize = 1 << 14;
/// Requests in flight on a connection whose replies come in any order, and send calls since the first of them began: what has not
/// ended then is given up, so that a stream without an end does not keep all that comes beside it.
const MOST_OPEN: usize = 1 << 12;
const MOST_CALLS: usize = 1 << 13;
/// Messages, calls and events of a connection that are kept.
const MOST_KEPT: usize = 1 << 16;
/// Turns that say whether there is more than one message in each.
const LOOKED_AT: u32 = 6;
/// The first kind of total in which a thread is blocked, and those before it.
const ON_CPU: usize = 0;
const RUNNABLE: usize = 4;
const WAKING: usize = 5;
const BLOCKED: usize = 6;
const STOPPED: usize = 13;

/// What was found in the events of a moment.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Requests whose turns the kernel does not count, or that it does not see within a turn.
    pub(super) rows: Vec<RequestRow>,
    /// What is to be told the kernel of connections.
    pub(super) verdicts: Vec<(u64, Verdict)>,
    /// Turns in which messages were not paired, by server.
    pub(super) in_flight: BTreeMap<u32, u64>,
    /// Messages that were not seen from beginning to end, by server.
    pub(super) incomplete: BTreeMap<u32, u64>,
    /// Those whose times do not fit together.
    pub(super) torn: BTreeMap<u32, u64>,
    /// A new connection was among them.
    pub(super) new: bool,
}

/// All connections that are followed.
pub(super) struct Pairing {
    framing: Framing,
    streams: HashMap<u64, Stream>,
    /// Those that cannot be followed, with the turn that was counted last. The kernel hears of it at the next turn at the earliest.
    left: HashMap<u64, Option<u32>>,
}

impl Pairing {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, streams: HashMap::new(), left: HashMap::new() }
    }

    /// Takes what happened.
    pub(super) fn take(&mut self, events: impl IntoIterator<Item = Event>) -> Found {
        let mut found = Found::default();
        for event in events {
            let connection = event.connection;
            if event.fresh && event.what == What::Begin {
                found.new = true;
                self.left.remove(&connection);
                if self.streams.len() >= MOST_STREAMS {
                    // Of these the kernel has counted the turns for some time.
                    self.streams.retain(|_, stream| stream.told != Some(Verdict::One));
                }
                if self.streams.len() >= MOST_STREAMS {
                    found.verdicts.push((connection, Verdict::Unknown));
                    continue;
                }
                // What was in flight when a window of time closed has no end.
                if let Some(before) = self.streams.insert(connection, Stream::new(self.framing, &event)) {
                    before.leave(End::Gone, &mut found);
                }
            }
            let Some(stream) = self.streams.get_mut(&connection) else {
                self.not_followed(&event, &mut found);
                continue;
            };
            if let Some(end) = stream.take(Rc::new(event), &mut found) {
                stream.leave(end, &mut found);
                if end == End::Lost && self.left.len() < MOST_STREAMS {
                    self.left.insert(connection, stream.counted());
                }
                self.streams.remove(&connection);
            }
        }
        found
    }

    /// What is left at the end: connections of which events are missing, because there was no room for them, say how many turns were
    /// not paired.
    pub(super) fn end(&mut self) -> Found {
        let mut found = Found::default();
        for stream in self.streams.values_mut().filter(|stream| !stream.early.is_empty()) {
            stream.turns = stream.early.values().map(|event| event.turns).fold(stream.turns, u32::max);
            stream.leave(End::Lost, &mut found);
        }
        self.streams.clear();
        found
    }

    /// Counts the turns that the kernel still leaves to us on a connection that is not followed any more, or that never was because
    /// its first event is missing.
    fn not_followed(&mut self, event: &Event, found: &mut Found) {
        if event.what == What::Gone {
            self.left.remove(&event.connection);
            return;
        }
        if event.paired && self.left.len() < MOST_STREAMS && !self.left.contains_key(&event.connection) {
            self.left.insert(event.connection, None);
            found.verdicts.push((event.connection, Verdict::Unknown));
        }
        if let (true, Some(service), Some(last)) = (event.paired, event.service, self.left.get_mut(&event.connection))
            && last.is_none_or(|last| event.turns.wrapping_sub(last).wrapping_sub(1) < u32::MAX / 2)
        {
            *last = Some(event.turns);
            *found.in_flight.entry(service).or_default() += 1;
        }
    }
}

/// Why a connection is not followed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It has ended.
    Gone,
    /// It cannot be followed.
    Lost,
}

impl From<Lost> for End {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

/// A send call: up to where in the stream, when, and when its bytes were ready at the other end.
struct Send {
    to: u64,
    begin: Rc<Event>,
    ready: Option<Rc<Event>>,
    /// The end of the send call before it, in the same direction.
    before: Option<Rc<Event>>,
}

/// One direction of a connection.
struct Way {
    framer: Framer,
    sends: VecDeque<Send>,
    /// The end of the last send call.
    sent: Option<Rc<Event>>,
    sent_bytes: u64,
    /// Up to where each receive call has read.
    reads: VecDeque<(u64, Rc<Event>)>,
    read_bytes: u64,
    messages: VecDeque<(Frame, u32)>,
}

/// When a message was sent, ready and read.
struct Moments {
    begin: Rc<Event>,
    ready: Option<Rc<Event>>,
    before: Option<Rc<Event>>,
    read: Rc<Event>,
    last_read: Rc<Event>,
}

impl Way {
    fn new(framer: Framer) -> Self {
        Self {
            framer,
            sends: VecDeque::new(),
            sent: None,
            sent_bytes: 0,
            reads: VecDeque::new(),
            read_bytes: 0,
            messages: VecDeque::new(),
        }
    }

    /// The moments of a message, once all of them have come.
    fn moments(&self, frame: &Frame) -> Option<Moments> {
        let send = self.sends.get(self.sends.partition_point(|send| send.to <= frame.from))?;
        let read = self.reads.get(self.reads.partition_point(|(to, _)| *to <= frame.from))?;
        let last_read = self.reads.get(self.reads.partition_point(|(to, _)| *to < frame.to))?;
        Some(Moments {
            begin: send.begin.clone(),
            ready: send.ready.clone(),
            before: send.before.clone(),
            read: read.1.clone(),
            last_read: last_read.1.clone(),
        })
    }

    /// Forgets what no message needs that is still to come.
    fn forget(&mut self) {
        let needed = self.messages.iter().map(|(frame, _)| frame.from).fold(self.framer.begin(), u64::min);
        while self.sends.front().is_some_and(|send| send.to <= needed) {
            self.sends.pop_front();
        }
        while self.reads.front().is_some_and(|(to, _)| *to <= needed) {
            self.reads.pop_front();
        }
    }

    fn is_too_large(&self) -> bool {
        [self.sends.len(), self.reads.len(), self.messages.len()].iter().any(|count| *count > MOST_KEPT)
    }
}

/// An event in its order, and of a send call whether its end is known.
struct Waiting {
    event: Rc<Event>,
    open: bool,
}

/// One connection.
struct Stream {
    connection: u64,
    framing: Framing,
    born: bool,
    /// The protocol, once the first request was seen.
    ways: Option<[Way; 2]>,
    next_seq: u32,
    /// Events that came before an earlier one.
    early: BTreeMap<u32, Rc<Event>>,
    queue: VecDeque<Waiting>,
    service: Option<u32>,
    /// The turn from which on the kernel does not count.
    own_from: Option<u32>,
    /// Rows of turns of which it is not known yet who counts them, with their turns.
    held: Vec<(u32, RequestRow)>,
    /// The turn that has begun, and the first one.
    turns: u32,
    first_turn: u32,
    /// Several requests were in flight.
    several: bool,
    http2: bool,
    told: Option<Verdict>,
    paired: u32,
    /// The turn of the last message that was paired, and how many turns with such messages are ours.
    paired_turn: Option<u32>,
    paired_turns: u32,
}

impl Stream {
    fn new(framing: Framing, first: &Event) -> Self {
        Self {
            connection: first.connection,
            framing,
            born: first.born,
            ways: None,
            next_seq: first.seq,
            early: BTreeMap::new(),
            queue: VecDeque::new(),
            service: None,
            own_from: None,
            held: Vec::new(),
            turns: first.turns,
            first_turn: first.turns,
            several: false,
            http2: false,
            told: None,
            paired: 0,
            paired_turn: None,
            paired_turns: 0,
        }
    }

    /// Takes an event, and those that waited for it.
    fn take(&mut self, event: Rc<Event>, found: &mut Found) -> Option<End> {
        if event.seq.wrapping_sub(self.next_seq) > u32::MAX / 2 {
            return None;
        }
        // Most come in their order.
        let mut next = None;
        if event.seq == self.next_seq {
            next = Some(event);
        } else {
            self.early.insert(event.seq, event);
        }
        while let Some(event) = next.take().or_else(|| self.early.remove(&self.next_seq)) {
            self.next_seq = self.next_seq.wrapping_add(1);
            if let Err(end) = self.in_order(event).and_then(|()| self.go_on(found)) {
                return Some(end);
            }
        }
        // What was lost does not come any more.
        (self.early.len() > MOST_WAITING).then_some(End::Lost)
    }

    fn in_order(&mut self, event: Rc<Event>) -> Result<(), End> {
        if event.what == What::Sent {
            let begun = |waiting: &&mut Waiting| {
                waiting.open && waiting.event.role == event.role && waiting.event.pid == event.pid
            };
            match self.queue.iter_mut().find(begun) {
                Some(waiting) => {
                    waiting.open = false;
                    Rc::make_mut(&mut waiting.event).bytes = event.bytes;
                }
                // A call that no hook saw begin.
                None if event.bytes > 0 => {
                    let begin = Event { what: What::Begin, payload: Vec::new(), ..Event::clone(&event) };
                    self.queue.push_back(Waiting { event: Rc::new(begin), open: false });
                }
                None => {}
            }
        }
        let open = event.what == What::Begin && !event.whole;
        self.queue.push_back(Waiting { event, open });
        if self.queue.len() > MOST_WAITING { Err(End::Lost) } else { Ok(()) }
    }

    fn go_on(&mut self, found: &mut Found) -> Result<(), End> {
        while self.queue.front().is_some_and(|waiting| !waiting.open) {
            let Waiting { event, .. } = self.queue.pop_front().expect("there is one");
            self.happened(event, found)?;
            self.pair(found)?;
        }
        Ok(())
    }

    fn happened(&mut self, event: Rc<Event>, found: &mut Found) -> Result<(), End> {
        self.service = event.service.or(self.service);
        self.turns = event.turns;
        if event.paired {
            self.own_from = Some(self.own_from.map_or(event.turns, |turn| turn.min(event.turns)));
        }
        if event.what == What::Gone {
            return Err(End::Gone);
        }
        if event.what == What::Begin && event.bytes > 0 && self.ways.is_none() {
            let protocol = match self.framing {
                Framing::Auto if event.role == Role::Client => Protocol::recognise(&event.payload, self.born),
                framing => Protocol::of(framing),
            };
            let protocol = protocol.ok_or(End::Lost)?;
            self.http2 = protocol == Protocol::Http2;
            self.several |= self.http2;
            self.ways = Some([Way::new(Framer::requests(protocol, self.born)), Way::new(Framer::replies(protocol))]);
        }
        let Some(ways) = &mut self.ways else { return Ok(()) };
        let (sender, reader) = match event.role {
            Role::Client => (0, 1),
            Role::Server => (1, 0),
        };
        match event.what {
            What::Begin => self.sent(sender, event, found)?,
            What::Sent => ways[sender].sent = Some(event),
            What::Ready => {
                let not_ready = ways[reader].sends.iter_mut().rev().take_while(|send| send.ready.is_none());
                not_ready.for_each(|send| send.ready = Some(event.clone()));
            }
            What::Read => {
                let way = &mut ways[reader];
                way.read_bytes += u64::from(event.bytes);
                way.reads.push_back((way.read_bytes, event));
            }
            What::Gone => {}
        }
        if self.ways.iter().flatten().any(Way::is_too_large) { Err(End::Lost) } else { Ok(()) }
    }

    /// A send call with what was copied of it.
    fn sent(&mut self, sender: usize, mut event: Rc<Event>, found: &mut Found) -> Result<(), End> {
        let Some([requests, replies]) = &mut self.ways else { return Ok(()) };
        let bytes = u64::from(event.bytes);
        if bytes == 0 {
            return Ok(());
        }
        let inner = Rc::make_mut(&mut event);
        let (payload, left_out) = (std::mem::take(&mut inner.payload), std::mem::take(&mut inner.left_out));
        let turn = event.turns;
        let way = if sender == 0 { &mut *requests } else { &mut *replies };
        way.sent_bytes += bytes;
        way.sends.push_back(Send { to: way.sent_bytes, begin: event, ready: None, before: way.sent.clone() });
        let mut frames = Vec::new();
        let (mut left, mut at) = (bytes, 0);
        for (to, gap) in left_out.into_iter().chain([(payload.len(), u64::MAX)]) {
            let known = (to - at).min(usize::try_from(left).unwrap_or(usize::MAX));
            way.framer.known(&payload[at..at + known], &mut frames)?;
            left -= known as u64;
            let gap = gap.min(left);
            if gap > 0 {
                way.framer.unknown(gap, &mut frames)?;
            }
            (left, at) = (left - gap, to);
        }
        for frame in frames {
            let Some([requests, replies]) = &mut self.ways else { break };
            if frame.reset {
                self.give_up(frame.stream, found);
            } else if sender == 0 {
                replies.framer.expect(frame.expect)?;
                requests.messages.push_back((frame, turn));
                self.several |= requests.messages.len() > 1;
            } else {
                replies.messages.push_back((frame, turn));
            }
        }
        self.bound(found)
    }

    /// Gives up the oldest streams where too much is kept because of them.
    fn bound(&mut self, found: &mut Found) -> Result<(), End> {
        if !self.http2 {
            return Ok(());
        }
        while let Some([requests, replies]) = &mut self.ways {
            let of = |way: &Way| way.messages.iter().map(|(frame, _)| frame.stream).chain(way.framer.oldest()).min();
            let Some(stream) = of(requests).into_iter().chain(of(replies)).min().filter(|stream| *stream > 0) else {
                break;
            };
            if requests.messages.len() > MOST_OPEN || replies.messages.len() > MOST_OPEN {
                return Err(End::Lost);
            }
            if [&*requests, &*replies].iter().all(|way| way.sends.len().max(way.reads.len()) <= MOST_CALLS) {
                break;
            }
            self.give_up(stream, found);
            self.ways.iter_mut().flatten().for_each(Way::forget);
        }
        Ok(())
    }

    /// There will be no reply to what was asked on this stream.
    fn give_up(&mut self, stream: u32, found: &mut Found) {
        let Some(ways) = &mut self.ways else { return };
        let asked = ways[0].framer.is_open(stream) || ways[0].messages.iter().any(|(frame, _)| frame.stream == stream);
        for way in ways {
            way.framer.forget(stream);
            way.messages.retain(|(frame, _)| frame.stream != stream);
        }
        if let (true, Some(service), Some(_)) = (asked, self.service, self.own_from) {
            *found.incomplete.entry(service).or_default() += 1;
        }
    }

    /// Pairs what is whole on both ways.
    fn pair(&mut self, found: &mut Found) -> Result<(), End> {
        self.settle(found);
        let Some([requests, replies]) = &mut self.ways else { return Ok(()) };
        let mut at = 0;
        while let Some((reply, _)) = replies.messages.get(at) {
            let Some(asked) = requests.messages.iter().position(|(request, _)| request.stream == reply.stream) else {
                match requests.framer.is_open(reply.stream) {
                    // It is answered before it has ended.
                    true => at += 1,
                    false if reply.stream > 0 => _ = replies.messages.remove(at),
                    false => break,
                }
                continue;
            };
            let (request, turn) = &requests.messages[asked];
            let (Some(there), Some(back)) = (requests.moments(request), replies.moments(reply)) else { break };
            self.paired += 1;
            let service = self.service.unwrap_or(0);
            // The kernel counts a turn as one request: the first one. Those behind it are ours, whoever counts turns.
            let first = self.paired_turn.replace(*turn) != Some(*turn);
            let counts = self.own_from.is_some_and(|from| *turn >= from);
            self.paired_turns += u32::from(first && counts);
            let own = !first || counts;
            match row(&there, &back, (request, reply), (service, self.paired)) {
                Some(row) if own => found.rows.push(row),
                Some(row) => self.held.push((*turn, row)),
                None if own => *found.torn.entry(service).or_default() += 1,
                None => {}
            }
            for (way, place) in [(&mut *requests, asked), (&mut *replies, at)] {
                way.messages.remove(place);
                way.forget();
            }
        }
        self.judge(found);
        if self.held.len() > MOST_KEPT { Err(End::Lost) } else { Ok(()) }
    }

    /// Takes the rows of turns that are left to us, and forgets those of turns that the kernel has counted.
    fn settle(&mut self, found: &mut Found) {
        let (own, now) = (self.own_from, self.turns);
        for (turn, row) in std::mem::take(&mut self.held) {
            match own {
                Some(from) if turn >= from => found.rows.push(row),
                _ if turn >= now => self.held.push((turn, row)),
                _ => {}
            }
        }
    }

    /// Says who is to count, once that is known.
    fn judge(&mut self, found: &mut Found) {
        let enough = self.turns.wrapping_sub(self.first_turn) >= LOOKED_AT;
        let verdict = match self.several {
            true => Verdict::Several,
            false if enough && self.own_from.is_some() => Verdict::One,
            false => return,
        };
        if self.told != Some(verdict) {
            self.told = Some(verdict);
            found.verdicts.push((self.connection, verdict));
        }
    }

    /// The last turn that [`leave`](Self::leave) counts.
    fn counted(&self) -> Option<u32> {
        self.service.and(self.own_from).map(|_| self.turns)
    }

    /// Counts what has not become a row.
    fn leave(&self, end: End, found: &mut Found) {
        if end == End::Lost {
            let verdict = if self.http2 { Verdict::Untold } else { Verdict::Unknown };
            found.verdicts.push((self.connection, verdict));
        }
        let (Some(service), Some(from)) = (self.service, self.own_from) else { return };
        let asked = self.ways.iter().flatten().next().map_or(0, |requests| requests.messages.len() as u64);
        match end {
            End::Gone => *found.incomplete.entry(service).or_default() += asked,
            End::Lost => {
                let turns = u64::from(self.turns.wrapping_sub(from)) + 1;
                *found.in_flight.entry(service).or_default() +=
                    turns.saturating_sub(u64::from(self.paired_turns)).max(asked);
            }
        }
    }
}

/// What a thread did between two moments, by kind. `None`: a total went back.
fn between(from: &Event, to: &Event) -> Option<[u64; KINDS]> {
    let mut ns = [0; KINDS];
    for (ns, (from, to)) in ns.iter_mut().zip(from.totals.iter().zip(&to.totals)) {
        *ns = to.checked_sub(*from)?;
    }
    Some(ns)
}

/// The parts of a message's way: behind what else the thread did, what the thread did until it had the message.
struct Arrival {
    ready_ns: u64,
    queued: u64,
    parts: [u64; PARTS],
    thread: u64,
    run: Culprit,
}

fn arrival(moments: &Moments) -> Option<Arrival> {
    let Moments { begin, ready, read, .. } = moments;
    // A reader that spins may have it before the kernel says that it is there.
    let at = ready.as_ref().map_or(read.t, |ready| ready.t).clamp(begin.t, read.t.max(begin.t));
    let mut arrival = Arrival { ready_ns: at, queued: 0, parts: [0; PARTS], thread: 0, run: Culprit::default() };
    if read.run_ended >= at {
        arrival.run = read.run;
    }
    let known = ready.as_ref().filter(|ready| ready.pid != 0 && ready.pid == read.pid && ready.t == at);
    if read.last > at {
        arrival.queued = read.last - at;
        arrival.parts = read.since;
        // More has happened than the kernel's programs remember.
        arrival.thread = read.t.checked_sub(read.last)?.checked_sub(read.since.iter().sum())?;
    } else if let Some(ready) = known {
        let ns = between(ready, read)?;
        let (blocked, ran) = (ns[BLOCKED..STOPPED].iter().sum(), ns[ON_CPU..RUNNABLE].iter().sum());
        arrival.parts = [blocked, ns[WAKING], ns[RUNNABLE], ran, ns[STOPPED]];
    } else {
        arrival.thread = read.t.checked_sub(at)?;
    }
    Some(arrival)
}

/// One request and its reply, of this server and with this number on its connection. `None`: their times do not fit together.
fn row(
    there: &Moments,
    back: &Moments,
    (request, reply): (&Frame, &Frame),
    (service, turn): (u32, u32),
) -> Option<RequestRow> {
    let (read, answer) = (&there.read, &back.begin);
    let (to, home) = (arrival(there)?, arrival(back)?);
    let mut stages = Stages::default();
    let mut set = |stage: Stage, ns: u64| stages[stage as usize] += ns;
    set(Stage::Send, to.ready_ns - there.begin.t);
    set(Stage::Queued, to.queued);
    let ways = [Stage::WakeUp, Stage::InFlight, Stage::RunQueue, Stage::Receive, Stage::Stopped];
    ways.into_iter().zip(to.parts).for_each(|(stage, ns)| set(stage, ns));
    set(Stage::OtherThread, to.thread);
    // Requests that were read together are worked on one after the other: this one from when the reply before it was sent.
    let in_order =
        |sent: &&Rc<Event>| sent.t > read.t && sent.t <= answer.t && sent.pid == read.pid && request.stream == 0;
    let begun = back.before.as_ref().filter(in_order);
    let begun = begun.unwrap_or(read);
    set(Stage::Queued, begun.t - read.t);
    let mut flags = flag::SAMPLED | flag::FRAMED;
    if begun.pid == answer.pid {
        let work = between(begun, answer)?;
        work.into_iter().enumerate().for_each(|(kind, ns)| set(Stage::ALL[Stage::WorkOnCpu as usize + kind], ns));
    } else {
        flags |= flag::HANDED;
        set(Stage::WorkElsewhere, answer.t.checked_sub(begun.t)?);
    }
    set(Stage::Reply, home.ready_ns - answer.t);
    set(Stage::ClientQueued, home.queued);
    let ways =
        [Stage::ClientWakeUp, Stage::ClientInFlight, Stage::ClientRunQueue, Stage::ClientReceive, Stage::ClientStopped];
    ways.into_iter().zip(home.parts).for_each(|(stage, ns)| set(stage, ns));
    set(Stage::ClientOtherThread, home.thread);
    let rest = back.last_read.t.checked_sub(back.read.t)?;
    set(Stage::Rest, rest);
    if rest > 0 {
        flags |= flag::PARTS;
    }
    let own = begun.pid == answer.pid;
    let row = RequestRow {
        t0_ns: there.begin.t,
        total_ns: back.last_read.t.checked_sub(there.begin.t)?,
        connection: there.begin.connection,
        service,
        turn,
        flags,
        weight: 1,
        bytes_there: u32::try_from(request.to - request.from).unwrap_or(u32::MAX),
        bytes_back: u32::try_from(reply.to - reply.from).unwrap_or(u32::MAX),
        server: read.pid,
        server_process: read.process,
        client: back.read.pid,
        client_process: back.read.process,
        faults: if own { answer.faults.saturating_sub(begun.faults) } else { 0 },
        port: there.begin.port,
        stages,
        run_there: to.run,
        block: if own { answer.block } else { Culprit::default() },
        run_work: if own { answer.run } else { Culprit::default() },
        run_back: home.run,
        stop: Culprit::default(),
        server_name: read.name,
        client_name: back.read.name,
        what: request.name,
    };
    row.adds_up().then_some(row)
}

#[cfg(test)]
mod tests;
