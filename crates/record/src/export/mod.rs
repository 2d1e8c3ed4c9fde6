//! The formats a run is exported to: one file each, and one line in [`EXPORTERS`].
//!
//! An exporter reads a whole [`Run`]; a format of messages streams them from its folder and stops where the log stops
//! being whole, which [`Run::damage`] tells. A cell that cannot be had is empty, never 0.

mod bare;
pub(crate) mod csv_rounds;
mod hdr;
mod hgrm;
mod hlog;
mod json;
mod lab_log;
mod messages_csv;
#[cfg(feature = "parquet")]
mod parquet_rows;
#[cfg(feature = "parquet")]
mod parquet_table;
pub mod perfetto;
mod rpc_csv;
mod rpc_json;

use std::io::{self, Write};

use msgpath_core::Case;
use msgpath_core::foreign::cell;
use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{Counted, EndReport, MessageRow, RoundRecord, RpcFacts, RpcRow};
use msgpath_rpc::tenlg::tenlg;
use msgpath_rpc::{Header, Kind, MARKER_BYTES, Method, RPC_HEADER_BYTES};

use crate::columns::Cell;
use crate::{RecordError, Run};

pub use bare::csv;
#[cfg(feature = "parquet")]
pub use bare::parquet;
#[cfg(feature = "parquet")]
pub use parquet_table::{TableColumn, TableValues, write_table};

/// A format.
pub trait Exporter: Sync {
    /// What is typed after `--to`.
    fn name(&self) -> &'static str;
    /// Of the file, without a dot.
    fn extension(&self) -> &'static str;
    /// One line for help texts, lower case, no full stop.
    fn summary(&self) -> &'static str;
    /// Whether the bytes are nothing for a terminal.
    fn binary(&self) -> bool {
        false
    }
    /// Writes the run.
    ///
    /// # Errors
    /// [`RecordError::Export`] where `out` cannot be written, [`RecordError::NoMessages`] where a format of messages
    /// finds none, [`RecordError::NoCalls`] where one of calls does.
    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError>;
}

/// Every format.
pub static EXPORTERS: &[&dyn Exporter] = &[
    &csv_rounds::Csv,
    &messages_csv::MessagesCsv,
    &json::Json,
    #[cfg(feature = "parquet")]
    &parquet_rows::Parquet,
    &hgrm::Hgrm,
    &hlog::Hlog,
    &perfetto::Perfetto,
    &rpc_csv::RpcCsv,
    &rpc_json::RpcJson,
    &lab_log::LabLog,
];

/// The format of this name.
pub fn exporter(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|exporter| exporter.name() == name)
}

/// The messages of the run as far as they are whole; at least one.
fn messages(run: &Run) -> Result<impl Iterator<Item = MessageRow>, RecordError> {
    let mut rows = crate::messages(&run.folder)?.map_while(Result::ok).peekable();
    match rows.peek() {
        Some(_) => Ok(rows),
        None => Err(RecordError::NoMessages { run: run.header.name.clone() }),
    }
}

/// The calls of the run as far as they are whole, and what is known of them; at least one.
fn calls(run: &Run) -> Result<(&RpcFacts, impl Iterator<Item = RpcRow>), RecordError> {
    let mut rows = crate::rpcs(&run.folder)?.map_while(Result::ok).peekable();
    match (run.header.parts.get::<RpcFacts>(), rows.peek()) {
        (Some(facts), Some(_)) => Ok((facts, rows)),
        _ => Err(RecordError::NoCalls { run: run.header.name.clone() }),
    }
}

/// T1 to T4 in ns since 1970 (or since the start of a run whose date is not known), as recorded.
pub(crate) fn stamps(facts: &RpcFacts, row: &RpcRow) -> [Option<i64>; 4] {
    let t1 = facts.begin_unix_us.saturating_mul(1_000).saturating_add_unsigned(row.start_ns);
    let after = |ns: Option<i64>| ns.map(|ns| t1.saturating_add(ns));
    [
        Some(t1),
        after(row.received_ns),
        after(row.replied_ns),
        after(row.latency_ns.and_then(|ns| i64::try_from(ns).ok())),
    ]
}

/// A call as the lab's header has it: everything that a record of it may need, cut to µs. What the record does not keep
/// stands in for it: the number of the connection (from 1) for the client's port.
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
        client_port: (row.connection as u16).wrapping_add(1),
        server_port: port,
        lglen1: tenlg(body(row.request_bytes)),
        lglen2: tenlg(body(row.reply_bytes)),
        kind: Kind::RespRcv as u16,
        method: Method::new(label.unwrap_or("call")),
        status: row.status,
        pad: 0,
    }
}

/// Bytes of the body of a message with all its headers.
fn body(message: u64) -> u64 {
    message.saturating_sub((MARKER_BYTES + RPC_HEADER_BYTES) as u64)
}

/// The case of a round or a message; the reader has checked that it exists.
fn case(run: &Run, id: u32) -> &Case {
    &run.header.plan.cases[id as usize]
}

pub(crate) fn role_word(role: CaseRole) -> &'static str {
    match role {
        CaseRole::Measured => "measured",
        CaseRole::Control => "control",
        CaseRole::Reference => "reference",
        CaseRole::Ablation => "ablation",
    }
}

/// What is known of what the ends spent in a round.
fn counted(run: &Run, round: &RoundRecord) -> [Counted; 2] {
    run.header.counted(case(run, round.case))
}

/// What is counted of system calls: a field of the report, and its columns.
const CALLS: [&str; 14] = [
    "calls",
    "send_calls",
    "recv_calls",
    "wait_calls",
    "other_calls",
    "recv_full",
    "recv_short",
    "recv_empty",
    "send_short",
    "copied_bytes",
    "signals",
    "dropped",
    "redirected",
    "mapped_bytes",
];

/// Whether a field of an end's report is known: where nobody read its counters, what the stamps and lengths of calls tell.
fn is_known(field: &str, end: &EndReport, counted: Counted) -> bool {
    match counted {
        Counted::All => return true,
        Counted::AllButCalls => return !CALLS.contains(&field),
        Counted::CpuTime => return field == "user_ns",
        Counted::Nothing => {}
    }
    let always = ["elapsed_ns", "bytes_sent", "bytes_received", "sent", "received", "lost", "delivery"];
    always.contains(&field) && *end != EndReport::default()
}

/// A part of the CPU time, ns. The kernel tells user mode and its own apart by ticks: where none fell into a part, it may
/// still have taken some of the time, so that a 0 was not counted.
fn nonzero(ns: u64) -> Option<u64> {
    Some(ns).filter(|ns| *ns > 0)
}

/// Bytes of the reply of an echo; nothing else has one of a known size.
pub(crate) fn reply(run: &Run, case: &Case) -> Option<u64> {
    run.header.plan.workload.is_echoed().then_some(case.reply)
}

/// Bits per second of a stream: the receiver's bytes on the receiver's clock.
fn receiver_bits_per_s(run: &Run, round: &RoundRecord) -> Option<f64> {
    let receiver = if run.header.plan.reverse { round.near() } else { round.far() };
    let stream = !run.header.plan.workload.timed && receiver.elapsed_ns > 0;
    stream.then(|| receiver.bytes_received as f64 * 8e9 / receiver.elapsed_ns as f64)
}

/// A table; its rows are made one at a time. Text of others is harmless in a terminal and in a spreadsheet.
fn write_csv(
    head: impl Iterator<Item = String>,
    rows: impl Iterator<Item = Vec<String>>,
    out: &mut dyn Write,
) -> Result<(), RecordError> {
    let mut csv = csv::Writer::from_writer(out);
    let record = |cells: &[String]| cells.iter().map(|text| cell(text).into_owned()).collect::<Vec<_>>();
    csv.write_record(record(&head.collect::<Vec<_>>())).map_err(failed)?;
    // Wrapped, the error would not be known for a closed pipe.
    let refused = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => failed(error),
        other => failed(io::Error::other(format!("{other:?}"))),
    };
    for row in rows {
        csv.write_record(record(&row)).map_err(refused)?;
    }
    csv.flush().map_err(failed)
}

fn field(cell: Cell<'_>) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Number(number) => number.to_string(),
        Cell::Text(text) => text.into_owned(),
    }
}

fn failed(error: impl Into<io::Error>) -> RecordError {
    RecordError::Export(error.into())
}

#[cfg(test)]
mod tests {
    use msgpath_core::foreign::shown;
    use msgpath_core::schema::RunHeader;

    use super::*;
    use crate::test_run;

    /// The bytes of one format, from a run of 20 calls.
    pub(crate) fn exported_calls(name: &str) -> (Vec<u8>, Vec<RpcRow>) {
        let place = tempfile::tempdir().unwrap();
        let mut header = test_run::rpc_header();
        header.target = "10.9.0.2:12345".into();
        header.plan.cases.iter_mut().for_each(|case| case.label = Some("write".into()));
        let rpc = header.parts.get_mut::<RpcFacts>().unwrap();
        rpc.begin_unix_us = 1_700_000_000_123_456;
        let mut writer = crate::RunWriter::create(place.path(), &header).unwrap();
        let rows = [test_run::calls(1, 0, 10), test_run::calls(0, 0, 10)];
        rows.iter().for_each(|rows| writer.rpcs(rows).unwrap());
        let mut out = Vec::new();
        exporter(name).unwrap().export(&crate::read(place.path()).unwrap(), &mut out).unwrap();
        (out, rows.concat())
    }

    /// The bytes of one format, from a run of six rounds and sixty messages.
    pub(crate) fn exported(name: &str) -> (Vec<u8>, test_run::Written) {
        let place = tempfile::tempdir().unwrap();
        let written = test_run::write(place.path(), 100);
        let mut out = Vec::new();
        exporter(name).unwrap().export(&crate::read(place.path()).unwrap(), &mut out).unwrap();
        (out, written)
    }

    /// A message of which the numbers are known by name.
    pub(crate) fn message(number: impl Fn(&str) -> Option<u64>) -> MessageRow {
        let small = |name| number(name).unwrap() as u32;
        MessageRow {
            case: small("case_id"),
            pass: small("pass"),
            connection: small("connection"),
            sequence: number("sequence").unwrap(),
            start_ns: number("start_ns").unwrap(),
            latency_ns: number("latency_ns"),
            far_ns: number("far_ns"),
            late_ns: number("late_ns"),
            far_sent_ns: number("far_sent_ns"),
            sent_ns: number("sent_ns"),
            ..MessageRow::default()
        }
    }

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_format_has_a_name_of_its_own_and_notices_a_closed_pipe() {
        let place = tempfile::tempdir().unwrap();
        let mut writer = crate::RunWriter::create(place.path(), &test_run::header(1_000)).unwrap();
        // More than a buffer holds.
        (0..3).for_each(|pass| writer.round(&test_run::round(0, pass), &test_run::rows(0, pass, 300)).unwrap());
        drop(writer);
        let run = crate::read(place.path()).unwrap();
        for (at, format) in EXPORTERS.iter().enumerate() {
            assert!(EXPORTERS[..at].iter().all(|other| other.name() != format.name()));
            assert!(!format.extension().starts_with('.') && !format.summary().ends_with('.'));
            if ["rpc-csv", "rpc-json", "lab-log"].contains(&format.name()) {
                continue; // the run has no calls
            }
            let error = format.export(&run, &mut Gone).unwrap_err();
            let RecordError::Export(source) = &error else { panic!("{}: {error}", format.name()) };
            assert_eq!(source.kind(), io::ErrorKind::BrokenPipe, "{}", format.name());
        }
    }

    /// Erases a terminal, turns the direction of writing, and is a formula.
    const HOSTILE: &str = "=cmd|' /C calc'!A0\u{1b}[2J\u{202e}\u{9b}31m\r\n@x";

    /// The text that a format makes is harmless line by line, and so is each cell of a table in a spreadsheet.
    fn assert_harmless(name: &str, is_table: bool, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap();
        for line in text.lines() {
            assert_eq!(shown(line), line, "{name}");
        }
        if !is_table {
            return;
        }
        for record in csv::ReaderBuilder::new().has_headers(false).from_reader(bytes).records() {
            for found in &record.unwrap() {
                let is_formula = found.starts_with(['=', '+', '-', '@']) && found.parse::<f64>().is_err();
                assert!(!is_formula, "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn text_of_others_commands_no_terminal_and_no_spreadsheet_in_any_format() {
        let hostile = |header: RunHeader| {
            let mut header = RunHeader { name: HOSTILE.into(), target: HOSTILE.into(), verb: HOSTILE.into(), ..header };
            (header.version, header.started) = (HOSTILE.into(), HOSTILE.into());
            header.plan.cases.iter_mut().for_each(|case| case.label = Some(HOSTILE.into()));
            header.ends.iter_mut().for_each(|end| end.name = HOSTILE.into());
            header
        };
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut writer = crate::RunWriter::create(places[0].path(), &hostile(test_run::header(100))).unwrap();
        writer.round(&test_run::round(0, 0), &test_run::rows(0, 0, 10)).unwrap();
        drop(writer);
        let mut header = hostile(test_run::rpc_header());
        let facts = header.parts.get_mut::<RpcFacts>().unwrap();
        facts.pairs.iter_mut().for_each(|pair| (pair.client, pair.server) = (HOSTILE.into(), HOSTILE.into()));
        let mut writer = crate::RunWriter::create(places[1].path(), &header).unwrap();
        let mut calls = test_run::calls(0, 0, 10);
        calls.iter_mut().for_each(|call| call.key = *b"@1\x1b[2J\xe2\x80\xae\n=1\0\0\0\0");
        writer.rpcs(&calls).unwrap();
        drop(writer);
        let runs = [0, 1].map(|at| crate::read(places[at].path()).unwrap());
        for format in EXPORTERS {
            let written = runs.iter().find_map(|run| {
                let mut out = Vec::new();
                format.export(run, &mut out).ok().map(|()| out)
            });
            let out = written.unwrap_or_else(|| panic!("{} wrote neither run", format.name()));
            match format.name() {
                // Typed columns and the lab's own records: their readers show them.
                "parquet" | "lab-log" => assert!(format.binary()),
                "perfetto" => assert!(!out.windows(4).any(|bytes| bytes == b"\x1b[2J")),
                name => assert_harmless(name, format.extension() == "csv", &out),
            }
        }
    }

    #[test]
    fn a_format_of_messages_says_when_there_are_none() {
        let place = tempfile::tempdir().unwrap();
        test_run::write(place.path(), 0);
        let run = crate::read(place.path()).unwrap();
        for format in EXPORTERS {
            let mut out = Vec::new();
            match format.export(&run, &mut out) {
                Ok(()) => assert!(!out.is_empty()),
                Err(error) => {
                    assert!(out.is_empty(), "{}", format.name());
                    let messages = ["messages-csv", "parquet", "perfetto"].contains(&format.name());
                    let calls = ["rpc-csv", "rpc-json", "lab-log"].contains(&format.name());
                    assert_eq!(matches!(error, RecordError::NoMessages { .. }), messages, "{error}");
                    assert_eq!(matches!(error, RecordError::NoCalls { .. }), calls, "{error}");
                }
            }
        }
    }

    #[test]
    fn a_run_without_a_round_can_be_exported() {
        let place = tempfile::tempdir().unwrap();
        drop(crate::RunWriter::create(place.path(), &test_run::header(0)).unwrap());
        let run = crate::read(place.path()).unwrap();
        for name in ["csv", "json", "hgrm", "hlog"] {
            exporter(name).unwrap().export(&run, &mut Vec::new()).unwrap();
        }
    }
}
