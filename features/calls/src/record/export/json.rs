//! `rpc-json`: the JSON of the RPC lab's viewer, valid and sorted.

use std::io::{BufWriter, Write};

use msgpath_core::schema::NEAR;
use msgpath_record::export::{Exporter, failed};
use msgpath_record::{RecordError, Run};
use msgpath_rpc::Kind;
use msgpath_rpc::json::{self, FOOTER};
use msgpath_rpc::log::Record;

use super::{calls, lab_header, reply_body};
use crate::record::{RpcRow, originals};

pub(super) struct RpcJson;

impl Exporter for RpcJson {
    fn name(&self) -> &'static str {
        "rpc-json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "one event per call for the viewer of the RPC lab; stamps as recorded, those not known are named"
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let (facts, rows) = calls(run)?;
        let title = run.header.host(NEAR).facts.get("title").unwrap_or(&run.header.name);
        if let Some(records) = originals::all(&run.folder) {
            return write(title, one_each(records), out);
        }
        let mut rows: Vec<RpcRow> = rows.collect();
        rows.sort_by_key(|row| row.start_ns);
        let record = |row: &RpcRow| {
            let header = lab_header(run, facts, row);
            let length = u32::try_from(reply_body(row)).unwrap_or(u32::MAX);
            // Of the lab's two events a call the one with all stamps; where only the server saw it, the server's.
            let kind =
                if row.latency_ns.is_none() && row.replied_ns.is_some() { Kind::RespSend } else { Kind::RespRcv };
            Record::from_parts(kind, &header, length, row.reply_begin)
        };
        write(title, rows.iter().map(record).collect(), out)
    }
}

fn write(title: &str, records: Vec<Record>, out: &mut dyn Write) -> Result<(), RecordError> {
    let t1 = |record: &Record| record.header.t[0];
    let (first, last) = (records.first().map_or(0, t1), records.last().map_or(0, t1));
    let base = json::base_of(first);
    let mut out = BufWriter::new(out);
    out.write_all(json::header(title, base, last).as_bytes()).map_err(failed)?;
    for record in &records {
        out.write_all(json::event(record, base).as_bytes()).map_err(failed)?;
    }
    out.write_all(FOOTER.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

/// Of the records of a call the one with most stamps, in the order of T1: the client's reply, else the server's, else the
/// request.
fn one_each(records: Vec<Record>) -> Vec<Record> {
    let rank = |record: &Record| match record.kind() {
        Kind::RespRcv => Some(0),
        Kind::RespSend => Some(1),
        Kind::ReqRcv => Some(2),
        Kind::ReqSend => Some(3),
        Kind::Text => None,
    };
    // A request as its client knows it has no address of the client.
    let call =
        |record: &Record| (record.header.t[0], record.header.rpcid, record.header.server_ip, record.header.server_port);
    let client = |record: &Record| (record.header.client_ip, record.header.client_port);
    let mut all: Vec<(u8, Record)> = records.into_iter().filter_map(|one| Some((rank(&one)?, one))).collect();
    all.sort_by_key(|(rank, one)| (call(one), *rank));
    let mut kept: Vec<Record> = Vec::new();
    let mut from = 0; // the first of the same call in `kept`
    for (rank, one) in all {
        if kept.get(from).is_some_and(|first| call(first) != call(&one)) {
            from = kept.len();
        }
        let known = kept[from..].iter().any(|other| rank > 0 && (rank == 3 || client(other) == client(&one)));
        if !known {
            kept.push(one);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::export::tests::exported_calls;

    #[test]
    fn the_events_are_sorted_and_valid() {
        let (bytes, mut calls) = exported_calls("rpc-json");
        calls.sort_by_key(|call| call.start_ns);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&value["title"], &value["tracebase"]), (&"brisk-otter".into(), &"2023-11-14_22:13:00".into()));
        let document = json::read(&bytes).unwrap();
        assert!(!document.repaired);
        let latency: Vec<_> = document.records.iter().map(|one| one.header.t.map(|t| t - one.header.t[0])).collect();
        for (stamps, call) in latency.iter().zip(&calls) {
            if let (Some(received), Some(latency)) = (call.received_ns, call.latency_ns) {
                assert_eq!((stamps[1], stamps[3]), (received.div_euclid(1_000), latency as i64 / 1_000));
            }
        }
        assert_eq!(document.records.len(), calls.len());
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("\"not known: T2 T3\""), "{text}");
    }
}
