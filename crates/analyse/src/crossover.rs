//! From which size a path beats the baseline, with an interval (docs/method/crossover.md).

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::{Case, PathName, Plan};
use msgpath_stats::crossover::{AtSize, crossover};
use msgpath_stats::resample::RESAMPLES;

use crate::compare::Compared;
use crate::series::cell;
use crate::series::redraw_seed;
use crate::summary::{Crossover, Ratio};

/// One entry per path and thread count with at least two sizes. Where messages of several piece counts, connections or
/// rates were measured there is no one line of sizes, and no crossover.
pub(crate) fn crossovers(plan: &Plan, compared: &[Compared], ratios: &[Ratio]) -> Vec<Crossover> {
    let sign = if plan.metric().larger_is_better() { -1.0 } else { 1.0 };
    let mut lines: BTreeMap<(u32, &PathName), Vec<(&Case, AtSize)>> = BTreeMap::new();
    for (pair, ratio) in compared.iter().zip(ratios) {
        let redrawn = pair.evidence.redrawn(RESAMPLES, redraw_seed(plan, pair.case));
        let at = AtSize {
            size: pair.case.size,
            slower: sign * pair.evidence.center(),
            redrawn: redrawn.into_iter().map(|d| sign * d).collect(),
            units: pair.evidence.units(),
            verdict: ratio.verdict,
            holm: ratio.holm,
            added: pair.case.phase > 0,
        };
        lines.entry((pair.case.threads, &pair.case.path)).or_default().push((pair.case, at));
    }
    // In the order of the plan, as the other tables.
    let mut order: Vec<_> = lines.keys().copied().collect();
    order.sort_by_key(|(threads, path)| (*threads, plan.cases.iter().position(|case| case.path == **path)));
    order
        .into_iter()
        .filter_map(|(threads, path)| {
            let mut line = lines.remove(&(threads, path))?;
            let but_size = |case: &Case| {
                let (_, pieces, _, _, connections, inflight, load, _, label) = cell(case);
                (pieces, connections, inflight, load, label)
            };
            let kinds: BTreeSet<_> = line.iter().map(|(case, _)| but_size(case)).collect();
            line.sort_by_key(|(case, _)| (case.size, case.phase));
            line.dedup_by_key(|(case, _)| case.size);
            if kinds.len() > 1 || line.len() < 2 {
                return None;
            }
            let line: Vec<AtSize> = line.into_iter().map(|(_, at)| at).collect();
            Some(Crossover { path: path.clone(), threads, crossing: crossover(&line) })
        })
        .collect()
}
