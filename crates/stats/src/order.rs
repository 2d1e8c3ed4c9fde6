//! Exact order statistics of more values than fit into memory. Who has them gives all of them again and again: each time the
//! ranges narrow in which the statistics lie, until each is one value.

/// Sub-buckets of a power of two in the first pass, as a power of two.
const BITS: u32 = 7;
/// Parts into which a later pass cuts a range, as a power of two.
const PARTS: u32 = 12;

/// A rank, from 0, among so many values.
pub type Rank = fn(u64) -> u64;

/// The values at some ranks.
pub struct OrderStatistics {
    ranks: &'static [Rank],
    count: u64,
    /// The first pass: the first value, and how many values lie how far below it and above, as far as there are any.
    first: Option<(u64, [Vec<u64>; 2])>,
    places: Vec<Place>,
    passes: u32,
}

/// The range in which a statistic lies.
struct Place {
    rank: u64,
    low: u64,
    high: u64,
    /// Values below `low`.
    below: u64,
    counts: Vec<u64>,
}

impl Place {
    fn shift(&self) -> u32 {
        (64 - (self.high - self.low).leading_zeros()).saturating_sub(PARTS)
    }
}

/// The order of signed values, of unsigned ones.
fn key(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

fn bucket(distance: u64) -> usize {
    let shift = (64 - distance.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (distance >> shift) as usize
}

/// The smallest distance of a bucket.
fn floor(bucket: usize) -> u128 {
    let shift = (bucket >> BITS).saturating_sub(1);
    ((bucket - (shift << BITS)) as u128) << shift
}

impl OrderStatistics {
    /// Those at these ranks, no value having come yet.
    pub fn new(ranks: &'static [Rank]) -> Self {
        Self { ranks, count: 0, first: None, places: Vec::new(), passes: 0 }
    }

    /// Whether all values have to come again: to [`add`](Self::add), and then [`narrow`](Self::narrow).
    pub fn is_open(&self) -> bool {
        self.passes == 0 || self.places.iter().any(|place| place.low < place.high)
    }

    pub fn add(&mut self, value: i64) {
        let key = key(value);
        if self.passes > 0 {
            for place in self.places.iter_mut().filter(|place| (place.low..=place.high).contains(&key)) {
                let part = (key - place.low) >> place.shift();
                place.counts[part as usize] += 1;
            }
            return;
        }
        let (from, counts) = self.first.get_or_insert_with(|| (key, Default::default()));
        self.count += 1;
        let side = &mut counts[usize::from(key >= *from)];
        let bucket = bucket(key.abs_diff(*from));
        if side.len() <= bucket {
            side.resize(bucket + 1, 0);
        }
        side[bucket] += 1;
    }

    /// Takes a value that has no sign; beyond 2^63 all are alike.
    pub fn add_unsigned(&mut self, value: u64) {
        self.add(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// All values have come once more.
    pub fn narrow(&mut self) {
        self.passes += 1;
        if let Some((from, counts)) = self.first.take() {
            let end = self.count - 1;
            self.places =
                self.ranks.iter().map(|rank| Place::first(rank(self.count).min(end), from, &counts)).collect();
            return;
        }
        for place in self.places.iter_mut().filter(|place| place.low < place.high) {
            let (part, below) = find(place.counts.iter(), place.rank - place.below);
            let shift = place.shift();
            place.below += below;
            place.low += (part as u64) << shift;
            place.high = place.high.min(place.low.saturating_add((1 << shift) - 1));
            place.cut();
        }
    }

    /// Values that came.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value at a rank, by its position among the ranks, and how many values are below it; `None`: there is no value.
    pub fn at(&self, rank: usize) -> Option<(i64, u64)> {
        self.places.get(rank).map(|place| ((place.low ^ (1 << 63)).cast_signed(), place.below))
    }

    /// The value at a rank.
    pub fn value(&self, rank: usize) -> Option<i64> {
        self.at(rank).map(|(value, _)| value)
    }
}

impl Place {
    fn first(rank: u64, from: u64, [less, more]: &[Vec<u64>; 2]) -> Self {
        let from = u128::from(from);
        let less_all: u64 = less.iter().sum();
        let (low, high, below) = if rank < less_all {
            // The largest distance is the smallest value.
            let (back, below) = find(less.iter().rev(), rank);
            let own = less.len() - 1 - back;
            (from.saturating_sub(floor(own + 1) - 1), from - floor(own), below)
        } else {
            let (own, below) = find(more.iter(), rank - less_all);
            (from + floor(own), from + floor(own + 1) - 1, less_all + below)
        };
        let key = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        let mut place = Self { rank, low: key(low), high: key(high), below, counts: Vec::new() };
        place.cut();
        place
    }

    /// Makes the counts of the parts of its range.
    fn cut(&mut self) {
        self.counts.clear();
        self.counts.resize(((self.high - self.low) >> self.shift()) as usize + 1, 0);
    }
}

/// The position in `counts` of the value with this rank, and how many values are before that position.
fn find<'a>(counts: impl Iterator<Item = &'a u64>, rank: u64) -> (usize, u64) {
    let mut below = 0;
    for (position, count) in counts.enumerate() {
        if below + count > rank {
            return (position, below);
        }
        below += count;
    }
    // Values that came otherwise the second time end the search somewhere.
    (0, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANKS: &[Rank] = &[|_| 0, |count| count / 2, |count| count * 99 / 100, |count| count];

    fn found(values: &[i64]) -> (Vec<(i64, u64)>, u32) {
        let mut order = OrderStatistics::new(RANKS);
        while order.is_open() {
            values.iter().for_each(|value| order.add(*value));
            order.narrow();
            assert!(order.passes < 8);
        }
        assert_eq!(order.count(), values.len() as u64);
        ((0..RANKS.len()).filter_map(|rank| order.at(rank)).collect(), order.passes)
    }

    fn sorted(values: &[i64]) -> Vec<(i64, u64)> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1) as u64;
        let of = |rank: &Rank| {
            let value = *sorted.get(rank(sorted.len() as u64).min(last) as usize)?;
            Some((value, sorted.partition_point(|other| *other < value) as u64))
        };
        RANKS.iter().filter_map(of).collect()
    }

    #[test]
    fn times_of_microseconds_take_two_passes() {
        let values: Vec<i64> = (0..10_000).map(|at| 15_000 + at * 7_919 % 6_000).collect();
        assert_eq!(found(&values), (sorted(&values), 2));
        assert_eq!(found(&[]), (vec![], 1));
    }

    proptest! {
        #[test]
        fn as_sorted(values in prop::collection::vec(prop_oneof![any::<i64>(), -50..50_i64, 1_000_000..3_000_000_i64], 0..300)) {
            prop_assert_eq!(found(&values).0, sorted(&values));
        }
    }
}
