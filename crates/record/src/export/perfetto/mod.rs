//! `perfetto`: the messages as a trace that <https://ui.perfetto.dev> opens, which runs in the browser alone.
//!
//! A stream of `TracePacket`s (protos/perfetto/trace in github.com/google/perfetto; the field numbers below are those of
//! its `.proto` files). The near end is one process with a track for each slot in flight, because slices on one track
//! must not overlap; the far end is another with its arrivals and, in traced rounds, its work. Flows lead from a request
//! to the far end and from there to the reply. The kernel of traced rounds is a third. Times are ns since the start of
//! the run.

mod kernel;
mod lanes;
#[cfg(test)]
mod test_trace;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use msgpath_core::Case;
use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{self, MessageRow};
use msgpath_core::units::size;

use super::{Exporter, case, failed, messages, role_word};
use crate::{RecordError, Run};
pub use lanes::Lanes;
pub use wire::Message;

/// `Trace.packet`.
pub const PACKET: u64 = 1;
/// Fields of `TracePacket`.
pub mod packet {
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE: u64 = 10;
    pub const TRACK_EVENT: u64 = 11;
    pub const INTERNED_DATA: u64 = 12;
    pub const SEQUENCE_FLAGS: u64 = 13;
    pub const TRACK_DESCRIPTOR: u64 = 60;
}
/// Values of `TracePacket.sequence_flags`.
pub const STATE_CLEARED: u64 = 1;
/// As above: names that were told before are meant.
pub const NEEDS_STATE: u64 = 2;
/// Fields of `TrackEvent`.
pub mod event {
    pub const DEBUG_ANNOTATIONS: u64 = 4;
    pub const TYPE: u64 = 9;
    pub const NAME_IID: u64 = 10;
    pub const TRACK_UUID: u64 = 11;
    pub const COUNTER_VALUE: u64 = 30;
    pub const FLOW_IDS: u64 = 47;
    pub const TERMINATING_FLOW_IDS: u64 = 48;
}
/// Values of `TrackEvent.type`.
pub const BEGIN: u64 = 1;
pub const END: u64 = 2;
pub const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
/// Fields of `TrackDescriptor`.
pub mod track {
    pub const UUID: u64 = 1;
    pub const NAME: u64 = 2;
    pub const PROCESS: u64 = 3;
    pub const PARENT_UUID: u64 = 5;
    pub const COUNTER: u64 = 8;
}
/// `ProcessDescriptor.pid` and `.process_name`.
pub const PID: u64 = 1;
pub const PROCESS_NAME: u64 = 6;
/// `CounterDescriptor.unit` and its value for ns.
const UNIT: u64 = 3;
const UNIT_TIME_NS: u64 = 1;
/// Fields of `InternedData`, of its entries, and of `DebugAnnotation`.
pub mod interned {
    pub const EVENT_NAMES: u64 = 2;
    pub const ANNOTATION_NAMES: u64 = 3;
    pub const IID: u64 = 1;
    pub const NAME: u64 = 2;
    pub const ANNOTATION_NAME_IID: u64 = 1;
    pub const ANNOTATION_UINT: u64 = 3;
}

/// Packets of messages and of counters: each sequence is in the order of time.
pub const MESSAGES: u64 = 1;
const COUNTERS: u64 = 2;
/// Tracks of the two ends.
const NEAR: u64 = 1;
const FAR: u64 = 2;
/// Track of the kernel's process: the last number that is not given out.
const KERNEL: u64 = 3;

/// Names of what a message consists of.
const STAGES: [&str; 8] = [
    "waiting to be sent",
    "request",
    "far end and reply",
    "send to reply",
    "lost",
    "arrives at the far end",
    "handler",
    "reply",
];
const WAITING: usize = 0;
/// The name of the way there.
pub const REQUEST: usize = 1;
const FAR_AND_REPLY: usize = 2;
const SEND_TO_REPLY: usize = 3;
/// The name of what was lost.
pub const LOST: usize = 4;
const ARRIVES: usize = 5;
const HANDLER: usize = 6;
/// The name of the way back.
pub const REPLY: usize = 7;
/// The first name of a feature's own.
pub const OWN: usize = STAGES.len();

/// Names of what is noted of a message.
const NOTES: [&str; 2] = ["pass", "sequence"];

pub(super) struct Perfetto;

impl Exporter for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn extension(&self) -> &'static str {
        "pftrace"
    }

    fn summary(&self) -> &'static str {
        "the logged messages as a trace for ui.perfetto.dev, with the kernel events of traced rounds"
    }

    fn binary(&self) -> bool {
        true
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let rows = messages(run)?;
        let mut trace = Trace::new(run, BufWriter::new(out));
        trace.head(&[], &NOTES)?;
        trace.counters()?;
        let mut round: Vec<MessageRow> = Vec::new();
        for row in rows {
            if round.first().is_some_and(|first| (first.case, first.pass) != (row.case, row.pass)) {
                trace.round(&mut round)?;
            }
            round.push(row);
        }
        trace.round(&mut round)?;
        for events in crate::events(&run.folder)?.map_while(Result::ok) {
            trace.kernel(&events)?;
        }
        trace.finish()
    }
}

/// What a track shows; each is described when it is first used.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Track {
    /// A slot in flight of a connection.
    Slot(u32, u32),
    /// The lost messages of a connection.
    Lost(u32),
    /// Arrivals over a connection at the far end.
    Arrivals(u32),
    /// A case over a connection, in a slot in flight, at the near end.
    Near(u32, u32, u32),
    /// The same at the far end.
    Far(u32, u32, u32),
    /// What runs on a CPU.
    Cpu(u16),
    /// What else happens there.
    CpuEvents(u16),
    /// System calls of a thread.
    SystemCalls(i32),
}

/// A trace that is being written.
pub struct Trace<'a, W: Write> {
    run: &'a Run,
    out: W,
    lanes: HashMap<u32, Lanes>,
    tracks: HashMap<Track, u64>,
    /// The last number that a track or a flow was given.
    given: u64,
    /// How many names messages refer to.
    told: usize,
    /// Names of kernel events.
    names: kernel::Names,
    /// Until when the far end works on a connection: its slices must not overlap either.
    working: HashMap<u32, u64>,
    /// Events of the round at hand: ns and packet, in an order in which a slice ends before the next begins.
    pub events: Vec<(u64, Message)>,
}

impl<'a, W: Write> Trace<'a, W> {
    pub fn new(run: &'a Run, out: W) -> Self {
        Self {
            run,
            out,
            lanes: HashMap::new(),
            tracks: HashMap::new(),
            given: KERNEL,
            told: 0,
            names: kernel::Names::default(),
            working: HashMap::new(),
            events: Vec::new(),
        }
    }

    fn put(&mut self, packet: Message) -> Result<(), RecordError> {
        self.out.write_all(&Message::default().message(PACKET, &packet).finish()).map_err(failed)
    }

    /// A new number, of a track or a flow.
    pub fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// Names that events refer to by number, those of a feature's parts and of its notes among them, and the two processes.
    ///
    /// # Errors
    /// It cannot be written, as everywhere here.
    pub fn head(&mut self, own: &[&str], notes: &[&str]) -> Result<(), RecordError> {
        let entry =
            |iid: usize, name: &str| Message::default().uint(interned::IID, iid as u64).text(interned::NAME, name);
        let stages = STAGES.iter().chain(own).map(|name| (*name).to_owned());
        let names = self.run.header.plan.cases.iter().map(label).chain(stages);
        let mut data = Message::default();
        for (at, name) in names.enumerate() {
            data = data.message(interned::EVENT_NAMES, &entry(at + 1, &name));
            self.told = at + 1;
        }
        for (at, name) in notes.iter().enumerate() {
            data = data.message(interned::ANNOTATION_NAMES, &entry(at + 1, name));
        }
        let first = Message::default()
            .uint(packet::SEQUENCE, MESSAGES)
            .uint(packet::SEQUENCE_FLAGS, STATE_CLEARED)
            .message(packet::INTERNED_DATA, &data);
        self.put(first)?;
        let header = &self.run.header;
        let kernel = header.tracing.is_some().then_some((KERNEL, "kernel", &header.host(schema::NEAR).host));
        let near = (NEAR, "near end", &header.host(schema::NEAR).host);
        let far = (FAR, "far end", &header.host(schema::FAR).host);
        for (pid, end, host) in [near, far].into_iter().chain(kernel) {
            let process =
                Message::default().uint(PID, pid).text(PROCESS_NAME, &format!("{end} {host}, {}", header.name));
            let track = Message::default().uint(track::UUID, pid).message(track::PROCESS, &process);
            self.put(Message::default().uint(packet::SEQUENCE, MESSAGES).message(packet::TRACK_DESCRIPTOR, &track))?;
        }
        Ok(())
    }

    /// The median of every round, one counter for each case.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub fn counters(&mut self) -> Result<(), RecordError> {
        let mut rounds: Vec<_> = self.run.rounds.iter().collect();
        rounds.sort_by_key(|round| round.start_ns);
        let mut uuids: HashMap<u32, u64> = HashMap::new();
        for round in rounds {
            let Some(p50) = round.latency.quantile(0.5).flatten() else { continue };
            let uuid = match uuids.get(&round.case) {
                Some(uuid) => *uuid,
                None => {
                    let uuid = self.number();
                    let name = format!("p50 of the round, {}", label(case(self.run, round.case)));
                    let unit = Message::default().uint(UNIT, UNIT_TIME_NS);
                    let track = Message::default()
                        .uint(track::UUID, uuid)
                        .text(track::NAME, &name)
                        .uint(track::PARENT_UUID, NEAR)
                        .message(track::COUNTER, &unit);
                    let packet = Message::default().uint(packet::SEQUENCE, COUNTERS);
                    self.put(packet.message(packet::TRACK_DESCRIPTOR, &track))?;
                    uuids.insert(round.case, uuid);
                    uuid
                }
            };
            let event = Message::default()
                .uint(event::TYPE, COUNTER)
                .uint(event::TRACK_UUID, uuid)
                .uint(event::COUNTER_VALUE, p50);
            let packet = Message::default().uint(packet::TIMESTAMP, round.start_ns).uint(packet::SEQUENCE, COUNTERS);
            self.put(packet.message(packet::TRACK_EVENT, &event))?;
        }
        Ok(())
    }

    /// The number of the name of a case.
    pub fn case_name(&self, case: u32) -> u64 {
        u64::from(case) + 1
    }

    /// The number of the name of a part of a message.
    pub fn stage_name(&self, stage: usize) -> u64 {
        (self.run.header.plan.cases.len() + 1 + stage) as u64
    }

    /// The number of a track, which is described where it is new.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub fn track(&mut self, track: Track) -> Result<u64, RecordError> {
        if let Some(uuid) = self.tracks.get(&track) {
            return Ok(*uuid);
        }
        let uuid = self.number();
        self.tracks.insert(track, uuid);
        let (parent, name) = match track {
            Track::Slot(connection, slot) => (NEAR, format!("connection {connection}, slot {slot}")),
            Track::Lost(connection) => (NEAR, format!("connection {connection}, lost")),
            Track::Arrivals(connection) => (FAR, format!("connection {connection}, arrivals")),
            Track::Near(of, connection, slot) => {
                (NEAR, format!("{}, connection {connection}, slot {slot}", label(case(self.run, of))))
            }
            Track::Far(of, connection, slot) => {
                (FAR, format!("{}, connection {connection}, slot {slot}", label(case(self.run, of))))
            }
            Track::Cpu(cpu) => (KERNEL, format!("CPU {cpu}")),
            Track::CpuEvents(cpu) => (KERNEL, format!("CPU {cpu}, events")),
            Track::SystemCalls(tid) => (KERNEL, format!("thread {tid}, system calls")),
        };
        let track =
            Message::default().uint(track::UUID, uuid).text(track::NAME, &name).uint(track::PARENT_UUID, parent);
        self.put(Message::default().uint(packet::SEQUENCE, MESSAGES).message(packet::TRACK_DESCRIPTOR, &track))?;
        Ok(uuid)
    }

    /// Writes and clears the messages of one round.
    fn round(&mut self, rows: &mut Vec<MessageRow>) -> Result<(), RecordError> {
        rows.sort_by_key(|row| row.start_ns);
        for row in rows.drain(..) {
            self.message(&row)?;
        }
        self.write_events()
    }

    /// Writes the events at hand in the order of time.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub fn write_events(&mut self) -> Result<(), RecordError> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|(ns, _)| *ns); // a stable sort: what follows at the same time stays behind
        for (ns, event) in events {
            let packet = Message::default()
                .uint(packet::TIMESTAMP, ns)
                .uint(packet::SEQUENCE, MESSAGES)
                .uint(packet::SEQUENCE_FLAGS, NEEDS_STATE)
                .message(packet::TRACK_EVENT, &event);
            self.put(packet)?;
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub fn finish(mut self) -> Result<(), RecordError> {
        self.out.flush().map_err(failed)
    }

    fn message(&mut self, row: &MessageRow) -> Result<(), RecordError> {
        let first = self.stage_name(0);
        let stage_name = |stage: usize| first + stage as u64;
        let about = |event: Message| noted(event, [u64::from(row.pass), row.sequence]);
        let Some(latency) = row.latency_ns else {
            let lost = named(INSTANT, self.track(Track::Lost(row.connection))?, stage_name(LOST));
            self.events.push((row.start_ns, about(lost)));
            return Ok(());
        };
        let end = row.start_ns.saturating_add(latency);
        let slot = self.lanes.entry(row.connection).or_default().take(row.start_ns, end);
        let track = self.track(Track::Slot(row.connection, slot))?;
        self.events.push((row.start_ns, about(named(BEGIN, track, u64::from(row.case) + 1))));
        // Stamps that contradict each other make no stages.
        let sent = row.late_ns.unwrap_or(0);
        let arrived = row.far_ns.filter(|far| (sent..=latency).contains(far));
        if sent <= latency {
            let arrives = match arrived {
                Some(_) => Some((self.track(Track::Arrivals(row.connection))?, self.number())),
                None => None,
            };
            // Where the far end begins to send, as far as that fits to the other stamps and to its messages before.
            let works = arrived.zip(row.far_sent_ns).filter(|(far, sent)| {
                let from = row.start_ns.saturating_add(*far);
                let free = self.working.get(&row.connection).is_none_or(|until| *until <= from);
                free && (*far..=latency).contains(sent)
            });
            let replies = works.map(|_| self.number());
            let mut stages = Vec::with_capacity(4);
            stages.extend((sent > 0).then_some((WAITING, 0, sent)));
            match (arrived, works) {
                (_, Some((far, replied))) => {
                    self.working.insert(row.connection, row.start_ns.saturating_add(replied));
                    stages.extend([(REQUEST, sent, far), (HANDLER, far, replied), (REPLY, replied, latency)]);
                }
                (Some(far), None) => stages.extend([(REQUEST, sent, far), (FAR_AND_REPLY, far, latency)]),
                (None, _) if sent > 0 => stages.push((SEND_TO_REPLY, sent, latency)),
                _ => {}
            }
            for (stage, from, to) in stages {
                let mut begin = named(BEGIN, track, stage_name(stage));
                if let (REQUEST, Some((far_track, flow))) = (stage, arrives) {
                    begin = begin.fixed64(event::FLOW_IDS, flow);
                    let at = row.start_ns.saturating_add(to);
                    let arrival = |kind, name| {
                        named(kind, far_track, stage_name(name)).fixed64(event::TERMINATING_FLOW_IDS, flow)
                    };
                    match (works, replies) {
                        (Some((_, replied)), Some(reply)) => {
                            let work = arrival(BEGIN, HANDLER).fixed64(event::FLOW_IDS, reply);
                            self.events.push((at, work));
                            self.events.push((row.start_ns.saturating_add(replied), event_on(END, far_track)));
                        }
                        _ => self.events.push((at, arrival(INSTANT, ARRIVES))),
                    }
                }
                if let (REPLY, Some(flow)) = (stage, replies) {
                    begin = begin.fixed64(event::TERMINATING_FLOW_IDS, flow);
                }
                self.events.push((row.start_ns.saturating_add(from), begin));
                self.events.push((row.start_ns.saturating_add(to), event_on(END, track)));
            }
        }
        self.events.push((end, event_on(END, track)));
        Ok(())
    }
}

/// An event of this type on a track.
pub fn event_on(kind: u64, track: u64) -> Message {
    Message::default().uint(event::TYPE, kind).uint(event::TRACK_UUID, track)
}

/// The same, with the number of its name.
pub fn named(kind: u64, track: u64, name: u64) -> Message {
    event_on(kind, track).uint(event::NAME_IID, name)
}

/// Adds notes, which have names in this order.
pub fn noted(event: Message, notes: impl IntoIterator<Item = u64>) -> Message {
    notes.into_iter().zip(1..).fold(event, |event, (value, name)| {
        let note = Message::default().uint(interned::ANNOTATION_NAME_IID, name);
        event.message(event::DEBUG_ANNOTATIONS, &note.uint(interned::ANNOTATION_UINT, value))
    })
}

/// `tcp:send 64 B ×4 (control)`.
fn label(case: &Case) -> String {
    let mut out = match (case.has_size(), case.pieces.count) {
        (false, _) => case.path.to_string(),
        (true, 0 | 1) => format!("{} {}", case.path, size(case.size)),
        (true, _) => format!("{} {}", case.path, case.pieces),
    };
    if let Some(label) = &case.label {
        out = format!("{label}, {out}");
    }
    if case.threads > 1 {
        out += &format!(" ×{}", case.threads);
    }
    if let Some(rate) = case.load.rate() {
        out += &format!(" {rate}");
    }
    if case.role != CaseRole::Measured {
        out += &format!(" ({})", role_word(case.role));
    }
    out
}
