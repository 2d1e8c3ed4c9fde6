//! Watched requests as a trace: a process for each server, in it a track for each connection, on it requests with their stages. Times
//! are ns since the first request.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use msgpath_core::watch::{RequestRow, Stage};
use msgpath_record::RecordError;
use msgpath_record::export::perfetto::{
    BEGIN, END, Lanes, MESSAGES, Message, NEEDS_STATE, PACKET, PID, PROCESS_NAME, STATE_CLEARED, event, interned,
    packet, track,
};

use super::Watched;
use crate::record::name_of;

/// What a request is called of which nobody knows what it asks for.
const REQUEST: &str = "request";

pub(super) fn write(watched: &Watched, out: &mut dyn Write) -> Result<(), RecordError> {
    let mut rows: Vec<&RequestRow> = watched.rows.iter().collect();
    rows.sort_by_key(|row| row.t0_ns);
    let mut out = BufWriter::new(out);
    let mut put = |packet: Message| {
        let packet = packet.uint(packet::SEQUENCE, MESSAGES);
        out.write_all(&Message::default().message(PACKET, &packet).finish()).map_err(RecordError::Export)
    };
    let mut names: HashMap<[u8; 16], u64> = HashMap::new();
    let mut data = Message::default();
    for (at, name) in Stage::ALL.iter().map(|stage| stage.words()).chain([REQUEST]).enumerate() {
        data = data.message(interned::EVENT_NAMES, &entry(at as u64 + 1, name));
    }
    for row in &rows {
        let new = (Stage::ALL.len() + 2 + names.len()) as u64;
        if row.what != [0; 16] && !names.contains_key(&row.what) {
            names.insert(row.what, new);
            data = data.message(interned::EVENT_NAMES, &entry(new, &name_of(&row.what)));
        }
    }
    let head = Message::default().uint(packet::SEQUENCE_FLAGS, STATE_CLEARED);
    put(head.message(packet::INTERNED_DATA, &data))?;
    // Numbers from 1: servers, and tracks of connections.
    let (mut servers, mut tracks, mut given) = (HashMap::new(), HashMap::new(), 0);
    let (mut lanes, mut events) = (HashMap::<(u32, u64), Lanes>::new(), Vec::new());
    let begin = rows.first().map_or(0, |row| row.t0_ns);
    for row in rows {
        let server = match servers.get(&row.service) {
            Some(server) => *server,
            None => {
                given += 1;
                let name = format!("{} port {}, {}", name_of(&row.server_name), row.port, watched.header.name);
                let process = Message::default().uint(PID, given).text(PROCESS_NAME, &name);
                put(described(Message::default().uint(track::UUID, given).message(track::PROCESS, &process)))?;
                *servers.entry(row.service).or_insert(given)
            }
        };
        let start = row.t0_ns - begin;
        let end = start.saturating_add(row.total_ns);
        let slot = lanes.entry((row.service, row.connection)).or_default().take(start, end);
        let on = match tracks.get(&(row.service, row.connection, slot)) {
            Some(on) => *on,
            None => {
                given += 1;
                let name = format!("connection {}, slot {slot}", row.connection);
                let of = Message::default().uint(track::UUID, given).text(track::NAME, &name);
                put(described(of.uint(track::PARENT_UUID, server)))?;
                *tracks.entry((row.service, row.connection, slot)).or_insert(given)
            }
        };
        let of = |kind: u64| Message::default().uint(event::TYPE, kind).uint(event::TRACK_UUID, on);
        let name = names.get(&row.what).copied().unwrap_or(Stage::ALL.len() as u64 + 1);
        events.push((start, of(BEGIN).uint(event::NAME_IID, name)));
        let mut at = start;
        for stage in Stage::ALL.into_iter().filter(|stage| row.stage(*stage) > 0) {
            events.push((at, of(BEGIN).uint(event::NAME_IID, stage as u64 + 1)));
            at = at.saturating_add(row.stage(stage));
            events.push((at, of(END)));
        }
        events.push((end, of(END)));
    }
    events.sort_by_key(|(ns, _)| *ns); // a stable sort: what follows at the same time stays behind
    for (ns, event) in events {
        let packet = Message::default().uint(packet::TIMESTAMP, ns).uint(packet::SEQUENCE_FLAGS, NEEDS_STATE);
        put(packet.message(packet::TRACK_EVENT, &event))?;
    }
    out.flush().map_err(RecordError::Export)
}

fn entry(iid: u64, name: &str) -> Message {
    Message::default().uint(interned::IID, iid).text(interned::NAME, name)
}

fn described(track: Message) -> Message {
    Message::default().message(packet::TRACK_DESCRIPTOR, &track)
}
