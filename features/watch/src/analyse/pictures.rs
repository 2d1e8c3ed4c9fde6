//! What only the pictures of a report show: how many requests took how long, and when.

use std::collections::BTreeMap;

use msgpath_core::watch::{RequestRow, Times};

use crate::record::flag;

/// Bins of the histogram that double the time.
const PER_OCTAVE: f64 = 4.0;
/// Cells of the map, at most.
const COLUMNS: usize = 72;
const ROWS: usize = 24;

/// The figures of one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// All requests, by their time; bins follow each other.
    pub histogram: Vec<Bin>,
    /// Requests with a row, and those that they stand for.
    pub heat: Heat,
}

/// Requests of about one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// From this on, ns.
    pub from_ns: f64,
    /// Below this, ns.
    pub to_ns: f64,
    /// How many.
    pub count: u64,
}

/// When requests took how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    /// Length of the whole, s.
    pub seconds: f64,
    /// Columns, and rows on a logarithmic scale from `low_ns` to `high_ns`.
    pub columns: usize,
    pub rows: usize,
    pub low_ns: f64,
    pub high_ns: f64,
    /// Cells that hold any: column, row from below, requests.
    pub cells: Vec<(usize, usize, u64)>,
}

impl Pictures {
    pub(super) fn of(times: &Times, rows: &[&RequestRow], begin: u64) -> Self {
        Self { histogram: histogram(times), heat: heat(rows, begin).unwrap_or_default() }
    }
}

/// The bin of a time, and where a bin begins.
fn bin(ns: f64) -> i64 {
    (ns.max(1.0).log2() * PER_OCTAVE).floor() as i64
}

fn begin_of(bin: i64) -> f64 {
    (bin as f64 / PER_OCTAVE).exp2()
}

fn histogram(times: &Times) -> Vec<Bin> {
    let mut bins = BTreeMap::<i64, u64>::new();
    for (bucket, count) in &times.0 {
        let (from, to) = Times::range(*bucket);
        *bins.entry(bin((from + to) as f64 / 2.0)).or_default() += count;
    }
    let (Some(first), Some(last)) = (bins.keys().next(), bins.keys().next_back()) else { return Vec::new() };
    let count = |at: i64| bins.get(&at).copied().unwrap_or(0);
    (*first..=*last).map(|at| Bin { from_ns: begin_of(at), to_ns: begin_of(at + 1), count: count(at) }).collect()
}

/// `None`: there is nothing to show.
fn heat(rows: &[&RequestRow], begin: u64) -> Option<Heat> {
    let after = |row: &RequestRow| row.t0_ns.saturating_sub(begin) as f64;
    let last = rows.iter().map(|row| after(row)).fold(0.0, f64::max);
    let low_ns = rows.iter().map(|row| row.total_ns.max(1)).min()? as f64;
    let high_ns = rows.iter().map(|row| row.total_ns).max()? as f64 * 1.0001;
    let octaves = (high_ns / low_ns).max(1.0001).log2();
    let cell = |share: f64, count: usize| ((share * count as f64) as usize).min(count - 1);
    let mut cells = BTreeMap::<(usize, usize), u64>::new();
    for row in rows {
        let at = (
            cell(after(row) / last.max(1.0), COLUMNS),
            cell((row.total_ns.max(1) as f64 / low_ns).log2() / octaves, ROWS),
        );
        // One in a sample stands for others, a slow one for itself.
        let stands_for = if row.flags & flag::SAMPLED != 0 { u64::from(row.weight.max(1)) } else { 1 };
        *cells.entry(at).or_default() += stands_for;
    }
    let cells = cells.into_iter().map(|((column, row), count)| (column, row, count)).collect();
    Some(Heat { seconds: last / 1e9, columns: COLUMNS, rows: ROWS, low_ns, high_ns, cells })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_in_one_bin_and_bins_follow_each_other() {
        let times = Times(vec![(100, 5), (1000, 7), (2000, 1)]);
        let bins = histogram(&times);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), times.total());
        assert!(bins.windows(2).all(|pair| (pair[0].to_ns - pair[1].from_ns).abs() < 1e-6));
        assert!(bins[0].from_ns <= 100.5 && bins[0].to_ns > 100.5 && histogram(&Times::default()).is_empty());
    }

    #[test]
    fn a_row_is_in_the_cell_of_its_time() {
        let row = |t0_ns, total_ns, flags| RequestRow { t0_ns, total_ns, flags, weight: 10, ..RequestRow::default() };
        let rows =
            [row(100, 1_000, flag::SAMPLED), row(1_000_000_100, 64_000, flag::SLOW), row(100, 1_000, flag::SAMPLED)];
        let heat = heat(&rows.iter().collect::<Vec<_>>(), 100).unwrap();
        assert_eq!(heat.cells, [(0, 0, 20), (COLUMNS - 1, ROWS - 1, 1)]);
        assert_eq!((heat.seconds, heat.low_ns), (1.0, 1_000.0));
        assert!(super::heat(&[], 0).is_none());
    }
}
