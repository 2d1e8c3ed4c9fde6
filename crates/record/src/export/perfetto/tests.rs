//! Every packet is read again by the schema of Perfetto, by numbers and types as its `.proto` files have them.

use std::collections::HashMap;

use msgpath_core::plan::{Load, Plan};
use msgpath_core::schedule::{Arrivals, Rate};
use msgpath_core::schema::{RpcFacts, RpcPair, RpcRow};
use msgpath_core::varint;

use super::*;
use crate::export::tests::exported;
use crate::export::watched::tests::exported as exported_watched;
use crate::{RunWriter, test_run};

/// How a field lies on the wire.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Varint,
    Fixed64,
    Text,
    Message(&'static str),
}
use Kind::{Fixed64, Text, Varint};

/// The fields that a trace of ours may use: message, number, name, kind; from protos/perfetto/trace/*.proto.
const SCHEMA: &[(&str, u64, &str, Kind)] = &[
    ("Trace", 1, "packet", Kind::Message("TracePacket")),
    ("TracePacket", 8, "timestamp", Varint),
    ("TracePacket", 10, "trusted_packet_sequence_id", Varint),
    ("TracePacket", 11, "track_event", Kind::Message("TrackEvent")),
    ("TracePacket", 12, "interned_data", Kind::Message("InternedData")),
    ("TracePacket", 13, "sequence_flags", Varint),
    ("TracePacket", 60, "track_descriptor", Kind::Message("TrackDescriptor")),
    ("TrackEvent", 4, "debug_annotations", Kind::Message("DebugAnnotation")),
    ("TrackEvent", 9, "type", Varint),
    ("TrackEvent", 10, "name_iid", Varint),
    ("TrackEvent", 11, "track_uuid", Varint),
    ("TrackEvent", 30, "counter_value", Varint),
    ("TrackEvent", 47, "flow_ids", Fixed64),
    ("TrackEvent", 48, "terminating_flow_ids", Fixed64),
    ("TrackDescriptor", 1, "uuid", Varint),
    ("TrackDescriptor", 2, "name", Text),
    ("TrackDescriptor", 3, "process", Kind::Message("ProcessDescriptor")),
    ("TrackDescriptor", 5, "parent_uuid", Varint),
    ("TrackDescriptor", 8, "counter", Kind::Message("CounterDescriptor")),
    ("ProcessDescriptor", 1, "pid", Varint),
    ("ProcessDescriptor", 6, "process_name", Text),
    ("CounterDescriptor", 3, "unit", Varint),
    ("InternedData", 2, "event_names", Kind::Message("EventName")),
    ("InternedData", 3, "debug_annotation_names", Kind::Message("DebugAnnotationName")),
    ("EventName", 1, "iid", Varint),
    ("EventName", 2, "name", Text),
    ("DebugAnnotationName", 1, "iid", Varint),
    ("DebugAnnotationName", 2, "name", Text),
    ("DebugAnnotation", 1, "name_iid", Varint),
    ("DebugAnnotation", 3, "uint_value", Varint),
];

#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Text(String),
    Message(Fields),
}

#[derive(Clone, Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |(field, _)| *field == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.all(name).map(|value| if let Value::Number(number) = value { *number } else { panic!("{name}") }).next()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.all(name).map(|value| if let Value::Text(text) = value { text.clone() } else { panic!("{name}") }).next()
    }

    fn messages<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Fields> {
        self.all(name).map(move |value| if let Value::Message(fields) = value { fields } else { panic!("{name}") })
    }
}

/// Panics on a field that the schema does not have, or that lies otherwise on the wire.
fn decode(message: &str, mut bytes: &[u8]) -> Fields {
    let mut fields = Fields::default();
    while !bytes.is_empty() {
        let tag = varint::take(&mut bytes).unwrap();
        let (_, _, name, kind) = SCHEMA
            .iter()
            .find(|(of, number, ..)| *of == message && *number == tag >> 3)
            .unwrap_or_else(|| panic!("{message} has no field {}", tag >> 3));
        let value = match (kind, tag & 7) {
            (Varint, 0) => Value::Number(varint::take(&mut bytes).unwrap()),
            (Fixed64, 1) => {
                let (value, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                Value::Number(u64::from_le_bytes(*value))
            }
            (Text | Kind::Message(_), 2) => {
                let length = varint::take(&mut bytes).unwrap() as usize;
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                match kind {
                    Kind::Message(inner) => Value::Message(decode(inner, part)),
                    _ => Value::Text(String::from_utf8(part.to_vec()).unwrap()),
                }
            }
            (kind, wire) => panic!("{message}.{name} is {kind:?}, on the wire {wire}"),
        };
        fields.0.push((name, value));
    }
    fields
}

#[derive(Debug, PartialEq)]
struct Slice {
    track: String,
    name: String,
    from: u64,
    to: u64,
    depth: usize,
}

#[derive(Debug, Default)]
struct Read {
    slices: Vec<Slice>,
    instants: Vec<(String, String, u64)>,
    counters: Vec<(String, u64, u64)>,
    processes: Vec<String>,
    /// Begin and end of each flow, ns.
    flows: HashMap<u64, (Option<u64>, Option<u64>)>,
    notes: usize,
}

/// Reads a trace as the viewer does, and insists on what it needs.
fn read(bytes: &[u8]) -> Read {
    let trace = decode("Trace", bytes);
    let mut read = Read::default();
    let (mut tracks, mut names, mut notes) = (HashMap::new(), HashMap::new(), HashMap::new());
    // Of each track: slices that have begun, with their start, and the time of the last event.
    let mut open: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
    let mut latest: HashMap<u64, u64> = HashMap::new();
    let mut cleared = false;
    for packet in trace.messages("packet") {
        let sequence = packet.number("trusted_packet_sequence_id").expect("a sequence");
        cleared |= sequence == 1 && packet.number("sequence_flags") == Some(1);
        for data in packet.messages("interned_data") {
            for entry in data.messages("event_names") {
                assert!(names.insert(entry.number("iid").unwrap(), entry.text("name").unwrap()).is_none());
            }
            for entry in data.messages("debug_annotation_names") {
                notes.insert(entry.number("iid").unwrap(), entry.text("name").unwrap());
            }
        }
        for track in packet.messages("track_descriptor") {
            let parent = track.number("parent_uuid");
            assert!(parent.is_none_or(|parent| tracks.contains_key(&parent)));
            let process = track.messages("process").next();
            let name = process.map_or_else(|| track.text("name"), |process| process.text("process_name")).unwrap();
            read.processes.extend(process.is_some().then(|| name.clone()));
            let counter = track.messages("counter").next().map(|counter| counter.number("unit"));
            assert!(counter.is_none_or(|unit| unit == Some(1)), "counters are ns");
            assert!(tracks.insert(track.number("uuid").unwrap(), (name, counter.is_some())).is_none());
        }
        for event in packet.messages("track_event") {
            let ns = packet.number("timestamp").expect("a time");
            let uuid = event.number("track_uuid").unwrap();
            let (track, is_counter) = &tracks[&uuid];
            let kind = event.number("type").unwrap();
            assert_eq!(kind == 4, *is_counter, "counters and slices have tracks of their own");
            let before = latest.insert(uuid, ns).unwrap_or(0);
            assert!(before <= ns, "{track} goes back from {before} to {ns}");
            if kind == 4 {
                read.counters.push((track.clone(), ns, event.number("counter_value").unwrap()));
                continue;
            }
            assert!(cleared && packet.number("sequence_flags") == Some(2), "interned names need their state");
            let name = event.number("name_iid").map(|iid| names[&iid].clone());
            for (field, ends) in [("flow_ids", false), ("terminating_flow_ids", true)] {
                if let Some(flow) = event.number(field) {
                    let (begin, end) = read.flows.entry(flow).or_default();
                    assert!(if ends { end } else { begin }.replace(ns).is_none());
                }
            }
            for note in event.messages("debug_annotations") {
                assert!(notes.contains_key(&note.number("name_iid").unwrap()) && note.number("uint_value").is_some());
                read.notes += 1;
            }
            let stack = open.entry(uuid).or_default();
            match kind {
                1 => stack.push((name.expect("a slice has a name"), ns)),
                2 => {
                    let (name, from) = stack.pop().expect("what ends has begun");
                    assert!(stack.last().is_none_or(|(_, outer)| *outer <= from));
                    read.slices.push(Slice { track: track.clone(), name, from, to: ns, depth: stack.len() });
                }
                3 => read.instants.push((track.clone(), name.expect("a name"), ns)),
                other => panic!("type {other}"),
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "what begins ends");
    assert!(read.flows.values().all(|(begin, end)| begin.unwrap() <= end.unwrap()));
    read
}

/// The trace of these messages of case 0, in a run of the plan.
fn trace(change: impl FnOnce(&mut Plan), rows: &[MessageRow]) -> Read {
    let place = tempfile::tempdir().unwrap();
    let mut header = test_run::header(u64::MAX);
    change(&mut header.plan);
    let mut writer = RunWriter::create(place.path(), &header).unwrap();
    writer.round(&test_run::round(0, 0), rows).unwrap();
    let mut out = Vec::new();
    Perfetto.export(&crate::read(place.path()).unwrap(), &mut out).unwrap();
    read(&out)
}

fn row(start_ns: u64, latency_ns: u64) -> MessageRow {
    MessageRow { start_ns, latency_ns: Some(latency_ns), ..MessageRow::default() }
}

#[test]
fn every_message_is_a_slice_and_every_round_a_counter() {
    let (bytes, written) = exported("perfetto");
    let read = read(&bytes);
    assert_eq!(read.processes, ["near end a, brisk-otter", "far end b, brisk-otter"]);
    let of_messages = |slice: &&Slice| slice.depth == 0 && slice.track.contains("slot");
    let outer: Vec<(u64, u64)> = read.slices.iter().filter(of_messages).map(|slice| (slice.from, slice.to)).collect();
    let (lost, arrived): (Vec<&MessageRow>, Vec<&MessageRow>) =
        written.rows.iter().partition(|row| row.latency_ns.is_none());
    assert_eq!(
        outer,
        arrived.iter().map(|row| (row.start_ns, row.start_ns + row.latency_ns.unwrap())).collect::<Vec<_>>()
    );
    let instants = |name: &str| -> Vec<u64> {
        read.instants.iter().filter(|(_, instant, _)| instant == name).map(|(_, _, ns)| *ns).collect()
    };
    assert_eq!(instants("lost"), lost.iter().map(|row| row.start_ns).collect::<Vec<_>>());
    // Where the far end stamped its reply as well, its work is a slice instead, and the reply flows back.
    let worked = written.rows.iter().filter(|row| row.far_ns.is_some() && row.far_sent_ns.is_some()).count();
    assert_eq!((instants("arrives at the far end").len(), worked), (20, 10));
    assert_eq!((read.flows.len(), read.notes), (30 + worked, 2 * written.rows.len()));
    let of_rounds = written.rounds.iter().map(|round| (round.start_ns, round.latency.quantile(0.5).flatten().unwrap()));
    let mut counters: Vec<_> = read.counters.iter().map(|(_, ns, value)| (*ns, *value)).collect();
    counters.sort_unstable();
    assert_eq!(counters, of_rounds.collect::<Vec<_>>());
    assert_eq!(read.counters[0].0, "p50 of the round, tcp:send 64 B");
    assert!(read.slices.iter().any(|slice| slice.name == "tcp:zerocopy 2x32768"), "{:?}", read.slices.last());
}

#[test]
fn a_message_consists_of_its_stages() {
    let late = MessageRow { late_ns: Some(30), far_ns: Some(50), ..row(1000, 90) };
    let open = |plan: &mut Plan| {
        plan.cases[0].load = Load::Open { rate: Rate::per_second(10e3).unwrap(), arrivals: Arrivals::Poisson };
    };
    let read = trace(open, &[late, MessageRow { far_ns: None, ..late }, row(2000, 5)]);
    let of = |track: &str| -> Vec<(String, u64, u64, usize)> {
        let own = read.slices.iter().filter(|slice| slice.track.ends_with(track));
        own.map(|slice| (slice.name.clone(), slice.from, slice.to, slice.depth)).collect()
    };
    let stage = |name: &str, from, to| (name.to_owned(), from, to, 1);
    let first = of("slot 0");
    assert_eq!(
        first[..3],
        [stage("waiting to be sent", 1000, 1030), stage("request", 1030, 1050), stage("far end and reply", 1050, 1090)]
    );
    assert!(first[3].0.starts_with("tcp:send 64 B 10") && (first[3].1, first[3].2, first[3].3) == (1000, 1090, 0));
    assert_eq!((first[4].1, first[4].2, first[4].3), (2000, 2005, 0));
    assert_eq!(of("slot 1")[1], stage("send to reply", 1030, 1090));
}

#[test]
fn messages_in_flight_together_have_tracks_of_their_own() {
    let rows: Vec<MessageRow> = (0..200).map(|n| row(n * 10, 5 + n * 37 % 90)).collect();
    let read = trace(|plan| plan.cases[0].inflight = 16, &rows);
    assert_eq!(read.slices.len(), rows.len());
    let in_flight = |at: u64| {
        let is_in_flight = |row: &&MessageRow| row.start_ns <= at && at < row.start_ns + row.latency_ns.unwrap();
        rows.iter().filter(is_in_flight).count()
    };
    let most = rows.iter().map(|row| in_flight(row.start_ns)).max().unwrap();
    let tracks: std::collections::HashSet<_> = read.slices.iter().map(|slice| &slice.track).collect();
    assert!(most > 5 && tracks.len() == most, "{most} in flight, {tracks:?}");
}

#[test]
fn stamps_that_contradict_each_other_make_no_stages() {
    let wrong = MessageRow { late_ns: Some(500), far_ns: Some(20), ..row(10, 100) };
    let read = trace(|_| {}, &[wrong, MessageRow { far_ns: Some(9_000), late_ns: None, ..row(200, 100) }]);
    assert_eq!(read.slices.len(), 2);
    assert!(read.instants.is_empty() && read.flows.is_empty());
}

/// The trace of these calls of case 1, on one machine or on two.
fn trace_of_calls(same_machine: bool, rows: Vec<RpcRow>) -> Read {
    let mut header = test_run::header(u64::MAX);
    header.plan.cases[1].label = Some("write".into());
    let pair = RpcPair { same_machine: same_machine.then(|| "loopback".into()), ..RpcPair::default() };
    header.rpc = Some(RpcFacts { pairs: vec![pair], ..RpcFacts::default() });
    let run = Run { folder: "".into(), header, rounds: Vec::new(), end: None, damage: None };
    let mut out = Vec::new();
    let mut trace = Trace::new(&run, &mut out);
    trace.head().unwrap();
    trace.calls(rows.into_iter().map(Ok)).unwrap();
    read(&out)
}

#[test]
fn calls_have_parts_where_one_clock_made_the_stamps() {
    let row = |n: u64| RpcRow {
        case: 1,
        connection: 3,
        rpcid: n as u32 + 1,
        start_ns: 1_000 * n,
        latency_ns: (n != 2).then_some(1_500),
        received_ns: Some(400),
        replied_ns: Some(900),
        lock_ns: Some(100),
        ..RpcRow::default()
    };
    let read = trace_of_calls(true, (0..3).map(row).collect());
    let near: Vec<&Slice> =
        read.slices.iter().filter(|slice| slice.depth == 0 && slice.name.starts_with("write")).collect();
    assert_eq!(near.len(), 2);
    // They overlap, so each has a slot.
    assert_ne!(near[0].track, near[1].track);
    let of = |name: &str| -> Vec<(u64, u64)> {
        read.slices.iter().filter(|slice| slice.name == name).map(|slice| (slice.from, slice.to)).collect()
    };
    assert_eq!((of("request"), of("reply")), (vec![(0, 400), (1_000, 1_400)], vec![(900, 1_500), (1_900, 2_500)]));
    assert_eq!((of("server"), of("lock wait")), (vec![(400, 900), (1_400, 1_900)], vec![(400, 500), (1_400, 1_500)]));
    assert_eq!((read.flows.len(), read.instants.len(), read.notes), (2, 1, 12));
}

#[test]
fn calls_between_two_machines_are_not_split_by_unaligned_clocks() {
    let rows =
        vec![RpcRow { case: 1, latency_ns: Some(50), received_ns: Some(7), replied_ns: Some(9), ..RpcRow::default() }];
    let read = trace_of_calls(false, rows);
    assert_eq!((read.slices.len(), read.flows.len()), (1, 0));
}

#[test]
fn a_traced_message_leads_to_the_far_end_and_back() {
    let traced = MessageRow { far_ns: Some(40), far_sent_ns: Some(60), ..row(1_000, 100) };
    let place = tempfile::tempdir().unwrap();
    drop(RunWriter::create(place.path(), &test_run::header(0)).unwrap());
    let run = crate::read(place.path()).unwrap();
    let mut out = Vec::new();
    let mut trace = Trace::new(&run, BufWriter::new(&mut out));
    trace.head().unwrap();
    // The second arrives while the far end works on the first, which only a damaged record has.
    trace.round(&mut vec![traced, MessageRow { start_ns: 1_010, ..traced }]).unwrap();
    trace.out.flush().unwrap();
    drop(trace);
    let read = read(&out);
    let of = |name: &str| -> Vec<(u64, u64)> {
        read.slices.iter().filter(|slice| slice.name == name).map(|slice| (slice.from, slice.to)).collect()
    };
    assert_eq!((of("request"), of("reply")), (vec![(1_000, 1_040), (1_010, 1_050)], vec![(1_060, 1_100)]));
    assert_eq!(of("handler"), [(1_040, 1_060), (1_040, 1_060)], "once for each end");
    assert_eq!(of("far end and reply"), [(1_050, 1_110)]);
    let flows: std::collections::BTreeSet<_> = read.flows.values().copied().collect();
    let flow = |from, to| (Some(from), Some(to));
    assert_eq!(flows, [flow(1_000, 1_040), flow(1_010, 1_050), flow(1_040, 1_060)].into());
}

#[test]
fn the_kernel_has_tracks_of_its_own() {
    use msgpath_core::schema::{EventKind, KernelEvent, TraceRound, Tracing};
    let place = tempfile::tempdir().unwrap();
    let mut header = test_run::header(0);
    header.tracing = Some(Tracing::default());
    drop(RunWriter::create(place.path(), &header).unwrap());
    let mut run = crate::read(place.path()).unwrap();
    let mut round = test_run::round(0, 0);
    round.trace = Some(TraceRound { tasks: [(7, "worker".to_owned())].into(), ..TraceRound::default() });
    run.rounds.push(round);
    let event = |t_ns, kind, tid: i32, a, b| KernelEvent { t_ns, kind, tid, a, b, cpu: 1, ..KernelEvent::default() };
    let events = vec![
        event(10, EventKind::SchedSwitch, 0, 0, 7),
        event(20, EventKind::SysEnter, 7, 44, 0),
        KernelEvent { len: 130, ..event(25, EventKind::NetDevStartXmit, 7, 0xf00, 0) },
        event(30, EventKind::SysExit, 7, 64, 0),
        event(40, EventKind::SchedSwitch, 7, 1, 0),
        event(35, EventKind::SchedWaking, 9, 0, 7), // a clock that goes back
        event(50, EventKind::SysEnter, 7, 45, 0),
    ];
    let mut out = Vec::new();
    let mut trace = Trace::new(&run, BufWriter::new(&mut out));
    trace.head().unwrap();
    trace.kernel(&crate::Events { case: 0, pass: 0, events }).unwrap();
    trace.out.flush().unwrap();
    drop(trace);
    let read = read(&out);
    assert_eq!(read.processes[2], "kernel a, brisk-otter");
    let mut slices: Vec<_> =
        read.slices.iter().map(|slice| (slice.track.as_str(), slice.name.as_str(), slice.from, slice.to)).collect();
    slices.sort_unstable();
    assert_eq!(
        slices,
        [
            ("CPU 1", "idle", 40, 50),
            ("CPU 1", "worker 7", 10, 40),
            ("thread 7, system calls", "system call 44", 20, 30),
            ("thread 7, system calls", "system call 45", 50, 50),
        ]
    );
    let instants: Vec<_> = read.instants.iter().map(|(track, name, ns)| (track.as_str(), name.as_str(), *ns)).collect();
    assert_eq!(instants, [("CPU 1, events", "net_dev_start_xmit", 25), ("CPU 1, events", "sched_waking", 40)]);
}

#[test]
fn watched_requests_are_slices_with_their_stages() {
    let read = read(&exported_watched("perfetto"));
    assert_eq!(read.processes, ["server port 80, "]);
    let slice =
        |track: &str, name: &str, from, to, depth| Slice { track: track.into(), name: name.into(), from, to, depth };
    let (first, second) = ("connection 3, slot 0", "connection 3, slot 1");
    for expected in [
        slice(first, "GET /", 0, 50, 0),
        slice(first, "send call to data ready", 0, 20, 1),
        slice(first, "work: lock (futex)", 20, 50, 1),
        slice(second, "request", 40, 90, 0),
        slice(first, "request", 200, 250, 0),
    ] {
        assert!(read.slices.contains(&expected), "{expected:?} is not in {:?}", read.slices);
    }
    assert_eq!(read.slices.len(), 9);
}
