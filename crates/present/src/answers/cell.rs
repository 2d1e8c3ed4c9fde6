//! Tables of typed cells. How a number is written is for `present` to decide.

use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::Quantile;
use schemars::JsonSchema;
use serde::Serialize;

/// A table that evidence or a result is shown in.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// A name for its file: small letters, digits and dashes.
    pub name: String,
    /// Heads, with the unit where the cells have none of their own.
    pub columns: Vec<String>,
    /// One cell a column.
    pub rows: Vec<Vec<Cell>>,
    /// A line below.
    pub note: Option<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(name: &str, title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.into(), name: name.into(), columns, rows: Vec::new(), note: None }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// It has not one cell a column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "cells of a row of {}", self.name);
        self.rows.push(cells);
    }

    /// With a line below.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// A cell. Numbers may have their 95 % interval: an end that is `None` cannot be claimed.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cell {
    /// Words.
    Text {
        /// The words, as printed.
        text: String,
    },
    /// A time, ns.
    Time(Value),
    /// Bits per second.
    Bits(Value),
    /// A number with three significant digits, of the unit that the column names.
    Number(Value),
    /// A count, written whole.
    Count {
        /// The count.
        count: u64,
    },
    /// A size, bytes.
    Size {
        /// Bytes.
        bytes: u64,
    },
    /// A share, 0 to 1, written in %.
    Share(Value),
    /// A ratio, written with three decimals.
    Ratio(Value),
    /// Not to be had, and why.
    Missing {
        /// The reason.
        why: String,
    },
}

/// A number and its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "CellValue")]
pub struct Value {
    /// Number in the unit of its kind of cell.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text { text: text.into() }
    }

    pub fn count(count: u64) -> Self {
        Cell::Count { count }
    }

    pub fn size(bytes: u64) -> Self {
        Cell::Size { bytes }
    }

    /// Not to be had.
    pub fn missing(why: impl Into<String>) -> Self {
        Cell::Missing { why: why.into() }
    }

    /// A cell of this kind, or why there is none.
    pub fn or_missing(value: Option<impl Into<Value>>, kind: fn(Value) -> Cell, why: &str) -> Self {
        value.map_or_else(|| Cell::missing(why), |value| kind(value.into()))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text { text }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Cell::text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::text(text)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self { value, low: None, high: None }
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Self {
        *value
    }
}

impl From<&Estimate> for Value {
    fn from(estimate: &Estimate) -> Self {
        Self { value: estimate.value, low: estimate.low, high: estimate.high }
    }
}

impl From<&Quantile> for Value {
    /// A quantile that is a lost message is infinite.
    fn from(quantile: &Quantile) -> Self {
        let ns = |ns: Option<u64>| ns.map(|ns| ns as f64);
        let (low, high) = quantile.ends();
        Self { value: ns(quantile.ns).unwrap_or(f64::INFINITY), low: ns(low), high: ns(high) }
    }
}
