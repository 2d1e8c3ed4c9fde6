//! `rpc-csv`: one row per call; `msgpath import` reads it again.

use std::io::Write;

use msgpath_record::export::{Exporter, write_columns};
use msgpath_record::{RecordError, Run};

use super::{calls, exported};

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
        write_columns(run, &exported(), calls(run)?.1, out)
    }
}

#[cfg(test)]
mod tests {
    use crate::record::export::tests::exported_calls;
    use msgpath_rpc::csv::{Row, Rows, table};

    #[test]
    fn every_call_is_a_row_that_the_import_reads() {
        let (bytes, calls) = exported_calls("rpc-csv");
        let rows: Vec<Row> = Rows::new(bytes.as_slice(), table(&bytes).unwrap()).unwrap().map(Result::unwrap).collect();
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
