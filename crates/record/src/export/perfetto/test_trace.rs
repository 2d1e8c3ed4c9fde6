//! Reads a trace by the schema of Perfetto, by numbers and types as its `.proto` files have them: for tests, those of features among them.

use std::collections::HashMap;

use msgpath_core::varint;

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
pub(crate) struct Slice {
    pub(crate) track: String,
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) depth: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) slices: Vec<Slice>,
    pub(crate) instants: Vec<(String, String, u64)>,
    pub(crate) counters: Vec<(String, u64, u64)>,
    pub(crate) processes: Vec<String>,
    /// Begin and end of each flow, ns.
    pub(crate) flows: HashMap<u64, (Option<u64>, Option<u64>)>,
    pub(crate) notes: usize,
}

/// Reads a trace as the viewer does, and insists on what it needs.
pub(crate) fn read(bytes: &[u8]) -> Read {
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
