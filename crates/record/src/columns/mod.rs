//! The payloads of the logs: many rows of one case and pass, column after column, one varint a cell.
//!
//! Every payload begins with the varints number of rows, case, pass. How a column's cells are written:
//!
//! | form | varint |
//! |---|---|
//! | itself | the value |
//! | difference | zigzag of the difference from the row before (from 0 at first), modulo 2^64 |
//! | optional | the value + 1; 0: there is none |
//! | optional difference | zigzag of the difference from the last value in the column (from 0 at first) + 1; 0: none |
//!
//! Numbers are below 2^62, signed ones above -2^62, except where a column is said to have all 64 bits.

mod calls;
mod events;
mod messages;

pub(crate) use calls::{decode_calls, encode_calls};
pub(crate) use events::{decode_events, encode_events};
pub(crate) use messages::{decode_messages, encode_messages};

use msgpath_core::varint;

use crate::block::MAX_ROWS;

/// Numbers are below it.
pub(crate) const MAX_NUMBER: u64 = 1 << 62;

fn zigzag(value: u64, before: u64) -> u64 {
    let difference = value.wrapping_sub(before) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn unzigzag(coded: u64, before: u64) -> u64 {
    before.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
}

/// Writes a payload.
struct Columns<'a, T> {
    rows: &'a [T],
    out: Vec<u8>,
}

impl<'a, T> Columns<'a, T> {
    /// Of 1 to [`MAX_ROWS`] rows.
    fn new(rows: &'a [T], case: u32, pass: u32, bytes_a_row: usize) -> Result<Self, String> {
        if rows.is_empty() || rows.len() > MAX_ROWS {
            return Err(format!("{} rows", rows.len()));
        }
        let mut out = Vec::with_capacity(16 + rows.len() * bytes_a_row);
        for value in [rows.len() as u64, case.into(), pass.into()] {
            varint::put(&mut out, value);
        }
        Ok(Self { rows, out })
    }

    fn plain(&mut self, value: impl Fn(&T) -> u64) {
        self.rows.iter().for_each(|row| varint::put(&mut self.out, value(row)));
    }

    fn difference(&mut self, value: impl Fn(&T) -> u64) {
        let mut before = 0;
        for row in self.rows {
            let value = value(row);
            varint::put(&mut self.out, zigzag(value, before));
            before = value;
        }
    }

    fn optional(&mut self, value: impl Fn(&T) -> Option<u64>) {
        self.plain(|row| value(row).map_or(0, |value| value + 1));
    }

    fn optional_difference(&mut self, value: impl Fn(&T) -> Option<i64>) {
        let mut before = 0;
        for row in self.rows {
            let coded = value(row).map_or(0, |value| {
                let coded = zigzag(value as u64, before) + 1;
                before = value as u64;
                coded
            });
            varint::put(&mut self.out, coded);
        }
    }
}

/// Takes a payload apart. Every method is `None` where the bytes end or a value is out of its range.
struct Cells<'a> {
    bytes: &'a [u8],
}

impl<'a> Cells<'a> {
    /// The number of rows, the case and the pass at the front.
    fn new(bytes: &'a [u8]) -> Option<(Self, usize, u32, u32)> {
        let mut cells = Self { bytes };
        let count = usize::try_from(cells.take()?).ok().filter(|count| (1..=MAX_ROWS).contains(count))?;
        let (case, pass) = (cells.small()?, cells.small()?);
        Some((cells, count, case, pass))
    }

    fn take(&mut self) -> Option<u64> {
        varint::take(&mut self.bytes)
    }

    fn small(&mut self) -> Option<u32> {
        self.take()?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.take().filter(|value| *value < MAX_NUMBER)
    }

    fn difference(&mut self, before: &mut u64) -> Option<u64> {
        *before = Some(unzigzag(self.take()?, *before)).filter(|value| *value < MAX_NUMBER)?;
        Some(*before)
    }

    fn optional(&mut self) -> Option<Option<u64>> {
        self.take()?.checked_sub(1).map_or(Some(None), |value| (value < MAX_NUMBER).then_some(Some(value)))
    }

    fn optional_difference(&mut self, before: &mut u64) -> Option<Option<i64>> {
        let Some(coded) = self.take()?.checked_sub(1) else { return Some(None) };
        *before = unzigzag(coded, *before);
        let value = *before as i64;
        (value.unsigned_abs() < MAX_NUMBER).then_some(Some(value))
    }

    /// `Some` at the end of the payload.
    fn end(self) -> Option<()> {
        self.bytes.is_empty().then_some(())
    }
}
