//! `rpc-csv`: one row per call; `msgpath import` reads it again.

use std::io::Write;

use super::{Exporter, calls, case, failed, stamps};
use crate::{RecordError, Run};

pub(super) struct RpcCsv;

impl Exporter for RpcCsv {
    fn name(&self) -> &'static str {
        "rpc-csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "one row per call, T1 to T4 as recorded; an empty stamp is not known"
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let (facts, rows) = calls(run)?;
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(COLUMNS).map_err(failed)?;
        for row in rows {
            let text = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
            let [t1, t2, t3, t4] = stamps(facts, &row).map(|t| t.map_or_else(String::new, |t| t.to_string()));
            let pair = &facts.pairs[row.pair as usize];
            let case = case(run, row.case);
            let length = row.key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            csv.write_record([
                &row.case.to_string(),
                case.label.as_deref().unwrap_or_default(),
                &row.pass.to_string(),
                &row.connection.to_string(),
                &pair.client,
                &pair.server,
                &row.rpcid.to_string(),
                &row.parent.to_string(),
                &row.status.to_string(),
                &row.request_bytes.to_string(),
                // A reply has a header at least.
                &text((row.reply_bytes > 0).then_some(row.reply_bytes)),
                &u8::from(row.lengths_estimated).to_string(),
                &String::from_utf8_lossy(&row.key[..length]),
                &t1,
                &t2,
                &t3,
                &t4,
                &text(row.sent_ns),
                &text(row.first_ns),
                &text(row.waited_ns),
                &text(row.lock_ns),
                &text(row.late_ns),
            ])
            .map_err(failed)?;
        }
        csv.flush().map_err(failed)
    }
}

const COLUMNS: [&str; 22] = [
    "case",
    "method",
    "pass",
    "connection",
    "client",
    "server",
    "rpcid",
    "parent",
    "status",
    "request_bytes",
    "reply_bytes",
    "lengths_estimated",
    "key",
    "t1_ns",
    "t2_ns",
    "t3_ns",
    "t4_ns",
    "sent_ns",
    "first_ns",
    "waited_ns",
    "lock_ns",
    "late_ns",
];

#[cfg(test)]
mod tests {
    use crate::export::tests::exported_calls;
    use msgpath_rpc::csv::{Row, Rows};

    #[test]
    fn every_call_is_a_row_that_the_import_reads() {
        let (bytes, calls) = exported_calls("rpc-csv");
        let rows: Vec<Row> = Rows::new(bytes.as_slice(), b',').unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), calls.len());
        for (row, call) in rows.iter().zip(&calls) {
            let t1 = 1_700_000_000_123_456_000 + call.start_ns as i64;
            assert_eq!(
                row.t,
                [
                    Some(t1),
                    call.received_ns.map(|ns| t1 + ns),
                    call.replied_ns.map(|ns| t1 + ns),
                    call.latency_ns.map(|ns| t1 + ns as i64)
                ]
            );
            assert_eq!((row.method.as_str(), row.key.as_str(), row.rpcid), ("write", "kkkkk", call.rpcid));
            assert_eq!((row.client.as_str(), row.bytes), ("10.9.0.1", [Some(118), Some(88)]));
        }
    }
}
