//! How the cells of a table are written.

use crate::answers::cell::{Cell, Value};
use msgpath_core::units::{self, BitUnits, Glyphs, three_digits};

/// An interval whose larger side is more than so many percent is written by its ends.
const WIDE: f64 = 50.0;

/// A cell as written: the number, its interval apart.
pub(super) struct Written {
    pub(super) text: String,
    /// `8.00 to 8.20 µs`.
    pub(super) interval: Option<String>,
    /// The same where room is short: `±2 %`, the larger of both sides; of a ratio and of a wide interval the ends.
    pub(super) short: Option<String>,
}

/// Whether cells of this kind lie on the right.
pub(super) fn is_number(cell: &Cell) -> bool {
    !matches!(cell, Cell::Text { .. } | Cell::Missing { .. })
}

pub(super) fn write(cell: &Cell, glyphs: Glyphs) -> Written {
    let value = |value: &Value, print: &dyn Fn(f64) -> String| {
        let ends = value.low.zip(value.high);
        let interval = ends.map(|(low, high)| units::range(print(low), print(high)));
        let short = ends.filter(|_| value.value > 0.0).map(|(low, high)| {
            let side = (high - value.value).max(value.value - low) / value.value * 100.0;
            match side.round() {
                side if side <= WIDE => format!("{}{side} %", glyphs.plus_minus()),
                _ => format!("({})", units::range(print(low), print(high))),
            }
        });
        let text = if value.value.is_finite() { print(value.value) } else { "lost".into() };
        Written { text, interval, short }
    };
    let plain = |text: String| Written { text, interval: None, short: None };
    match cell {
        Cell::Text { text } => plain(text.clone()),
        Cell::Time(time) => value(time, &|ns| glyphs.time(ns)),
        Cell::Bits(bits) => value(bits, &|bits| units::bits_per_second(bits, BitUnits::Si)),
        Cell::Number(number) => value(number, &three_digits),
        Cell::Count { count } => plain(count.to_string()),
        Cell::Size { bytes } => plain(units::size(*bytes)),
        Cell::Share(share) => value(share, &|share| format!("{} %", three_digits(share * 100.0))),
        Cell::Ratio(ratio) => {
            let ends = ratio
                .low
                .zip(ratio.high)
                .map(|(low, high)| format!("({})", units::range(format!("{low:.2}"), format!("{high:.2}"))));
            Written { short: ends, ..value(ratio, &|ratio| format!("{ratio:.3}")) }
        }
        Cell::Missing { why } => plain(format!("n/a: {why}")),
    }
}

/// The columns of a table that hold numbers.
pub(super) fn number_columns(table: &crate::answers::Table) -> Vec<bool> {
    let numbers = |at: usize| table.rows.iter().filter_map(|row| row.get(at)).any(is_number);
    (0..table.columns.len()).map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_interval_is_written_by_its_ends() {
        let short = |low, high| {
            let cell = Cell::Time(Value { value: 10_000.0, low: Some(low), high: Some(high) });
            write(&cell, Glyphs::Unicode).short.unwrap()
        };
        assert_eq!(short(9_800.0, 10_300.0), "±3 %");
        assert_eq!(short(1_000.0, 316_900.0), "(1.00 to 317 µs)");
    }
}
