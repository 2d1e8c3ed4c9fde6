//! A log-linear histogram of nanoseconds that counts every message, lost ones included.
//!
//! Bucket of `v` with k = 10 sub-bucket bits: `v` itself below 2^k; else with e = floor(log2 v),
//! `((e - k) << k) + (v >> (e - k))`, shifted so that indices are contiguous. Relative bin width <= 2^-10 (0.1 %).
//! Values reach 2^40 ns (18 minutes); a value beyond is counted as `beyond` and makes the run fail, it is never
//! clipped. A lost message is infinite: it counts in every quantile.

use crate::varint;

const BITS: u32 = 10;
const TOP: u32 = 40;
const SUB: usize = 1 << BITS;

pub const BUCKETS: usize = SUB + (TOP - BITS) as usize * SUB;

/// The bucket of a value below 2^40.
#[inline]
fn index(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - BITS;
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// Lowest value of a bucket.
fn floor(index: usize) -> u64 {
    if index < 2 * SUB {
        return index as u64;
    }
    let shift = (index >> BITS) - 1;
    ((index - (shift << BITS)) as u64) << shift
}

/// The value that stands for a bucket: its middle.
fn middle(index: usize) -> u64 {
    let low = floor(index);
    let next = floor(index + 1);
    low + (next - low) / 2
}

/// The dense form, for recording and merging.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    lost: u64,
    beyond: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram {{ total: {}, lost: {}, min: {}, max: {} }}", self.total, self.lost, self.min, self.max)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram (about 250 KiB).
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, lost: 0, beyond: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one value in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts a value `n` times.
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.total += n;
        match self.counts.get_mut(index(ns)) {
            Some(count) => *count += n,
            None => self.beyond += n,
        }
        self.sum += u128::from(ns) * u128::from(n);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Counts `n` lost messages: infinite in every quantile.
    pub fn record_lost(&mut self, n: u64) {
        self.total += n;
        self.lost += n;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        let filled = other.filled();
        for (count, more) in self.counts[filled.clone()].iter_mut().zip(&other.counts[filled]) {
            *count += more;
        }
        self.add_totals((other.total, other.lost, other.beyond, other.sum, other.min, other.max));
    }

    /// Adds all of a sparse histogram.
    pub fn merge_sparse(&mut self, other: &SparseHistogram) {
        for (index, count) in other.bins() {
            self.counts[index] += count;
        }
        self.add_totals((other.total, other.lost, other.beyond, other.sum, other.min, other.max));
    }

    /// The buckets from the smallest value to the largest: all others are empty.
    fn filled(&self) -> std::ops::Range<usize> {
        if self.min > self.max { 0..0 } else { index(self.min).min(BUCKETS)..(index(self.max) + 1).min(BUCKETS) }
    }

    fn add_totals(&mut self, (total, lost, beyond, sum, min, max): (u64, u64, u64, u128, u64, u64)) {
        self.total += total;
        self.lost += lost;
        self.beyond += beyond;
        self.sum += sum;
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        let filled = self.filled();
        self.counts[filled].fill(0);
        (self.total, self.lost, self.beyond, self.sum, self.min, self.max) = (0, 0, 0, 0, u64::MAX, 0);
    }

    /// Messages, lost ones included.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Values of 2^40 ns and more: no bucket holds them.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Smallest value, exact.
    pub fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// Largest value that arrived, exact.
    pub fn max(&self) -> Option<u64> {
        self.min().map(|_| self.max)
    }

    /// Mean of the messages that arrived, in ns.
    pub fn mean(&self) -> Option<f64> {
        let arrived = self.total - self.lost;
        (arrived > 0).then(|| self.sum as f64 / arrived as f64)
    }

    /// Sum of the values of the messages that arrived, in ns.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The p-quantile: the bin where the cumulative count first reaches ceil(p * total). `None` when there is no
    /// message; `Some(None)` when the quantile is a lost message (or lies beyond the last bucket).
    pub fn quantile(&self, p: f64) -> Option<Option<u64>> {
        if self.total == 0 {
            return None;
        }
        let rank = ((p * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Some(middle(index).clamp(self.min, self.max)));
            }
        }
        Some(None)
    }

    /// How many messages took at most `ns` (by whole bins).
    pub fn count_at_most(&self, ns: u64) -> u64 {
        let last = index(ns).min(BUCKETS - 1);
        self.counts[..=last].iter().sum()
    }

    /// The bins that hold something: lowest value, first value above, count.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (floor(index), floor(index + 1), *count))
    }

    /// The compact form.
    pub fn to_sparse(&self) -> SparseHistogram {
        let mut encoded = Vec::new();
        let mut bins = 0;
        let mut last = 0;
        for index in self.filled() {
            let count = self.counts[index];
            if count == 0 {
                continue;
            }
            varint::put(&mut encoded, (index - last) as u64);
            varint::put(&mut encoded, count);
            last = index;
            bins += 1;
        }
        encoded.shrink_to_fit();
        SparseHistogram {
            encoded,
            bins,
            total: self.total,
            lost: self.lost,
            beyond: self.beyond,
            sum: self.sum,
            min: self.min,
            max: self.max,
        }
    }
}

/// The compact form, for keeping and storing: about 1 to 3 KB a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseHistogram {
    encoded: Vec<u8>,
    bins: usize,
    total: u64,
    lost: u64,
    beyond: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for SparseHistogram {
    fn default() -> Self {
        Self { encoded: Vec::new(), bins: 0, total: 0, lost: 0, beyond: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl SparseHistogram {
    /// Bucket index and count of every bin that holds something, in order.
    fn bins(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut rest = self.encoded.as_slice();
        let mut index = 0;
        (0..self.bins).map_while(move |_| {
            index += varint::take(&mut rest)? as usize;
            Some((index, varint::take(&mut rest)?))
        })
    }

    /// The bins that hold something: lowest value, first value above, count (as [`Histogram::bins`]).
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.bins().map(|(index, count)| (floor(index), floor(index + 1), count))
    }

    /// Messages, lost ones included.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Smallest value, exact.
    pub fn min(&self) -> Option<u64> {
        (self.min != u64::MAX).then_some(self.min)
    }

    /// Largest value that arrived, exact.
    pub fn max(&self) -> Option<u64> {
        self.min().map(|_| self.max)
    }

    /// Values of 2^40 ns and more.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Sum of all that arrived, ns.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean of the messages that arrived, in ns.
    pub fn mean(&self) -> Option<f64> {
        let arrived = self.total - self.lost;
        (arrived > 0).then(|| self.sum as f64 / arrived as f64)
    }

    /// As [`Histogram::quantile`].
    pub fn quantile(&self, p: f64) -> Option<Option<u64>> {
        if self.total == 0 {
            return None;
        }
        let rank = ((p * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, count) in self.bins() {
            seen += count;
            if seen >= rank {
                return Some(Some(middle(index).clamp(self.min, self.max)));
            }
        }
        Some(None)
    }

    /// As [`Histogram::count_at_most`].
    pub fn count_at_most(&self, ns: u64) -> u64 {
        let last = index(ns).min(BUCKETS - 1);
        self.bins().take_while(|(index, _)| *index <= last).map(|(_, count)| count).sum()
    }

    /// The form on disk: bins, total, lost, beyond, sum (two halves), min, max as LEB128, then the bins.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded.len() + 48);
        for value in [
            self.bins as u64,
            self.total,
            self.lost,
            self.beyond,
            (self.sum >> 64) as u64,
            self.sum as u64,
            self.min,
            self.max,
        ] {
            varint::put(&mut out, value);
        }
        out.extend_from_slice(&self.encoded);
        out
    }

    /// Reads [`Self::to_bytes`] back. `None` where the bytes are damaged: counts that do not add up, a bin that does
    /// not exist, bytes left over.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut take = || varint::take(bytes);
        let [bins, total, lost, beyond, high, low, min, max] =
            [take()?, take()?, take()?, take()?, take()?, take()?, take()?, take()?];
        let out = Self {
            encoded: bytes.to_vec(),
            bins: usize::try_from(bins).ok().filter(|bins| *bins <= BUCKETS)?,
            total,
            lost,
            beyond,
            sum: (u128::from(high) << 64) | u128::from(low),
            min,
            max,
        };
        let mut rest = out.encoded.as_slice();
        let (mut index, mut seen) = (0_usize, lost.checked_add(beyond)?);
        let mut first = BUCKETS;
        for at in 0..out.bins {
            let step = usize::try_from(varint::take(&mut rest)?).ok()?;
            let count = varint::take(&mut rest)?;
            index = index.checked_add(step).filter(|index| *index < BUCKETS)?;
            if count == 0 || (at > 0 && step == 0) {
                return None;
            }
            seen = seen.checked_add(count)?;
            if at == 0 {
                first = index;
            }
        }
        // The smallest value lies in the first bin, the largest in the last; what is beyond all bins is larger.
        let bin = |value: u64| self::index(value).min(BUCKETS);
        let last = if beyond > 0 { BUCKETS } else { index };
        let ends = match total == lost {
            true => min == u64::MAX && max == 0,
            false => min <= max && bin(min) == first && bin(max) == last,
        };
        if !(rest.is_empty() && seen == total && ends) {
            return None;
        }
        // A sum that no such values have would make the sum of two histograms overflow.
        let arrived = u128::from(total - lost);
        (arrived * u128::from(min) <= out.sum && out.sum <= arrived * u128::from(max)).then_some(out)
    }
}

/// A histogram as a text: its bytes, two digits each.
pub mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::SparseHistogram;

    /// Writes it.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(histogram: &SparseHistogram, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = histogram.to_bytes();
        serializer.serialize_str(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    /// Reads it.
    ///
    /// # Errors
    /// No histogram.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SparseHistogram, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
        let pairs = text.as_bytes().as_chunks::<2>().0.iter();
        let bytes: Option<Vec<u8>> = pairs.map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        bytes.and_then(|bytes| SparseHistogram::from_bytes(&bytes)).ok_or_else(|| D::Error::custom("no histogram"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_contiguous_and_monotone() {
        assert_eq!(index((1 << TOP) - 1), BUCKETS - 1);
        for at in 0..BUCKETS {
            assert_eq!(index(floor(at)), at);
            if at > 0 {
                assert_eq!(index(floor(at) - 1), at - 1);
            }
        }
    }

    #[test]
    fn a_lost_message_is_infinite() {
        let mut histogram = Histogram::new();
        histogram.record_n(100, 98);
        histogram.record_lost(2);
        assert_eq!(histogram.quantile(0.5), Some(Some(100)));
        assert_eq!(histogram.quantile(0.99), Some(None));
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn a_value_beyond_the_last_bucket_is_not_clipped() {
        let mut histogram = Histogram::new();
        histogram.record(1 << 40);
        assert_eq!((histogram.beyond(), histogram.quantile(1.0)), (1, Some(None)));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_tenth_of_a_percent(mut values in prop::collection::vec(1_u64..1 << 40, 1..300), p in 0.0_f64..1.0) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            let rank = ((p * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (exact, got) = (values[rank - 1] as f64, histogram.quantile(p).unwrap().unwrap() as f64);
            prop_assert!((got - exact).abs() <= exact * 0.001 + 1.0);
            prop_assert_eq!(histogram.to_sparse().quantile(p), histogram.quantile(p));
        }

        #[test]
        fn sparse_round_trips_and_merges(values in prop::collection::vec(0_u64..1 << 41, 0..300), lost in 0_u64..5) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            histogram.record_lost(lost);
            let sparse = histogram.to_sparse();
            let read = SparseHistogram::from_bytes(&sparse.to_bytes()).unwrap();
            prop_assert_eq!(&read, &sparse);
            prop_assert!(read.ranges().eq(histogram.bins()));
            let mut merged = Histogram::new();
            merged.merge_sparse(&read);
            prop_assert_eq!(merged, histogram);
        }

        #[test]
        fn damaged_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(read) = SparseHistogram::from_bytes(&bytes) {
                let _ = (read.quantile(0.5), read.count_at_most(1000));
                Histogram::new().merge_sparse(&read);
            }
        }
    }
}
