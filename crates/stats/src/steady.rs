//! Whether the rounds of a case settled on one level (docs/method/steadiness.md), and whether their halves agree.

mod distinct;
mod halves;
mod kpss;
mod mser;
mod pelt;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dependence::independent;
use crate::describe::{ends, mean, median};
use crate::restarts::{Timed, levelled};

pub use halves::{halves, halves_agree, halves_within, ratio};

/// With fewer rounds nothing is said.
pub const LEAST_ROUNDS: usize = 20;
/// From here on MSER works on batches of [`BATCH`] rounds (MSER-5); below, a round is the batch.
const BATCHED: usize = 100;
const BATCH: usize = 5;
/// More positions are not searched for change points: neighbouring rounds go together.
const POSITIONS: usize = 200;

/// How the medians of a case's rounds lie in time (docs/method/steadiness.md).
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Steadiness {
    /// What PELT and MSER make of them.
    pub class: SteadyClass,
    /// Rounds at which the level changes (PELT), from 0.
    pub change_points: Vec<u64>,
    /// The level of each stretch between change points: 0 is the fastest. Stretches that return to a level have its number.
    pub stretches: Vec<u64>,
    /// How many levels there are. Without change points more than one where rounds jump between them.
    pub levels: u64,
    /// Rounds that MSER would drop at the start.
    pub warm_up_rounds: u64,
    /// Largest relative distance between two levels: 0.1 is 10 %.
    pub spread: f64,
    /// KPSS statistic of the level; `None`: too few rounds.
    pub kpss: Option<f64>,
    /// Lag-1 autocorrelation of the medians is significant even after joining neighbours: the rounds drift.
    pub drifting: bool,
    /// Fastest and slowest round median, ns: the range that stands in for an interval where the case never settled.
    pub range_ns: (f64, f64),
}

/// Whether a case settled (docs/method/steadiness.md#levels).
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyClass {
    /// No change in time.
    Flat,
    /// Later levels are faster.
    WarmUp,
    /// Later levels are slower.
    SlowDown,
    /// The last quarter is not one level: no absolute value can be claimed; paired comparisons can.
    NeverSettled,
}

impl SteadyClass {
    /// The words that are printed.
    pub fn words(self) -> &'static str {
        match self {
            SteadyClass::Flat => "flat",
            SteadyClass::WarmUp => "warm-up",
            SteadyClass::SlowDown => "slow-down",
            SteadyClass::NeverSettled => "never settled",
        }
    }
}

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
    let stretches = distinct::of_stretches(&y, &points);
    Some(Steadiness {
        class,
        change_points: points.iter().map(|point| *point as u64).collect(),
        levels: if points.is_empty() {
            distinct::groups(&y)
        } else {
            stretches.iter().max().map_or(1, |last| last + 1)
        },
        stretches,
        warm_up_rounds: warm_up as u64,
        spread: (high - low).exp() - 1.0,
        kpss: kpss::statistic(&y),
        drifting: independent(&y).1,
        range_ns: ends(medians),
    })
}

/// [`steadiness`] within restarts: their different levels are no unrest.
pub fn within_restarts(rounds: &[Timed]) -> Option<Steadiness> {
    let all: Vec<f64> = rounds.iter().map(|(_, ns)| *ns).collect();
    steadiness(&levelled(rounds)).map(|found| Steadiness { range_ns: ends(&all), ..found })
}

impl Steadiness {
    /// `3 levels`; `2 levels in 6 stretches` where the rounds return to a level.
    pub fn levels_in_words(&self) -> String {
        match (self.levels, self.stretches.len() as u64) {
            (levels, stretches) if stretches > levels => format!("{levels} levels in {stretches} stretches"),
            (levels, _) => format!("{levels} levels"),
        }
    }
}

/// The rounds of each stretch, in the order of time.
pub fn stretches(steadiness: &Steadiness, rounds: usize) -> Vec<Range<usize>> {
    let points: Vec<usize> = steadiness.change_points.iter().map(|point| *point as usize).collect();
    pelt::segments(rounds, &points)
}

/// The rounds of each level that was found in time, from the fastest.
pub fn levels(steadiness: &Steadiness, rounds: usize) -> Vec<Vec<usize>> {
    let count = steadiness.stretches.iter().max().map_or(0, |last| *last as usize + 1);
    let mut levels = vec![Vec::new(); count];
    for (stretch, level) in stretches(steadiness, rounds).into_iter().zip(&steadiness.stretches) {
        levels[*level as usize].extend(stretch);
    }
    levels
}

/// Medians of `size` neighbours; the last batch takes what is left over.
fn batches(y: &[f64], size: usize) -> Vec<f64> {
    let count = y.len() / size;
    (0..count).map(|at| median(&y[at * size..if at + 1 == count { y.len() } else { (at + 1) * size }])).collect()
}

#[cfg(test)]
mod tests;
