//! A table of the page as CSV: numbers plain, each interval in two columns of its own.

use msgpath_core::foreign::cell;

use crate::answers::Table;
use crate::answers::cell::{Cell, Value};

/// The table as CSV text with a head. Times are ns, rates bits per second, sizes bytes, shares and ratios plain; what is
/// missing is empty.
pub fn csv(table: &Table) -> String {
    let value = |cell: &Cell| match cell {
        Cell::Time(value) | Cell::Bits(value) | Cell::Number(value) | Cell::Share(value) | Cell::Ratio(value) => {
            Some(*value)
        }
        _ => None,
    };
    let has_interval: Vec<bool> = (0..table.columns.len())
        .map(|at| {
            table.rows.iter().filter_map(|row| value(row.get(at)?)).any(|value| value.low.or(value.high).is_some())
        })
        .collect();
    let mut heads = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let unit = table.rows.iter().find_map(|row| match row.get(at)? {
            Cell::Time(_) => Some(" [ns]"),
            Cell::Bits(_) => Some(" [bit/s]"),
            Cell::Size { .. } => Some(" [B]"),
            _ => None,
        });
        heads.push(format!("{column}{}", unit.unwrap_or_default()));
        if has_interval[at] {
            heads.extend([format!("{column} low"), format!("{column} high")]);
        }
    }
    let mut out = line(heads);
    for row in &table.rows {
        let mut fields = Vec::new();
        for (cell, has_interval) in row.iter().zip(&has_interval) {
            let Value { value, low, high } = value(cell).unwrap_or_default();
            let end =
                |end: Option<f64>| end.filter(|end| end.is_finite()).map_or_else(String::new, |end| end.to_string());
            fields.push(match cell {
                Cell::Text { text } => text.clone(),
                Cell::Count { count } => count.to_string(),
                Cell::Size { bytes } => bytes.to_string(),
                Cell::Missing { .. } => String::new(),
                _ => end(Some(value)),
            });
            if *has_interval {
                fields.extend([end(low), end(high)]);
            }
        }
        out += &line(fields);
    }
    out
}

fn line(fields: Vec<String>) -> String {
    let quoted = fields.iter().map(|field| cell(field)).map(|cell| {
        if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into_owned() }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_and_intervals_apart() {
        let mut table = Table::new("t", "", &["path", "p50", "calls"]);
        let p50 = Value { value: 8_100.0, low: Some(8_000.0), high: None };
        table.row([Cell::text("tcp:send, \"x\""), Cell::Time(p50), Cell::count(4)]);
        table.row([Cell::text("pipe"), Cell::missing("no pipe"), Cell::count(2)]);
        assert_eq!(
            csv(&table),
            "path,p50 [ns],p50 low,p50 high,calls\n\"tcp:send, \"\"x\"\"\",8100,8000,,4\npipe,,,,2\n"
        );
    }
}
