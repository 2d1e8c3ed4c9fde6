//! What was seen of watched programs, for other programs: a row each request.

use std::io::Write;

use msgpath_record::{RecordError, export};

use super::{Requests, Watched};

pub(crate) fn csv(watched: &Watched, out: &mut dyn Write) -> Result<(), RecordError> {
    export::csv::<Requests>(&watched.rows, out)
}

#[cfg(feature = "parquet")]
pub(crate) fn parquet(watched: &Watched, out: &mut dyn Write) -> Result<(), RecordError> {
    export::parquet::<Requests>(&watched.rows, out)
}

pub(crate) fn perfetto(watched: &Watched, out: &mut dyn Write) -> Result<(), RecordError> {
    super::perfetto::write(watched, out)
}

#[cfg(test)]
#[allow(dead_code, reason = "traces of messages have more in them")]
#[path = "../../../../crates/record/src/export/perfetto/test_trace.rs"]
mod test_trace;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use msgpath_core::foreign::shown;
    use msgpath_core::watch::{Culprit, RequestRow, Stage};
    use msgpath_record::columns::Logged;

    use super::*;
    use crate::record::export::test_trace::{Slice, read};

    fn watched() -> Watched {
        let row = |t0_ns: u64, what: &[u8; 16]| {
            let mut row =
                RequestRow { t0_ns, total_ns: 50, connection: 3, port: 80, what: *what, ..RequestRow::default() };
            (row.stages[Stage::Send as usize], row.stages[Stage::WorkLock as usize]) = (20, 30);
            row.block = Culprit { ns: 30, pid: 9, call: -1, kind: 0, cpu: 1, name: *b"holder\0\0\0\0\0\0\0\0\0\0" };
            row.server_name = *b"server\0\0\0\0\0\0\0\0\0\0";
            row
        };
        let rows = vec![row(1_000, b"GET /\0\0\0\0\0\0\0\0\0\0\0"), row(1_040, &[0; 16]), row(1_200, &[0; 16])];
        Watched { rows, ..Watched::default() }
    }

    type Format = fn(&Watched, &mut dyn Write) -> Result<(), RecordError>;

    fn exported(watched: &Watched, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        format(watched, &mut out).unwrap();
        out
    }

    #[test]
    fn every_request_is_a_row() {
        let bytes = exported(&watched(), csv);
        let rows: Vec<HashMap<String, String>> =
            ::csv::Reader::from_reader(bytes.as_slice()).deserialize().map(Result::unwrap).collect();
        assert_eq!((rows.len(), rows[0].len()), (3, Requests::COLUMNS.len()));
        let cell = |name: &str| rows[0][name].as_str();
        assert_eq!(["t0_ns", "send_ns", "work_lock_ns", "held_ns"].map(cell), ["1000", "20", "30", "0"]);
        // No call: a page fault, or nothing.
        assert_eq!(["what", "block_name", "block_pid", "block_call"].map(cell), ["GET /", "holder", "9", ""]);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn a_table_has_the_same() {
        use parquet::file::reader::{FileReader, SerializedFileReader};

        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), exported(&watched(), parquet)).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(place.path()).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert!(
            rows.len() == 3 && rows[0].contains("work_lock_ns: 30") && rows[0].contains("what: \"GET /\""),
            "{rows:?}"
        );
        assert!(rows[1].contains("what: null") && rows[1].contains("block_call: null"), "{rows:?}");
    }

    #[test]
    fn watched_requests_are_slices_with_their_stages() {
        let read = read(&exported(&watched(), perfetto));
        assert_eq!(read.processes, ["server port 80, "]);
        let slice = |track: &str, name: &str, from, to, depth| Slice {
            track: track.into(),
            name: name.into(),
            from,
            to,
            depth,
        };
        let (first, second) = ("connection 3, slot 0", "connection 3, slot 1");
        for expected in [
            slice(first, "GET /", 0, 50, 0),
            slice(first, "send call to data ready", 0, 20, 1),
            slice(first, "work: lock (futex)", 20, 50, 1),
            slice(second, "request", 40, 90, 0),
            slice(first, "request", 200, 250, 0),
        ] {
            assert!(read.slices.contains(&expected), "{expected:?} is not in {:?}", read.slices);
        }
        assert_eq!(read.slices.len(), 9);
    }

    /// Erases a terminal, turns the direction of writing, and is a formula.
    const HOSTILE: &str = "=cmd|' /C calc'!A0\u{1b}[2J\u{202e}\u{9b}31m\r\n@x";

    /// A table is harmless line by line, and so is each of its cells in a spreadsheet.
    fn assert_harmless(bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.lines().all(|line| shown(line) == line), "{text}");
        for record in ::csv::ReaderBuilder::new().has_headers(false).from_reader(bytes).records() {
            for found in &record.unwrap() {
                let is_formula = found.starts_with(['=', '+', '-', '@']) && found.parse::<f64>().is_err();
                assert!(!is_formula, "{found:?}");
            }
        }
    }

    #[test]
    fn names_of_watched_programs_command_no_terminal_and_no_spreadsheet() {
        let mut watched = watched();
        watched.header.name = HOSTILE.into();
        for row in &mut watched.rows {
            (row.what, row.server_name) = (*b"@1\x1b[2J\xe2\x80\xae\n=1\0\0\0\0", *b"=1+1\x1b[2J\r\n\0\0\0\0\0\0");
            row.block.name = *b"-1+\x1b[2J\0\0\0\0\0\0\0\0\0";
        }
        let trace = exported(&watched, perfetto);
        assert!(!trace.windows(4).any(|bytes| bytes == b"\x1b[2J"));
        let table = exported(&watched, csv);
        assert_harmless(&table);
        let text = String::from_utf8(table).unwrap();
        assert!(text.contains("'=1+1") && text.contains("'@1") && text.contains("'-1+"), "{text}");
    }
}
