//! `parquet` of a run of calls: one row per call.

use std::io::Write;

use msgpath_record::export::{Exporter, write_rows};
use msgpath_record::{RecordError, Run};

use super::{calls, exported, has_calls};

pub(super) struct Parquet;

impl Exporter for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn summary(&self) -> &'static str {
        "one row per call"
    }

    fn is_for(&self, run: &Run) -> bool {
        has_calls(run)
    }

    fn binary(&self) -> bool {
        true
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        write_rows(run, "calls", &exported(), calls(run)?.1, out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};

    use super::*;
    use crate::record::export::tests::exported_calls;

    fn number(row: &Row, name: &str) -> Option<u64> {
        match row.get_column_iter().find(|(column, _)| *column == name).unwrap().1 {
            Field::Int(value) => Some(u64::try_from(*value).unwrap()),
            Field::Long(value) => Some(u64::try_from(*value).unwrap()),
            Field::Null => None,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn open(bytes: &[u8]) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    #[test]
    fn every_call_of_an_rpc_run_is_a_row() {
        let (bytes, written) = exported_calls("parquet");
        let rows: Vec<Row> = open(&bytes).get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), written.len());
        for (row, call) in rows.iter().zip(&written) {
            assert_eq!(number(row, "rpcid"), Some(call.rpcid.into()));
            let latency = number(row, "t4_ns").map(|t4| t4 - number(row, "t1_ns").unwrap());
            assert_eq!((latency, number(row, "request_bytes")), (call.latency_ns, Some(118)));
            assert!(row.to_string().contains("method: \"write\""), "{row}");
        }
    }

    #[test]
    fn the_page_of_the_book_has_the_schema() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/parquet.md");
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let schema = msgpath_record::export::schema("calls", &exported());
        assert!(
            plain(&std::fs::read_to_string(file).unwrap()).contains(&plain(&schema)),
            "docs/parquet.md lacks: {schema}"
        );
    }
}
