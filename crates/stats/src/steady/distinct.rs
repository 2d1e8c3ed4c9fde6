//! How many levels the rounds of a case have: a stretch of time is not a level of its own where the case returns to one that
//! it had, and rounds that jump between two levels one by one have two, though no stretch is long enough to be found.

use super::pelt::segments;
use crate::describe::{median, percentile};

/// Levels closer than this are one: 1 %.
const CLOSE: f64 = 0.01;
/// Standard errors (of the median of absolute distances, which a round on the wrong side does not move) by which two stretches differ where they are two levels.
const ERRORS: f64 = 4.0;
/// Rounds that jump: an empty space between two groups of rounds that is so many times as wide as the median distance of
/// neighbours in order of size. In 40 rounds around one normal level that is 2.4 standard deviations.
const SPACES: f64 = 40.0;
/// And at least 5 %.
const LEAST_SPACE: f64 = 0.05;
/// A group has a tenth of the rounds, and at least as many.
const FEWEST: usize = 4;

/// The level of each stretch of `y` (logarithms, in the order of time), whose level changes at `points`: 0 is the fastest.
pub fn of_stretches(y: &[f64], points: &[usize]) -> Vec<u64> {
    let stretches: Vec<&[f64]> = segments(y.len(), points).into_iter().map(|part| &y[part]).collect();
    let away = |part: &&[f64]| part.iter().map(|value| (value - median(part)).abs()).collect::<Vec<f64>>();
    let noise = percentile(&mut stretches.iter().flat_map(away).collect::<Vec<f64>>(), 0.5) / 0.6745;
    let apart = |a: &[f64], b: &[f64]| {
        let error = noise * (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt();
        median(b) - median(a) > (ERRORS * error).max((1.0 + CLOSE).ln())
    };
    let mut order: Vec<usize> = (0..stretches.len()).collect();
    order.sort_by(|a, b| median(stretches[*a]).total_cmp(&median(stretches[*b])));
    let (mut levels, mut level) = (vec![0; stretches.len()], 0);
    for pair in order.windows(2) {
        level += u64::from(apart(stretches[pair[0]], stretches[pair[1]]));
        levels[pair[1]] = level;
    }
    levels
}

/// How many groups the rounds fall into, whatever their order.
pub fn groups(y: &[f64]) -> u64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut spaces: Vec<f64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let fewest = FEWEST.max(y.len() / 10);
    let all = spaces.clone();
    let wide = (SPACES * percentile(&mut spaces, 0.5)).max((1.0 + LEAST_SPACE).ln());
    let (mut groups, mut from) = (1, 0);
    for (at, space) in all.into_iter().enumerate() {
        if space > wide && at + 1 - from >= fewest && y.len() - at > fewest {
            (groups, from) = (groups + 1, at + 1);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::steadiness;
    use crate::simulate::normal;

    fn found(level: impl Fn(usize) -> f64, seed: u64) -> (u64, usize) {
        let mut random = fastrand::Rng::with_seed(seed);
        let rounds: Vec<f64> = (0..40).map(|at| level(at) * (0.02 * normal(&mut random)).exp()).collect();
        let found = steadiness(&rounds).unwrap();
        (found.levels, found.stretches.len())
    }

    /// A far end that answers in 3 or 12 ms: changing after every 4.4 rounds, and after every 7.
    #[test]
    fn two_levels_are_two_however_often_they_change() {
        let two = |at: usize, rounds: f64| if ((at as f64 / rounds) as usize).is_multiple_of(2) { 3e6 } else { 12e6 };
        for seed in 0..20 {
            assert_eq!(found(|at| two(at, 4.4), seed).0, 2);
            assert_eq!(found(|at| two(at, 7.0), seed), (2, 6));
        }
    }

    #[test]
    fn one_level_is_one_and_steps_are_their_own() {
        let one = (0..200).filter(|seed| found(|_| 20_000.0, *seed).0 == 1).count();
        assert!(one >= 198, "{one}");
        let steps = [1.0, 1.3, 1.7];
        assert_eq!(found(|at| 20_000.0 * steps[at / 14], 1), (3, 3));
    }
}
