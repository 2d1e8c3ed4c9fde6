//! Tables made by their columns: a head, and what stands below it in each row.

use msgpath_stats::quantile::{Quantile, Range};

use super::cell::{Cell, Table, Value};

/// A table in the making. A row is whatever its cells are made of.
pub struct Columns<R> {
    rows: Vec<R>,
    table: Table,
}

/// A table of these rows, as yet without a column.
pub fn table<R>(name: impl AsRef<str>, title: impl Into<String>, rows: impl IntoIterator<Item = R>) -> Columns<R> {
    let rows: Vec<R> = rows.into_iter().collect();
    let table = Table { rows: vec![Vec::new(); rows.len()], ..Table::new(name.as_ref(), title, &[]) };
    Columns { rows, table }
}

impl<R> Columns<R> {
    /// One more column.
    pub fn col<C: Into<Cell>>(mut self, head: impl Into<String>, cell: impl Fn(&R) -> C) -> Self {
        self.table.columns.push(head.into());
        for (cells, row) in self.table.rows.iter_mut().zip(&self.rows) {
            cells.push(cell(row).into());
        }
        self
    }

    /// One more column of words that stand in the row.
    pub fn text(self, head: impl Into<String>, text: impl Fn(&R) -> &str) -> Self {
        self.col(head, |row| Cell::text(text(row)))
    }

    /// Several columns of one kind: what tells them apart, and the head that it has.
    pub fn cols<K, C: Into<Cell>>(
        self,
        kinds: impl IntoIterator<Item = K>,
        head: impl Fn(&K) -> String,
        cell: impl Fn(&R, &K) -> C,
    ) -> Self {
        kinds.into_iter().fold(self, |table, kind| table.col(head(&kind), |row| cell(row, &kind)))
    }

    /// With a line below.
    pub fn note(self, note: impl Into<String>) -> Table {
        self.table.note(note)
    }
}

impl<R> From<Columns<R>> for Table {
    fn from(columns: Columns<R>) -> Self {
        columns.table
    }
}

pub fn time_or(ns: Option<impl Into<Value>>, why: &str) -> Cell {
    Cell::or_missing(ns, Cell::Time, why)
}

/// A time of whole ns.
pub fn ns_or(ns: Option<u64>, why: &str) -> Cell {
    time_or(ns.map(|ns| ns as f64), why)
}

pub fn ratio_or(ratio: Option<impl Into<Value>>, why: &str) -> Cell {
    Cell::or_missing(ratio, Cell::Ratio, why)
}

pub fn number_or(number: Option<impl Into<Value>>, why: &str) -> Cell {
    Cell::or_missing(number, Cell::Number, why)
}

/// A share, 0 to 1.
pub fn share_or(share: Option<impl Into<Value>>, why: &str) -> Cell {
    Cell::or_missing(share, Cell::Share, why)
}

/// Bits per second.
pub fn bits_or(bits: Option<impl Into<Value>>, why: &str) -> Cell {
    Cell::or_missing(bits, Cell::Bits, why)
}

pub fn count_or(count: Option<u64>, why: &str) -> Cell {
    count.map_or_else(|| Cell::missing(why), Cell::count)
}

/// A quantile as a cell, with its range.
pub fn quantile_cell(quantiles: &[Quantile], p: f64) -> Cell {
    match quantiles.iter().find(|quantile| quantile.p == p) {
        Some(found) if found.range == Range::NotYet => Cell::missing("too few messages"),
        Some(found) if found.range == Range::Withheld => Cell::missing("the rate was not sustained"),
        Some(found) => Cell::Time(found.into()),
        None => Cell::missing("no message"),
    }
}
