//! Kernel events of traced rounds: what ran on each CPU and the system calls as slices, everything else as instants.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use msgpath_core::schema::{EventKind, KernelEvent};

use super::wire::Message;
use super::{BEGIN, END, INSTANT, NEEDS_STATE, STATE_CLEARED, Trace, Track, event, interned, packet};
use crate::{Events, RecordError};

/// Packets of the kernel: a sequence of their own, with names of their own.
const KERNEL_EVENTS: u64 = 3;
/// Annotations by number, after those of messages.
const THREAD: u64 = 3;
const BYTES: u64 = 4;

/// Names that kernel events refer to by number.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, u64>);

impl<W: Write> Trace<'_, W> {
    /// Writes the events of one round.
    pub(super) fn kernel(&mut self, round: &Events) -> Result<(), RecordError> {
        let own = self.run.rounds.iter().find(|own| own.case == round.case && own.pass == round.pass);
        let tasks: BTreeMap<i32, String> =
            own.and_then(|own| own.trace.as_ref()).map(|trace| trace.tasks.clone()).unwrap_or_default();
        let mut running: HashMap<u16, u64> = HashMap::new();
        let mut calling: HashMap<i32, u64> = HashMap::new();
        let mut last = 0;
        // Those of a far end with a clock of its own have no place on this axis.
        for at in round.events.iter().filter(|at| at.end == 0) {
            // A slice must not begin before the one ahead of it has ended.
            let now = at.t_ns.max(last);
            last = now;
            match at.kind {
                EventKind::SchedSwitch => {
                    if let Some(track) = running.remove(&at.cpu) {
                        self.put_kernel(now, slice_end(track))?;
                    }
                    let track = self.track(Track::Cpu(at.cpu))?;
                    let next = at.b as i32;
                    let name = match tasks.get(&next) {
                        _ if next == 0 => "idle".to_owned(),
                        Some(name) => format!("{name} {next}"),
                        None => format!("task {next}"),
                    };
                    self.begin(now, track, &name, at)?;
                    running.insert(at.cpu, track);
                }
                EventKind::SysEnter => {
                    if let Some(track) = calling.remove(&at.tid) {
                        self.put_kernel(now, slice_end(track))?;
                    }
                    let track = self.track(Track::SystemCalls(at.tid))?;
                    self.begin(now, track, &format!("system call {}", at.a), at)?;
                    calling.insert(at.tid, track);
                }
                EventKind::SysExit => {
                    if let Some(track) = calling.remove(&at.tid) {
                        self.put_kernel(now, slice_end(track))?;
                    }
                }
                kind => {
                    let track = self.track(Track::CpuEvents(at.cpu))?;
                    let name = self.kernel_name(kind.name())?;
                    let instant = Message::default().uint(event::TYPE, INSTANT).uint(event::TRACK_UUID, track);
                    self.put_kernel(now, about(instant.uint(event::NAME_IID, name), at))?;
                }
            }
        }
        let open: Vec<u64> = running.into_values().chain(calling.into_values()).collect();
        open.into_iter().try_for_each(|track| self.put_kernel(last, slice_end(track)))
    }

    fn begin(&mut self, now: u64, track: u64, name: &str, at: &KernelEvent) -> Result<(), RecordError> {
        let name = self.kernel_name(name)?;
        let begin = Message::default().uint(event::TYPE, BEGIN).uint(event::TRACK_UUID, track);
        self.put_kernel(now, about(begin.uint(event::NAME_IID, name), at))
    }

    /// The number of a name, which is told where it is new.
    fn kernel_name(&mut self, name: &str) -> Result<u64, RecordError> {
        if let Some(number) = self.names.0.get(name) {
            return Ok(*number);
        }
        let first = self.names.0.is_empty();
        let number = (self.told + self.names.0.len() + 1) as u64;
        self.names.0.insert(name.to_owned(), number);
        let entry = |iid: u64, name: &str| Message::default().uint(interned::IID, iid).text(interned::NAME, name);
        let mut data = Message::default().message(interned::EVENT_NAMES, &entry(number, name));
        if first {
            for (iid, name) in [(THREAD, "thread"), (BYTES, "bytes")] {
                data = data.message(interned::ANNOTATION_NAMES, &entry(iid, name));
            }
        }
        let flags = if first { STATE_CLEARED } else { NEEDS_STATE };
        let packet = Message::default()
            .uint(packet::SEQUENCE, KERNEL_EVENTS)
            .uint(packet::SEQUENCE_FLAGS, flags)
            .message(packet::INTERNED_DATA, &data);
        self.put(packet)?;
        Ok(number)
    }

    fn put_kernel(&mut self, now: u64, event: Message) -> Result<(), RecordError> {
        let packet = Message::default()
            .uint(packet::TIMESTAMP, now)
            .uint(packet::SEQUENCE, KERNEL_EVENTS)
            .uint(packet::SEQUENCE_FLAGS, NEEDS_STATE)
            .message(packet::TRACK_EVENT, &event);
        self.put(packet)
    }
}

fn slice_end(track: u64) -> Message {
    Message::default().uint(event::TYPE, END).uint(event::TRACK_UUID, track)
}

/// The thread of an event, and the length of its packet.
fn about(message: Message, at: &KernelEvent) -> Message {
    let note = |name: u64, value: u64| {
        Message::default().uint(interned::ANNOTATION_NAME_IID, name).uint(interned::ANNOTATION_UINT, value)
    };
    let message = message.message(event::DEBUG_ANNOTATIONS, &note(THREAD, u64::from(at.tid.unsigned_abs())));
    if at.len == 0 {
        return message;
    }
    message.message(event::DEBUG_ANNOTATIONS, &note(BYTES, u64::from(at.len)))
}
