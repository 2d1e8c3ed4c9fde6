//! The distribution finer than [`shape`](crate::shape): for a picture of many cases below each other.

use msgpath_core::SparseHistogram;

use crate::pooled::Pooled;
use crate::quantile;
use crate::shape::ShapeBin;

/// Bins of a row.
const BINS: usize = 64;
/// The narrowest bin, relative: histograms are not much finer, and a comb of empty bins would be an artefact.
const NARROWEST: f64 = 0.02;
/// The smallest hump, as a share of the messages, and in messages.
const HUMP_SHARE: f64 = 0.02;
const HUMP_MESSAGES: u64 = 50;
/// Two humps are apart where the valley between them is below this part of the lower one.
const VALLEY: f64 = 0.5;

/// The distribution of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Ridge {
    /// Bins of equal width on the log scale over the range asked for.
    pub bins: Vec<ShapeBin>,
    /// Letter values (Hofmann, Wickham and Kafadar 2017), from the median outwards, as far as both are claims.
    pub letters: Vec<Letter>,
    /// Where the messages pile up, fastest first.
    pub humps: Vec<Hump>,
}

/// A pair of quantiles that are equally far in the tails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letter {
    /// Share of the messages outside on each side: 0.5 (the median), 0.25, 0.125 ...
    pub outside: f64,
    /// The lower quantile, ns.
    pub low_ns: u64,
    /// The upper quantile, ns.
    pub high_ns: u64,
}

/// Messages that pile up around a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hump {
    /// Middle of its highest bin, ns.
    pub at_ns: f64,
    /// Share of the messages between the valleys around it, 0 to 1.
    pub share: f64,
}

/// The distribution of these rounds over `from..=to` ns, the range of the whole picture. `None` where no message arrived.
pub fn ridge(rounds: &[&SparseHistogram], (from, to): (u64, u64)) -> Option<Ridge> {
    let pooled = Pooled::new(rounds);
    let (min, max) = (pooled.min()?, pooled.max()?);
    let (from, to) = (from.max(1) as f64, to.max(from).max(1) as f64 * 1.000_001);
    let width = (to / from).ln();
    let count = ((width / NARROWEST) as usize).clamp(1, BINS);
    let edge = |at: usize| from * (width * at as f64 / count as f64).exp();
    let mut bins: Vec<ShapeBin> = (0..count)
        .map(|at| ShapeBin { from_ns: edge(at).round() as u64, to_ns: edge(at + 1).round() as u64, count: 0 })
        .collect();
    for bin in pooled.bins() {
        let value = bin.value().clamp(min, max).max(1) as f64;
        let at = ((value / from).ln() / width * count as f64).max(0.0) as usize;
        bins[at.min(count - 1)].count += bin.count;
    }
    let claimed = |p: f64| {
        let quantile = quantile::estimate(rounds, &pooled, p)?.quantile;
        quantile.ns.filter(|_| quantile.is_interval())
    };
    let letters = (1..).map_while(|depth| {
        let outside = 0.5_f64.powi(depth);
        Some(Letter { outside, low_ns: claimed(outside)?, high_ns: claimed(1.0 - outside)? })
    });
    Some(Ridge { humps: humps(&bins), letters: letters.collect(), bins })
}

/// Peaks between valleys. Each starts as a bin higher than its neighbours; the lower of two that are not well apart is
/// given up, until all are.
fn humps(bins: &[ShapeBin]) -> Vec<Hump> {
    let count = |at: usize| bins[at].count;
    // A plateau counts once, at its start.
    let rises = |at: usize| at == 0 || count(at - 1) < count(at);
    let falls =
        |at: usize| bins[at..].iter().find(|bin| bin.count != count(at)).is_none_or(|bin| bin.count < count(at));
    let mut peaks: Vec<usize> = (0..bins.len()).filter(|at| count(*at) > 0 && rises(*at) && falls(*at)).collect();
    let valley = |from: usize, to: usize| (from..=to).min_by_key(|at| count(*at)).unwrap_or(from);
    let between = |peaks: &[usize], at: usize| -> (usize, usize) {
        let from = if at == 0 { 0 } else { valley(peaks[at - 1], peaks[at]) };
        let to = if at + 1 == peaks.len() { bins.len() } else { valley(peaks[at], peaks[at + 1]) };
        (from, to)
    };
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let messages = |(from, to): (usize, usize)| bins[from..to].iter().map(|bin| bin.count).sum::<u64>();
    loop {
        let close = (1..peaks.len()).filter_map(|at| {
            let lower = if count(peaks[at - 1]) < count(peaks[at]) { at - 1 } else { at };
            let depth = count(valley(peaks[at - 1], peaks[at])) as f64 / count(peaks[lower]) as f64;
            (depth > VALLEY).then_some((lower, depth))
        });
        let small = (0..peaks.len()).filter(|at| {
            peaks.len() > 1 && {
                let own = messages(between(&peaks, *at));
                (own as f64) < HUMP_SHARE * total as f64 || own < HUMP_MESSAGES
            }
        });
        let worst = close.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at);
        match worst.or_else(|| small.min_by_key(|at| count(peaks[*at]))) {
            Some(at) => peaks.remove(at),
            None => break,
        };
    }
    let hump = |at: usize| Hump {
        at_ns: ((bins[peaks[at]].from_ns as f64) * (bins[peaks[at]].to_ns as f64)).sqrt(),
        share: messages(between(&peaks, at)) as f64 / total as f64,
    };
    (0..peaks.len()).map(hump).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::lognormal_rounds;
    use msgpath_core::Histogram;

    fn mixed(parts: &[(f64, usize)]) -> Vec<SparseHistogram> {
        let each: Vec<Vec<SparseHistogram>> = parts
            .iter()
            .zip(1..)
            .map(|((center, messages), seed)| lognormal_rounds(seed, 20, *messages, *center, 0.08, 0.005))
            .collect();
        (0..20)
            .map(|round| {
                let mut all = Histogram::new();
                each.iter().for_each(|part| all.merge_sparse(&part[round]));
                all.to_sparse()
            })
            .collect()
    }

    fn of(rounds: &[SparseHistogram]) -> Ridge {
        ridge(&rounds.iter().collect::<Vec<_>>(), (10_000, 2_000_000)).unwrap()
    }

    #[test]
    fn humps_are_found_with_their_shares() {
        for (parts, shares) in [
            (vec![(20_000.0, 500)], vec![1.0]),
            (vec![(20_000.0, 450), (55_000.0, 50)], vec![0.9, 0.1]),
            (vec![(20_000.0, 200), (60_000.0, 250), (400_000.0, 50)], vec![0.4, 0.5, 0.1]),
        ] {
            let ridge = of(&mixed(&parts));
            assert_eq!(ridge.humps.len(), shares.len(), "{:?}", ridge.humps);
            for ((hump, share), (center, _)) in ridge.humps.iter().zip(shares).zip(&parts) {
                assert!((hump.share - share).abs() < 0.01, "{hump:?}");
                assert!((hump.at_ns / center).ln().abs() < 0.1, "{hump:?}");
            }
        }
    }

    #[test]
    fn a_few_stalls_are_no_hump() {
        let mut rounds = mixed(&[(20_000.0, 500)]);
        let mut with_stalls = Histogram::new();
        with_stalls.merge_sparse(&rounds[0]);
        with_stalls.record_n(1_500_000, 40);
        rounds[0] = with_stalls.to_sparse();
        assert_eq!(of(&rounds).humps.len(), 1);
    }

    #[test]
    fn letters_go_as_deep_as_claims_do() {
        let ridge = of(&mixed(&[(20_000.0, 500)]));
        assert_eq!(ridge.letters[0].outside, 0.5);
        assert_eq!(ridge.letters[0].low_ns, ridge.letters[0].high_ns);
        assert!((4..=12).contains(&ridge.letters.len()), "{}", ridge.letters.len());
        assert!(
            ridge.letters.windows(2).all(|pair| pair[1].low_ns <= pair[0].low_ns && pair[0].high_ns <= pair[1].high_ns)
        );
        // A lognormal of 0.08: the quartiles lie 0.6745 x 0.08 from the median.
        let quartile = (ridge.letters[1].high_ns as f64 / 20_000.0).ln();
        assert!((quartile - 0.054).abs() < 0.01, "{quartile}");
        assert!(of(&mixed(&[(20_000.0, 500)])[..3]).letters.is_empty(), "three rounds have no interval");
    }

    #[test]
    fn every_message_is_in_a_bin() {
        let rounds = mixed(&[(20_000.0, 100), (9_000_000.0, 3), (500.0, 2)]);
        let ridge = of(&rounds);
        assert_eq!(ridge.bins.iter().map(|bin| bin.count).sum::<u64>(), 20 * 105);
        assert!(ridge.bins.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns) && ridge.bins.len() == 64);
        assert_eq!(super::ridge(&[], (1, 2)), None);
        let narrow = super::ridge(&rounds.iter().collect::<Vec<_>>(), (20_000, 20_001)).unwrap();
        assert_eq!(narrow.bins.len(), 1);
    }
}
