//! Whether the rounds of a case settled on one level (docs/method/steadiness.md), and whether their halves agree.

mod halves;
mod kpss;
mod mser;
mod pelt;

use std::ops::Range;

use msgpath_core::units::Glyphs;

use crate::stats::{independent, mean, median};
use crate::summary::{Steadiness, SteadyClass};

pub use halves::{halves, halves_agree, halves_within, ratio};

/// With fewer rounds nothing is said.
pub const LEAST_ROUNDS: usize = 20;
/// From here on MSER works on batches of [`BATCH`] rounds (MSER-5); below, a round is the batch.
const BATCHED: usize = 100;
const BATCH: usize = 5;
/// More positions are not searched for change points: neighbouring rounds go together.
const POSITIONS: usize = 200;

/// How the medians of a case's rounds, in the order of time, lie. Any positive unit in which less is faster.
/// `None` below [`LEAST_ROUNDS`] rounds or where a value is not positive.
///
/// *Never settled*: the level still changes in the last quarter, or MSER would drop more than half of the rounds and the
/// last change lies in the second half. Both need change points that order alone explains (see `pelt.rs`). Else one
/// level is *flat*, and of several the last against all before decides between *warm-up* and *slow-down*.
pub fn steadiness(medians: &[f64]) -> Option<Steadiness> {
    if medians.len() < LEAST_ROUNDS || !medians.iter().all(|value| *value > 0.0 && value.is_finite()) {
        return None;
    }
    let y: Vec<f64> = medians.iter().map(|value| value.ln()).collect();
    let n = y.len();
    let together = n.div_ceil(POSITIONS);
    let points: Vec<usize> =
        pelt::change_points(&batches(&y, together)).into_iter().map(|point| point * together).collect();
    let batch = if n < BATCHED { 1 } else { BATCH };
    let warm_up = mser::warm_up(&batches(&y, batch)) * batch;
    let levels: Vec<f64> = pelt::segments(n, &points).into_iter().map(|part| mean(&y[part])).collect();
    let class = match points.last() {
        None => SteadyClass::Flat,
        Some(last) if *last > n - n / 4 || (warm_up > n / 2 && *last > n / 2) => SteadyClass::NeverSettled,
        Some(last) if mean(&y[*last..]) < mean(&y[..*last]) => SteadyClass::WarmUp,
        Some(_) => SteadyClass::SlowDown,
    };
    let (low, high) = ends(&levels);
    Some(Steadiness {
        class,
        change_points: points.into_iter().map(|point| point as u64).collect(),
        warm_up_rounds: warm_up as u64,
        spread: (high - low).exp() - 1.0,
        kpss: kpss::statistic(&y),
        drifting: independent(&y).1,
        range_ns: ends(medians),
    })
}

/// The rounds of each level, in the order of time.
pub fn levels(steadiness: &Steadiness, rounds: usize) -> Vec<Range<usize>> {
    let points: Vec<usize> = steadiness.change_points.iter().map(|point| *point as usize).collect();
    pelt::segments(rounds, &points)
}

/// `5 levels between 4.20 and 7.10 µs`: how many, and the fastest and slowest round.
pub fn in_words(steadiness: &Steadiness) -> String {
    let (low, high) = steadiness.range_ns;
    let ((low, _), (high, unit)) = (Glyphs::Unicode.time_in(low, high), Glyphs::Unicode.time_in(high, high));
    format!("{} levels between {low} and {high} {unit}", steadiness.change_points.len() + 1)
}

/// Smallest and largest value.
pub(crate) fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
}

/// Medians of `size` neighbours; the last batch takes what is left over.
fn batches(y: &[f64], size: usize) -> Vec<f64> {
    let count = y.len() / size;
    (0..count).map(|at| median(&y[at * size..if at + 1 == count { y.len() } else { (at + 1) * size }])).collect()
}

#[cfg(test)]
mod tests;
