//! A table as a Parquet file, for tables that are not logs of the record. Integers are signed and packed by their differences.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

const ROWS_PER_GROUP: usize = 1 << 17;

pub struct TableColumn {
    pub name: &'static str,
    /// A value a row.
    pub values: TableValues,
}

pub enum TableValues {
    /// Words; names that occur often take little room.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Other numbers.
    Real(Vec<Option<f64>>),
    /// Several whole numbers a row.
    List(Vec<Vec<i64>>),
}

impl TableValues {
    fn rows(&self) -> usize {
        match self {
            TableValues::Text(values) => values.len(),
            TableValues::Whole(values) => values.len(),
            TableValues::Real(values) => values.len(),
            TableValues::List(values) => values.len(),
        }
    }
}

/// What is there, and for each row whether it is.
fn levels<T: Clone>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (values.iter().flatten().cloned().collect(), values.iter().map(|value| value.is_some().into()).collect())
}

/// Writes a table.
///
/// # Errors
/// As the writer.
///
/// # Panics
/// Columns of different lengths: a defect.
pub fn write_table(name: &str, columns: &[TableColumn], out: &mut dyn Write) -> std::io::Result<()> {
    let rows = columns.first().map_or(0, |column| column.values.rows());
    assert!(columns.iter().all(|column| column.values.rows() == rows), "columns of {name}");
    let bytes = encoded(name, columns, rows).map_err(std::io::Error::other)?;
    out.write_all(&bytes)
}

fn encoded(name: &str, columns: &[TableColumn], rows: usize) -> Result<Vec<u8>, ParquetError> {
    let field = |column: &TableColumn| match column.values {
        TableValues::Text(_) => format!("optional binary {} (STRING); ", column.name),
        TableValues::Whole(_) => format!("optional int64 {}; ", column.name),
        TableValues::Real(_) => format!("optional double {}; ", column.name),
        TableValues::List(_) => {
            format!("required group {} (LIST) {{ repeated group list {{ required int64 element; }} }} ", column.name)
        }
    };
    let schema = format!("message {name} {{ {}}}", columns.iter().map(field).collect::<String>());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_writer_version(WriterVersion::PARQUET_2_0);
    for column in columns {
        let path = match column.values {
            TableValues::Whole(_) => ColumnPath::from(column.name),
            TableValues::List(_) => ColumnPath::new(vec![column.name.into(), "list".into(), "element".into()]),
            _ => continue,
        };
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut from = 0;
    loop {
        let to = (from + ROWS_PER_GROUP).min(rows);
        let mut group = file.next_row_group()?;
        for column in columns {
            let missing = || ParquetError::General(format!("the column {} is not in the schema", column.name));
            let mut writer = group.next_column()?.ok_or_else(missing)?;
            match &column.values {
                TableValues::Text(values) => {
                    let (values, there) = levels(&values[from..to]);
                    let values: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
                }
                TableValues::Whole(values) => {
                    let (values, there) = levels(&values[from..to]);
                    writer.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
                }
                TableValues::Real(values) => {
                    let (values, there) = levels(&values[from..to]);
                    writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
                }
                TableValues::List(values) => {
                    let (mut all, mut there, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
                    for list in &values[from..to] {
                        there.extend(std::iter::repeat_n(i16::from(!list.is_empty()), list.len().max(1)));
                        repeated.extend((0..list.len().max(1)).map(|at| i16::from(at > 0)));
                        all.extend_from_slice(list);
                    }
                    writer.typed::<Int64Type>().write_batch(&all, Some(&there), Some(&repeated))?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        from = to;
        if from == rows {
            return file.into_inner();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn what_was_written_is_read_back() {
        let column = |name, values| TableColumn { name, values };
        let mut bytes = Vec::new();
        let columns = [
            column("name", TableValues::Text(vec![Some("n1".into()), None])),
            column("ns", TableValues::Whole(vec![Some(-5), Some(7)])),
            column("factor", TableValues::Real(vec![None, Some(1.5)])),
            column("bins", TableValues::List(vec![vec![1, 2, 3], Vec::new()])),
        ];
        write_table("hosts", &columns, &mut bytes).unwrap();
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), &bytes).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(place.path()).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].get_string(0).unwrap().as_str(), rows[0].get_long(1).unwrap()), ("n1", -5));
        assert_eq!((rows[1].get_double(2).unwrap(), rows[0].get_list(3).unwrap().len()), (1.5, 3));
        assert_eq!(rows[1].get_list(3).unwrap().len(), 0);
    }
}
