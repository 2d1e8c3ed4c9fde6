//! The distribution in a few rows of a log scale.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pooled::Pooled;

/// Rows between p0.1 and p99.9.
const ROWS: u32 = 8;

/// One row of the shape: a log bin and its count.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ShapeBin {
    /// Lowest value, ns.
    pub from_ns: u64,
    /// First value above, ns.
    pub to_ns: u64,
    /// Messages.
    pub count: u64,
}

/// Eight rows of equal width on the log scale from p0.1 to p99.9 (the first begins at the fastest message), then the
/// tail: a row up to ten times p99.9 and a row for what is slower still. Every message that arrived is in exactly one
/// row; values that lie close together give fewer rows. Lost messages have no place here.
pub fn shape(pooled: &Pooled) -> Vec<ShapeBin> {
    let (Some(min), Some(max)) = (pooled.min(), pooled.max()) else { return Vec::new() };
    let low = pooled.quantile(0.001).flatten().unwrap_or(min).max(1);
    let high = pooled.quantile(0.999).flatten().unwrap_or(max).max(low) + 1;
    let step = (high as f64 / low as f64).powf(1.0 / f64::from(ROWS));
    let mut edges: Vec<u64> = (1..ROWS).map(|row| (low as f64 * step.powi(row as i32)).round() as u64).collect();
    edges.extend([high, high.saturating_mul(10), max + 1]);
    edges.retain(|edge| *edge > min && *edge <= max + 1);
    edges.insert(0, min);
    edges.sort_unstable();
    edges.dedup();
    let mut rows: Vec<ShapeBin> =
        edges.windows(2).map(|pair| ShapeBin { from_ns: pair[0], to_ns: pair[1], count: 0 }).collect();
    for bin in pooled.bins() {
        let value = bin.value().clamp(min, max);
        let row = rows.partition_point(|row| row.to_ns <= value);
        if let Some(row) = rows.get_mut(row) {
            row.count += bin.count;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Histogram;
    use proptest::prelude::*;

    fn rows(values: &[u64]) -> Vec<ShapeBin> {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        shape(&Pooled::new(&[&histogram.to_sparse()]))
    }

    #[test]
    fn two_humps_and_a_tail_are_visible() {
        let mut values: Vec<u64> = (0..9_000).map(|at| 20_000 + at % 4_000).collect();
        values.extend((0..1_000).map(|at| 60_000 + at % 5_000));
        values.extend([900_000, 5_000_000]);
        let rows = rows(&values);
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 10_002);
        assert_eq!((rows.len(), rows[0].from_ns), (10, 20_000));
        assert_eq!((rows[9].count, rows[8].count < 20), (2, true));
        let valley = rows.iter().position(|row| row.from_ns < 40_000 && row.to_ns > 40_000).unwrap();
        assert_eq!(rows[valley].count, 0);
    }

    #[test]
    fn one_value_is_one_row() {
        assert_eq!(rows(&[100; 50]), [ShapeBin { from_ns: 100, to_ns: 101, count: 50 }]);
        assert!(rows(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn every_message_is_in_one_row(values in prop::collection::vec(0_u64..1 << 36, 1..200)) {
            let rows = rows(&values);
            prop_assert!(rows.len() <= 10);
            prop_assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), values.len() as u64);
            prop_assert!(rows.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        }
    }
}
