//! The second back end: perf tracepoints, and switch records in place of `sched_switch`
//! (docs/method/attribution.md#back-ends).
//!
//! Tracepoints that the kernel passes in its idle task may be missing without being counted as lost, so the scheduler's side
//! is taken from switch records, and `sched_wakeup` is not used at all: wake-up in flight and scheduling delay are one number.
//! A socket is known by its address only; where `tcp_probe` is recorded as well it tells the cookie. Elsewhere `b` of
//! `sk_data_ready` is 0: unknown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use msgpath_core::Unavailable;
use msgpath_core::schema::{EventKind, KernelEvent};
use msgpath_sys::perf::{Perf, Record, records};
use msgpath_sys::tracefs::{self, Field, Format};

use super::{Filter, GRANT, Opened, first_pid_namespace, threads};

pub(super) const NAME: &str = "perf tracepoints and switch records";

/// Bytes that a record takes, at most, for the tracepoints used here but `tcp_probe`.
const RECORD: usize = 112;
/// The kernel takes no longer filter.
const LONGEST_FILTER: usize = 4000;

/// Which group each tracepoint belongs to, and its fields that become `a`, `b` and `len`; an empty name: none.
const POINTS: &[(EventKind, &str, [&str; 3])] = &[
    (EventKind::SchedWaking, "sched", ["", "pid", ""]),
    (EventKind::NetDevQueue, "net", ["skbaddr", "", "len"]),
    (EventKind::NetDevStartXmit, "net", ["skbaddr", "", "len"]),
    (EventKind::NetifRx, "net", ["skbaddr", "", "len"]),
    (EventKind::NetifReceiveSkb, "net", ["skbaddr", "", "len"]),
    (EventKind::NapiGroReceive, "net", ["skbaddr", "", "len"]),
    (EventKind::TcpProbe, "tcp", ["skbaddr", "sock_cookie", "data_len"]),
    (EventKind::SkDataReady, "sock", ["skaddr", "", ""]),
    (EventKind::SkbCopy, "skb", ["skbaddr", "len", "len"]),
    (EventKind::SysEnter, "raw_syscalls", ["id", "", ""]),
    (EventKind::SysExit, "raw_syscalls", ["ret", "", ""]),
    (EventKind::SignalGenerate, "signal", ["pid", "sig", ""]),
    (EventKind::SignalDeliver, "signal", ["", "sig", ""]),
    (EventKind::SoftirqEntry, "irq", ["vec", "", ""]),
    (EventKind::SoftirqExit, "irq", ["vec", "", ""]),
    (EventKind::CpuIdle, "power", ["state", "", ""]),
];

/// A tracepoint with the places of its fields on this kernel.
#[derive(Clone, Debug)]
struct Point {
    kind: EventKind,
    id: u16,
    fields: [Option<Field>; 3],
    /// `tcp_probe`: the socket's address, which `sk_data_ready` has as well.
    socket: Option<Field>,
}

impl Point {
    /// What the kernel's description says, if the fields that matter are there.
    fn new(kind: EventKind, format: &Format, names: [&str; 3]) -> Result<Self, String> {
        // Old kernels have a tcp_probe without addresses; its time is worth having all the same.
        let optional = kind == EventKind::TcpProbe;
        let mut fields = [const { None }; 3];
        for (place, name) in fields.iter_mut().zip(names) {
            *place = format.field(name).filter(|field| matches!(field.size, 1 | 2 | 4 | 8)).cloned();
            if place.is_none() && !name.is_empty() && !optional {
                return Err(format!("its field {name} is not there"));
            }
        }
        Ok(Self { kind, id: format.id, fields, socket: format.field("skaddr").cloned().filter(|_| optional) })
    }

    fn event(&self, t_ns: u64, cpu: u32, tid: i32, raw: &[u8]) -> KernelEvent {
        let value = |at: usize| self.fields[at].as_ref().and_then(|field| field.read(raw)).unwrap_or(0);
        KernelEvent {
            t_ns,
            kind: self.kind,
            cpu: cpu as u16,
            tid,
            a: value(0),
            b: value(1) as u32,
            len: value(2).min(u16::MAX.into()) as u16,
            flags: 0,
            end: 0,
        }
    }
}

pub(super) struct Back {
    perf: Perf,
    points: Vec<Point>,
    full: bool,
    filter: Filter,
    names: BTreeMap<i32, String>,
}

impl Back {
    pub(super) fn open(wanted: &[EventKind], full: bool, room: usize) -> Opened<Self> {
        first_pid_namespace()?;
        let events = tracefs::events().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Unavailable::new("tracefs is not mounted", "sudo mount -t tracefs tracefs /sys/kernel/tracing")
            }
            _ => Unavailable::new(
                format!("tracefs cannot be read: {error}"),
                "sudo setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep $(command -v msgpath)",
            ),
        })?;
        let mut points = Vec::new();
        let mut missing = Vec::new();
        for (kind, group, names) in POINTS.iter().filter(|(kind, ..)| wanted.contains(kind)) {
            let point = tracefs::read(&events, group, kind.name())
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => "this kernel has no such tracepoint".to_owned(),
                    _ => error.to_string(),
                })
                .and_then(|format| Point::new(*kind, &format, *names));
            match point {
                Ok(point) => points.push(point),
                Err(why) => missing.push((*kind, why)),
            }
        }
        if wanted.contains(&EventKind::SchedWakeup) {
            missing.push((EventKind::SchedWakeup, "samples taken in the idle task get lost".into()));
        }
        let perf = Perf::open(&threads::possible(), room.saturating_mul(RECORD)).map_err(|error| {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    let reason = msgpath_sys::perf::forbidden(&error, paranoid.trim().parse().ok());
                    Unavailable::new(format!("no right to watch other tasks: {}", reason.why), GRANT)
                }
                _ => Unavailable::new(format!("perf_event_open: {error}"), ""),
            }
        })?;
        Ok((Self { perf, points, full, filter: Filter::default(), names: BTreeMap::new() }, missing))
    }

    pub(super) fn kinds(&self) -> Vec<EventKind> {
        let mut kinds: Vec<_> = self.points.iter().map(|point| point.kind).collect();
        kinds.push(EventKind::SchedSwitch);
        kinds.sort_unstable();
        kinds
    }

    /// Names of tasks that began or were named in the last round.
    pub(super) fn names(&mut self) -> BTreeMap<i32, String> {
        std::mem::take(&mut self.names)
    }

    pub(super) fn begin(&mut self, filter: &Filter) -> io::Result<()> {
        self.filter = filter.clone();
        // What an earlier round left unread.
        self.perf.take();
        let attached = self
            .points
            .iter()
            .try_for_each(|point| self.perf.attach(point.id, kernel_filter(point.kind, filter).as_deref()));
        let started = attached.and_then(|()| self.perf.switch(true));
        if started.is_err() {
            self.perf.detach();
        }
        started
    }

    pub(super) fn end(&mut self) -> io::Result<(Vec<KernelEvent>, u64)> {
        let stopped = self.perf.switch(false);
        let lost = self.perf.lost();
        self.perf.detach();
        stopped?;
        let taken = self.perf.take();
        let rings = || taken.iter().map(|(_, bytes)| bytes.as_slice());
        self.names = names(rings());
        let mut events = translate(&self.points, rings());
        events.retain(|event| concerns(event, &self.filter, self.full));
        Ok((events, lost))
    }
}

/// What the kernel shall keep of a tracepoint; `None`: everything. It may keep more than is wanted, never less.
fn kernel_filter(kind: EventKind, filter: &Filter) -> Option<String> {
    let any_of = |field: &str, tids: &[i32]| {
        let mut text = String::new();
        for tid in tids {
            let _ = write!(text, "{}{field}=={tid}", if text.is_empty() { "" } else { "||" });
        }
        // Nobody has the id -1.
        if text.is_empty() { format!("{field}==-1") } else { text }
    };
    let text = match kind {
        EventKind::SchedWaking | EventKind::SchedWakeup => any_of("pid", &filter.threads),
        EventKind::SignalGenerate => {
            let processes = filter.threads.iter().filter_map(|tid| threads::process(*tid));
            let mut tids: Vec<i32> = filter.threads.iter().copied().chain(processes).collect();
            tids.sort_unstable();
            tids.dedup();
            any_of("pid", &tids)
        }
        EventKind::SkbCopy | EventKind::SysEnter | EventKind::SysExit | EventKind::SignalDeliver => {
            any_of("common_pid", &filter.threads)
        }
        EventKind::NetDevQueue
        | EventKind::NetDevStartXmit
        | EventKind::NetifRx
        | EventKind::NetifReceiveSkb
        | EventKind::NapiGroReceive => format!("len>={}", filter.least),
        _ => return None,
    };
    (text.len() <= LONGEST_FILTER).then_some(text)
}

/// Whether an event is one of this round: the kernel's filters let more pass.
fn concerns(event: &KernelEvent, filter: &Filter, full: bool) -> bool {
    let measured = |tid: i32| filter.threads.contains(&tid);
    let on_cpu = || full && filter.cpus.contains(&event.cpu.into());
    match event.kind {
        EventKind::SchedWaking | EventKind::SchedWakeup => measured(event.b as i32),
        EventKind::SchedSwitch => measured(event.tid) || measured(event.b as i32) || on_cpu(),
        EventKind::NetDevQueue
        | EventKind::NetDevStartXmit
        | EventKind::NetifRx
        | EventKind::NetifReceiveSkb
        | EventKind::NapiGroReceive => u32::from(event.len) >= filter.least.min(u16::MAX.into()),
        // A cookie of 0 is one that is not known.
        EventKind::TcpProbe | EventKind::SkDataReady => {
            event.b == 0 || filter.sockets.iter().any(|cookie| *cookie as u32 == event.b)
        }
        EventKind::SkbCopy | EventKind::SysEnter | EventKind::SysExit | EventKind::SignalDeliver => measured(event.tid),
        EventKind::SignalGenerate => true,
        EventKind::SoftirqEntry | EventKind::SoftirqExit | EventKind::CpuIdle => on_cpu(),
    }
}

/// Events from the records of each CPU's ring.
fn translate<'a>(points: &[Point], rings: impl Iterator<Item = &'a [u8]>) -> Vec<KernelEvent> {
    let mut events = Vec::new();
    let mut cookies = BTreeMap::new();
    for ring in rings {
        let mut switches = Switches::default();
        for record in records(ring) {
            match record {
                Record::Sample { t, cpu, tid, raw } => {
                    // Common to all tracepoints: the first two bytes are the id.
                    let id = raw.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
                    let Some(point) = points.iter().find(|point| Some(point.id) == id) else { continue };
                    let event = point.event(t, cpu, tid, raw);
                    if let Some(socket) = point.socket.as_ref().and_then(|field| field.read(raw)) {
                        cookies.insert(socket, event.b);
                    }
                    events.push(event);
                }
                Record::Switch { t, cpu, prev, next, out, preempted } => {
                    let switch = Switch { t_ns: t, cpu, prev, next, out, preempted };
                    events.extend(switches.next(switch).into_iter().flatten());
                }
                // What was lost the events count themselves; names are taken apart.
                Record::Lost(_) | Record::Named { .. } | Record::Forked { .. } | Record::Other => {}
            }
        }
        events.extend(switches.pending);
    }
    for event in events.iter_mut().filter(|event| event.kind == EventKind::SkDataReady) {
        event.b = cookies.get(&event.a).copied().unwrap_or(0);
    }
    events
}

/// The last name of each task that was given one; who was given none has that of the task that made it, if that is known.
fn names<'a>(rings: impl Iterator<Item = &'a [u8]>) -> BTreeMap<i32, String> {
    let (mut names, mut makers) = (BTreeMap::new(), BTreeMap::new());
    for record in rings.flat_map(records) {
        match record {
            Record::Named { tid, name } => drop(names.insert(tid, String::from_utf8_lossy(name).into_owned())),
            Record::Forked { tid, by } if tid != by => drop(makers.insert(tid, by)),
            _ => (),
        }
    }
    for (tid, by) in makers {
        let of_maker = || names.get(&by).cloned().or_else(|| threads::name(by));
        if !names.contains_key(&tid)
            && let Some(name) = of_maker()
        {
            names.insert(tid, name);
        }
    }
    names
}

/// What one record says of a switch.
struct Switch {
    t_ns: u64,
    cpu: u32,
    /// The task that leaves.
    prev: i32,
    /// The task that comes.
    next: i32,
    /// The record is that of the task that leaves.
    out: bool,
    /// The task that leaves could have gone on.
    preempted: bool,
}

/// Joins the two records of a switch on one CPU: one of the task that leaves, which alone knows whether it could have gone on,
/// and one of the task that comes. Either may be missing.
#[derive(Default)]
struct Switches {
    /// A task has left; the one that comes has not been heard of.
    pending: Option<KernelEvent>,
}

impl Switches {
    fn next(&mut self, switch: Switch) -> [Option<KernelEvent>; 2] {
        let Switch { t_ns, cpu, prev, next, out, preempted } = switch;
        let event = KernelEvent {
            t_ns,
            kind: EventKind::SchedSwitch,
            cpu: cpu as u16,
            tid: prev,
            // Why it left is not known where it was not preempted, but it went to sleep. The idle task can always go on.
            a: u64::from(!preempted && prev != 0),
            b: next as u32,
            len: 0,
            flags: preempted.into(),
            end: 0,
        };
        if out {
            return [self.pending.replace(event), None];
        }
        match self.pending.take() {
            Some(left) if left.tid == prev && left.b == next as u32 => {
                [Some(KernelEvent { a: left.a, flags: left.flags, ..event }), None]
            }
            left => [left, Some(event)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Format {
        tracefs::parse(text).unwrap()
    }

    fn point(kind: EventKind, text: &str) -> Point {
        let names = POINTS.iter().find(|(other, ..)| *other == kind).unwrap().2;
        Point::new(kind, &format(text), names).unwrap()
    }

    const READY: &str = "ID: 9\nformat:\nfield:const void * skaddr;\toffset:8;\tsize:8;\tsigned:0;\n";
    const PROBE: &str = "ID: 10\nformat:\nfield:__u16 data_len;\toffset:8;\tsize:2;\tsigned:0;\n\
        field:__u64 sock_cookie;\toffset:16;\tsize:8;\tsigned:0;\n\
        field:const void * skbaddr;\toffset:24;\tsize:8;\tsigned:0;\nfield:const void * skaddr;\toffset:32;\tsize:8;\tsigned:0;\n";

    fn sample(t: u64, tid: u32, raw: &[u8]) -> Vec<u8> {
        let mut body = [0_u32.to_ne_bytes(), tid.to_ne_bytes()].concat();
        body.extend(t.to_ne_bytes());
        body.extend([1_u32, 0, raw.len() as u32].map(u32::to_ne_bytes).concat());
        body.extend(raw);
        let mut record = 9_u32.to_ne_bytes().to_vec();
        record.extend(0_u16.to_ne_bytes());
        record.extend(((body.len() + 8) as u16).to_ne_bytes());
        record.extend(body);
        record
    }

    #[test]
    fn a_socket_gets_its_cookie_where_tcp_tells_it() {
        let points = [point(EventKind::SkDataReady, READY), point(EventKind::TcpProbe, PROBE)];
        let mut probe = vec![0; 40];
        probe[..2].copy_from_slice(&10_u16.to_ne_bytes());
        probe[8..10].copy_from_slice(&64_u16.to_ne_bytes());
        probe[16..24].copy_from_slice(&0x1_0000_0007_u64.to_ne_bytes());
        probe[32..40].copy_from_slice(&0xffff_u64.to_ne_bytes());
        let ready = |address: u64| {
            let mut raw = vec![0; 16];
            raw[..2].copy_from_slice(&9_u16.to_ne_bytes());
            raw[8..16].copy_from_slice(&address.to_ne_bytes());
            raw
        };
        let mut ring = sample(1, 5, &probe);
        ring.extend(sample(2, 5, &ready(0xffff)));
        ring.extend(sample(3, 5, &ready(0xfffe)));
        ring.extend(sample(4, 5, &[77, 77, 0, 0]));
        let events = translate(&points, std::iter::once(ring.as_slice()));
        let given: Vec<_> = events.iter().map(|event| (event.t_ns, event.kind, event.b, event.len)).collect();
        assert_eq!(
            given,
            [(1, EventKind::TcpProbe, 7, 64), (2, EventKind::SkDataReady, 7, 0), (3, EventKind::SkDataReady, 0, 0),]
        );
    }

    #[test]
    fn the_two_records_of_a_switch_become_one_event() {
        let mut switches = Switches::default();
        let mut step = |t, prev, next, out, preempted| {
            let switch = Switch { t_ns: t, cpu: 1, prev, next, out, preempted };
            switches.next(switch).into_iter().flatten().collect::<Vec<_>>()
        };
        assert!(step(10, 7, 8, true, true).is_empty());
        let whole = step(11, 7, 8, false, false);
        assert_eq!((whole[0].t_ns, whole[0].tid, whole[0].b, whole[0].a, whole[0].flags), (11, 7, 8, 0, 1));
        // The record of the idle task that comes is missing, and so is the one it writes when it leaves.
        assert!(step(20, 8, 0, true, false).is_empty());
        let two = step(30, 0, 8, false, false);
        assert_eq!((two[0].t_ns, two[0].tid, two[0].b, two[0].a), (20, 8, 0, 1), "it went to sleep");
        assert_eq!((two[1].t_ns, two[1].tid, two[1].b, two[1].a), (30, 0, 8, 0), "the idle task never sleeps");
    }

    #[test]
    fn a_description_without_what_matters_is_refused() {
        let error = Point::new(EventKind::SkDataReady, &format("ID: 9\nformat:\n"), ["skaddr", "", ""]).unwrap_err();
        assert!(error.contains("skaddr"));
        assert!(Point::new(EventKind::TcpProbe, &format("ID: 9\nformat:\n"), ["skbaddr", "", ""]).is_ok());
    }

    #[test]
    fn filters_name_the_threads_and_give_up_before_they_are_too_long() {
        let mut filter = Filter { threads: vec![7, 8], least: 116, ..Filter::default() };
        let text = |kind, filter: &Filter| kernel_filter(kind, filter).unwrap_or_default();
        assert_eq!(text(EventKind::SchedWaking, &filter), "pid==7||pid==8");
        assert_eq!(text(EventKind::SysEnter, &filter), "common_pid==7||common_pid==8");
        assert_eq!(text(EventKind::NetifRx, &filter), "len>=116");
        filter.threads.clear();
        assert_eq!(text(EventKind::SchedWaking, &filter), "pid==-1");
        filter.threads = (1_000_000..1_001_000).collect();
        assert_eq!(kernel_filter(EventKind::SysEnter, &filter), None);
        let other = KernelEvent { kind: EventKind::SysEnter, tid: 5, ..KernelEvent::default() };
        assert!(!concerns(&other, &filter, true), "what the kernel let pass is left out here");
    }
}
