//! The formats a run is exported to: one file each, and one line in [`EXPORTERS`].
//!
//! An exporter reads a whole [`Run`](crate::Run); a format of messages streams them from its folder and stops where the log stops
//! being whole, which [`Run::damage`](crate::Run::damage) tells. A cell that cannot be had is empty, never 0.

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
mod shared;

pub use bare::csv;
#[cfg(feature = "parquet")]
pub use bare::parquet;
#[cfg(feature = "parquet")]
pub use parquet_table::{TableColumn, TableValues, write_table};
pub use shared::Exporter;
use shared::{
    body, calls, case, counted, failed, field, is_known, lab_header, messages, nonzero, receiver_bits_per_s, write_csv,
};
pub(crate) use shared::{reply, role_word, stamps};

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

#[cfg(test)]
mod tests {
    use msgpath_core::schema::RpcFacts;
    use std::io::{self, Write};

    use msgpath_core::foreign::shown;
    use msgpath_core::schema::{MessageRow, RpcRow, RunHeader};

    use super::*;
    use crate::{RecordError, test_run};

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
