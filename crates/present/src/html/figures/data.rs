//! The numbers behind a figure: shown as a table, saved as CSV.

use msgpath_core::units::three_digits;

use super::super::G;

/// A table of numbers and texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataTable {
    /// Column heads: as shown, and as the first line of the CSV has them (with the unit: `p50_ns`).
    pub heads: Vec<(String, String)>,
    /// One datum per head.
    pub rows: Vec<Vec<Datum>>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    Text(String),
    /// A number: as saved, and as shown.
    Number(f64, String),
    /// Cannot be had: `n/a` in the table, nothing in the CSV.
    Missing,
}

impl DataTable {
    /// An empty table; each head as shown and as saved.
    pub fn new(heads: &[(&str, &str)]) -> Self {
        let heads = heads.iter().map(|(shown, saved)| ((*shown).to_owned(), (*saved).to_owned())).collect();
        Self { heads, rows: Vec::new() }
    }

    /// Adds a column.
    pub fn head(&mut self, shown: impl Into<String>, saved: impl Into<String>) {
        self.heads.push((shown.into(), saved.into()));
    }

    pub fn row(&mut self, row: impl IntoIterator<Item = Datum>) {
        self.rows.push(row.into_iter().collect());
    }

    /// The table as CSV (RFC 4180, but with the line feed of this system). A text that a spreadsheet would take for a
    /// formula is set behind an apostrophe.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            out.push_str(&cells.collect::<Vec<_>>().join(","));
            out.push('\n');
        };
        line(&mut self.heads.iter().map(|(_, saved)| quoted(saved)));
        for row in &self.rows {
            line(&mut row.iter().map(|datum| match datum {
                Datum::Text(text) => quoted(text),
                Datum::Number(value, _) if value.is_finite() => value.to_string(),
                Datum::Number(..) | Datum::Missing => String::new(),
            }));
        }
        out
    }
}

impl Datum {
    pub fn ns(ns: f64) -> Self {
        Datum::Number(ns, G.time(ns))
    }

    /// A time that may be missing, ns.
    pub fn maybe_ns(ns: Option<f64>) -> Self {
        ns.map_or(Datum::Missing, Datum::ns)
    }

    pub fn count(n: u64) -> Self {
        Datum::Number(n as f64, n.to_string())
    }

    /// A number of three digits.
    pub fn number(value: f64) -> Self {
        Datum::Number(value, three_digits(value))
    }

    /// As it stands in the table.
    pub fn shown(&self) -> &str {
        match self {
            Datum::Text(text) => text,
            Datum::Number(_, shown) => shown,
            Datum::Missing => "n/a",
        }
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Self {
        Datum::Text(text)
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Datum::Text(text.to_owned())
    }
}

fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) || !guard.is_empty() {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_saved_as_they_are_and_texts_cannot_become_formulas() {
        let mut table = DataTable::new(&[("path", "path"), ("p50", "p50_ns")]);
        table.row(["tcp:send".into(), Datum::ns(32_100.0)]);
        table.row(["=1+1,\"x\"".into(), Datum::Missing]);
        table.row(["a".into(), Datum::number(f64::NAN)]);
        assert_eq!(table.csv(), "path,p50_ns\ntcp:send,32100\n\"'=1+1,\"\"x\"\"\",\na,\n");
        assert_eq!((table.rows[0][1].shown(), table.rows[1][1].shown()), ("32.1 µs", "n/a"));
    }
}
