//! `lab-log`: the binary log that the lab's tools read, two records a call.
//!
//! A call with T4 has the records of a client, one that only the server saw those of a server, one without a reply its
//! request alone. A run that was imported from such logs gives back their records as they were, and a run of calls
//! has recorded what its client's log would hold. Of runs from other files no bodies are known: of the first 24 bytes of
//! a request there are the lengths and the key, as far as they are known, the rest is 0.

use std::io::{BufWriter, Write};

use msgpath_record::export::{Exporter, failed};
use msgpath_record::{RecordError, Run};
use msgpath_rpc::Kind;
use msgpath_rpc::log::{DATA_BYTES, Record};

use super::{calls, lab_header, reply_body, request_body};
use crate::record::{RpcRow, originals};

pub(super) struct LabLog;

impl Exporter for LabLog {
    fn name(&self) -> &'static str {
        "lab-log"
    }

    fn extension(&self) -> &'static str {
        "log"
    }

    fn summary(&self) -> &'static str {
        "the binary log of the RPC lab, as client4 writes it"
    }

    fn binary(&self) -> bool {
        true
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let (facts, rows) = calls(run)?;
        if let Some(mut log) = originals::log(&run.folder) {
            return std::io::copy(&mut log, out).map(drop).map_err(failed);
        }
        let mut rows: Vec<RpcRow> = rows.collect();
        rows.sort_by_key(|row| row.start_ns);
        let mut out = BufWriter::new(out);
        for row in rows {
            let header = lab_header(run, facts, &row);
            let kinds = match (row.latency_ns, row.replied_ns) {
                (Some(_), _) => [Some(Kind::ReqSend), Some(Kind::RespRcv)],
                (None, Some(_)) => [Some(Kind::ReqRcv), Some(Kind::RespSend)],
                (None, None) => [Some(Kind::ReqSend), None],
            };
            for kind in kinds.into_iter().flatten() {
                let request = matches!(kind, Kind::ReqSend | Kind::ReqRcv);
                let length = if request { request_body(&row) } else { reply_body(&row) };
                let data = if request { begin(&row, header.method.bytes()) } else { row.reply_begin };
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                out.write_all(&Record::from_parts(kind, &header, length, data).to_bytes()).map_err(failed)?;
            }
        }
        out.flush().map_err(failed)
    }
}

/// The first bytes of a request: those that were recorded, or those of its key, as far as they are known.
fn begin(row: &RpcRow, method: &[u8]) -> [u8; DATA_BYTES] {
    let mut data = row.request_begin;
    if data != [0; DATA_BYTES] {
        return data;
    }
    let length = row.key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let has_value = [&b"write"[..], b"sink"].contains(&method);
    let room = request_body(row).saturating_sub(4);
    // A key of 16 bytes may be the begin of a longer one: only without a value its length is known.
    let known = if has_value { (length < row.key.len()).then_some(length as u64) } else { Some(room) };
    let Some(known) = known.filter(|known| length > 0 && *known >= length as u64 && *known <= room) else {
        return data;
    };
    data[..4].copy_from_slice(&(known as u32).to_le_bytes());
    data[4..4 + length].copy_from_slice(&row.key[..length]);
    let value = room.checked_sub(known + 4).filter(|_| has_value && !row.lengths_estimated);
    if let Some((value, place)) = value.zip(data.get_mut(4 + length..8 + length)) {
        place.copy_from_slice(&(value as u32).to_le_bytes());
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::export::tests::{exported, exported_calls};
    use crate::record::test_run;
    use msgpath_rpc::log::{RECORD_BYTES, records};

    #[test]
    fn two_records_a_call_in_the_order_of_t1() {
        let (bytes, mut calls) = exported_calls("lab-log");
        calls.sort_by_key(|call| call.start_ns);
        let records: Vec<Record> = records(&bytes, 0).map(Result::unwrap).collect();
        let lost = calls.iter().filter(|call| call.latency_ns.is_none()).count();
        assert_eq!((bytes.len() % RECORD_BYTES, records.len()), (0, 2 * calls.len() - lost));
        let replies = records.iter().filter(|record| record.kind() == Kind::RespRcv);
        for (reply, call) in replies.zip(calls.iter().filter(|call| call.latency_ns.is_some())) {
            let t1 = 1_700_000_000_123_456 + (call.start_ns / 1_000) as i64;
            assert_eq!(reply.header.t[0], t1);
            assert_eq!(reply.header.t[1], call.received_ns.map_or(0, |ns| t1 + ns.div_euclid(1_000)));
            assert_eq!((reply.header.server_port, reply.header.client_ip), (12_345, 0x0a09_0001));
        }
        let request = records[0];
        assert_eq!((request.kind(), request.length, request.key()), (Kind::ReqSend, 30, Some(&b"kkkkk"[..])));
        assert_eq!(request.data[9..13], 17_u32.to_le_bytes());
    }

    #[test]
    fn what_a_run_has_recorded_of_port_and_bodies_is_in_its_log() {
        let mut rows = test_run::calls(0, 0, 3);
        for (row, port) in rows.iter_mut().zip(40_001..) {
            (row.client_port, row.request_begin, row.reply_begin) = (Some(port), [port as u8; 24], [7; 24]);
        }
        let bytes = exported("lab-log", &[rows]);
        let records: Vec<Record> = records(&bytes, 0).map(Result::unwrap).collect();
        for (call, port) in records.chunks(2).zip(40_001..) {
            assert_eq!(call.iter().map(|record| record.data).collect::<Vec<_>>(), [[port as u8; 24], [7; 24]]);
            assert_eq!(call[1].header.client_port, port, "a request is sent without the client's port");
        }
    }
}
