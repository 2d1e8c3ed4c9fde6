//! The formats a run is exported to: one file each, and one line in [`EXPORTERS`].
//!
//! An exporter reads a whole [`Run`]; a format of messages streams them from its folder and stops where the log stops
//! being whole, which [`Run::damage`] tells. A cell that cannot be had is empty, never 0.

mod csv_rounds;
mod hdr;
mod hgrm;
mod hlog;
mod json;
mod messages_csv;
#[cfg(feature = "parquet")]
mod parquet_messages;
mod perfetto;

use std::io::{self, Write};

use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{MessageRow, RoundRecord};
use msgpath_core::{Case, Workload};

use crate::{RecordError, Run};

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
    /// finds none.
    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError>;
}

/// Every format.
pub static EXPORTERS: &[&dyn Exporter] = &[
    &csv_rounds::Csv,
    &messages_csv::MessagesCsv,
    &json::Json,
    #[cfg(feature = "parquet")]
    &parquet_messages::Parquet,
    &hgrm::Hgrm,
    &hlog::Hlog,
    &perfetto::Perfetto,
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

/// The case of a round or a message; the reader has checked that it exists.
fn case(run: &Run, id: u32) -> &Case {
    &run.header.plan.cases[id as usize]
}

fn role_word(role: CaseRole) -> &'static str {
    match role {
        CaseRole::Measured => "measured",
        CaseRole::Control => "control",
        CaseRole::Yardstick => "yardstick",
        CaseRole::Trial => "trial",
    }
}

/// Bytes of the reply; a stream has none.
fn reply(run: &Run, case: &Case) -> Option<u64> {
    (run.header.plan.workload == Workload::Echo).then_some(case.reply)
}

/// Bits per second of a stream: the receiver's bytes on the receiver's clock.
fn receiver_bits_per_s(run: &Run, round: &RoundRecord) -> Option<f64> {
    let receiver = if run.header.plan.reverse { &round.near } else { &round.far };
    let stream = run.header.plan.workload == Workload::Stream && receiver.elapsed_ns > 0;
    stream.then(|| receiver.bytes_received as f64 * 8e9 / receiver.elapsed_ns as f64)
}

fn failed(error: impl Into<io::Error>) -> RecordError {
    RecordError::Export(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_run;

    /// The bytes of one format, from a run of six rounds and sixty messages.
    pub(crate) fn exported(name: &str) -> (Vec<u8>, test_run::Written) {
        let place = tempfile::tempdir().unwrap();
        let written = test_run::write(place.path(), 100);
        let mut out = Vec::new();
        exporter(name).unwrap().export(&crate::read(place.path()).unwrap(), &mut out).unwrap();
        (out, written)
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
        test_run::write(place.path(), 100);
        let run = crate::read(place.path()).unwrap();
        for (at, format) in EXPORTERS.iter().enumerate() {
            assert!(EXPORTERS[..at].iter().all(|other| other.name() != format.name()));
            assert!(!format.extension().starts_with('.') && !format.summary().ends_with('.'));
            let error = format.export(&run, &mut Gone).unwrap_err();
            assert!(error.is_broken_pipe(), "{}: {error}", format.name());
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
                    assert!(matches!(error, RecordError::NoMessages { .. }) && out.is_empty(), "{}", format.name());
                    assert!(["messages-csv", "parquet", "perfetto"].contains(&format.name()));
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
