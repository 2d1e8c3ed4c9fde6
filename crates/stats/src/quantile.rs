//! The interval of a quantile of one case: a round-corrected order statistic (docs/method/quantiles.md).

use msgpath_core::SparseHistogram;
use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::units::three_digits;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::dependence::{LEAST_WORTH, independent, worth};
use crate::describe::{deviation, mean};
use crate::distributions::{binomial_inverse, t_quantile};
use crate::estimate::{Estimate, mean_estimate};
use crate::pooled::Pooled;

/// Where the dependence of queued messages is seen.
const QUEUED_LEVEL: f64 = 0.9;
/// A quantile beyond p90 is printed from so many messages beyond it on, and a group of rounds shows its own.
const LEAST_BEYOND: f64 = 10.0;

/// A quantile of one case, with its range.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Quantile {
    /// 0.5, 0.9, 0.99 ...
    pub p: f64,
    /// The value in this run, ns. `None`: the quantile is a lost message.
    pub ns: Option<u64>,
    /// Lower end of the range, ns.
    pub lo_ns: Option<u64>,
    /// Upper end of the range, ns. `None`: a lost message, or not known.
    pub hi_ns: Option<u64>,
    /// Messages slower than this.
    pub beyond: u64,
    /// Rounds that contain at least one of them.
    pub bursts: u64,
    /// What the range is.
    pub range: Range,
    /// What makes the range other than an interval: `three levels`, `3 rounds`, `2.1 s more`; in JSON also why there is no value
    /// or no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Serialize for Quantile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let why = match self {
            Quantile { range: Range::Withheld, .. } => self.why.clone(),
            Quantile { ns: None, .. } => Some("the quantile is a lost message".into()),
            Quantile { why: None, lo_ns, hi_ns, .. } if lo_ns.is_none() || hi_ns.is_none() => {
                Some("the end of the range lies beyond the messages that arrived".into())
            }
            _ => self.why.clone(),
        };
        Self::serialize(&Self { why, ..self.clone() }, serializer)
    }
}

impl<'de> Deserialize<'de> for Quantile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// What the range of a quantile is. Levels, drift and few rounds make it wider; they do not take the number away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "QuantileRange")]
pub enum Range {
    /// The 95 % interval over rounds of a steady run.
    #[default]
    Interval,
    /// From the fastest to the slowest level of a run that never settled, each with its own interval.
    Levels,
    /// The range of the rounds, which drift, or differ too much for an interval.
    Drift,
    /// The range of fewer rounds than an interval needs.
    Few,
    /// A lower end only: what would bound it from above was not seen often enough, or grows as long as one waits.
    Bound,
    /// Too few messages lie beyond it to print a number.
    NotYet,
    /// There is no number: the rate was not sustained, and the value grows as long as one measures.
    Withheld,
}

impl Quantile {
    /// A range whose ends lie further apart than this factor is printed as a bound.
    const WIDE: u64 = 3;

    /// Whether the range is a 95 % interval, from which a `sure` sentence may follow.
    pub fn is_interval(&self) -> bool {
        self.range == Range::Interval
    }

    /// The value where enough was observed to print one, ns.
    pub fn observed(&self) -> Option<u64> {
        self.ns.filter(|_| self.range != Range::NotYet)
    }

    /// The ends of the range, ns. Without the upper one where it is not known, or so far away that the range is no more
    /// than a bound from below.
    pub fn ends(&self) -> (Option<u64>, Option<u64>) {
        let near =
            |high: &u64| self.is_interval() || self.lo_ns.is_none_or(|low| *high <= low.saturating_mul(Self::WIDE));
        (self.lo_ns, self.hi_ns.filter(near))
    }
}

/// A quantile with what its claim rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// The quantile as it is printed.
    pub quantile: Quantile,
    /// How many independent messages the messages are worth here; `None` below
    /// [`MIN_ROUNDS_FOR_CLAIMS`] rounds.
    pub effective: Option<f64>,
    /// How many a two-sided 95 % upper bound needs: ln 0.025 / ln p.
    pub needed: f64,
    /// How many more messages would show it, where it is [`Range::NotYet`].
    pub more: Option<f64>,
}

/// How many independent messages the p-quantile needs: below, no upper end exists
/// (docs/method/quantiles.md#what-is-printed-where-there-is-no-interval).
pub fn needed(p: f64) -> f64 {
    0.025_f64.ln() / p.ln()
}

/// Name of a quantile: `p50`, `p99.9`.
pub fn name(p: f64) -> String {
    let text = format!("{:.6}", p * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The p-quantile (0 < p < 1) of `rounds` and its 95 % interval. `pooled` is [`Pooled::new`] of the same rounds.
/// `None` without a message.
pub fn estimate(rounds: &[&SparseHistogram], pooled: &Pooled, p: f64) -> Option<Estimated> {
    of_level(rounds, pooled, p, None)
}

/// [`estimate`] for messages that queue behind each other, so that a tail is made of few episodes. Where chance made
/// them alike the rounds look independent, and just those runs would print a p99, which is then too low: of intervals
/// of p99 over M/M/1 at utilisation 0.8 (20 rounds of 1,000) 85 % held the truth, of those that were claimed. An episode
/// that is slow at p99 is slow at `QUEUED_LEVEL` as well, where ten times as many messages tell how dependent they are:
/// beyond that level they are worth no more than at it. Then it is 96 %.
pub fn estimate_queued(rounds: &[&SparseHistogram], pooled: &Pooled, p: f64) -> Option<Estimated> {
    of_level(rounds, pooled, p, (p > QUEUED_LEVEL).then_some(QUEUED_LEVEL))
}

fn of_level(rounds: &[&SparseHistogram], pooled: &Pooled, p: f64, worth_at: Option<f64>) -> Option<Estimated> {
    let value = pooled.quantile(p)?;
    let filled: Vec<_> = rounds.iter().copied().filter(|round| round.total() > 0).collect();
    // Messages up to the quantile, round by round. A lost quantile has all that arrived below it.
    let within: Vec<u64> = filled.iter().map(|round| round.count_at_most(value.unwrap_or(u64::MAX >> 1))).collect();
    let most = worth_at.and_then(|level| of_level(rounds, pooled, level, None)?.effective);
    Some(judge(&filled, &within, pooled, (value, p), most))
}

/// [`estimate`], or with `queued` [`estimate_queued`], at many places (0 < p < 1): each round is unpacked once. Empty
/// without a message.
pub fn curve(rounds: &[&SparseHistogram], pooled: &Pooled, places: &[f64], queued: bool) -> Vec<Quantile> {
    let worth =
        if queued { of_level(rounds, pooled, QUEUED_LEVEL, None).and_then(|level| level.effective) } else { None };
    let filled: Vec<_> = rounds.iter().copied().filter(|round| round.total() > 0).collect();
    let unpacked: Vec<Vec<(u64, u64)>> = filled
        .iter()
        .map(|round| {
            let sums = round.ranges().scan(0, |sum, (from, _, count)| {
                *sum += count;
                Some((from, *sum))
            });
            sums.collect()
        })
        .collect();
    let at = |p: f64| {
        let value = pooled.quantile(p)?;
        let last = value.unwrap_or(u64::MAX);
        let up_to = |bins: &Vec<(u64, u64)>| match bins.partition_point(|(from, _)| *from <= last) {
            0 => 0,
            bin => bins[bin - 1].1,
        };
        let within: Vec<u64> = unpacked.iter().map(up_to).collect();
        Some(judge(&filled, &within, pooled, (value, p), worth.filter(|_| p > QUEUED_LEVEL)).quantile)
    };
    let mut curve: Vec<Quantile> = places.iter().filter_map(|p| at(*p)).collect();
    nest(&mut curve);
    curve
}

/// The range of the p-quantile `value`. `within`: messages of each round up to it. `most`: they are worth at most so many
/// independent ones.
fn judge(
    filled: &[&SparseHistogram],
    within: &[u64],
    pooled: &Pooled,
    (value, p): (Option<u64>, f64),
    most: Option<f64>,
) -> Estimated {
    let beyond: u64 = filled.iter().zip(within).map(|(round, within)| round.total() - within).sum();
    let bursts = filled.iter().zip(within).filter(|(round, within)| round.total() > **within).count() as u64;
    let total: u64 = filled.iter().map(|round| round.total()).sum();
    let few = filled.len() < MIN_ROUNDS_FOR_CLAIMS as usize;
    let shares: Vec<f64> =
        filled.iter().zip(within).map(|(round, within)| *within as f64 / round.total() as f64).collect();
    // Harmonic, because rounds are weighted equally: a round of few messages is the less certain one.
    let per_round = filled.len() as f64 / filled.iter().map(|round| 1.0 / round.total() as f64).sum::<f64>();
    let (effective, drifting) = if few {
        (None, false)
    } else {
        let (units, drifting) = independent(&shares);
        let per_unit = per_round * filled.len() as f64 / units.len() as f64;
        // Joining hides levels that last for many rounds: the few stretches that are left look independent.
        let worth = worth(&shares);
        let effective = effective_messages(&units, units.len() as f64, per_unit, p)
            .min(effective_messages(&shares, worth, per_round, p));
        (Some(effective.min(most.unwrap_or(f64::INFINITY))), drifting || worth < LEAST_WORTH)
    };
    let mut out = Estimated {
        quantile: Quantile { p, ns: value, beyond, bursts, ..Quantile::default() },
        effective,
        needed: needed(p),
        more: None,
    };
    let quantile = &mut out.quantile;
    let needed = out.needed;
    let unseen = p > QUEUED_LEVEL && (total as f64) * (1.0 - p) < LEAST_BEYOND - 1e-6;
    (quantile.range, quantile.why) = if value.is_some()
        && unseen
        && effective.is_none_or(|effective| effective < needed)
    {
        let wanted =
            (LEAST_BEYOND / (1.0 - p)).max(effective.map_or(needed, |effective| total as f64 * needed / effective));
        out.more = Some(wanted - total as f64);
        (Range::NotYet, Some(format!("{} messages more", count(wanted - total as f64))))
    } else if few {
        (
            Range::Few,
            Some(match filled.len() {
                1 => "1 round".into(),
                rounds => format!("{rounds} rounds"),
            }),
        )
    } else if drifting {
        (Range::Drift, Some("drift".into()))
    } else if effective.is_some_and(|effective| effective < needed) {
        let worth = count(effective.unwrap_or(0.0));
        let needed = (needed.ceil() as u64).to_string();
        (Range::Bound, Some(format!("an effective sample of about {worth} messages, and an upper end needs {needed}")))
    } else if bursts < u64::from(MIN_ROUNDS_FOR_CLAIMS) {
        let why = match bursts {
            0 => "no message lies beyond it".into(),
            1 => "all slower messages lie in 1 round".into(),
            _ => format!("all slower messages lie in {bursts} rounds"),
        };
        (Range::Bound, Some(why))
    } else {
        (Range::Interval, None)
    };
    if quantile.range == Range::NotYet {
        return out;
    }
    // Without rounds that tell how dependent the messages are, they count as independent, and their rounds' range is added.
    let n = (effective.unwrap_or(total as f64).floor() as u64).max(1);
    let low = binomial_inverse(0.025, n, p) as f64 / n as f64;
    let high = (binomial_inverse(0.975, n, p) + 1) as f64 / n as f64;
    let (low, high) = (pooled.quantile(low).flatten(), (high <= 1.0).then(|| pooled.quantile(high)).flatten());
    (quantile.lo_ns, quantile.hi_ns) = match (quantile.range, spread(filled, p)) {
        (Range::Few, Some((fast, slow))) => {
            let slow = slow.zip(high.unwrap_or(slow)).map(|(slow, high)| slow.max(high));
            (Some(low.map_or(fast, |low| low.min(fast))), slow)
        }
        (Range::Drift, Some((fast, slow))) => (Some(fast), slow),
        // The order statistics of few independent messages tell next to nothing of what each round shows.
        (Range::Bound, Some((fast, slow))) if bursts >= u64::from(MIN_ROUNDS_FOR_CLAIMS) => {
            (quantile.range, quantile.why) = (Range::Drift, Some("uneven rounds".into()));
            (Some(fast), slow)
        }
        (Range::Bound, _) => (low, None),
        _ => (low, high.flatten()),
    };
    if let Some(value) = value {
        quantile.lo_ns = Some(quantile.lo_ns.map_or(value, |low| low.min(value)));
        quantile.hi_ns = quantile.hi_ns.map(|high| high.max(value));
    }
    out
}

/// Fastest and slowest p-quantile of the rounds, or of neighbouring rounds together where a single one has too few
/// messages beyond it. The slowest is `None` where it is a lost message. `None`: there is but one such group.
fn spread(filled: &[&SparseHistogram], p: f64) -> Option<(u64, Option<u64>)> {
    let mean = filled.iter().map(|round| round.total()).sum::<u64>() as f64 / filled.len() as f64;
    let group = (LEAST_BEYOND / ((1.0 - p) * mean)).ceil().max(1.0) as usize;
    let groups = filled.len() / group;
    if groups < 2 {
        return None;
    }
    let of = |at: usize| match &filled[at * filled.len() / groups..(at + 1) * filled.len() / groups] {
        [one] => one.quantile(p).flatten(),
        several => Pooled::new(several).quantile(p).flatten(),
    };
    let own: Vec<Option<u64>> = (0..groups).map(of).collect();
    let slowest = own.iter().map(|ns| ns.unwrap_or(u64::MAX)).max().filter(|ns| *ns < u64::MAX);
    Some((own.into_iter().flatten().min()?, slowest))
}

/// How many independent messages they are worth: `B n / VIF (1.96 / t)^2` with VIF = max(1, n s^2 / (p (1 - p))), of units
/// that are worth B independent ones.
fn effective_messages(units: &[f64], worth: f64, per_unit: f64, p: f64) -> f64 {
    let inflation = (per_unit * deviation(units).powi(2) / (p * (1.0 - p))).max(1.0);
    let t = t_quantile(0.975, worth - 1.0);
    worth * per_unit / inflation * (1.96 / t).powi(2)
}

/// A count with three significant digits at most.
pub fn count(value: f64) -> String {
    if value < 99.5 {
        return three_digits(value.max(0.0).round()).split('.').next().unwrap_or("0").into();
    }
    let scale = 10_f64.powi(value.max(100.0).log10().floor() as i32 - 2);
    (((value / scale).round() * scale) as u64).to_string()
}

/// Widens the ranges of quantiles, from low to high, so that none ends above that of a higher one, or begins above it: each is made
/// on its own, of rounds that may drift at one and not at the other, but p99 is never above p99.9.
pub fn nest(quantiles: &mut [Quantile]) {
    let mut high = None;
    for quantile in quantiles.iter_mut().filter(|quantile| quantile.range != Range::NotYet) {
        high = high.max(quantile.hi_ns);
        quantile.hi_ns = quantile.hi_ns.and(high);
    }
    let mut low = None;
    for quantile in quantiles.iter_mut().rev().filter(|quantile| quantile.range != Range::NotYet) {
        low = [low, quantile.lo_ns].into_iter().flatten().min();
        quantile.lo_ns = quantile.lo_ns.and(low);
    }
}

/// Widens the ranges of quantiles to those of the same quantiles of each level.
pub fn widen(quantiles: &mut [Quantile], levels: &[Vec<Quantile>]) {
    if levels.is_empty() {
        return;
    }
    for quantile in quantiles.iter_mut().filter(|quantile| quantile.range != Range::NotYet) {
        let same = |other: &&Quantile| (other.p - quantile.p).abs() < 1e-12 && other.range != Range::NotYet;
        let own: Vec<&Quantile> = levels.iter().filter_map(|level| level.iter().find(same)).collect();
        let lows = own.iter().filter_map(|level| level.lo_ns.or(level.ns));
        // The range of the rounds, where the pooled quantile has no interval, is that of their chance as well.
        let pooled = if quantile.is_interval() { (quantile.lo_ns, quantile.hi_ns) } else { (quantile.ns, quantile.ns) };
        let before = (quantile.lo_ns, quantile.hi_ns);
        quantile.lo_ns = lows.chain(pooled.0).min();
        // A level whose quantile is a lost message leaves the range open.
        let highs: Option<Vec<u64>> = own.iter().map(|level| level.hi_ns.or(level.ns)).collect();
        quantile.hi_ns = match highs {
            Some(highs) if own.len() > 1 => highs.into_iter().chain(pooled.1).max(),
            Some(_) => before.1,
            None => None,
        };
        (quantile.range, quantile.why) = (Range::Levels, Some(format!("{} levels", in_letters(levels.len()))));
    }
}

/// `three`; digits from ten on.
fn in_letters(number: usize) -> String {
    const LETTERS: [&str; 10] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    LETTERS.get(number).map_or_else(|| number.to_string(), |word| (*word).into())
}

/// The median of every round, ns; a round whose median is lost has none.
pub fn medians(rounds: &[&SparseHistogram]) -> Vec<f64> {
    rounds.iter().filter_map(|round| round.quantile(0.5).flatten()).map(|ns| ns as f64).collect()
}

/// Interquartile range, ns: how far the third quartile of all messages lies above the first. The interval is that of the mean over rounds,
/// widened to hold it where rounds differ. `None` without a message, and where a quartile is a lost message.
pub fn iqr_ns(rounds: &[&SparseHistogram], pooled: &Pooled) -> Option<Estimate> {
    let width = |first: Option<Option<u64>>, third: Option<Option<u64>>| Some((third?? - first??) as f64);
    let value = width(pooled.quantile(0.25), pooled.quantile(0.75))?;
    let each = rounds.iter().filter_map(|round| width(round.quantile(0.25), round.quantile(0.75)));
    let Estimate { low, high, .. } = mean_estimate(&each.collect::<Vec<_>>())?;
    Some(Estimate { value, low: low.map(|low| low.clamp(0.0, value)), high: high.map(|high| high.max(value)) })
}

/// Mean of the messages that arrived, ns, over all rounds.
pub fn mean_ns(rounds: &[&SparseHistogram]) -> Option<f64> {
    let sums: Vec<(f64, f64)> = rounds
        .iter()
        .filter_map(|round| round.mean().map(|mean| (mean, (round.total() - round.lost()) as f64)))
        .collect();
    let arrived: f64 = sums.iter().map(|(_, n)| n).sum();
    (arrived > 0.0)
        .then(|| mean(&sums.iter().map(|(mean, n)| mean * n).collect::<Vec<_>>()) * sums.len() as f64 / arrived)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::lognormal_rounds;
    use msgpath_core::Histogram;
    use proptest::prelude::*;

    fn of(rounds: &[SparseHistogram], p: f64) -> Estimated {
        let rounds: Vec<&SparseHistogram> = rounds.iter().collect();
        estimate(&rounds, &Pooled::new(&rounds), p).unwrap()
    }

    #[test]
    fn the_middle_half_lies_between_the_quartiles() {
        let round = |above: u64, lost: u64| {
            let mut round = Histogram::new();
            (1..=100).for_each(|n| round.record(above + n));
            round.record_lost(lost);
            round.to_sparse()
        };
        let widths = |rounds: &[SparseHistogram]| {
            let rounds: Vec<&SparseHistogram> = rounds.iter().collect();
            iqr_ns(&rounds, &Pooled::new(&rounds))
        };
        assert_eq!(widths(&[round(0, 0), round(0, 0), Histogram::new().to_sparse()]).unwrap().value, 50.0);
        // Rounds that differ are wider together than each by itself.
        assert!(widths(&[round(0, 0), round(100, 0)]).unwrap().value > 90.0);
        assert_eq!(widths(&[round(0, 60)]), None, "the third quartile is a lost message");
        assert_eq!(widths(&[]), None);
        let rounds = lognormal_rounds(1, 20, 2_000, 20_000.0, 0.3, 0.0);
        let own = widths(&rounds).unwrap();
        let truth = 20_000.0 * ((0.3 * 0.674_49_f64).exp() - (-0.3 * 0.674_49_f64).exp());
        assert!(own.low.unwrap() < truth && truth < own.high.unwrap(), "{own:?} {truth}");
    }

    /// 200 seeded runs of 20 rounds: nominal 95 % intervals of p50 and p99 must hold the truth in at least 88 %.
    fn covers(messages: usize, effect: f64) {
        let sigma = 0.3_f64;
        let mut counts = [(0.5, 0.0, 0, 0), (0.99, 2.326_35, 0, 0)];
        for seed in 0..200 {
            let rounds = lognormal_rounds(seed, 20, messages, 20_000.0, sigma, effect);
            for (p, z, covered, claimed) in &mut counts {
                // Over rounds and messages together the log is normal with both variances.
                let truth = 20_000.0 * (*z * (sigma * sigma + effect * effect).sqrt()).exp();
                let q = of(&rounds, *p).quantile;
                if q.is_interval() {
                    *claimed += 1;
                    *covered +=
                        u32::from(q.lo_ns.unwrap() as f64 <= truth && q.hi_ns.is_none_or(|high| truth <= high as f64));
                }
            }
        }
        for (p, _, covered, claimed) in counts {
            assert!(claimed >= 170 && f64::from(covered) >= 0.88 * f64::from(claimed), "{p}: {covered} of {claimed}");
        }
    }

    #[test]
    fn a_range_that_is_three_times_as_wide_is_only_a_lower_bound() {
        let ends = |range, lo_ns, hi_ns| Quantile { range, lo_ns, hi_ns, ..Quantile::default() }.ends();
        for range in [Range::Levels, Range::Drift, Range::Few, Range::Bound] {
            assert_eq!(ends(range, Some(100), Some(300)), (Some(100), Some(300)), "{range:?}");
            assert_eq!(ends(range, Some(100), Some(301)), (Some(100), None), "{range:?}");
            assert_eq!(ends(range, Some(100), None), (Some(100), None), "{range:?}");
            assert_eq!(ends(range, None, Some(301)), (None, Some(301)), "{range:?}");
            assert_eq!(ends(range, Some(u64::MAX / 2), Some(u64::MAX)).1, Some(u64::MAX), "{range:?}");
        }
        // An interval is a claim, however wide.
        assert_eq!(ends(Range::Interval, Some(100), Some(9_000)), (Some(100), Some(9_000)));
        assert_eq!(ends(Range::Interval, Some(100), None), (Some(100), None));
    }

    #[test]
    fn intervals_cover_independent_messages() {
        covers(100, 0.0);
    }

    #[test]
    fn intervals_cover_messages_that_share_the_fate_of_their_round() {
        covers(120, 0.1);
    }

    #[test]
    fn dependent_messages_are_worth_fewer() {
        let free = of(&lognormal_rounds(1, 40, 200, 20_000.0, 0.3, 0.0), 0.5).effective.unwrap();
        let bound = of(&lognormal_rounds(1, 40, 200, 20_000.0, 0.3, 0.3), 0.5).effective.unwrap();
        assert!(free > 4_000.0 && free <= 8_000.0 && bound < 400.0, "{free} {bound}");
    }

    #[test]
    fn thresholds_are_those_of_the_method() {
        let table =
            [(0.9, 36.0), (0.95, 72.0), (0.99, 368.0), (0.999, 3_688.0), (0.9999, 36_887.0), (0.99999, 368_887.0)];
        for (p, expected) in table {
            assert!((needed(p) - expected).abs() <= 1.0, "{p}: {}", needed(p));
        }
    }

    #[test]
    fn ranges_are_nested() {
        let of = |p, ends: (u64, u64), range| Quantile {
            p,
            ns: Some(ends.0),
            lo_ns: Some(ends.0),
            hi_ns: Some(ends.1),
            range,
            ..Quantile::default()
        };
        let mut all = [
            of(0.5, (10, 12), Range::Interval),
            of(0.99, (50, 900), Range::Drift),
            of(0.999, (40, 600), Range::Interval),
            Quantile { hi_ns: None, ..of(0.9999, (700, 0), Range::Bound) },
        ];
        nest(&mut all);
        let ends: Vec<_> = all.iter().map(|quantile| (quantile.lo_ns.unwrap(), quantile.hi_ns)).collect();
        assert_eq!(ends, [(10, Some(12)), (40, Some(900)), (40, Some(900)), (700, None)]);
    }

    #[test]
    fn what_is_not_an_interval_is_a_wider_range_and_says_why() {
        let few = of(&lognormal_rounds(1, 4, 100, 1_000.0, 0.1, 0.0), 0.5).quantile;
        assert_eq!((few.range, few.why.as_deref()), (Range::Few, Some("4 rounds")));
        let (low, high) = (few.lo_ns.unwrap(), few.hi_ns.unwrap());
        assert!((960..1_000).contains(&low) && (1_000..1_040).contains(&high), "{few:?}");
        let one = of(&lognormal_rounds(1, 1, 400, 1_000.0, 0.1, 0.0), 0.5).quantile;
        assert!(one.lo_ns < one.ns && one.ns < one.hi_ns && one.why.as_deref() == Some("1 round"), "{one:?}");
        let tail = of(&lognormal_rounds(1, 40, 100, 1_000.0, 0.1, 0.0), 0.9999).quantile;
        assert!(tail.observed().is_none() && tail.range == Range::NotYet && tail.lo_ns.is_none(), "{tail:?}");
        assert!(tail.why.unwrap().ends_with("messages more"));
        // One burst in one of 40 rounds: p99.4 rests on it alone.
        let mut rounds = vec![1_000; 40];
        rounds[7] = 50_000;
        let slow = |ns| {
            let mut histogram = Histogram::new();
            histogram.record_n(1_000, 160);
            histogram.record_n(ns, 40);
            histogram.to_sparse()
        };
        let q = of(&rounds.into_iter().map(slow).collect::<Vec<_>>(), 0.994).quantile;
        assert_eq!((q.bursts, q.ns, q.hi_ns), (1, Some(1_000), None), "{q:?}");
        assert!(q.range == Range::Bound && q.lo_ns.unwrap() <= 1_000, "{q:?}");
    }

    #[test]
    fn rounds_that_drift_give_their_range() {
        let rounds: Vec<SparseHistogram> = (0..40)
            .flat_map(|at| lognormal_rounds(at, 1, 100, 10_000.0 * (1.0 + at as f64 / 20.0), 0.05, 0.0))
            .collect();
        let q = of(&rounds, 0.5).quantile;
        assert_eq!((q.range, q.why.as_deref()), (Range::Drift, Some("drift")));
        // From 10 to 29.5 µs.
        assert!((9_500..10_500).contains(&q.lo_ns.unwrap()) && (28_500..30_500).contains(&q.hi_ns.unwrap()), "{q:?}");
    }

    #[test]
    fn a_drift_into_loss_has_no_upper_end() {
        let rounds: Vec<SparseHistogram> = (0..40)
            .map(|at| {
                let mut histogram = Histogram::new();
                histogram.record_n(1_000, 100 - 2 * at);
                histogram.record_n(2_000, at);
                histogram.record_lost(at);
                histogram.to_sparse()
            })
            .collect();
        let q = of(&rounds, 0.7).quantile;
        assert_eq!((q.range, q.lo_ns, q.hi_ns), (Range::Drift, Some(1_000), None), "{q:?}");
    }

    #[test]
    fn lost_messages_are_infinitely_slow() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000, 950);
        histogram.record_lost(50);
        let rounds = vec![histogram.to_sparse(); 20];
        let p99 = of(&rounds, 0.99).quantile;
        assert_eq!((p99.ns, p99.range, p99.beyond, p99.bursts), (None, Range::Interval, 1_000, 20));
        assert_eq!(of(&rounds, 0.5).quantile.ns, Some(1_000));
        // p95 is the last that arrived; its upper end is lost.
        let p95 = of(&rounds, 0.95).quantile;
        assert_eq!((p95.ns, p95.lo_ns, p95.hi_ns, p95.is_interval()), (Some(1_000), Some(1_000), None, true));
    }

    #[test]
    fn names() {
        assert_eq!([0.5, 0.99, 0.999, 0.9999].map(name), ["p50", "p99", "p99.9", "p99.99"]);
        assert_eq!([4.2, 1_234.0, 99.6].map(count), ["4", "1230", "100"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn a_range_holds_its_value(seed in 0_u64..1_000, p in 0.05_f64..0.95, effect in 0.0_f64..0.3) {
            let q = of(&lognormal_rounds(seed, 12, 60, 5_000.0, 0.2, effect), p).quantile;
            prop_assert!(q.lo_ns.unwrap() <= q.ns.unwrap() && q.hi_ns.is_none_or(|high| high >= q.ns.unwrap()));
        }
    }
}
