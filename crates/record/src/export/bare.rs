//! Rows that belong to no case, as tables: numbers as they are stored, keys as text.

use std::io::Write;

use super::{field, write_csv};
use crate::RecordError;
use crate::columns::Logged;

/// A line each row.
///
/// # Errors
/// `out` cannot be written.
pub fn csv<L: Logged>(rows: &[L::Row], out: &mut dyn Write) -> Result<(), RecordError> {
    let columns = || L::COLUMNS.iter();
    let rows = rows.iter().map(|row| columns().map(|column| field(column.bare(row))).collect());
    write_csv(columns().map(|column| column.name.to_owned()), rows, out)
}

/// A row each, in a table called as they are.
///
/// # Errors
/// `out` cannot be written.
#[cfg(feature = "parquet")]
pub fn parquet<L: Logged>(rows: &[L::Row], out: &mut dyn Write) -> Result<(), RecordError> {
    use super::{TableColumn, TableValues};
    use crate::columns::{Cell, Column};

    let values = |column: &'static Column<L::Row>| {
        let cells = rows.iter().map(|row| column.bare(row));
        if column.is_key() {
            TableValues::Text(cells.map(|cell| Some(field(cell)).filter(|text| !text.is_empty())).collect())
        } else {
            let number = |cell| if let Cell::Number(number) = cell { number.try_into().ok() } else { None };
            TableValues::Whole(cells.map(number).collect())
        }
    };
    let columns: Vec<TableColumn> =
        L::COLUMNS.iter().map(|column| TableColumn { name: column.name, values: values(column) }).collect();
    super::write_table(L::WHAT, &columns, out).map_err(super::failed)
}
