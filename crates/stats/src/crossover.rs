//! From which size a path beats the baseline, with an interval (docs/method/crossover.md).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::describe::{deviation, percentile};
use crate::resample::outside_each;
use crate::verdict::{LEVEL, Verdict};

/// The ways two curves can lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossoverKind {
    /// Faster at every size measured.
    AlwaysFaster,
    /// Slower at every size measured.
    NeverFaster,
    /// No difference was shown at any size.
    Equivalent,
    /// Slower below, faster above.
    At,
    /// Faster below, slower above.
    FasterBelow,
    /// More than one crossing.
    Several,
    /// The data do not decide.
    Undecided,
}

/// The log-ratio of one size: positive is slower than the baseline, whatever the metric.
#[derive(Clone, Debug)]
pub struct AtSize {
    /// Bytes.
    pub size: u64,
    /// Over all passes.
    pub slower: f64,
    /// In resamples of the passes, the same passes for every size of a stage.
    pub redrawn: Vec<f64>,
    /// Independent units that the passes are.
    pub units: usize,
    /// What the ratio at this size means.
    pub verdict: Verdict,
    /// The difference stands after Holm: the interval of that level does not touch 0.
    pub holm: bool,
    /// Added in a second phase.
    pub added: bool,
}

/// From which size one line of sizes beats its baseline.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Crossing {
    /// What was found.
    pub kind: CrossoverKind,
    /// The size, bytes (for [`CrossoverKind::At`] and [`CrossoverKind::Several`]: the last crossing).
    #[serde(rename = "size_bytes")]
    pub size: Option<f64>,
    /// Interval, bytes; `None` at an end that lies outside the sizes measured.
    #[serde(rename = "low_bytes")]
    pub low: Option<f64>,
    /// Interval, bytes.
    #[serde(rename = "high_bytes")]
    pub high: Option<f64>,
    /// Every size at which the curves cross, bytes, by size.
    #[serde(rename = "crossings_bytes")]
    pub crossings: Vec<f64>,
    /// The sizes measured between which no verdict can be given (their Holm-corrected intervals touch 0), bytes.
    #[serde(rename = "undecided_bytes")]
    pub undecided: Option<(u64, u64)>,
    /// Share of the resamples without a crossing inside the sizes measured, 0 to 1.
    pub outside: f64,
    /// Sizes were added near the crossing in a second phase.
    pub refined: bool,
}

/// Where a line of sizes crosses its baseline.
///
/// # Panics
/// The line is empty.
pub fn crossover(line: &[AtSize]) -> Crossing {
    let groups = groups(line);
    let kind = kind(line, &groups);
    let last = groups.len().saturating_sub(2);
    // Without a crossing there is one direction left to look in: that of the ends.
    let stretches: Vec<Stretch> = if groups.len() < 2 {
        vec![Stretch::new(line, line[0].slower > line[line.len() - 1].slower)]
    } else {
        let from = |at: usize| if at == 0 { 0 } else { groups[at].first };
        let to = |at: usize| if at == last { line.len() - 1 } else { groups[at + 1].last };
        (0..=last).map(|at| Stretch::new(&line[from(at)..=to(at)], groups[at].slower)).collect()
    };
    let crosses = matches!(kind, CrossoverKind::At | CrossoverKind::FasterBelow | CrossoverKind::Several);
    let here = &stretches[stretches.len() - 1];
    let mut places = here.redrawn();
    let outside = places.iter().filter(|place| !place.is_finite()).count() as f64 / places.len().max(1) as f64;
    let mut out = Crossing {
        kind,
        size: None,
        low: None,
        high: None,
        crossings: Vec::new(),
        undecided: None,
        outside,
        refined: line.iter().any(|at| at.added),
    };
    let between = if crosses {
        let bytes = |log_size: f64| log_size.is_finite().then(|| log_size.exp2());
        let (first, end) = (here.sizes[0], here.sizes[here.sizes.len() - 1]);
        let each = outside_each(LEVEL, line.iter().map(|at| at.units).min().unwrap_or(1));
        out.crossings = stretches.iter().filter_map(|stretch| bytes(stretch.place())).collect();
        out.size = bytes(here.place());
        // Resamples are interpolated linearly. What the smooth curve adds moves the interval, and as much again, since
        // neither is how the times run between two sizes, is added on its side.
        let bend = here.place() - here.zero_of(&here.curve);
        let (down, up) = if bend.is_finite() { (2.0 * bend.min(0.0), 2.0 * bend.max(0.0)) } else { (0.0, 0.0) };
        // All but a few resamples cross beyond the largest size: then that size is the lower end, and the other way round.
        out.low = bytes((percentile(&mut places, each) + down).min(end));
        out.high = bytes((percentile(&mut places, 1.0 - each) + up).max(first));
        &line[groups[last].last + 1..groups[last + 1].first]
    } else {
        line
    };
    if crosses || kind == CrossoverKind::Undecided {
        // The longest run of sizes that tell nothing.
        let runs = between.chunk_by(|a, b| a.holm == b.holm).filter(|run| !run[0].holm);
        out.undecided = runs.max_by_key(|run| run.len()).map(|run| (run[0].size, run[run.len() - 1].size));
    }
    out
}

fn kind(line: &[AtSize], groups: &[Group]) -> CrossoverKind {
    let all = |verdict: Verdict| line.iter().all(|at| at.verdict == verdict);
    match groups {
        _ if all(Verdict::Better) => CrossoverKind::AlwaysFaster,
        _ if all(Verdict::Worse) => CrossoverKind::NeverFaster,
        _ if all(Verdict::Equivalent) => CrossoverKind::Equivalent,
        [] | [_] => CrossoverKind::Undecided,
        [first, _] if first.slower => CrossoverKind::At,
        [_, _] => CrossoverKind::FasterBelow,
        _ => CrossoverKind::Several,
    }
}

/// Neighbouring sizes that were shown to lie on the same side.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Group {
    first: usize,
    last: usize,
    slower: bool,
}

/// The sides of the line. A crossing is a claim only where both sides were shown by verdicts: noise around 0 crosses it as
/// well. Where these show one crossing but the curve is not monotone, the weaker evidence of each size's own interval
/// counts too, because the line as a whole has shown that it turns.
fn groups(line: &[AtSize]) -> Vec<Group> {
    let shown = grouped(line.iter().map(|at| match at.verdict {
        Verdict::Worse => Some(true),
        Verdict::Better => Some(false),
        _ => None,
    }));
    if shown.len() == 2 && turns(line, shown[0].slower) {
        let by_interval = grouped(line.iter().map(|at| {
            let mut values = at.redrawn.clone();
            let each = outside_each(LEVEL, at.units);
            let (low, high) = (percentile(&mut values, each), percentile(&mut values, 1.0 - each));
            (low > 0.0).then_some(true).or_else(|| (high < 0.0).then_some(false))
        }));
        if by_interval.len() > 2 {
            return by_interval;
        }
    }
    shown
}

fn grouped(sides: impl Iterator<Item = Option<bool>>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, slower) in sides.enumerate().filter_map(|(at, side)| Some((at, side?))) {
        match groups.last_mut() {
            Some(group) if group.slower == slower => group.last = at,
            _ => groups.push(Group { first: at, last: at, slower }),
        }
    }
    groups
}

/// Whether the line is not monotone at 95 %: the squared distance to its monotone fit, in standard errors, against that
/// of resamples that are moved onto the fit.
fn turns(line: &[AtSize], falling: bool) -> bool {
    let stretch = Stretch::new(line, falling);
    let distance = |curve: &[f64]| -> f64 {
        let fit = monotone(curve, &stretch.weights, falling);
        curve.iter().zip(&fit).zip(&stretch.weights).map(|((value, fit), weight)| weight * (value - fit).powi(2)).sum()
    };
    let fit = monotone(&stretch.curve, &stretch.weights, falling);
    let observed = distance(&stretch.curve);
    let resamples = line.iter().map(|at| at.redrawn.len()).min().unwrap_or(0);
    let as_far = (0..resamples).filter(|again| {
        let moved = line.iter().zip(&fit).map(|(at, fit)| fit + at.redrawn[*again] - at.slower);
        distance(&moved.collect::<Vec<_>>()) >= observed
    });
    observed > 0.0 && (1 + as_far.count()) as f64 / (1 + resamples) as f64 <= LEVEL
}

/// A part of the line that crosses 0 at most once.
struct Stretch<'a> {
    line: &'a [AtSize],
    /// log2 of the sizes in bytes.
    sizes: Vec<f64>,
    curve: Vec<f64>,
    /// 1 / variance.
    weights: Vec<f64>,
    falling: bool,
}

impl<'a> Stretch<'a> {
    fn new(line: &'a [AtSize], falling: bool) -> Self {
        Stretch {
            line,
            sizes: line.iter().map(|at| (at.size as f64).log2()).collect(),
            curve: line.iter().map(|at| at.slower).collect(),
            weights: line.iter().map(|at| deviation(&at.redrawn).max(1e-6).powi(-2)).collect(),
            falling,
        }
    }

    /// log2 of the size where the curve crosses 0, drawn smoothly through its monotone fit: the log-ratio of two paths
    /// that have a cost for each message and one for each byte bends between sizes that are far apart.
    fn place(&self) -> f64 {
        let fit = monotone(&self.curve, &self.weights, self.falling);
        let at = self.zero_of(&fit);
        match self.sizes.iter().rposition(|size| *size <= at) {
            Some(left) if left + 1 < fit.len() => smooth_zero(&self.sizes, &fit, left),
            _ => at,
        }
    }

    /// [`Stretch::zero_of`] every resample. Resamples that end in a lost message tell nothing: no crossing.
    fn redrawn(&self) -> Vec<f64> {
        let resamples = self.line.iter().map(|at| at.redrawn.len()).min().unwrap_or(0);
        let mut curve = vec![0.0; self.line.len()];
        let mut once = |again: usize| {
            curve.iter_mut().zip(self.line).for_each(|(value, at)| *value = at.redrawn[again]);
            self.zero_of(&curve)
        };
        (0..resamples).map(&mut once).collect()
    }

    /// Where the monotone fit of these values crosses 0, by linear interpolation;
    /// -inf where the curve begins on the other side, +inf where it never gets there.
    fn zero_of(&self, curve: &[f64]) -> f64 {
        if curve.iter().any(|value| !value.is_finite()) {
            return f64::INFINITY;
        }
        let fit = monotone(curve, &self.weights, self.falling);
        let beyond = |value: &f64| if self.falling { *value < 0.0 } else { *value > 0.0 };
        match fit.iter().position(beyond) {
            None => f64::INFINITY,
            Some(0) => f64::NEG_INFINITY,
            Some(at) => {
                let share = fit[at - 1] / (fit[at - 1] - fit[at]);
                self.sizes[at - 1] + share * (self.sizes[at] - self.sizes[at - 1])
            }
        }
    }
}

/// Where a monotone curve crosses 0 between points `left` and `left + 1`, drawn as a cubic whose slopes at the points are
/// the harmonic means of the neighbouring ones, so that it stays monotone (Fritsch and Butland, A Method for Constructing
/// Local Monotone Piecewise Cubic Interpolants, 1984). By halving.
fn smooth_zero(at: &[f64], values: &[f64], left: usize) -> f64 {
    let secant = |from: usize| (values[from + 1] - values[from]) / (at[from + 1] - at[from]);
    let slope = |point: usize| {
        if point == 0 || point + 1 == at.len() {
            return secant(left);
        }
        let (before, after) = (secant(point - 1), secant(point));
        if before * after > 0.0 { 2.0 / (1.0 / before + 1.0 / after) } else { 0.0 }
    };
    let width = at[left + 1] - at[left];
    let (a, b, from, to) = (values[left], values[left + 1], slope(left) * width, slope(left + 1) * width);
    let cubic = |t: f64| {
        let (t2, t3) = (t * t, t * t * t);
        a * (2.0 * t3 - 3.0 * t2 + 1.0) + from * (t3 - 2.0 * t2 + t) + b * (3.0 * t2 - 2.0 * t3) + to * (t3 - t2)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if (cubic(middle) > 0.0) == (a > 0.0) { low = middle } else { high = middle }
    }
    at[left] + width * low
}

/// Pool adjacent violators: the falling (or rising) sequence nearest to `values` in weighted squares.
pub fn monotone(values: &[f64], weights: &[f64], falling: bool) -> Vec<f64> {
    // Mean, weight and length of every block.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut mean = *value;
        let mut sum = *weight;
        let mut length = 1;
        while let Some((before, more, others)) = blocks.last().copied() {
            if if falling { before >= mean } else { before <= mean } {
                break;
            }
            blocks.pop();
            mean = (mean * sum + before * more) / (sum + more);
            (sum, length) = (sum + more, length + others);
        }
        blocks.push((mean, sum, length));
    }
    blocks.into_iter().flat_map(|(mean, _, length)| std::iter::repeat_n(mean, length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::mean;
    use crate::paired::paired;
    use crate::simulate::normal;
    use crate::verdict::{Evidence, holm_levels, judge};
    use proptest::prelude::*;

    /// 64 B to 1 MiB; the true log-ratio of size 2^x is `truth(x)`, with noise per pass.
    fn curve(truth: impl Fn(f64) -> f64, noise: f64, seed: u64) -> Vec<AtSize> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut at = |log_size: u32| {
            let center = truth(f64::from(log_size));
            let d: Vec<f64> = (0..30).map(|_| center + noise * normal(&mut random)).collect();
            (1 << log_size, paired(&d, 8, seed).unwrap())
        };
        let all: Vec<(u64, _)> = (6..=20).step_by(2).map(&mut at).collect();
        let levels = holm_levels(&all.iter().map(|(_, paired)| paired.p).collect::<Vec<_>>());
        all.iter()
            .zip(levels)
            .map(|((size, paired), level)| AtSize {
                size: *size,
                slower: paired.center(),
                redrawn: paired.redrawn(400, seed),
                units: paired.units,
                verdict: judge(paired, level, 0.02, false).verdict,
                holm: level.is_some(),
                added: false,
            })
            .collect()
    }

    fn line(slope: f64, zero: f64, noise: f64, seed: u64) -> Vec<AtSize> {
        curve(|log_size| slope * (log_size - zero), noise, seed)
    }

    #[test]
    fn the_interval_holds_the_true_crossing() {
        let truth = 14.7;
        let mut covered = 0;
        for seed in 0..100 {
            let found = crossover(&line(-0.05, truth, 0.05, seed));
            assert_eq!((found.kind, found.crossings.len()), (CrossoverKind::At, 1));
            let [size, low, high] = [found.size, found.low, found.high].map(|end| end.unwrap().log2());
            assert!((size - truth).abs() < 1.0 && found.outside == 0.0);
            covered += u32::from(low <= truth && truth <= high);
        }
        assert!(covered >= 88, "{covered}");
    }

    #[test]
    fn every_kind_is_told() {
        let kind = |slope, truth| crossover(&line(slope, truth, 0.02, 5)).kind;
        assert_eq!(kind(-0.05, 12.0), CrossoverKind::At);
        assert_eq!(kind(0.05, 12.0), CrossoverKind::FasterBelow);
        assert_eq!(kind(-0.05, 2.0), CrossoverKind::AlwaysFaster);
        assert_eq!(kind(-0.05, 40.0), CrossoverKind::NeverFaster);
        assert_eq!(kind(0.0, 0.0), CrossoverKind::Equivalent);
        assert_eq!(crossover(&line(0.0, 0.0, 0.3, 6)).kind, CrossoverKind::Undecided);
        // Without a crossing nothing is said about one but that it was not seen.
        let never = crossover(&line(-0.05, 40.0, 0.02, 5));
        assert_eq!((never.size, never.undecided, never.outside), (None, None, 1.0));
    }

    #[test]
    fn every_crossing_is_listed() {
        // Slower, faster from 2^10 on, slower again from 2^16 on.
        let found = crossover(&curve(|x| 0.05 * ((x - 13.0).abs() - 3.0), 0.02, 7));
        assert_eq!((found.kind, found.crossings.len()), (CrossoverKind::Several, 2));
        assert!((found.crossings[0].log2() - 10.0).abs() < 0.5 && (found.crossings[1].log2() - 16.0).abs() < 0.5);
        assert_eq!(found.size, found.crossings.last().copied());
        assert!(found.low.unwrap().log2() < 16.0 && 16.0 < found.high.unwrap().log2());
    }

    #[test]
    fn a_turn_that_no_single_size_shows_is_seen_by_the_line() {
        // Faster from 2^10 on, and at the last three sizes as much slower as each of them cannot show by itself.
        let turning = |x: f64| if x > 15.0 { 0.022 } else { 0.05 * (10.0 - x) };
        let several = (0..40).filter(|seed| {
            let line = curve(turning, 0.05, *seed);
            line[5..].iter().all(|at| at.verdict != Verdict::Worse) && crossover(&line).kind == CrossoverKind::Several
        });
        assert!(several.count() >= 15);
        let straight = (0..40).filter(|seed| crossover(&line(-0.05, 10.0, 0.05, *seed)).kind != CrossoverKind::At);
        assert!(straight.count() <= 2);
    }

    #[test]
    fn sizes_that_tell_nothing_are_a_band() {
        let mut line = line(-0.05, 13.0, 0.03, 3);
        for at in &mut line[3..5] {
            (at.verdict, at.holm) = (Verdict::Undecided, false);
        }
        assert_eq!(crossover(&line).undecided, Some((1 << 12, 1 << 14)));
        // A size apart from the crossing is not part of the band.
        (line[0].verdict, line[0].holm) = (Verdict::Undecided, false);
        assert_eq!(crossover(&line).undecided, Some((1 << 12, 1 << 14)));
    }

    #[test]
    fn one_side_alone_is_no_crossing() {
        // Slower everywhere but at the last size, where nothing is shown: about half of the resamples cross.
        let found = crossover(&line(-0.05, 20.0, 0.05, 4));
        assert_eq!((found.kind, found.size, found.crossings.len()), (CrossoverKind::Undecided, None, 0));
        assert!(
            found.outside > 0.05 && found.outside < 0.95 && found.undecided == Some((1 << 20, 1 << 20)),
            "{found:?}"
        );
    }

    #[test]
    fn zeros_are_interpolated_in_log_size() {
        let zero = |values: [f64; 2], falling| {
            let mut line = line(-0.05, 13.0, 0.03, 3);
            line.truncate(2);
            Stretch::new(&line, falling).zero_of(&values)
        };
        assert_eq!(zero([1.0, -1.0], true), 7.0);
        assert_eq!(zero([-3.0, 1.0], false), 7.5);
        assert_eq!(zero([1.0, 1.0], true), f64::INFINITY);
        assert_eq!(zero([-1.0, -1.0], true), f64::NEG_INFINITY);
        assert_eq!(zero([1.0, f64::NEG_INFINITY], true), f64::INFINITY);
    }

    #[test]
    fn a_bent_curve_is_drawn_smoothly() {
        // A cost for each message and one for each byte; equal at 10,000 bytes.
        let truth = |log_size: f64| ((3.0 + 1e-4 * log_size.exp2()) / (2.0 + 2e-4 * log_size.exp2())).ln();
        let sizes: Vec<f64> = (3..10).map(|at| 2.0 * f64::from(at)).collect();
        let values: Vec<f64> = sizes.iter().map(|size| truth(*size)).collect();
        let place = smooth_zero(&sizes, &values, 3);
        assert!((place - 10_000_f64.log2()).abs() < 0.04, "{}", place.exp2());
        // A straight one stays straight, at the ends too.
        assert!((smooth_zero(&[0.0, 1.0, 2.0], &[3.0, 1.0, -1.0], 1) - 1.5).abs() < 1e-9);
        assert!((smooth_zero(&[0.0, 2.0], &[-1.0, 3.0], 0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn certain_values_pull_more() {
        assert_eq!(monotone(&[0.0, 4.0], &[1.0, 3.0], true), [3.0, 3.0]);
        assert_eq!(monotone(&[0.0, 4.0], &[1.0, 3.0], false), [0.0, 4.0]);
    }

    proptest! {
        #[test]
        fn pava_is_monotone_keeps_the_mean_and_leaves_monotone_alone(values in prop::collection::vec(-1.0_f64..1.0, 1..20)) {
            let ones = vec![1.0; values.len()];
            for rising in [false, true] {
                let fit = monotone(&values, &ones, !rising);
                prop_assert_eq!(fit.len(), values.len());
                let ordered = |pair: &[f64]| if rising { pair[0] <= pair[1] + 1e-12 } else { pair[0] >= pair[1] - 1e-12 };
                prop_assert!(fit.windows(2).all(ordered));
                prop_assert!((mean(&fit) - mean(&values)).abs() < 1e-9);
                let again = monotone(&fit, &ones, !rising);
                prop_assert!(again.iter().zip(&fit).all(|(a, b)| (a - b).abs() < 1e-9));
                // No other monotone sequence is nearer: not the sorted values, not the constant mean.
                let misfit = |other: &[f64]| other.iter().zip(&values).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                if !rising { sorted.reverse(); }
                prop_assert!(misfit(&fit) <= misfit(&sorted) + 1e-9);
                prop_assert!(misfit(&fit) <= misfit(&vec![mean(&values); values.len()]) + 1e-9);
            }
        }
    }
}
