//! The formats of a run of calls.

mod csv;
mod json;
mod lab_log;
#[cfg(feature = "parquet")]
mod parquet;
mod perfetto;
#[cfg(test)]
#[allow(dead_code, reason = "traces of messages have more in them")]
#[path = "../../../../../crates/record/src/export/perfetto/test_trace.rs"]
mod test_trace;

use msgpath_record::columns::Column;
use msgpath_record::export::{Exporter, case};
use msgpath_record::{RecordError, Run};
use msgpath_rpc::tenlg::tenlg;
use msgpath_rpc::{Header, Kind, MARKER_BYTES, Method, RPC_HEADER_BYTES, Telling};

use super::columns::CALLS;
use super::{RpcFacts, RpcRow, stamps};

/// Every format.
pub static EXPORTERS: &[&dyn Exporter] = &[
    #[cfg(feature = "parquet")]
    &parquet::Parquet,
    &perfetto::Perfetto,
    &csv::RpcCsv,
    &json::RpcJson,
    &lab_log::LabLog,
];

fn has_calls(run: &Run) -> bool {
    run.header.parts.get::<RpcFacts>().is_some()
}

/// The calls of the run as far as they are whole, and what is known of them; at least one.
fn calls(run: &Run) -> Result<(&RpcFacts, impl Iterator<Item = RpcRow>), RecordError> {
    let mut rows = super::calls(&run.folder)?.map_while(Result::ok).peekable();
    match (run.header.parts.get::<RpcFacts>(), rows.peek()) {
        (Some(facts), Some(_)) => Ok((facts, rows)),
        _ => Err(RecordError::NoRows {
            run: run.header.name.clone(),
            what: "calls",
            why: "calls are of runs of `msgpath rpc` and `msgpath import`",
            hint: "a format of messages: messages-csv or parquet",
        }),
    }
}

/// The columns of a table of calls.
fn exported() -> Vec<&'static Column<RpcRow>> {
    CALLS.iter().filter(|column| column.is_exported()).collect()
}

/// A call as the lab's header has it: everything that a record of it may need, cut to µs. Where the client's port is not known,
/// the number of the connection (from 1) stands in for it.
fn lab_header(run: &Run, facts: &RpcFacts, row: &RpcRow) -> Header {
    let pair = &facts.pairs[row.pair as usize];
    let address = |text: &str| text.parse::<std::net::Ipv4Addr>().map_or(0, u32::from);
    let port = run.header.target.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
    let label = case(run, row.case).label.as_deref();
    Header {
        rpcid: row.rpcid,
        parent: row.parent,
        t: stamps(facts, row).map(|t| t.map_or(0, |ns| ns.div_euclid(1_000))),
        client_ip: address(&pair.client),
        server_ip: address(&pair.server),
        client_port: row.client_port.unwrap_or((row.connection as u16).wrapping_add(1)),
        server_port: port,
        lglen1: tenlg(request_body(row)),
        lglen2: tenlg(reply_body(row)),
        kind: Kind::RespRcv as u16,
        method: Method::new(label.unwrap_or("call")),
        status: row.status,
        pad: 0,
    }
}

/// Bytes of marker and header of a message.
const HEAD: u64 = (MARKER_BYTES + RPC_HEADER_BYTES) as u64;

/// Bytes of the request's body.
fn request_body(row: &RpcRow) -> u64 {
    row.request_bytes.saturating_sub(HEAD)
}

/// Bytes of the reply's body: where msgpath's server told of the lock, its header is longer.
fn reply_body(row: &RpcRow) -> u64 {
    let told = if row.lock_ns.is_some() { Telling::BYTES as u64 } else { 0 };
    row.reply_bytes.saturating_sub(HEAD + told)
}

#[cfg(test)]
mod tests {
    use msgpath_core::foreign::shown;
    use msgpath_core::schema::RunHeader;
    use msgpath_record::RunWriter;

    use super::*;
    use crate::record::test_run;

    fn exporter(name: &str) -> &'static dyn Exporter {
        EXPORTERS.iter().copied().find(|exporter| exporter.name() == name).unwrap()
    }

    /// The bytes of one format, from a run of 20 calls.
    pub(crate) fn exported_calls(name: &str) -> (Vec<u8>, Vec<RpcRow>) {
        let rows = [test_run::calls(1, 0, 10), test_run::calls(0, 0, 10)];
        (exported(name, &rows), rows.concat())
    }

    /// The bytes of one format, from a run of these calls.
    pub(crate) fn exported(name: &str, rows: &[Vec<RpcRow>]) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let mut header = test_run::header();
        header.target = "10.9.0.2:12345".into();
        header.plan.cases.iter_mut().for_each(|case| case.label = Some("write".into()));
        header.parts.get_mut::<RpcFacts>().unwrap().begin_unix_us = 1_700_000_000_123_456;
        let mut writer = RunWriter::create(place.path(), &header).unwrap();
        rows.iter().for_each(|rows| writer.rows::<RpcRow>(rows).unwrap());
        let mut out = Vec::new();
        exporter(name).export(&msgpath_record::read(place.path()).unwrap(), &mut out).unwrap();
        out
    }

    /// Erases a terminal, turns the direction of writing, and is a formula.
    const HOSTILE: &str = "=cmd|' /C calc'!A0\u{1b}[2J\u{202e}\u{9b}31m\r\n@x";

    #[test]
    fn text_of_others_commands_no_terminal_and_no_spreadsheet_in_any_format() {
        let place = tempfile::tempdir().unwrap();
        let mut header = RunHeader { name: HOSTILE.into(), target: HOSTILE.into(), ..test_run::header() };
        header.plan.cases.iter_mut().for_each(|case| case.label = Some(HOSTILE.into()));
        let facts = header.parts.get_mut::<RpcFacts>().unwrap();
        facts.pairs.iter_mut().for_each(|pair| (pair.client, pair.server) = (HOSTILE.into(), HOSTILE.into()));
        let mut writer = RunWriter::create(place.path(), &header).unwrap();
        let mut calls = test_run::calls(0, 0, 10);
        calls.iter_mut().for_each(|call| call.key = *b"@1\x1b[2J\xe2\x80\xae\n=1\0\0\0\0");
        writer.rows::<RpcRow>(&calls).unwrap();
        let run = msgpath_record::read(place.path()).unwrap();
        for format in EXPORTERS {
            let mut out = Vec::new();
            format.export(&run, &mut out).unwrap();
            // Typed columns and the lab's own records: their readers show them.
            if format.binary() {
                assert!(!out.windows(4).any(|bytes| bytes == b"\x1b[2J") || format.name() != "perfetto");
                continue;
            }
            let text = std::str::from_utf8(&out).unwrap();
            text.lines().for_each(|line| assert_eq!(shown(line), line, "{}", format.name()));
            if format.extension() != "csv" {
                continue;
            }
            for record in ::csv::ReaderBuilder::new().has_headers(false).from_reader(out.as_slice()).records() {
                for found in &record.unwrap() {
                    let is_formula = found.starts_with(['=', '+', '-', '@']) && found.parse::<f64>().is_err();
                    assert!(!is_formula, "{found:?}");
                }
            }
        }
    }

    #[test]
    fn a_run_without_calls_is_not_exported() {
        let place = tempfile::tempdir().unwrap();
        drop(RunWriter::create(place.path(), &test_run::header()).unwrap());
        let run = msgpath_record::read(place.path()).unwrap();
        for format in EXPORTERS {
            let mut out = Vec::new();
            let error = format.export(&run, &mut out).unwrap_err();
            assert!(matches!(error, RecordError::NoRows { what: "calls", .. }) && out.is_empty(), "{error}");
        }
    }
}
