//! Requests of one slowness, averaged whole: the stages of a band add up to its mean.

use msgpath_core::watch::{RequestRow, STAGES, Stage, Times};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::flag;

/// Fewer rows are not a band.
pub(super) const FEWEST: usize = 5;

/// Requests of about the same time.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchedBand {
    /// `p45–55`, `p98.5–99.5`, `slowest 5` or `from 1 ms`.
    pub name: String,
    /// Number of requests with a row in the band.
    pub rows: u64,
    /// Their mean time, ns.
    pub mean_ns: f64,
    /// Page faults of the server's thread during the work, mean.
    pub faults: f64,
    /// Bytes of a request, mean.
    pub bytes_there: f64,
    /// Bytes of a reply, mean.
    pub bytes_back: f64,
}

/// A stage in both bands.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WatchedStageTimes {
    /// The stage.
    pub stage: Stage,
    /// The stage in words.
    pub words: String,
    /// Mean in usual requests, ns.
    pub typical_ns: f64,
    /// Mean in slow requests, ns.
    pub slow_ns: f64,
    /// Share of the extra time of slow requests.
    pub share: f64,
}

/// Usual and slow requests.
pub(super) struct Bands<'a> {
    pub(super) typical: WatchedBand,
    pub(super) slow: WatchedBand,
    /// The rows of each band, in the order of time.
    pub(super) usual_rows: Vec<&'a RequestRow>,
    pub(super) slow_rows: Vec<&'a RequestRow>,
    means: [[f64; STAGES]; 2],
}

/// The rows of the sample, by their time.
pub(super) fn sample<'a>(rows: &[&'a RequestRow]) -> Vec<&'a RequestRow> {
    let mut sample: Vec<&RequestRow> = rows.iter().copied().filter(|row| row.flags & flag::SAMPLED != 0).collect();
    if sample.is_empty() {
        sample = rows.to_vec();
    }
    sample.sort_by_key(|row| row.total_ns);
    sample
}

/// Rows by their time, each with the number of requests that it stands for: all slow ones have a row of their own, and one of the sample
/// that is not slow stands for as many as it was sampled from.
pub(super) fn weights<'a>(rows: &[&'a RequestRow]) -> Vec<(&'a RequestRow, u64)> {
    let weight = |row: &RequestRow| if row.flags & flag::SLOW != 0 { 1 } else { u64::from(row.weight.max(1)) };
    let mut all: Vec<_> = rows.iter().map(|row| (*row, weight(row))).collect();
    all.sort_by_key(|(row, _)| row.total_ns);
    all
}

/// The time that the share `p` of the requests takes at most, ns; `None`: no row is slower, so that nothing bounds it.
pub(super) fn quantile(weights: &[(&RequestRow, u64)], p: f64) -> Option<f64> {
    let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
    let (rank, mut seen) = ((p * total as f64).ceil() as u64, 0);
    let at = weights.iter().position(|(_, weight)| {
        seen += weight;
        seen >= rank
    })?;
    (p <= 0.5 || at + 1 < weights.len()).then(|| weights[at].0.total_ns as f64)
}

/// The same of all requests that were counted.
pub(super) fn of_times(times: &Times, p: f64) -> Option<f64> {
    let slower = times.total() as f64 * (1.0 - p);
    times.quantile(p).filter(|_| p <= 0.5 || slower > 1.0 - 1e-6)
}

fn position(sample: &[&RequestRow], p: f64) -> Option<usize> {
    let total: u64 = sample.iter().map(|row| u64::from(row.weight.max(1))).sum();
    let rank = (p * total as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    sample.iter().position(|row| {
        seen += u64::from(row.weight.max(1));
        seen >= rank
    })
}

pub(super) fn means(rows: &[&RequestRow]) -> [f64; STAGES] {
    std::array::from_fn(|stage| rows.iter().map(|row| row.stages[stage] as f64).sum::<f64>() / rows.len() as f64)
}

fn band(name: String, rows: &[&RequestRow]) -> WatchedBand {
    let mean = |of: fn(&RequestRow) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / rows.len() as f64;
    WatchedBand {
        name,
        rows: rows.len() as u64,
        mean_ns: mean(|row| row.total_ns as f64),
        faults: mean(|row| f64::from(row.faults)),
        bytes_there: mean(|row| f64::from(row.bytes_there)),
        bytes_back: mean(|row| f64::from(row.bytes_back)),
    }
}

impl<'a> Bands<'a> {
    /// `None`: too few rows. `slow_ns`: from when a request is slow; 0: around p99.
    pub(super) fn of(rows: &[&'a RequestRow], times: &Times, slow_ns: u64) -> Option<Self> {
        let sample = sample(rows);
        if sample.len() < FEWEST {
            return None;
        }
        let (from, to) = (position(&sample, 0.45)?, position(&sample, 0.55)?);
        let mut usual = sample[from..(to + 1).max((from + FEWEST).min(sample.len()))].to_vec();
        let (name, mut slow) = slow(rows, times, slow_ns);
        let typical = band("p45–55".into(), &usual);
        let means = [means(&usual), means(&slow)];
        let slow_band = band(name, &slow);
        [&mut usual, &mut slow].into_iter().for_each(|rows| rows.sort_by_key(|row| row.t0_ns));
        Some(Self { typical, slow: slow_band, usual_rows: usual, slow_rows: slow, means })
    }

    /// The mean of a stage in usual and in slow requests, ns.
    pub(super) fn mean(&self, stage: Stage) -> [f64; 2] {
        [0, 1].map(|band| self.means[band][stage as usize])
    }

    /// What slow requests take more, ns.
    pub(super) fn more(&self) -> f64 {
        self.slow.mean_ns - self.typical.mean_ns
    }

    /// Stages that take any time, in the order of time.
    pub(super) fn stages(&self) -> Vec<WatchedStageTimes> {
        let more = self.more();
        let times = |stage: Stage| {
            let [typical_ns, slow_ns] = self.mean(stage);
            let share = if more > 0.0 { (slow_ns - typical_ns) / more } else { 0.0 };
            WatchedStageTimes { stage, words: stage.words().into(), typical_ns, slow_ns, share }
        };
        Stage::ALL.into_iter().map(times).filter(|times| times.typical_ns + times.slow_ns > 0.0).collect()
    }
}

/// Slow requests. Every one from p98 on has a row, so those around p99 are all there.
fn slow<'a>(rows: &[&'a RequestRow], times: &Times, slow_ns: u64) -> (String, Vec<&'a RequestRow>) {
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.total_ns);
    if slow_ns > 0 {
        let from = sorted.partition_point(|row| row.total_ns < slow_ns);
        if from < sorted.len() {
            return (
                format!("from {}", msgpath_core::units::Glyphs::Unicode.time(slow_ns as f64)),
                sorted.split_off(from),
            );
        }
    }
    if let (Some(low), Some(high)) = (times.quantile(0.985), times.quantile(0.995)) {
        // Quantiles are the middles of buckets, which are at most 1/128 wide.
        let from = sorted.partition_point(|row| (row.total_ns as f64) < low * (1.0 - 1.0 / 128.0));
        let to = sorted.partition_point(|row| row.total_ns as f64 <= high * (1.0 + 1.0 / 128.0));
        if to - from >= FEWEST {
            return ("p98.5–99.5".into(), sorted[from..to].to_vec());
        }
    }
    let count = FEWEST.max(rows.len() / 100).min(rows.len());
    (format!("slowest {count}"), sorted.split_off(sorted.len() - count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::testing::{Load, watched};

    #[test]
    fn stages_of_a_band_add_up_to_its_mean() {
        let watched = watched(&Load { stage: Stage::Queued, ..Load::default() });
        let rows: Vec<&RequestRow> = watched.rows.iter().collect();
        let times = &watched.end.as_ref().unwrap().services[0].times;
        for slow_ns in [0, 1_000_000] {
            let bands = Bands::of(&rows, times, slow_ns).unwrap();
            for (band, mean) in [(0, bands.typical.mean_ns), (1, bands.slow.mean_ns)] {
                let sum: f64 = bands.means[band].iter().sum();
                assert!((sum - mean).abs() < 1e-6 * mean, "{sum} {mean}");
            }
            let share: f64 = bands.stages().iter().map(|stage| stage.share).sum();
            assert!((share - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn one_in_a_sample_stands_for_many() {
        let row = |total_ns, weight| RequestRow { total_ns, weight, flags: flag::SAMPLED, ..RequestRow::default() };
        let rows = [row(1, 98), row(5, 1), row(9, 1)];
        let rows: Vec<&RequestRow> = rows.iter().collect();
        let weights = weights(&rows);
        assert_eq!([0.5, 0.98, 0.99].map(|p| quantile(&weights, p)), [Some(1.0), Some(1.0), Some(5.0)]);
        assert_eq!(quantile(&weights, 0.999), None, "no row is slower");
        assert!(Bands::of(&rows, &Times::default(), 0).is_none());
    }

    #[test]
    fn a_quantile_of_few_requests_is_none() {
        let times = |count| Times(vec![(100, count)]);
        assert!(of_times(&times(91), 0.9).is_some() && of_times(&times(91), 0.99).is_none());
        assert!(of_times(&times(1000), 0.999).is_some() && of_times(&times(999), 0.999).is_none());
        assert!(of_times(&times(1), 0.5).is_some() && of_times(&times(0), 0.5).is_none());
    }

    /// Every slow request has a row, and one in 64 of the others: what is said of two kinds agrees with what was counted of all.
    #[test]
    fn parts_and_total_are_of_the_same_requests() {
        // Any order without a period of 64 or 10.
        let order: Vec<u64> = (0..10_000).map(|n| n * 7_919 % 10_000).collect();
        let row = |(n, us): (usize, u64)| {
            let sampled = if n % 64 == 0 { flag::SAMPLED } else { 0 };
            let slow = if us >= 9_700 { flag::SLOW } else { 0 };
            let is_set = us % 10 == 0;
            let row = RequestRow {
                total_ns: us * 1_000,
                weight: 64,
                flags: sampled | slow,
                faults: is_set.into(),
                ..RequestRow::default()
            };
            (row.flags != 0).then_some(row)
        };
        let rows: Vec<RequestRow> = order.into_iter().enumerate().filter_map(row).collect();
        let p99 = |kind: u32| {
            let own: Vec<&RequestRow> = rows.iter().filter(|row| kind > 1 || row.faults == kind).collect();
            quantile(&weights(&own), 0.99).unwrap() / 1_000.0
        };
        let [get, set, all] = [0, 1, 2].map(p99);
        assert!([get, set, all].iter().all(|us| (us - 9_900.0).abs() < 150.0), "{get} {set} {all}");
        assert!(get.min(set) <= all && all <= get.max(set), "{get} {set} {all}");
    }
}
