//! What a ratio means: better, worse, equivalent or undecided, in a family of ratios
//! (docs/method/comparison.md#verdicts).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Two-sided level of every test.
pub const LEVEL: f64 = 0.05;
/// The smallest margin of a verdict: a difference of 2 % is not worth a sentence.
pub const LEAST_MARGIN: f64 = 0.02;
/// The widest margin within which anything is called the same: 10 %.
pub const WIDEST_MARGIN: f64 = 0.1;

/// Whether a run with this margin may call two things the same. Within a wider one it cannot: an interval that lies inside
/// says only that the difference, if there is one, is smaller than what this run can see
/// (docs/method/comparison.md#when-nothing-is-called-the-same).
pub fn may_be_the_same(margin: f64) -> bool {
    margin <= WIDEST_MARGIN
}

/// What a ratio means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline by more than the margin.
    Better,
    /// Worse than the baseline by more than the margin.
    Worse,
    /// The same within the margin, which is at most 10 %.
    Equivalent,
    /// The interval does not decide, or the run cannot see differences that matter.
    Undecided,
}

/// The logarithm of a ratio of two cases, with what is known about its error.
pub trait Evidence {
    /// ln(case / baseline).
    fn center(&self) -> f64;
    /// p-value of the hypothesis that it is 0; `None` where the passes are too few to say.
    fn p(&self) -> Option<f64>;
    /// Interval of two-sided level `level`; infinite where an end cannot be resolved. `None` where the passes are too few.
    fn interval(&self, level: f64) -> Option<(f64, f64)>;
    /// Passes that both cases have.
    fn passes(&self) -> usize;
    /// Independent units that they were judged as.
    fn units(&self) -> usize;
    /// [`Evidence::center`] for units drawn again `count` times.
    fn redrawn(&self, count: usize, seed: u64) -> Vec<f64>;
}

/// Holm over a family: the level 0.05 / (m - i + 1) at which each of the p-values stands; `None`: it does not. What was
/// not tested does not count.
pub fn holm_levels(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(f64, usize)> = p.iter().enumerate().filter_map(|(at, p)| Some(((*p)?, at))).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut stands = vec![None; p.len()];
    for (rank, (p, at)) in order.iter().enumerate() {
        let level = LEVEL / (order.len() - rank) as f64;
        if *p > level {
            break;
        }
        stands[*at] = Some(level);
    }
    stands
}

/// Holm over a family: which of the p-values stand at 0.05.
pub fn holm(p: &[Option<f64>]) -> Vec<bool> {
    holm_levels(p).iter().map(Option::is_some).collect()
}

/// A verdict with the interval that it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// What the ratio means.
    pub verdict: Verdict,
    /// Lower end of the ratio; `None`: no interval, or not resolvable.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// Reads the interval against the margin. Its level is the one at which the ratio stands in its family, so that all
/// differences that are claimed hold together; where none stands (`level` is `None`) it is 0.05, and the verdict can only
/// be equivalent or undecided: [`verdict`].
pub fn judge(evidence: &dyn Evidence, level: Option<f64>, margin: f64, larger_is_better: bool) -> Judged {
    let Some((low, high)) = evidence.interval(level.unwrap_or(LEVEL)) else {
        return Judged { verdict: Verdict::Undecided, low: None, high: None };
    };
    let verdict = verdict((low, high), level.is_some(), margin, larger_is_better);
    let finite = |end: f64| end.is_finite().then(|| end.exp());
    Judged { verdict, low: finite(low), high: finite(high) }
}

/// What the interval of a log-ratio means: wholly within +-ln(1 + margin) equivalent, unless the margin is too wide for that
/// ([`may_be_the_same`]); wholly beyond, and `stands` in its family, better or worse; else undecided.
pub fn verdict((low, high): (f64, f64), stands: bool, margin: f64, larger_is_better: bool) -> Verdict {
    let bound = (1.0 + margin).ln();
    if low >= -bound && high <= bound {
        if may_be_the_same(margin) { Verdict::Equivalent } else { Verdict::Undecided }
    } else if stands && is_beyond((low, high), margin) {
        if (low > bound) == larger_is_better { Verdict::Better } else { Verdict::Worse }
    } else {
        Verdict::Undecided
    }
}

/// Whether an interval of the logarithm of a ratio lies wholly beyond the margin, on one side of it.
pub fn is_beyond((low, high): (f64, f64), margin: f64) -> bool {
    let bound = (1.0 + margin).ln();
    low > bound || high < -bound
}

/// Rounds that would decide an undecided ratio: B' = B (half width / h)^2, which is (t s / h)^2 for paired values; h =
/// distance to the nearest of +-ln(1 + margin), not below what this machine resolves. Beyond the margin it will have to
/// stand after Holm: the level is that of the first rank in a family of `family`, and the sign-flip test, whose p is at
/// least 2^(1 - units), must be able to reach it. `None`: no number of rounds decides it, for want of a distance, or because
/// it lies within a margin in which nothing is called the same.
pub fn rounds_needed(evidence: &dyn Evidence, margin: f64, resolution: Option<f64>, family: usize) -> Option<u64> {
    let bound = (1.0 + margin).ln();
    let center = evidence.center().abs();
    if center <= bound && !may_be_the_same(margin) {
        return None;
    }
    let distance = (center - bound).abs().max((1.0 + resolution.unwrap_or(0.0)).ln());
    let level = if center > bound { LEVEL / family.max(1) as f64 } else { LEVEL };
    let (low, high) = evidence.interval(level)?;
    let half = (high - low) / 2.0;
    if distance <= 0.0 || !half.is_finite() {
        return None;
    }
    let passes = evidence.passes() as f64;
    let mut rounds = passes * (half / distance).powi(2);
    if center > bound {
        rounds = rounds.max((1.0 - level.log2()) * passes / evidence.units() as f64);
    }
    let rounds = rounds.ceil() as u64;
    (rounds > evidence.passes() as u64).then_some(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired::{Paired, paired};
    use crate::simulate::normal;
    use proptest::prelude::*;

    #[test]
    fn holm_stops_at_the_first_that_fails() {
        assert_eq!(holm(&[Some(0.01), Some(0.04), Some(0.03), None]), [true, false, false, false]);
        assert_eq!(holm_levels(&[Some(0.01), Some(0.05), Some(0.025)]), [Some(0.05 / 3.0), Some(0.05), Some(0.025)]);
        assert!(holm(&[]).is_empty());
    }

    /// 40 pairs with this mean, whose 95 % interval has this half width.
    fn at(mean: f64, half: f64) -> Paired {
        let spread = half / 0.319_8 * (39.0_f64 / 40.0).sqrt();
        paired(&(0..40).map(|at| mean + if at % 2 == 0 { spread } else { -spread }).collect::<Vec<_>>(), 1, 1).unwrap()
    }

    #[test]
    fn verdicts_follow_the_interval_and_the_metric() {
        let verdict = |mean, half, level, larger| judge(&at(mean, half), level, 0.02, larger).verdict;
        assert_eq!(verdict(0.05, 0.01, Some(0.05), false), Verdict::Worse);
        assert_eq!(verdict(0.05, 0.01, Some(0.05), true), Verdict::Better);
        assert_eq!(verdict(-0.05, 0.01, Some(0.05), false), Verdict::Better);
        assert_eq!(verdict(-0.05, 0.01, None, false), Verdict::Undecided);
        assert_eq!(verdict(0.005, 0.01, Some(0.05), true), Verdict::Equivalent);
        assert_eq!(verdict(0.02, 0.01, Some(0.05), false), Verdict::Undecided);
        // A family asks for more: the interval is that of its level.
        assert_eq!(verdict(0.05, 0.025, Some(0.05), false), Verdict::Worse);
        assert_eq!(verdict(0.05, 0.025, Some(0.05 / 20.0), false), Verdict::Undecided);
    }

    #[test]
    fn within_a_wide_margin_nothing_is_the_same() {
        let verdict = |mean, margin| judge(&at(mean, 0.01), Some(0.05), margin, false).verdict;
        assert_eq!((verdict(0.0, 0.1), verdict(0.0, 0.1001)), (Verdict::Equivalent, Verdict::Undecided));
        // The margins of three runs beside a CPU hog that comes and goes.
        let three = [0.15, 0.35, 0.04].map(|margin| verdict(0.01, margin));
        assert_eq!(three, [Verdict::Undecided, Verdict::Undecided, Verdict::Equivalent]);
        // What lies beyond even that is shown as ever.
        assert_eq!((verdict(0.5, 0.35), verdict(-0.5, 0.35)), (Verdict::Worse, Verdict::Better));
        // No number of rounds makes it the same; one beyond the margin can be decided.
        let rounds = |mean, half, margin| rounds_needed(&at(mean, half), margin, None, 1);
        assert_eq!((rounds(0.0, 0.5, 0.35), rounds(0.1, 0.01, 0.35)), (None, None));
        assert!(rounds(0.0, 0.5, 0.1).is_some() && rounds(0.4, 0.5, 0.35).is_some());
    }

    #[test]
    fn the_interval_that_is_shown_is_the_one_that_was_judged() {
        let shown = judge(&at(0.05, 0.01), Some(0.05), 0.02, false);
        assert!((shown.low.unwrap().ln() - 0.04).abs() < 1e-4 && (shown.high.unwrap().ln() - 0.06).abs() < 1e-4);
        let wider = judge(&at(0.05, 0.01), Some(0.005), 0.02, false);
        assert!(wider.low < shown.low && wider.high > shown.high);
    }

    #[test]
    fn rounds_needed_are_those_of_the_method() {
        // Margin 2 %, deviation 10 %, mean 0: about 110 rounds (h = ln 1.02).
        let mut d: Vec<f64> = (0..20).map(|at| if at % 2 == 0 { 0.1 } else { -0.1 }).collect();
        d.rotate_left(1);
        let rounds = rounds_needed(&paired(&d, 1, 1).unwrap(), 0.02, None, 1).unwrap();
        assert!((100..130).contains(&rounds), "{rounds}");
        // On the margin itself no number of rounds decides; the resolution of the machine bounds the search.
        let on_margin: Vec<f64> = d.iter().map(|d| d + 1.02_f64.ln()).collect();
        let on_margin = paired(&on_margin, 1, 1).unwrap();
        assert!(rounds_needed(&on_margin, 0.02, None, 1).is_none_or(|rounds| rounds > 1_000_000));
        assert!((400..10_000).contains(&rounds_needed(&on_margin, 0.02, Some(0.01), 1).unwrap()));
        // A difference that must stand in a large family needs more.
        let beyond = at(0.04, 0.02);
        assert!(rounds_needed(&beyond, 0.02, None, 50) > rounds_needed(&beyond, 0.02, None, 1));
        assert_eq!(rounds_needed(&paired(&[0.1; 4], 1, 1).unwrap(), 0.02, None, 1), None);
    }

    #[test]
    fn a_true_difference_of_five_percent_is_found() {
        let found = (0..50).filter(|seed| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let d: Vec<f64> = (0..40).map(|_| 1.05_f64.ln() + 0.04 * normal(&mut random)).collect();
            let paired = paired(&d, 1, *seed).unwrap();
            judge(&paired, holm_levels(&[paired.p])[0], 0.02, false).verdict == Verdict::Worse
        });
        let found = found.count();
        assert!(found >= 45, "{found} of 50");
    }

    proptest! {
        #[test]
        fn swapping_the_two_sides_mirrors_the_verdict(d in prop::collection::vec(-0.2_f64..0.2, 5..15)) {
            let (a, b) = (paired(&d, 1, 1).unwrap(), paired(&d.iter().map(|d| -d).collect::<Vec<_>>(), 1, 1).unwrap());
            prop_assert_eq!(
                judge(&a, Some(LEVEL), 0.02, false).verdict,
                judge(&b, Some(LEVEL), 0.02, true).verdict
            );
        }

        #[test]
        fn holm_keeps_at_most_what_plain_testing_keeps(p in prop::collection::vec(0.0_f64..1.0, 0..30)) {
            let kept = holm(&p.iter().copied().map(Some).collect::<Vec<_>>());
            for (kept, p) in kept.iter().zip(&p) {
                prop_assert!(!kept || *p <= LEVEL);
            }
        }
    }
}
