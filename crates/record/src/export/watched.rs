//! What was seen of watched programs, for other programs: a row each request.

use std::io::Write;

use msgpath_core::watch::RequestRow;

use super::{field, perfetto, write_csv};
use crate::RecordError;
use crate::columns::Logged;
use crate::watch::Watched;

/// A format of watched requests.
pub struct WatchedExporter {
    /// What is typed after `--to`.
    pub name: &'static str,
    /// The bytes are nothing for a terminal.
    pub binary: bool,
    /// Writes the requests.
    pub export: fn(&Watched, &mut dyn Write) -> Result<(), RecordError>,
}

/// Every format.
pub static WATCHED_EXPORTERS: &[WatchedExporter] = &[
    WatchedExporter { name: "csv", binary: false, export: csv },
    #[cfg(feature = "parquet")]
    WatchedExporter { name: "parquet", binary: true, export: parquet },
    WatchedExporter { name: "perfetto", binary: true, export: perfetto::watched::write },
];

fn csv(watched: &Watched, out: &mut dyn Write) -> Result<(), RecordError> {
    let columns = || RequestRow::COLUMNS.iter();
    let rows = watched.rows.iter().map(|row| columns().map(|column| field(column.bare(row))).collect());
    write_csv(columns().map(|column| column.name.to_owned()), rows, out)
}

#[cfg(feature = "parquet")]
fn parquet(watched: &Watched, out: &mut dyn Write) -> Result<(), RecordError> {
    use super::{TableColumn, TableValues};
    use crate::columns::{Cell, Column};

    let values = |column: &'static Column<RequestRow>| {
        let cells = watched.rows.iter().map(|row| column.bare(row));
        if column.is_key() {
            TableValues::Text(cells.map(|cell| Some(field(cell)).filter(|text| !text.is_empty())).collect())
        } else {
            let number = |cell| if let Cell::Number(number) = cell { number.try_into().ok() } else { None };
            TableValues::Whole(cells.map(number).collect())
        }
    };
    let columns: Vec<TableColumn> =
        RequestRow::COLUMNS.iter().map(|column| TableColumn { name: column.name, values: values(column) }).collect();
    super::write_table("requests", &columns, out).map_err(super::failed)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;

    use msgpath_core::watch::{Culprit, Stage};

    use super::*;

    pub(crate) fn watched() -> Watched {
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

    pub(crate) fn exported(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let format = WATCHED_EXPORTERS.iter().find(|format| format.name == name).expect("a format");
        (format.export)(&watched(), &mut out).unwrap();
        out
    }

    #[test]
    fn every_request_is_a_row() {
        let bytes = exported("csv");
        let rows: Vec<HashMap<String, String>> =
            csv::Reader::from_reader(bytes.as_slice()).deserialize().map(Result::unwrap).collect();
        assert_eq!((rows.len(), rows[0].len()), (3, RequestRow::COLUMNS.len()));
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
        std::fs::write(place.path(), exported("parquet")).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(place.path()).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert!(
            rows.len() == 3 && rows[0].contains("work_lock_ns: 30") && rows[0].contains("what: \"GET /\""),
            "{rows:?}"
        );
        assert!(rows[1].contains("what: null") && rows[1].contains("block_call: null"), "{rows:?}");
    }
}
