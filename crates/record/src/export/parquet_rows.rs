//! `parquet`: one row per logged message with the columns of its case beside it, so that one file is enough.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::messages_csv::columns;
use super::{Exporter, messages};
use crate::columns::{Cell, Column, Context, Kind};
use crate::{RecordError, Run};

/// Rows that are held in memory before they are written.
const ROWS_PER_GROUP: usize = 1 << 17;

type Columns<R> = [&'static Column<R>];

/// The type of a file, from the list of its columns. Integers are signed, without a logical type: many readers have no other.
pub fn schema<R>(name: &str, columns: &Columns<R>) -> String {
    let field = |column: &&Column<R>| {
        let repetition = if column.null.is_empty() { "required" } else { "optional" };
        let (kind, logical) = match column.kind {
            Kind::Text | Kind::Decimal => ("binary", " (STRING)"),
            Kind::Int32 => ("int32", ""),
            Kind::Int64 => ("int64", ""),
        };
        format!("{repetition} {kind} {}{logical}; ", column.name)
    };
    format!("message {name} {{ {}}}", columns.iter().map(field).collect::<String>())
}

pub(super) struct Parquet;

impl Exporter for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn summary(&self) -> &'static str {
        "one row per logged message with its case, lz4; an empty latency is a lost message"
    }

    fn binary(&self) -> bool {
        true
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        write_rows(run, "messages", &columns(), messages(run)?, out)
    }
}

/// A file of one table of this name.
///
/// # Errors
/// A cell does not fit into its type, or `out` cannot be written.
pub fn write_rows<R: 'static>(
    run: &Run,
    name: &str,
    columns: &Columns<R>,
    rows: impl Iterator<Item = R>,
    out: &mut dyn Write,
) -> Result<(), RecordError> {
    write(run, name, columns, rows, out).map_err(|error| {
        RecordError::Export(match error {
            ParquetError::External(source) => {
                source.downcast::<io::Error>().map_or_else(io::Error::other, |source| *source)
            }
            other => io::Error::other(other),
        })
    })
}

fn write<R>(
    run: &Run,
    name: &str,
    columns: &Columns<R>,
    mut rows: impl Iterator<Item = R>,
    out: &mut dyn Write,
) -> Result<(), ParquetError> {
    let about = [
        ("msgpath.schema", &run.header.schema),
        ("msgpath.run", &run.header.name),
        ("msgpath.started", &run.header.started),
    ];
    let about = about.into_iter().map(|(key, value)| KeyValue::new(key.into(), value.clone()));
    let about = about.chain(columns.iter().map(|column| KeyValue::new(column.name.into(), column.explained())));
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_key_value_metadata(Some(about.collect()))
        .build();
    // The library wants a writer that can change threads, `out` cannot: so each group goes through memory.
    let schema = Arc::new(parse_message_type(&schema(name, columns))?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let (of, mut group) = (Context::new(run), Vec::new());
    loop {
        group.clear();
        group.extend(rows.by_ref().take(ROWS_PER_GROUP));
        if group.is_empty() {
            break;
        }
        write_group(&of, columns, &group, file.next_row_group()?)?;
        file.flush()?;
        out.write_all(&std::mem::take(file.inner_mut()))?;
    }
    out.write_all(&file.into_inner()?)?;
    Ok(out.flush()?)
}

fn write_group<R>(
    of: &Context<'_>,
    columns: &Columns<R>,
    rows: &[R],
    mut group: SerializedRowGroupWriter<'_, Vec<u8>>,
) -> Result<(), ParquetError> {
    for column in columns {
        let cells: Vec<Cell<'_>> = rows.iter().map(|row| column.cell(of, row)).collect();
        let write = match column.kind {
            Kind::Text | Kind::Decimal => write_column::<ByteArrayType, R>,
            Kind::Int32 => write_column::<Int32Type, R>,
            Kind::Int64 => write_column::<Int64Type, R>,
        };
        write(&mut group, column, &cells)?;
    }
    group.close().map(drop)
}

fn write_column<T: DataType<T: FromCell>, R>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column<R>,
    cells: &[Cell<'_>],
) -> Result<(), ParquetError> {
    let fault = |what: &str| ParquetError::General(format!("the column {} {what}", column.name));
    let there = || cells.iter().filter(|cell| **cell != Cell::Empty);
    let values: Option<Vec<T::T>> = there().map(T::T::from_cell).collect();
    let values = values.ok_or_else(|| fault("has a value that does not fit into its type"))?;
    let levels: Vec<i16> = cells.iter().map(|cell| (*cell != Cell::Empty).into()).collect();
    let mut writer = group.next_column()?.ok_or_else(|| fault("is not in the schema"))?;
    writer.typed::<T>().write_batch(&values, (!column.null.is_empty()).then_some(&levels), None)?;
    writer.close()
}

/// A value of a file; `None`: it does not fit.
trait FromCell: Sized {
    fn from_cell(cell: &Cell<'_>) -> Option<Self>;
}

impl FromCell for i32 {
    fn from_cell(cell: &Cell<'_>) -> Option<i32> {
        i64::from_cell(cell)?.try_into().ok()
    }
}

impl FromCell for i64 {
    fn from_cell(cell: &Cell<'_>) -> Option<i64> {
        if let Cell::Number(number) = cell { (*number).try_into().ok() } else { None }
    }
}

impl FromCell for ByteArray {
    fn from_cell(cell: &Cell<'_>) -> Option<ByteArray> {
        if let Cell::Text(text) = cell { Some(text.as_ref().into()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};

    use msgpath_core::schema::MessageRow;

    use super::*;
    use crate::export::tests::{exported, message};
    use crate::{RunWriter, test_run};

    fn open(bytes: &[u8]) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    fn number(row: &Row, name: &str) -> Option<u64> {
        match row.get_column_iter().find(|(column, _)| *column == name).unwrap().1 {
            Field::Int(value) => Some(u64::try_from(*value).unwrap()),
            Field::Long(value) => Some(u64::try_from(*value).unwrap()),
            Field::Null => None,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn back(row: &Row) -> MessageRow {
        message(|name| number(row, name))
    }

    #[test]
    fn every_message_is_a_row() {
        let (bytes, written) = exported("parquet");
        let file = open(&bytes);
        let rows: Vec<Row> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.iter().map(back).collect::<Vec<_>>(), written.rows);
        assert_eq!(number(&rows[10], "size_bytes"), Some(65_536));
        assert!(rows[10].to_string().contains("path: \"tcp:zerocopy\""));
    }

    #[test]
    fn the_page_of_the_book_has_the_schema() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/parquet.md");
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = plain(&std::fs::read_to_string(file).unwrap());
        let schema = schema("messages", &columns());
        assert!(page.contains(&plain(&schema)), "docs/parquet.md lacks: {schema}");
        assert!(page.contains("131 072") && ROWS_PER_GROUP == 131_072);
    }

    #[test]
    fn integers_are_signed_and_every_column_is_explained() {
        let file = open(&exported("parquet").0);
        let metadata = file.metadata().file_metadata();
        let explained: Vec<_> = metadata.key_value_metadata().unwrap().iter().map(|pair| pair.key.as_str()).collect();
        for column in metadata.schema_descr().columns() {
            let text = column.physical_type() == parquet::basic::Type::BYTE_ARRAY;
            assert_eq!(column.logical_type_ref().is_some(), text, "{column:?}");
            assert!(explained.contains(&column.name()), "{}", column.name());
        }
    }

    /// A header that somebody else wrote may hold any number.
    #[test]
    fn what_does_not_fit_is_an_error_that_names_its_column() {
        for (size, threads, name) in [(u64::MAX, 1, "size_bytes"), (64, u32::MAX, "threads")] {
            let place = tempfile::tempdir().unwrap();
            test_run::write(place.path(), 100);
            let mut run = crate::read(place.path()).unwrap();
            (run.header.plan.cases[1].size, run.header.plan.cases[1].threads) = (size, threads);
            let error = Parquet.export(&run, &mut Vec::new()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn many_messages_are_several_row_groups() {
        let place = tempfile::tempdir().unwrap();
        let rows = test_run::rows(0, 0, ROWS_PER_GROUP as u64 + 3);
        let mut writer = RunWriter::create(place.path(), &test_run::header(u64::MAX)).unwrap();
        writer.round(&test_run::round(0, 0), &rows).unwrap();
        let mut out = Vec::new();
        Parquet.export(&crate::read(place.path()).unwrap(), &mut out).unwrap();
        let file = open(&out);
        assert_eq!(file.metadata().num_row_groups(), 2);
        let last = file.get_row_iter(None).unwrap().last().unwrap().unwrap();
        assert_eq!(back(&last), *rows.last().unwrap());
    }
}
