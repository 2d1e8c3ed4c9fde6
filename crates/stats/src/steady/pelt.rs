//! Change points: PELT (Killick, Fearnhead and Eckley 2012) with the L2 cost, and the guards that its penalty needs on
//! round medians (docs/method/steadiness.md#change-points).

use std::ops::Range;

use crate::describe::{mean, percentile};

/// Shortest segment, rounds.
pub const SHORTEST: usize = 5;
/// Levels closer than this are one: 1 %.
const CLOSE: f64 = 0.01;
/// Smallest noise that is believed: a bin of the histograms is 0.1 % wide.
const LEAST_SIGMA: f64 = 1e-3;
/// Lag-1 correlation above this is taken for the levels that are looked for.
const MOST_CORRELATION: f64 = 0.5;
/// Random orders of the same rounds.
const ORDERS: usize = 199;
/// How many of them may be split as well as the real order: p <= 0.01.
const AS_GOOD: usize = 1;

/// Where the level of `y` (logarithms, in the order of time) changes: first positions of new levels.
///
/// The penalty is 3 s^2 ln B, with two guards, because round medians are neither normal nor quite
/// independent. (1) s^2 is the long-run variance: neighbours that resemble each other a little are not levels.
/// (2) All change points are dropped where random orders of the same rounds can be split as well: rounds that jump
/// between modes one by one are no levels in time. Without them 71 % of runs with 1 slow round in 5 would be "never
/// settled", with them 1 %; the tests of `steady.rs` keep these rates.
pub fn change_points(y: &[f64]) -> Vec<usize> {
    let penalty = 3.0 * long_run_variance(y) * (y.len() as f64).ln();
    let (cost, points) = segment(y, penalty);
    let points = merged(y, points);
    if points.is_empty() || !order_matters(y, penalty, cost) { Vec::new() } else { points }
}

/// The stretches between change points.
pub fn segments(length: usize, points: &[usize]) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(points.iter().copied());
    starts.zip(points.iter().copied().chain([length])).map(|(from, to)| from..to).collect()
}

/// Long-run variance of the noise around levels: s^2 (1 + r) / (1 - r), all from differences, which levels hardly touch.
/// With the median D_k of |y(i+k) - y(i)|: D_1^2 = 0.6745^2 2 s^2 (1 - r) and r = (D_2 / D_1)^2 - 1 for an AR(1)
/// (Chakar, Lebarbier, Lévy-Leduc and Robin 2017). r = 0 gives the sigma of independent noise.
fn long_run_variance(y: &[f64]) -> f64 {
    let difference = |lag: usize| {
        let mut all: Vec<f64> = y.windows(lag + 1).map(|pair| (pair[lag] - pair[0]).abs()).collect();
        if all.is_empty() { 0.0 } else { percentile(&mut all, 0.5) }
    };
    let (one, two) = (difference(1), difference(2));
    let sigma = (one / (0.6745 * std::f64::consts::SQRT_2)).max(LEAST_SIGMA);
    let r = if one > 0.0 { ((two / one).powi(2) - 1.0).clamp(0.0, MOST_CORRELATION) } else { 0.0 };
    sigma.powi(2) * (1.0 + r) / (1.0 - r).powi(2)
}

/// PELT: the least penalised cost (sum of squares around the levels + penalty * change points) and where it changes.
/// Exact: a candidate that is beaten now is dropped only when the segment that beats it may end.
fn segment(y: &[f64], penalty: f64) -> (f64, Vec<usize>) {
    let n = y.len();
    if n < SHORTEST {
        return (0.0, Vec::new());
    }
    let center = mean(y);
    let (mut sums, mut squares) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    for (at, value) in y.iter().map(|value| value - center).enumerate() {
        sums[at + 1] = sums[at] + value;
        squares[at + 1] = squares[at] + value * value;
    }
    let cost = |from: usize, to: usize| {
        let sum: f64 = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64).max(0.0)
    };
    let (mut best, mut previous) = (vec![f64::INFINITY; n + 1], vec![0; n + 1]);
    best[0] = -penalty;
    // Starts of the last segment, with the position from which they need no longer be tried.
    let mut candidates: Vec<(usize, usize)> = vec![(0, usize::MAX)];
    for to in SHORTEST..=n {
        candidates.retain(|(_, until)| *until > to);
        for (from, _) in &candidates {
            let total = best[*from] + cost(*from, to) + penalty;
            if total < best[to] {
                (best[to], previous[to]) = (total, *from);
            }
        }
        for (from, until) in &mut candidates {
            if best[*from] + cost(*from, to) > best[to] {
                *until = (*until).min(to + SHORTEST);
            }
        }
        let next = to + 1 - SHORTEST;
        if next >= SHORTEST {
            candidates.push((next, usize::MAX));
        }
    }
    let mut points = Vec::new();
    let mut at = previous[n];
    while at > 0 {
        points.push(at);
        at = previous[at];
    }
    points.reverse();
    (best[n], points)
}

/// Joins the closest neighbours until all neighbouring levels are [`CLOSE`] or more apart.
fn merged(y: &[f64], mut points: Vec<usize>) -> Vec<usize> {
    loop {
        let levels: Vec<f64> = segments(y.len(), &points).into_iter().map(|part| mean(&y[part])).collect();
        let steps = levels.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        match steps.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((at, step)) if step < (1.0 + CLOSE).ln() => points.remove(at),
            _ => return points,
        };
    }
}

/// Permutation test: whether almost no random order of the same rounds has a cost as low. The seed is fixed, so that the
/// same rounds give the same answer.
fn order_matters(y: &[f64], penalty: f64, cost: f64) -> bool {
    let mut random = fastrand::Rng::with_seed(0x7065_6c74);
    let mut order = y.to_vec();
    let tolerance = 1e-9 * penalty;
    let as_good = (0..ORDERS).filter(|_| {
        random.shuffle(&mut order);
        segment(&order, penalty).0 <= cost + tolerance
    });
    as_good.take(AS_GOOD + 1).count() <= AS_GOOD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;
    use proptest::prelude::*;

    /// Every possible last segment, nothing pruned.
    fn unpruned(y: &[f64], penalty: f64) -> f64 {
        let cost = |part: &[f64]| part.iter().map(|value| (value - mean(part)).powi(2)).sum::<f64>();
        let mut best = vec![f64::INFINITY; y.len() + 1];
        best[0] = -penalty;
        for to in SHORTEST..=y.len() {
            best[to] =
                (0..=to - SHORTEST).map(|from| best[from] + cost(&y[from..to]) + penalty).fold(f64::INFINITY, f64::min);
        }
        best[y.len()]
    }

    fn noise(seed: u64, n: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..n).map(|_| 0.02 * normal(&mut random)).collect()
    }

    #[test]
    fn levels_are_found_where_they_begin() {
        let mut y = noise(1, 60);
        y[15..40].iter_mut().for_each(|value| *value += 0.3);
        y[40..].iter_mut().for_each(|value| *value += 0.1);
        assert_eq!(change_points(&y), [15, 40]);
        assert_eq!(segments(60, &[15, 40]), [0..15, 15..40, 40..60]);
    }

    #[test]
    fn levels_that_are_close_are_one() {
        // 0.5 % apart, without noise: certain, and not worth a word.
        let y: Vec<f64> = (0..40).map(|at| if at < 20 { 0.0 } else { 0.005 }).collect();
        assert!(change_points(&y).is_empty());
        assert_eq!(merged(&[0.0, 0.0, 0.004, 0.004, 0.5, 0.5], vec![2, 4]), [4]);
    }

    #[test]
    fn constant_and_short_series_have_no_change() {
        assert!(change_points(&[3.0; 40]).is_empty() && change_points(&[1.0, 9.0]).is_empty());
    }

    #[test]
    fn the_noise_of_levels_is_not_their_distance() {
        let mut y = noise(2, 400);
        y[200..].iter_mut().for_each(|value| *value += 1.0);
        let sigma = long_run_variance(&y).sqrt();
        assert!((0.016..0.03).contains(&sigma), "{sigma}");
    }

    proptest! {
        #[test]
        fn pruning_changes_nothing(
            y in prop::collection::vec(-3.0_f64..3.0, 5..60), jump in -4.0_f64..4.0, penalty in 0.0_f64..20.0,
        ) {
            let half = y.len() / 2;
            let y: Vec<f64> = y.iter().enumerate().map(|(at, v)| if at < half { *v } else { v + jump }).collect();
            let (cost, points) = segment(&y, penalty);
            prop_assert!((cost - unpruned(&y, penalty)).abs() < 1e-6, "{} {}", cost, unpruned(&y, penalty));
            prop_assert!(segments(y.len(), &points).iter().all(|part| part.len() >= SHORTEST));
        }

        #[test]
        fn a_shift_of_all_rounds_changes_nothing(seed in 0_u64..1_000, shift in -20.0_f64..20.0) {
            let mut y = noise(seed, 40);
            y[25..].iter_mut().for_each(|value| *value += 0.1);
            let shifted: Vec<f64> = y.iter().map(|value| value + shift).collect();
            prop_assert_eq!(change_points(&y), change_points(&shifted));
        }
    }
}
