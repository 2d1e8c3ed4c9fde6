//! The paths of a comparison over all their sizes together (docs/method/comparison.md#over-all-sizes).

use std::collections::BTreeMap;

use msgpath_core::plan::{MIN_ROUNDS_FOR_CLAIMS, Metric};
use msgpath_core::{Case, PathName};
use msgpath_stats::describe::mean;
use msgpath_stats::paired::{Paired, log_ratios, over_cells, paired};
use msgpath_stats::steady::halves_agree;
use msgpath_stats::verdict::{Evidence, Verdict, holm_levels, judge};

use crate::control;
use crate::results::Results;
use crate::series::{Cell, cell};
use crate::summary::{Rank, Standing};

/// Ranks the paths by the geometric mean of the metric over the cells that every path was measured in: 4 sizes of one
/// comparison together tell apart what each of them alone does not. `None`: with less than 3 paths, for tails, or
/// with too few rounds of some cell for a claim.
pub(crate) fn standing(results: &Results, cases: &[&Case]) -> Option<Standing> {
    let metric = results.plan.metric();
    if metric == Metric::P99 {
        return None;
    }
    let mut paths: Vec<&PathName> = Vec::new();
    let mut by_cell: BTreeMap<Cell, Vec<&Case>> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.phase == 0) {
        if !paths.contains(&&case.path) {
            paths.push(&case.path);
        }
        by_cell.entry(cell(case)).or_default().push(case);
    }
    by_cell.retain(|_, own| own.len() == paths.len());
    if paths.len() < 3 || by_cell.is_empty() {
        return None;
    }
    // Log of the time; for rates its negative. One value a pass, over all cells.
    let sign = if metric.larger_is_better() { -1.0 } else { 1.0 };
    let behind = |better: usize, worse: usize| -> Option<Vec<f64>> {
        let of = |own: &[&Case], path: &PathName| own.iter().find(|case| case.path == *path).map(|case| case.id);
        let pair = |own: &Vec<&Case>| Some((of(own, paths[worse])?, of(own, paths[better])?));
        let units = units(results, by_cell.values().map(pair).collect::<Option<Vec<_>>>()?)?;
        Some(units.into_iter().map(|unit| sign * unit).collect())
    };
    let levels: Vec<f64> = (0..paths.len()).map(|path| Some(mean(&behind(0, path)?))).collect::<Option<_>>()?;
    let mut ranked: Vec<usize> = (0..paths.len()).collect();
    ranked.sort_by(|a, b| levels[*a].total_cmp(&levels[*b]));
    // All pairs are the family, since the data themselves chose the best path; its own pairs stand first.
    let places = 0..ranked.len();
    let pairs: Vec<(usize, usize)> =
        places.flat_map(|better| (better + 1..ranked.len()).map(move |worse| (better, worse))).collect();
    let values: Vec<Vec<f64>> =
        pairs.iter().map(|(better, worse)| behind(ranked[*better], ranked[*worse])).collect::<Option<_>>()?;
    let test = |values: &Vec<f64>| paired(values, pairs.len(), results.plan.seed);
    let tests: Vec<Paired> = values.iter().map(test).collect::<Option<_>>()?;
    let levels = holm_levels(&tests.iter().map(|test| test.p).collect::<Vec<_>>());
    let margin = margin(results);
    let rank = |at: usize| {
        let judged = judge(&tests[at], levels[at], margin, false);
        Rank {
            path: paths[ranked[at + 1]].clone(),
            behind: tests[at].ratio().value,
            low: judged.low,
            high: judged.high,
            beaten: judged.verdict == Verdict::Worse,
            halves_agree: halves_agree(&values[at]),
        }
    };
    let others = (0..ranked.len() - 1).map(rank).collect();
    Some(Standing { best: paths[ranked[0]].clone(), others, cells: by_cell.len() as u32 })
}

/// What this machine resolves in a mean over sizes: the margin that the mean of all controls gives.
fn margin(results: &Results) -> f64 {
    let pairs = control::pairs(results.plan).into_iter().map(|(control, repeated)| (control.id, repeated.id)).collect();
    let pair = units(results, pairs).and_then(|units| paired(&units, 1, results.plan.seed));
    let evidence = pair.map(|pair| (Box::new(pair) as Box<dyn Evidence>, results.plan.seed));
    msgpath_stats::control::control(evidence.as_slice()).margin()
}

/// One log-ratio a pass over the cells, each with two cases. `None` without a cell, or where one has too few passes for a
/// claim.
fn units(results: &Results, pairs: Vec<(u32, u32)>) -> Option<Vec<f64>> {
    let series = |case: u32| results.series.get(case as usize);
    let ratios = |(case, base): (u32, u32)| Some(log_ratios(series(case)?, series(base)?));
    let cells: Vec<Vec<(u32, f64)>> = pairs.into_iter().map(ratios).collect::<Option<_>>()?;
    let enough = cells.iter().all(|cell| cell.len() >= MIN_ROUNDS_FOR_CLAIMS as usize);
    (enough && !cells.is_empty()).then(|| over_cells(&cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::Build;
    use msgpath_stats::paired::Series;
    use msgpath_stats::simulate::round_effects;

    const SIZES: [u64; 4] = [64, 1024, 8192, 65_536];
    const PATHS: [&str; 4] = ["tcp:send", "unix:send", "pipe:write", "shm:ring/futex"];

    #[test]
    fn sizes_together_decide_what_no_size_decides_alone() {
        let build =
            Build::echo(&PATHS, &SIZES).rounds(10).noise(0.1).factor(|case| match case.path.transport.as_str() {
                "unix" => 0.87,
                _ => 1.0,
            });
        let comparison = summarise(&build.run()).comparison.unwrap();
        let standing = comparison.standing.unwrap();
        assert_eq!((standing.best.transport.as_str(), standing.cells), ("unix", 4));
        assert!(standing.others.iter().all(|rank| rank.beaten), "{standing:?}");
        let tcp = standing.others.iter().find(|rank| rank.path.transport == "tcp").unwrap();
        assert!(tcp.low.unwrap() < 1.0 / 0.87 && 1.0 / 0.87 < tcp.high.unwrap(), "{tcp:?}");
        assert!(comparison.winners.iter().filter(|winner| winner.path.is_some()).count() < 4);
    }

    #[test]
    fn equal_paths_rarely_beat_each_other() {
        let plan = Build::echo(&PATHS, &SIZES).plan;
        let beaten = (0..60).filter(|seed| {
            let level = |case: u64| round_effects(seed * 100 + case, 12, 20_000.0, 0.1);
            let series: Vec<Series> = (0..16)
                .map(|case| level(case).into_iter().zip(0..).map(|(value, pass)| (pass, value)).collect())
                .collect();
            let results = Results { plan: &plan, cases: &[], rounds: &[], series: &series };
            let cases: Vec<&Case> = plan.cases.iter().collect();
            standing(&results, &cases).unwrap().others.iter().any(|rank| rank.beaten)
        });
        let beaten = beaten.count();
        assert!(beaten <= 5, "{beaten} of 60");
    }

    #[test]
    fn throughput_ranks_by_the_larger_rate() {
        let build = Build::stream(&PATHS[..3], &SIZES[..2]);
        let run = build.rates(|case, pass| (1.0 + (case / 2) as f64) * (1e9 + f64::from(pass))).run();
        let standing = summarise(&run).comparison.unwrap().standing.unwrap();
        assert_eq!(standing.best.transport, "pipe");
        let behind: Vec<f64> = standing.others.iter().map(|rank| (rank.behind * 100.0).round() / 100.0).collect();
        assert_eq!(behind, [1.5, 3.0]);
    }

    #[test]
    fn a_pass_counts_with_the_cells_that_it_has() {
        let factor = |case: &Case| if case.path.transport == "unix" { 0.8 } else { 1.0 };
        let mut run = Build::echo(&PATHS, &SIZES).rounds(12).factor(factor).run();
        run.rounds.retain(|round| (round.case + round.pass) % 5 != 0);
        let standing = summarise(&run).comparison.unwrap().standing.unwrap();
        assert!(standing.best.transport == "unix" && standing.others.iter().all(|rank| rank.beaten), "{standing:?}");
    }
}
