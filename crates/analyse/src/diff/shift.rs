//! Where two runs that followed each other differ: the ratio of their quantiles along the distribution.
//!
//! The interval of each ratio is that of `level.rs`: rounds, stretches and restarts of both runs are drawn
//! again, and the widest counts. The band of noise is what the halves of each run differ by.

use msgpath_core::plan::{Case, MIN_ROUNDS_FOR_CLAIMS};
use msgpath_core::schema::RoundRecord;
use msgpath_record::Run;
use msgpath_stats::level::Level;
use msgpath_stats::pooled::Pooled;

use super::level::quantiles;
use super::{both, key, measured, name, rounds, seed};

/// Places along the distribution: 12 for every nine, up to p99.999.
const PLACES: u32 = 60;
const PER_NINE: f64 = 12.0;
/// Neighbours on each side over which the band of noise takes the largest difference: one pair of halves is one draw.
const NEIGHBOURS: usize = 3;

/// One case in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Shift {
    /// The case, as it is printed.
    pub case: String,
    /// By rising percentile, as far as both runs have messages that were not lost.
    pub points: Vec<ShiftPoint>,
}

/// The ratio at one percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShiftPoint {
    /// 0.5, 0.99 ...
    pub p: f64,
    /// The quantile in the first run, ns.
    pub a: u64,
    /// In the second run, ns.
    pub b: u64,
    /// Second divided by first.
    pub ratio: f64,
    /// 95 % interval of the ratio; `None`: too few messages for one at this percentile.
    pub interval: Option<(f64, f64)>,
    /// Factor by which the halves of the same run differ near here, at least 1; `None`: too few rounds.
    pub noise: Option<f64>,
}

/// The shift of every case that both runs have. Nothing where no message was timed.
pub fn shift(a: &Run, b: &Run) -> Vec<Shift> {
    if [a, b].iter().any(|run| !run.header.plan.workload.timed) {
        return Vec::new();
    }
    let earlier = measured(a);
    let pairs =
        measured(b).into_iter().filter_map(|two| Some((*earlier.iter().find(|one| key(one) == key(two))?, two)));
    let ps: Vec<f64> = (1..=PLACES).map(|place| 1.0 - 10_f64.powf(-f64::from(place) / PER_NINE)).collect();
    pairs.map(|(one, two)| of_case((a, one), (b, two), &ps)).filter(|shift| !shift.points.is_empty()).collect()
}

fn of_case((a, one): (&Run, &Case), (b, two): (&Run, &Case), ps: &[f64]) -> Shift {
    let (rounds_a, rounds_b) = (rounds(a, one), rounds(b, two));
    let (pooled_a, pooled_b) = (pooled(&rounds_a), pooled(&rounds_b));
    let levels = quantiles(&rounds_a, ps, seed(a, one)).into_iter().zip(quantiles(&rounds_b, ps, seed(b, two)));
    let noise = noise(&[&rounds_a, &rounds_b], ps);
    let points = ps.iter().zip(levels).zip(noise).map_while(|((p, (level_a, level_b)), noise)| {
        // Beyond the last message of either run there is nothing to divide.
        let resolved = |pooled: &Pooled| pooled.total() as f64 * (1.0 - p) >= 1.0;
        if !resolved(&pooled_a) || !resolved(&pooled_b) {
            return None;
        }
        let (a, b) = (pooled_a.quantile(*p)??, pooled_b.quantile(*p)??);
        let interval = both([level_a, level_b]).ok().map(|(a, b): (Level, Level)| b.minus(a).interval());
        Some(ShiftPoint {
            p: *p,
            a,
            b,
            ratio: b.max(1) as f64 / a.max(1) as f64,
            interval: interval.map(|(low, high)| (low.exp(), high.exp())),
            noise,
        })
    });
    Shift { case: name(two), points: points.collect() }
}

fn pooled(rounds: &[&RoundRecord]) -> Pooled {
    Pooled::new(&rounds.iter().map(|round| &round.latency).collect::<Vec<_>>())
}

/// By how much the second half of a run differs from its first at each of `ps`: the larger factor of the runs, and of
/// the neighbouring places.
fn noise(runs: &[&[&RoundRecord]; 2], ps: &[f64]) -> Vec<Option<f64>> {
    let halves: Vec<(Pooled, Pooled)> = runs
        .iter()
        .filter(|rounds| rounds.len() >= 2 * MIN_ROUNDS_FOR_CLAIMS as usize)
        .map(|rounds| rounds.split_at(rounds.len() / 2))
        .map(|(first, second)| (pooled(first), pooled(second)))
        .collect();
    let at = |p: &f64| -> Option<f64> {
        let factor = |(first, second): &(Pooled, Pooled)| -> Option<f64> {
            let [first, second] = [first, second].map(|half| half.quantile(*p).flatten());
            Some((second?.max(1) as f64 / first?.max(1) as f64).ln().abs().exp())
        };
        halves.iter().filter_map(factor).reduce(f64::max)
    };
    let raw: Vec<Option<f64>> = ps.iter().map(at).collect();
    (0..raw.len())
        .map(|at| {
            let near = &raw[at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS + 1).min(raw.len())];
            raw[at].and(near.iter().flatten().copied().reduce(f64::max))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Histogram;
    use msgpath_stats::simulate::lognormal_rounds;

    use crate::testing::{Build, slow_down};

    fn run(seed: u64, rounds: usize, messages: usize) -> Run {
        let mut run = Build::echo(&["tcp:send"], &[64]).rounds(rounds as u32).messages(1).run();
        run.header.plan.seed = seed;
        let latency = lognormal_rounds(seed, rounds, messages, 20_000.0, 0.2, 0.01);
        run.rounds.iter_mut().zip(latency).for_each(|(round, latency)| round.latency = latency);
        run
    }

    fn at(shift: &Shift, p: f64) -> ShiftPoint {
        *shift.points.iter().min_by(|a, b| (a.p - p).abs().total_cmp(&(b.p - p).abs())).unwrap()
    }

    #[test]
    fn a_factor_is_found_at_every_percentile() {
        let (a, mut b) = (run(1, 20, 500), run(2, 20, 500));
        slow_down(&mut b, 1.3, |_| true);
        let shifts = shift(&a, &b);
        assert_eq!((shifts.len(), shifts[0].case.as_str()), (1, "tcp:send 64 B"));
        let claims: Vec<&ShiftPoint> = shifts[0].points.iter().filter(|point| point.interval.is_some()).collect();
        assert!(claims.len() > 20 && claims.last().unwrap().p > 0.99, "{}", claims.len());
        let held = claims.iter().filter(|point| point.interval.is_some_and(|(low, high)| low <= 1.3 && 1.3 <= high));
        assert!(held.count() * 10 >= claims.len() * 9);
        assert!(claims.iter().all(|point| point.interval.unwrap().0 > 1.1));
        assert!(at(&shifts[0], 0.5).noise.unwrap() < 1.05);
        assert!(shifts[0].points.len() < 60 && shifts[0].points.iter().all(|point| point.p < 0.99995));
    }

    #[test]
    fn equal_runs_are_equal_19_times_in_20() {
        let held = (0..40).filter(|seed| {
            let (a, b) = (run(100 + 2 * seed, 20, 300), run(101 + 2 * seed, 20, 300));
            let case = |run: &Run| run.header.plan.cases[0].clone();
            let shift = of_case((&a, &case(&a)), (&b, &case(&b)), &[0.9]);
            shift.points[0].interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
        });
        // 38 are expected; 34 or fewer would be seen once in 20 times at 95 %.
        let held = held.count();
        assert!(held >= 35, "{held} of 40");
    }

    #[test]
    fn a_tail_that_moved_leaves_the_body_alone() {
        let (a, mut b) = (run(3, 20, 500), run(4, 20, 500));
        for (round, slow) in b.rounds.iter_mut().zip(lognormal_rounds(9, 20, 25, 200_000.0, 0.2, 0.01)) {
            let mut both = Histogram::new();
            [&round.latency, &slow].iter().for_each(|part| both.merge_sparse(part));
            round.latency = both.to_sparse();
        }
        let shifts = shift(&a, &b);
        let body = at(&shifts[0], 0.5).interval.unwrap();
        assert!(body.0 < 1.01 && body.1 > 0.99, "{body:?}");
        assert!(at(&shifts[0], 0.99).interval.unwrap().0 > 3.0);
    }

    #[test]
    fn what_cannot_be_divided_is_left_out() {
        let (a, mut b) = (run(5, 4, 100), run(6, 4, 100));
        let shifts = shift(&a, &b);
        assert!(shifts[0].points.iter().all(|point| point.interval.is_none() && point.noise.is_none()));
        b.rounds.clear();
        assert!(shift(&a, &b).is_empty());
        assert!(shift(&a, &Build::stream(&["tcp:send"], &[64]).run()).is_empty());
    }
}
