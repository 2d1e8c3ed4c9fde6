//! Sizes to add near a crossing whose interval is wide (docs/method/crossover.md#sizes-that-are-added): a second phase
//! of the same run.

use std::collections::BTreeSet;

use msgpath_core::plan::{Case, CaseRole, MAX_ROUNDS, MAX_SIZE, Plan};
use msgpath_core::units::Pieces;
use msgpath_stats::crossover::CrossoverKind;

use crate::Summary;
use crate::summary::Crossover;

/// An interval is good enough when its ends are this factor apart.
pub const GOOD_ENOUGH: f64 = 1.25;
/// Most sizes for one crossing.
const MOST_SIZES: usize = 6;
/// Most cases of the second phase.
const MOST_CASES: usize = 24;
/// Sizes an octave.
const STEPS: f64 = 4.0;
/// Sizes are multiples of this many bytes, small ones of less.
const GRAIN: f64 = 64.0;

/// cases of phase 1: the path and the baseline at sizes on a quarter-octave grid within the interval of every crossing
/// whose ends are more than 25 % apart, or whose neighbouring sizes are: then how the curve runs between them is not known.
/// At most 6 sizes a crossing and 24 cases. Both paths are measured afresh, since a pair needs common passes; ids continue
/// those of the plan. Empty where nothing is to be gained.
pub fn sizes_near_crossings(plan: &Plan, summary: &Summary) -> Vec<Case> {
    let mut added: Vec<Case> = Vec::new();
    let Some(comparison) = &summary.comparison else { return added };
    for crossover in comparison.crossovers.iter().filter(|crossover| !crossover.crossing.refined) {
        for case in sizes(plan, crossover) {
            let base = Case { path: plan.baseline.clone(), ..case.clone() };
            // Another path's crossing may have brought the baseline already.
            let new: Vec<Case> =
                [base, case].into_iter().filter(|case| !added.iter().any(|other| same(other, case))).collect();
            let cases = plan.cases.len() + added.len() + new.len();
            if added.len() + new.len() > MOST_CASES || cases as u64 * u64::from(plan.rounds) > MAX_ROUNDS {
                break;
            }
            added.extend(new);
        }
    }
    for (case, id) in added.iter_mut().zip(plan.cases.len() as u32..) {
        case.id = id;
    }
    added
}

fn same(a: &Case, b: &Case) -> bool {
    Case { id: 0, ..a.clone() } == Case { id: 0, ..b.clone() }
}

/// The cases of one path at the sizes that its crossing asks for.
fn sizes(plan: &Plan, crossover: &Crossover) -> Vec<Case> {
    let mut line: Vec<&Case> = plan
        .cases
        .iter()
        .filter(|case| case.role == CaseRole::Measured)
        .filter(|case| case.path == crossover.path && case.threads == crossover.threads)
        .collect();
    line.sort_by_key(|case| case.size);
    let one_crossing = matches!(crossover.crossing.kind, CrossoverKind::At | CrossoverKind::FasterBelow);
    let (true, Some(size), Some(first), Some(last)) =
        (one_crossing, crossover.crossing.size, line.first(), line.last())
    else {
        return Vec::new();
    };
    // An end outside the sizes measured: up to the last of them.
    let low = crossover.crossing.low.unwrap_or(first.size as f64);
    let high = crossover.crossing.high.unwrap_or(last.size as f64);
    let below = line.iter().rfind(|case| case.size as f64 <= size).unwrap_or(first);
    let above = line.iter().find(|case| case.size as f64 > size).unwrap_or(last);
    if high / low <= GOOD_ENOUGH && above.size as f64 / below.size as f64 <= GOOD_ENOUGH {
        return Vec::new();
    }
    // One step beyond the interval on either side, within the sizes measured.
    let from = (low.log2() * STEPS).floor().max((first.size as f64).log2() * STEPS) as i64;
    let to = (high.log2() * STEPS).ceil().min((last.size as f64).log2() * STEPS) as i64;
    let nearest = |to: f64| line.iter().min_by_key(|case| ((case.size as f64 / to).ln().abs() * 1e9) as u64);
    let Some(like) = nearest(size) else { return Vec::new() };
    let measured: BTreeSet<u64> = line.iter().map(|case| case.size).collect();
    let mut cases: Vec<Case> = (from..=to)
        .map(|step| resized(like, (step as f64 / STEPS).exp2()))
        .filter(|case| case.size <= MAX_SIZE && !measured.contains(&case.size))
        .collect();
    cases.dedup_by_key(|case| case.size);
    spread(cases, MOST_SIZES)
}

/// The case with messages of about `bytes`, cut into as many pieces, of a round size each.
fn resized(like: &Case, bytes: f64) -> Case {
    let piece = bytes / f64::from(like.pieces.count);
    let grain = (piece.max(1.0).log2().floor() - 4.0).exp2().clamp(1.0, GRAIN);
    let pieces = Pieces::of(like.pieces.count, ((piece / grain).round() * grain).max(1.0) as u32);
    let reply = if like.reply == like.size { pieces.total() } else { like.reply };
    Case { size: pieces.total(), reply, pieces, phase: 1, ..like.clone() }
}

/// At most `most` of them, evenly.
fn spread<T: Clone>(all: Vec<T>, most: usize) -> Vec<T> {
    if all.len() <= most {
        return all;
    }
    (0..most).map(|at| all[(2 * at + 1) * all.len() / (2 * most)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::Build;

    const SIZES: [u64; 8] = [64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20];

    /// The second path crosses the first at 2^`zero`.
    fn build(zero: f64, noise: f64) -> Build {
        let slower = move |size: u64| (0.04 * (zero - (size as f64).log2())).exp();
        Build::echo(&["tcp:send", "tcp:zerocopy"], &SIZES)
            .messages(60)
            .noise(noise)
            .factor(move |case| if case.path.method == "zerocopy" { slower(case.size) } else { 1.0 })
    }

    #[test]
    fn a_wide_interval_gets_sizes_on_both_paths() {
        let build = build(13.3, 0.06);
        let summary = summarise(&build.run());
        let crossover = &summary.comparison.as_ref().unwrap().crossovers[0];
        let (low, high) = (crossover.crossing.low.unwrap(), crossover.crossing.high.unwrap());
        assert!(crossover.crossing.kind == CrossoverKind::At && high / low > GOOD_ENOUGH, "{crossover:?}");
        let added = sizes_near_crossings(&build.plan, &summary);
        assert!(!added.is_empty() && added.len() <= 12 && added.len().is_multiple_of(2), "{added:?}");
        for (at, pair) in added.chunks(2).enumerate() {
            assert_eq!(
                (pair[0].path.to_string(), pair[1].path.to_string()),
                ("tcp:send".into(), "tcp:zerocopy".into())
            );
            assert_eq!((pair[0].id, pair[1].id), (16 + 2 * at as u32, 17 + 2 * at as u32));
            for case in pair {
                assert_eq!(
                    (case.phase, case.role, case.reply, case.pieces.total()),
                    (1, CaseRole::Measured, case.size, case.size)
                );
                assert!(case.size % 64 == 0 && !SIZES.contains(&case.size));
                // Within one step of the interval.
                assert!(low / 1.25 <= case.size as f64 && case.size as f64 <= high * 1.25);
            }
        }
        let mut plan = build.plan.clone();
        plan.cases.extend(added);
        assert_eq!(plan.validate(), Ok(()));
    }

    #[test]
    fn nothing_is_added_without_a_crossing() {
        let build = build(40.0, 0.02);
        let summary = summarise(&build.run());
        assert_eq!(summary.comparison.as_ref().unwrap().crossovers.len(), 1);
        assert!(sizes_near_crossings(&build.plan, &summary).is_empty());
    }

    #[test]
    fn a_narrow_interval_between_far_sizes_is_looked_into() {
        let build = build(13.3, 0.06);
        let mut summary = summarise(&build.run());
        let crossover = &mut summary.comparison.as_mut().unwrap().crossovers[0];
        (crossover.crossing.size, crossover.crossing.low, crossover.crossing.high) =
            (Some(10_100.0), Some(9_900.0), Some(10_300.0));
        let sizes = |plan: &Plan, summary: &Summary| -> Vec<u64> {
            sizes_near_crossings(plan, summary).iter().map(|case| case.size).step_by(2).collect()
        };
        assert_eq!(sizes(&build.plan, &summary), [9_728, 11_584]);
        // Where these were measured already, the interval is good enough.
        let mut plan = build.plan.clone();
        for (at, size) in [(1, 9_728), (9, 9_728), (2, 11_584), (10, 11_584)] {
            plan.cases[at].size = size;
        }
        assert!(sizes(&plan, &summary).is_empty());
    }

    #[test]
    fn the_second_phase_is_bounded_and_happens_once() {
        let build = build(13.3, 0.06);
        let mut plan = build.plan.clone();
        let mut summary = summarise(&build.run());
        let crossovers = &mut summary.comparison.as_mut().unwrap().crossovers;
        (crossovers[0].crossing.low, crossovers[0].crossing.high) = (None, None);
        assert_eq!(sizes_near_crossings(&plan, &summary).len(), 12);
        plan.rounds = (MAX_ROUNDS / plan.cases.len() as u64) as u32;
        assert!(sizes_near_crossings(&plan, &summary).is_empty());
        summary.comparison.as_mut().unwrap().crossovers[0].crossing.refined = true;
        assert!(sizes_near_crossings(&build.plan, &summary).is_empty());
    }

    #[test]
    fn two_paths_share_the_baseline() {
        let mut build = build(13.3, 0.06);
        let more: Vec<Case> = build.plan.cases[8..].to_vec();
        for case in more {
            let id = build.plan.cases.len() as u32;
            build.plan.cases.push(Case { id, path: "unix:send".parse().unwrap(), ..case });
        }
        let mut summary = summarise(&build.run());
        let crossovers = &mut summary.comparison.as_mut().unwrap().crossovers;
        crossovers[1] = Crossover { path: "unix:send".parse().unwrap(), ..crossovers[0].clone() };
        let added = sizes_near_crossings(&build.plan, &summary);
        let of = |path: &str| added.iter().filter(|case| case.path.to_string() == path).count();
        assert!(of("tcp:send") > 0 && of("tcp:send") == of("tcp:zerocopy") && of("tcp:send") == of("unix:send"));
    }

    #[test]
    fn pieces_stay_whole() {
        let like = Case::new("tcp:writev".parse().unwrap(), Pieces::of(15, 100));
        for bytes in [20.0, 1_700.0, 90_000.0] {
            let case = resized(&like, bytes);
            assert_eq!((case.size, case.pieces.count, case.reply), (case.pieces.total(), 15, case.size));
            assert!((case.size as f64 / bytes).ln().abs() < 0.3);
        }
        assert_eq!(resized(&Case { reply: 1, ..like }, 1_700.0).reply, 1);
    }

    #[test]
    fn the_spread_is_even() {
        assert_eq!(spread((0..12).collect(), 6), [1, 3, 5, 7, 9, 11]);
        assert_eq!(spread(vec![1, 2], 6), [1, 2]);
    }
}
