//! Latency against rate, its knee, and the bounds of the capacity (docs/method/open-loop.md#load-curves-and-the-knee).

use std::collections::BTreeMap;

use msgpath_core::plan::{Case, CaseRole, MIN_ROUNDS_FOR_CLAIMS, Plan};
use msgpath_core::schedule::Rate;
use msgpath_core::schema::RoundRecord;
use msgpath_stats::crossover::monotone;
use msgpath_stats::describe::percentile;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::resample::{RESAMPLES, Redraw, outside_each};

use crate::summary::{CaseSummary, LoadCurve, LoadPoint, OpenLoop};

/// The knee is where the quantile has grown by this factor.
const KNEE: f64 = 2.0;
/// Steps of the grid of times within a factor of 2: 0.5 %, and interpolated within.
const STEPS: f64 = 128.0;

/// One curve for each path, message and number of threads and connections that was measured at more than one rate.
pub fn load_curves(plan: &Plan, rounds: &[Vec<&RoundRecord>], cases: &[CaseSummary]) -> Vec<LoadCurve> {
    let mut lines: Vec<Vec<(Rate, &CaseSummary, &OpenLoop)>> = Vec::new();
    for case in cases.iter().filter(|case| case.case.role == CaseRole::Measured) {
        let (Some(rate), Some(open)) = (case.case.load.rate(), &case.open) else { continue };
        match lines.iter_mut().find(|line| same_line(&line[0].1.case, &case.case)) {
            Some(line) => line.push((rate, case, open)),
            None => lines.push(vec![(rate, case, open)]),
        }
    }
    lines.iter_mut().for_each(|line| {
        line.sort_by_key(|(rate, ..)| *rate);
        line.dedup_by_key(|(rate, ..)| *rate);
    });
    lines.iter().filter(|line| line.len() > 1).map(|line| curve(plan, rounds, line)).collect()
}

/// Whether two cases differ in nothing but their rate.
pub(crate) fn same_line(a: &Case, b: &Case) -> bool {
    let key = |case: &Case| (case.reply, case.pieces, case.threads, case.connections, case.inflight);
    a.path == b.path && a.label == b.label && key(a) == key(b)
}

fn curve(plan: &Plan, rounds: &[Vec<&RoundRecord>], line: &[(Rate, &CaseSummary, &OpenLoop)]) -> LoadCurve {
    let points: Vec<LoadPoint> = line.iter().map(|(rate, case, open)| point(*rate, case, open)).collect();
    let timed = points.iter().filter(|point| point.sustained != Some(false)).count();
    let claims = points.iter().filter(|point| point.p99.as_ref().is_some_and(|p99| p99.is_interval())).count();
    let knee_p = if 2 * claims > timed { 0.99 } else { 0.5 };
    let at: Vec<AtRate> = line
        .iter()
        .map(|(rate, case, open)| AtRate {
            log_rate: rate.value().ln(),
            shares: (open.sustained == Some(true)).then(|| Shares::of(&rounds[case.case.id as usize])),
        })
        .collect();
    let (sustained_per_s, overloaded_per_s) = bounds(&points);
    let case = &line[0].1.case;
    LoadCurve {
        path: case.path.clone(),
        size: case.size,
        threads: case.threads,
        connections: case.connections,
        knee_p,
        knee_per_s: knee(&at, knee_p, RESAMPLES, plan.seed ^ u64::from(case.id)),
        sustained_per_s,
        overloaded_per_s,
        points,
    }
}

/// The highest rate that was sustained below every one that was not, and the lowest that was not.
fn bounds(points: &[LoadPoint]) -> (Option<f64>, Option<f64>) {
    let overloaded = points.iter().find(|point| point.sustained == Some(false)).map(|point| point.asked_per_s);
    let below =
        |point: &&LoadPoint| point.sustained == Some(true) && overloaded.is_none_or(|rate| point.asked_per_s < rate);
    (points.iter().rfind(below).map(|point| point.asked_per_s), overloaded)
}

/// Which rates were sustained and which not, in one sentence without its stop that agrees with every point of the curve.
/// `rate` prints one.
pub fn which_sustained(curve: &LoadCurve, rate: impl Fn(f64) -> String) -> String {
    let at = |verdict: Option<bool>| -> Vec<f64> {
        let points = curve.points.iter().filter(|point| point.sustained == verdict);
        points.map(|point| point.asked_per_s).collect()
    };
    let (kept, unknown) = (at(Some(true)), at(None));
    let above = kept.iter().find(|kept| curve.overloaded_per_s.is_some_and(|missed| **kept > missed));
    let mut text = match (curve.sustained_per_s, curve.overloaded_per_s, above) {
        (Some(sustained), None, _) if unknown.is_empty() => {
            return format!("every rate was sustained, up to {}", rate(sustained));
        }
        (Some(sustained), Some(missed), None) => {
            format!("{} was sustained, {} was not", rate(sustained), rate(missed))
        }
        (Some(sustained), Some(missed), Some(above)) => {
            format!("{} was sustained, {} was not, although {} was again", rate(sustained), rate(missed), rate(*above))
        }
        (Some(sustained), None, _) => format!("{} was sustained", rate(sustained)),
        (None, Some(missed), Some(above)) => {
            format!("{} was not sustained, although {} was", rate(missed), rate(*above))
        }
        (None, Some(_), None) if unknown.is_empty() => return "no rate was sustained".into(),
        (None, Some(missed), None) => format!("{} was not sustained", rate(missed)),
        (None, None, _) => String::new(),
    };
    if !unknown.is_empty() {
        if kept.is_empty() && curve.overloaded_per_s.is_none() {
            return "whether a rate was sustained cannot be told".into();
        }
        let rates: Vec<String> = unknown.into_iter().map(&rate).collect();
        text += &format!("; of {} it cannot be told", rates.join(", "));
    }
    text
}

fn point(rate: Rate, case: &CaseSummary, open: &OpenLoop) -> LoadPoint {
    let timed = open.overloaded().is_none();
    let quantile = |p: f64| case.latency.quantiles.iter().find(|q| q.p == p && timed).cloned();
    LoadPoint {
        case: case.case.id,
        asked_per_s: rate.value(),
        achieved_per_s: open.achieved_per_s.value,
        sustained: open.sustained,
        backlog_per_s: open.backlog_per_s.clone(),
        p50: quantile(0.5),
        p99: quantile(0.99),
    }
}

struct AtRate {
    log_rate: f64,
    /// `None`: not surely sustained, the quantile may be beyond every bound.
    shares: Option<Shares>,
}

/// The distribution of each round on a common grid, so that pooling a resample is adding up.
struct Shares {
    /// log2 of the upper edges of the grid, ns.
    edges: Vec<f64>,
    /// By pass: share of the messages up to each edge.
    rounds: BTreeMap<u32, Vec<f32>>,
}

impl Shares {
    fn of(rounds: &[&RoundRecord]) -> Self {
        let step = |ns: u64| (STEPS * (ns.max(1) as f64).log2()).floor() as i64;
        let ends = |pick: fn(&RoundRecord) -> Option<u64>| rounds.iter().filter_map(move |round| pick(round)).map(step);
        let first = ends(|round| round.latency.min()).min().unwrap_or(0);
        let last = ends(|round| round.latency.max()).max().unwrap_or(-1);
        let edges: Vec<f64> = (first..=last).map(|step| (step + 1) as f64 / STEPS).collect();
        let shares = |round: &RoundRecord| {
            let mut counts = vec![0_u64; edges.len()];
            for (from, to, count) in round.latency.ranges() {
                let at = (step(from + (to - from) / 2) - first).clamp(0, edges.len() as i64 - 1);
                counts[at as usize] += count;
            }
            let mut sum = 0;
            counts
                .iter()
                .map(|count| {
                    sum += count;
                    (sum as f64 / round.latency.total() as f64) as f32
                })
                .collect()
        };
        let filled = rounds.iter().filter(|round| round.latency.total() > 0);
        let rounds = filled.map(|round| (round.pass, shares(round))).collect();
        Self { edges, rounds }
    }

    /// log2 of the p-quantile of passes that were drawn so many times each, each round with the same weight; infinite where
    /// it is a lost message.
    fn quantile(&self, p: f64, passes: &[u32], times: &[f64]) -> f64 {
        let drawn = passes.iter().zip(times).filter(|(_, times)| **times > 0.0);
        let drawn: Vec<_> = drawn.filter_map(|(pass, times)| Some((self.rounds.get(pass)?, *times))).collect();
        let all: f64 = drawn.iter().map(|(_, times)| times).sum();
        let share =
            |edge: usize| drawn.iter().map(|(shares, times)| times * f64::from(shares[edge])).sum::<f64>() / all;
        // Half a millionth covers the rounding of the shares.
        let reached = |edge: usize| share(edge) >= p - 5e-7;
        let (mut low, mut high) = (0, self.edges.len());
        while low < high {
            let middle = (low + high) / 2;
            if reached(middle) { high = middle } else { low = middle + 1 }
        }
        let Some(edge) = self.edges.get(low).filter(|_| !drawn.is_empty()) else { return f64::INFINITY };
        let (before, here) = (low.checked_sub(1).map_or(0.0, share), share(low));
        let within = if here > before { ((p - before) / (here - before)).clamp(0.0, 1.0) } else { 1.0 };
        edge - (1.0 - within) / STEPS
    }
}

/// Where the p-quantile has doubled against the lowest rate, with the interval from resampled passes, the same for all
/// rates. `None` where it did not double at a rate that was sustained.
fn knee(line: &[AtRate], p: f64, resamples: usize, seed: u64) -> Option<Estimate> {
    let mut passes: Vec<u32> =
        line.iter().filter_map(|at| at.shares.as_ref()).flat_map(|shares| shares.rounds.keys().copied()).collect();
    passes.sort_unstable();
    passes.dedup();
    let of = |times: &[f64]| {
        let time = |at: &AtRate| at.shares.as_ref().map_or(f64::INFINITY, |shares| shares.quantile(p, &passes, times));
        doubled(&line.iter().map(|at| at.log_rate).collect::<Vec<_>>(), &line.iter().map(time).collect::<Vec<_>>())
    };
    let n = passes.len();
    let value = of(&vec![1.0; n]);
    if !value.is_finite() {
        return None;
    }
    if n < MIN_ROUNDS_FOR_CLAIMS as usize {
        return Some(Estimate { value: value.exp(), low: None, high: None });
    }
    let mut redraw = Redraw::new(n, seed);
    let mut places: Vec<f64> = (0..resamples).map(|_| of(redraw.draw())).collect();
    let tail = outside_each(0.05, n);
    let [low, high] =
        [tail, 1.0 - tail].map(|q| Some(percentile(&mut places, q).exp()).filter(|rate| rate.is_finite()));
    Some(Estimate { value: value.exp(), low, high })
}

/// The log rate at which a curve of log2 times is 1 (a factor of 2) above its first point, interpolated; infinite where it
/// stays below at every rate, or is only beyond it where nothing was sustained. Rates that are out of order by chance are
/// made level first (PAVA), since a queue does not become shorter with the rate.
fn doubled(log_rates: &[f64], log_times: &[f64]) -> f64 {
    let finite = log_times.iter().position(|time| !time.is_finite()).unwrap_or(log_times.len());
    let level = monotone(&log_times[..finite], &vec![1.0; finite], false);
    let Some(at) = level.iter().position(|time| *time >= level[0] + KNEE.log2()) else { return f64::INFINITY };
    let share = (level[0] + KNEE.log2() - level[at - 1]) / (level[at] - level[at - 1]);
    log_rates[at - 1] + share * (log_rates[at] - log_rates[at - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing_queue::{Queue, run};

    fn curve(utilisations: &[f64]) -> LoadCurve {
        let queues: Vec<Queue> = utilisations.iter().map(|rho| Queue::mm1(*rho, 500, 100, 2)).collect();
        summarise(&run(&queues)).load_curves.remove(0)
    }

    #[test]
    fn points_stand_by_rate_with_the_bounds_of_the_capacity() {
        let curve = curve(&[0.6, 0.2, 1.2, 0.4, 1.5]);
        let rates: Vec<f64> = curve.points.iter().map(|point| point.asked_per_s).collect();
        assert_eq!(rates, [2e5, 4e5, 6e5, 1.2e6, 1.5e6]);
        assert_eq!(curve.points.iter().map(|point| point.case).collect::<Vec<_>>(), [1, 3, 0, 2, 4]);
        assert_eq!((curve.sustained_per_s, curve.overloaded_per_s, curve.knee_p), (Some(6e5), Some(1.2e6), 0.99));
        let over = &curve.points[3];
        assert!(over.sustained == Some(false) && over.p50.is_none() && over.p99.is_none());
        assert!((over.backlog_per_s.as_ref().unwrap().value / 2e5 - 1.0).abs() < 0.1, "{over:?}");
        assert!((over.achieved_per_s / 1e6 - 1.0).abs() < 0.03 && curve.points[0].p50.as_ref().unwrap().is_interval());
    }

    #[test]
    fn sentence_of_a_curve_agrees_with_its_points() {
        let said = |verdicts: &[Option<bool>]| {
            let point = |(at, sustained): (usize, &Option<bool>)| LoadPoint {
                case: at as u32,
                asked_per_s: (at + 1) as f64,
                achieved_per_s: 1.0,
                sustained: *sustained,
                backlog_per_s: None,
                p50: None,
                p99: None,
            };
            let points: Vec<LoadPoint> = verdicts.iter().enumerate().map(point).collect();
            let (sustained_per_s, overloaded_per_s) = bounds(&points);
            let curve = LoadCurve { points, sustained_per_s, overloaded_per_s, ..curve(&[0.1, 0.2]) };
            which_sustained(&curve, |rate| rate.to_string())
        };
        let (yes, no, unknown) = (Some(true), Some(false), None);
        assert_eq!(said(&[yes, yes]), "every rate was sustained, up to 2");
        assert_eq!(said(&[yes, yes, no, no]), "2 was sustained, 3 was not");
        assert_eq!(said(&[yes, no, yes]), "1 was sustained, 2 was not, although 3 was again");
        assert_eq!(said(&[no, yes]), "1 was not sustained, although 2 was");
        assert_eq!(said(&[no, no]), "no rate was sustained");
        assert_eq!(said(&[yes, unknown, no]), "1 was sustained, 3 was not; of 2 it cannot be told");
        assert_eq!(said(&[unknown, no]), "2 was not sustained; of 1 it cannot be told");
        assert_eq!(said(&[yes, unknown]), "1 was sustained; of 2 it cannot be told");
        assert_eq!(said(&[unknown, unknown]), "whether a rate was sustained cannot be told");
    }

    #[test]
    fn a_contradiction_stays_visible() {
        let mut run = run(&[0.2, 0.4, 0.6].map(|rho| Queue::mm1(rho, 300, 100, 2)));
        // The rate in the middle is said to be overloaded.
        for round in run.rounds.iter_mut().filter(|round| round.case == 1) {
            let open = round.open.as_mut().unwrap();
            open.debt_ns = [1_000_000, 2_000_000].map(|ns| ns * u64::from(round.pass));
        }
        let curve = summarise(&run).load_curves.remove(0);
        assert_eq!((curve.sustained_per_s, curve.overloaded_per_s), (Some(2e5), Some(4e5)));
        assert_eq!(
            curve.points.iter().map(|point| point.sustained).collect::<Vec<_>>(),
            [Some(true), Some(false), Some(true)]
        );
        assert_eq!(curve.knee_per_s, None);
    }

    #[test]
    fn one_rate_is_no_curve_and_lines_are_apart() {
        assert!(summarise(&run(&[Queue::mm1(0.5, 100, 10, 1)])).load_curves.is_empty());
        let mut run = run(&[0.2, 0.4, 0.2, 0.4].map(|rho| Queue::mm1(rho, 100, 10, 1)));
        run.header.plan.cases[2..].iter_mut().for_each(|case| (case.threads, case.connections) = (2, 2));
        let curves = summarise(&run).load_curves;
        assert_eq!(
            curves.iter().map(|curve| (curve.threads, curve.points.len())).collect::<Vec<_>>(),
            [(1, 2), (2, 2)]
        );
    }

    #[test]
    fn the_interval_of_the_knee_holds_the_truth() {
        // The median of M/M/1 is ln 2 / (1 - rho) µs. It has doubled against 0.1 at 0.55; on the line from 0.5 to 0.6, which
        // is all that is measured, at 0.5446.
        let mut covered = 0;
        for seed in 0..60 {
            let queues = [0.1, 0.5, 0.6].map(|rho| Queue { rounds: 20, ..Queue::mm1(rho, 250, 60, 100 + seed) });
            let rounds = queues.map(|queue| queue.records(0));
            let line: Vec<AtRate> = queues
                .iter()
                .zip(&rounds)
                .map(|(queue, rounds)| AtRate {
                    log_rate: queue.rate.ln(),
                    shares: Some(Shares::of(&rounds.iter().collect::<Vec<_>>())),
                })
                .collect();
            let knee = knee(&line, 0.5, 100, seed);
            // A noisy curve may not reach the double at 0.6.
            covered += i32::from(knee.is_none_or(|knee| {
                knee.low.is_none_or(|low| low <= 544_600.0) && knee.high.is_none_or(|high| 544_600.0 <= high)
            }));
        }
        assert!(covered >= 54, "{covered} of 60");
    }

    #[test]
    fn doubling_is_interpolated_on_both_logs() {
        let rates = [100_f64, 200.0, 400.0].map(f64::ln);
        let at = |times: [f64; 3]| doubled(&rates, &times.map(f64::log2)).exp();
        assert!((at([10.0, 10.0, 40.0]) - 200.0 * 2_f64.sqrt()).abs() < 1e-6);
        assert!((at([10.0, 20.0, 40.0]) - 200.0).abs() < 1e-6);
        assert_eq!(at([10.0, 12.0, 19.0]), f64::INFINITY);
        // What was not sustained has no time, so nothing is interpolated towards it.
        assert_eq!(at([10.0, 12.0, f64::INFINITY]), f64::INFINITY);
        assert_eq!(at([f64::INFINITY, 12.0, 40.0]), f64::INFINITY);
        // A dip by chance: 30 and 10 are levelled to their mean on the log.
        assert!(
            (at([5.0, 30.0, 10.0])
                - doubled(&rates, &[5_f64.log2(), 300_f64.sqrt().log2(), 300_f64.sqrt().log2()]).exp())
            .abs()
                < 1e-6
        );
    }
}
