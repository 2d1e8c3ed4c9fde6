//! All rounds of one case together, every round with the same weight: F(x) = mean of the rounds' F_j(x)
//! (docs/method/rounds.md#pooled-distribution), so that a slow round with fewer messages does not count less.

use msgpath_core::SparseHistogram;

/// One bin of the pooled distribution.
#[derive(Clone, Copy, Debug)]
pub struct PooledBin {
    /// Lowest value, ns.
    pub from: u64,
    /// First value above, ns.
    pub to: u64,
    /// Messages.
    pub count: u64,
    /// Share of the distribution, rounds weighted equally.
    weight: f64,
}

impl PooledBin {
    /// The value that stands for the bin, ns: its middle.
    pub fn value(&self) -> u64 {
        self.from + (self.to - self.from) / 2
    }
}

/// The pooled distribution. Lost messages are infinite.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    bins: Vec<PooledBin>,
    total: u64,
    min: Option<u64>,
    max: Option<u64>,
}

impl Pooled {
    /// Pools the rounds; those without a message are left out.
    pub fn new(rounds: &[&SparseHistogram]) -> Self {
        let filled: Vec<_> = rounds.iter().filter(|round| round.total() > 0).collect();
        let mut all: Vec<PooledBin> = Vec::new();
        for round in &filled {
            let unit = 1.0 / (filled.len() as f64 * round.total() as f64);
            let weighted = |(from, to, count)| PooledBin { from, to, count, weight: count as f64 * unit };
            all.extend(round.ranges().map(weighted));
        }
        // Every round is in order by itself; the stable sort makes use of that.
        all.sort_by_key(|bin| bin.from);
        let mut bins: Vec<PooledBin> = Vec::with_capacity(all.len());
        for bin in all {
            match bins.last_mut() {
                Some(last) if last.from == bin.from => {
                    last.count += bin.count;
                    last.weight += bin.weight;
                }
                _ => bins.push(bin),
            }
        }
        Self {
            bins,
            total: filled.iter().map(|round| round.total()).sum(),
            min: filled.iter().filter_map(|round| round.min()).min(),
            max: filled.iter().filter_map(|round| round.max()).max(),
        }
    }

    /// Messages, lost ones included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Fastest, ns, exact.
    pub fn min(&self) -> Option<u64> {
        self.min
    }

    /// Slowest that arrived, ns, exact.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// The bins that hold something, in order.
    pub fn bins(&self) -> &[PooledBin] {
        &self.bins
    }

    /// The p-quantile: the bin where F first reaches p. `None` without a message; `Some(None)`: a lost message.
    pub fn quantile(&self, p: f64) -> Option<Option<u64>> {
        let (min, max) = match (self.min, self.max) {
            (Some(min), Some(max)) => (min, max),
            _ => return (self.total > 0).then_some(None),
        };
        let mut seen = 0.0;
        for bin in &self.bins {
            seen += bin.weight;
            // The tolerance covers the rounding of the sum, far below one message of any run.
            if seen >= p - 1e-11 {
                return Some(Some(bin.value().clamp(min, max)));
            }
        }
        Some(None)
    }

    /// Messages whose value lies in `from..to`, by the middle of their bins.
    pub fn count_between(&self, from: u64, to: u64) -> u64 {
        self.bins.iter().filter(|bin| (from..to).contains(&bin.value())).map(|bin| bin.count).sum()
    }

    /// Share of the time spent inside messages longer than `ns`: W(x) of docs/method/rounds.md#share-of-the-time, 0 to
    /// 1; and their share of the messages that arrived. `None` without a message.
    pub fn above(&self, ns: f64) -> Option<(f64, f64)> {
        let sum = |bins: &mut dyn Iterator<Item = &PooledBin>| {
            bins.fold((0.0, 0.0), |(time, count), bin| {
                (time + bin.value() as f64 * bin.count as f64, count + bin.count as f64)
            })
        };
        let (time, count) = sum(&mut self.bins.iter());
        let (slow_time, slow_count) = sum(&mut self.bins.iter().filter(|bin| bin.value() as f64 > ns));
        (time > 0.0).then(|| (slow_time / time, slow_count / count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Histogram;
    use proptest::prelude::*;

    fn sparse(values: &[u64]) -> SparseHistogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram.to_sparse()
    }

    #[test]
    fn a_slow_round_with_few_messages_weighs_as_much_as_a_fast_one() {
        let (fast, slow) = (sparse(&[10; 99]), sparse(&[1000]));
        let pooled = Pooled::new(&[&fast, &slow]);
        assert_eq!(pooled.quantile(0.5), Some(Some(10)));
        assert_eq!(pooled.quantile(0.51), Some(Some(1000)));
        assert_eq!((pooled.total(), pooled.min(), pooled.max()), (100, Some(10), Some(1000)));
        let (time, messages) = pooled.above(100.0).unwrap();
        assert!((time - 1000.0 / 1990.0).abs() < 1e-12 && (messages - 0.01).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_all_lost() {
        assert_eq!(Pooled::new(&[]).quantile(0.5), None);
        let mut lost = Histogram::new();
        lost.record_lost(3);
        assert_eq!(Pooled::new(&[&lost.to_sparse()]).quantile(0.5), Some(None));
    }

    proptest! {
        #[test]
        fn equal_rounds_give_the_quantiles_of_the_merged_histogram(
            values in prop::collection::vec(1_u64..1 << 30, 40..41), p in 0.0_f64..1.0,
        ) {
            let rounds: Vec<_> = values.chunks(10).map(sparse).collect();
            let pooled = Pooled::new(&rounds.iter().collect::<Vec<_>>());
            prop_assert_eq!(pooled.quantile(p), sparse(&values).quantile(p));
        }
    }
}
