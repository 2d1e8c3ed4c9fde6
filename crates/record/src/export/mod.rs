//! The formats a run is exported to: one file each, and one line in [`EXPORTERS`]; those of rows of features are theirs.
//!
//! An exporter reads a whole [`Run`]; a format of messages streams them from its folder and stops where the log stops
//! being whole, which [`Run::damage`](crate::Run::damage) tells. A cell that cannot be had is empty, never 0.

mod bare;
pub(crate) mod csv_rounds;
mod hdr;
mod hgrm;
mod hlog;
mod json;
mod messages_csv;
#[cfg(feature = "parquet")]
mod parquet_rows;
#[cfg(feature = "parquet")]
mod parquet_table;
pub mod perfetto;
mod shared;

use msgpath_core::plugged::Plugged;

use crate::Run;

pub use bare::csv;
#[cfg(feature = "parquet")]
pub use bare::parquet;
pub use csv_rounds::Csv;
#[cfg(feature = "parquet")]
pub use parquet_rows::{schema, write_rows};
#[cfg(feature = "parquet")]
pub use parquet_table::{TableColumn, TableValues, write_table};
pub use shared::{Exporter, case, failed, write_columns};
use shared::{counted, field, is_known, is_told, messages, nonzero, receiver_bits_per_s, write_csv};
pub(crate) use shared::{reply, role_word};

/// The formats of the base.
static EXPORTERS: &[&dyn Exporter] = &[
    &Csv,
    &messages_csv::MessagesCsv,
    &json::Json,
    #[cfg(feature = "parquet")]
    &parquet_rows::Parquet,
    &hgrm::Hgrm,
    &hlog::Hlog,
    &perfetto::Perfetto,
];

/// Those of features.
pub static ADDED: Plugged<dyn Exporter> = Plugged::new();

/// Every format. A feature may have one of a name that the base has: for runs with rows of its own.
pub fn all() -> impl Iterator<Item = &'static dyn Exporter> {
    EXPORTERS.iter().copied().chain(ADDED.all())
}

/// The format of this name, as it is for a run.
pub fn exporter(name: &str, run: &Run) -> Option<&'static dyn Exporter> {
    all().filter(|exporter| exporter.name() == name && exporter.is_for(run)).last()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use msgpath_core::foreign::shown;
    use msgpath_core::schema::{MessageRow, RunHeader};

    use super::*;
    use crate::{RecordError, test_run};

    /// The bytes of one format, from a run of six rounds and sixty messages.
    pub(crate) fn exported(name: &str) -> (Vec<u8>, test_run::Written) {
        let place = tempfile::tempdir().unwrap();
        let written = test_run::write(place.path(), 100);
        let mut out = Vec::new();
        let run = crate::read(place.path()).unwrap();
        exporter(name, &run).unwrap().export(&run, &mut out).unwrap();
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
        let place = tempfile::tempdir().unwrap();
        let mut writer = crate::RunWriter::create(place.path(), &hostile(test_run::header(100))).unwrap();
        writer.round(&test_run::round(0, 0), &test_run::rows(0, 0, 10)).unwrap();
        drop(writer);
        let run = crate::read(place.path()).unwrap();
        for format in EXPORTERS {
            let mut out = Vec::new();
            format.export(&run, &mut out).unwrap();
            match format.name() {
                // Typed columns: their readers show them.
                "parquet" => assert!(format.binary()),
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
                    assert_eq!(matches!(error, RecordError::NoRows { .. }), messages, "{error}");
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
            exporter(name, &run).unwrap().export(&run, &mut Vec::new()).unwrap();
        }
    }
}
