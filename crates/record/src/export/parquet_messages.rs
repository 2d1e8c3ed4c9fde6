//! `parquet`: one row per logged message with the columns of its case beside it, so that one file is enough.

use std::io::{self, Write};
use std::sync::Arc;

use msgpath_core::schema::MessageRow;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{Exporter, case, messages, reply, role_word};
use crate::{RecordError, Run};

/// Rows that are held in memory before they are written.
const ROWS_PER_GROUP: usize = 1 << 17;

/// An empty `latency_ns` is a lost message; an empty `far_ns` is one without a stamp at the far end; `late_ns` is
/// there in an open loop, where the start is the intended send; `far_sent_ns` and `sent_ns` in traced rounds.
const SCHEMA: &str = "message messages {
    required int32 case (INTEGER(32, false));
    required binary path (STRING);
    required binary role (STRING);
    required binary pieces (STRING);
    required int64 size_bytes (INTEGER(64, false));
    optional int64 reply_bytes (INTEGER(64, false));
    required int32 connections (INTEGER(32, false));
    required int32 threads (INTEGER(32, false));
    required int32 inflight (INTEGER(32, false));
    required int32 pass (INTEGER(32, false));
    required int32 connection (INTEGER(32, false));
    required int64 sequence (INTEGER(64, false));
    required int64 start_ns (INTEGER(64, false));
    optional int64 latency_ns (INTEGER(64, false));
    optional int64 far_ns (INTEGER(64, false));
    optional int64 late_ns (INTEGER(64, false));
    optional int64 far_sent_ns (INTEGER(64, false));
    optional int64 sent_ns (INTEGER(64, false));
}";

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
        let rows = messages(run)?;
        write(run, rows, out).map_err(|error| {
            RecordError::Export(match error {
                ParquetError::External(source) => {
                    source.downcast::<io::Error>().map_or_else(io::Error::other, |source| *source)
                }
                other => io::Error::other(other),
            })
        })
    }
}

fn write(run: &Run, mut rows: impl Iterator<Item = MessageRow>, out: &mut dyn Write) -> Result<(), ParquetError> {
    let about = [
        ("msgpath.schema", &run.header.schema),
        ("msgpath.run", &run.header.name),
        ("msgpath.started", &run.header.started),
    ];
    let about = about.into_iter().map(|(key, value)| KeyValue::new(key.into(), value.clone())).collect();
    let properties =
        WriterProperties::builder().set_compression(Compression::LZ4_RAW).set_key_value_metadata(Some(about)).build();
    // The library wants a writer that can change threads, `out` cannot: so each group goes through memory.
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(parse_message_type(SCHEMA)?), Arc::new(properties))?;
    let mut group = Vec::new();
    loop {
        group.clear();
        group.extend(rows.by_ref().take(ROWS_PER_GROUP));
        if group.is_empty() {
            break;
        }
        write_group(run, &group, file.next_row_group()?)?;
        file.flush()?;
        out.write_all(&std::mem::take(file.inner_mut()))?;
    }
    out.write_all(&file.into_inner()?)?;
    Ok(out.flush()?)
}

fn write_group(
    run: &Run,
    rows: &[MessageRow],
    mut group: SerializedRowGroupWriter<'_, Vec<u8>>,
) -> Result<(), ParquetError> {
    let of = |row: &MessageRow| case(run, row.case);
    // Cloning a ByteArray shares its bytes: one text per case.
    let texts: Vec<[ByteArray; 3]> = run
        .header
        .plan
        .cases
        .iter()
        .map(|case| {
            [case.path.to_string(), role_word(case.role).to_string(), case.pieces.to_string()]
                .map(|text| text.into_bytes().into())
        })
        .collect();
    let text = |row: &MessageRow, at: usize| texts[row.case as usize][at].clone();
    // In the order of SCHEMA.
    column::<Int32Type>(&mut group, rows, |row| row.case as i32)?;
    for at in 0..3 {
        column::<ByteArrayType>(&mut group, rows, |row| text(row, at))?;
    }
    column::<Int64Type>(&mut group, rows, |row| of(row).size as i64)?;
    optional(&mut group, rows, |row| reply(run, of(row)))?;
    column::<Int32Type>(&mut group, rows, |row| of(row).connections as i32)?;
    column::<Int32Type>(&mut group, rows, |row| of(row).threads as i32)?;
    column::<Int32Type>(&mut group, rows, |row| of(row).inflight as i32)?;
    column::<Int32Type>(&mut group, rows, |row| row.pass as i32)?;
    column::<Int32Type>(&mut group, rows, |row| row.connection as i32)?;
    column::<Int64Type>(&mut group, rows, |row| row.sequence as i64)?;
    column::<Int64Type>(&mut group, rows, |row| row.start_ns as i64)?;
    optional(&mut group, rows, |row| row.latency_ns)?;
    optional(&mut group, rows, |row| row.far_ns)?;
    optional(&mut group, rows, |row| row.late_ns)?;
    optional(&mut group, rows, |row| row.far_sent_ns)?;
    optional(&mut group, rows, |row| row.sent_ns)?;
    group.close().map(drop)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    rows: &[MessageRow],
    value: impl Fn(&MessageRow) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    levels_and_values::<T>(group, &values, None)
}

fn optional(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    rows: &[MessageRow],
    value: impl Fn(&MessageRow) -> Option<u64>,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = rows.iter().map(|row| value(row).is_some().into()).collect();
    let values: Vec<i64> = rows.iter().filter_map(|row| value(row).map(|value| value as i64)).collect();
    levels_and_values::<Int64Type>(group, &values, Some(&levels))
}

fn levels_and_values<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("more columns than the schema has".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};

    use super::*;
    use crate::export::tests::exported;
    use crate::{RunWriter, test_run};

    fn open(bytes: &[u8]) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    fn number(row: &Row, name: &str) -> Option<u64> {
        match row.get_column_iter().find(|(column, _)| *column == name).unwrap().1 {
            Field::UInt(value) => Some((*value).into()),
            Field::ULong(value) => Some(*value),
            Field::Null => None,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn back(row: &Row) -> MessageRow {
        let small = |name| number(row, name).unwrap() as u32;
        MessageRow {
            case: small("case"),
            pass: small("pass"),
            connection: small("connection"),
            sequence: number(row, "sequence").unwrap(),
            start_ns: number(row, "start_ns").unwrap(),
            latency_ns: number(row, "latency_ns"),
            far_ns: number(row, "far_ns"),
            late_ns: number(row, "late_ns"),
            far_sent_ns: number(row, "far_sent_ns"),
            sent_ns: number(row, "sent_ns"),
        }
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
