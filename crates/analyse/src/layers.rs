//! What each layer of a stack adds: the same message over ever fewer layers, the elimination by hand as one plan.

use msgpath_core::plan::{CaseRole, Change, MIN_ROUNDS_FOR_CLAIMS, Metric, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;
use msgpath_stats::quantile::Quantile;
use serde::{Deserialize, Serialize};

use crate::series::series;
use crate::summary::CaseSummary;

/// One layer, the stack with most layers first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its case.
    pub case: u32,
    /// What it is: the path, and the work of a handler where there is some.
    pub name: String,
    /// Median round trip: that of its case, as every other place prints it.
    pub median: Quantile,
    /// What this layer adds to the one with fewer layers that follows, ns: the mean of the differences of the medians in the same pass, with
    /// its 95 % t interval. `None` for the last layer, and where no pass has both.
    pub adds: Option<Estimate>,
}

/// The layers of a plan that breaks a message down; empty for any other. `rounds`: those of each case, by pass; `cases`: their
/// numbers.
pub fn layers(plan: &Plan, rounds: &[Vec<&RoundRecord>], cases: &[CaseSummary]) -> Vec<Layer> {
    if !plan.layers {
        return Vec::new();
    }
    // The handler with its work is an ablation of the first case: the same path, and something to do.
    let handler = |case: &&msgpath_core::Case| {
        case.ablation.as_ref().is_some_and(|ablation| matches!(ablation.change, Change::ServiceTime(ns) if ns > 0))
    };
    let of = |case: &msgpath_core::Case| series(plan, Metric::P50, &rounds[case.id as usize]);
    let in_order = plan.cases.iter().filter(handler).chain(plan.cases.iter().filter(|c| c.role == CaseRole::Measured));
    let found: Vec<(u32, String, Series)> = in_order
        .map(|case| {
            let name = match &case.ablation {
                Some(ablation) => format!("{}, {}", case.path, ablation.change),
                None => case.path.to_string(),
            };
            (case.id, name, of(case))
        })
        .filter(|(_, _, series)| !series.is_empty())
        .collect();
    (0..found.len())
        .filter_map(|at| {
            let (case, name, series) = &found[at];
            let median = cases.get(*case as usize)?.quantiles.iter().find(|quantile| quantile.p == 0.5)?;
            let adds = found.get(at + 1).and_then(|(_, _, fewer)| difference(series, fewer));
            Some(Layer { case: *case, name: name.clone(), median: median.clone(), adds })
        })
        .collect()
}

/// Mean of the differences in the passes that both have, with its interval.
fn difference(thick: &Series, thin: &Series) -> Option<Estimate> {
    let paired: Vec<f64> = thick.iter().filter_map(|(pass, value)| Some(value - thin.get(pass)?)).collect();
    if paired.is_empty() {
        return None;
    }
    let (units, drifting) = independent(&paired);
    let claim = paired.len() >= MIN_ROUNDS_FOR_CLAIMS as usize && !drifting;
    let half = t_quantile(0.975, units.len() as f64 - 1.0) * deviation(&units) / (units.len() as f64).sqrt();
    let center = mean(&paired);
    Some(Estimate { value: center, low: claim.then_some(center - half), high: claim.then_some(center + half) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    #[test]
    fn each_layer_adds_its_difference() {
        let mut build = Build::echo(&["tcp:send", "tcp:send/spin", "shm:ring/spin"], &[64])
            .ablation(0, Change::ServiceTime(20_000));
        build.plan.layers = true;
        let factors = [1.0, 0.5, 0.1, 2.0];
        let run = build.factor(move |case| factors[case.id as usize]).run();
        let summary = crate::summarise(&run);
        let layers = &summary.layers;
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["tcp:send, service time 20.0 \u{b5}s", "tcp:send", "tcp:send/spin", "shm:ring/spin"]);
        let base = layers[1].median.ns.unwrap() as f64;
        for (layer, share) in layers.iter().zip([1.0, 0.5, 0.4]) {
            let adds = layer.adds.as_ref().unwrap();
            assert!((adds.value / base - share).abs() < 0.05, "{layer:?}");
            assert!(adds.low.unwrap() < adds.value && adds.value < adds.high.unwrap());
        }
        assert!(layers[3].adds.is_none());
        let mut other = run;
        other.header.plan.layers = false;
        assert!(crate::summarise(&other).layers.is_empty());
    }

    #[test]
    fn the_median_of_a_layer_is_that_of_its_case() {
        let mut build = Build::echo(&["tcp:send", "shm:ring/spin"], &[64]);
        build.plan.layers = true;
        // Rounds of two levels: the mean of their medians lies between the levels, where hardly a message is.
        let mut run = build.run();
        crate::testing::relevel(&mut run, |pass| if pass % 3 == 0 { 60_000.0 } else { 20_000.0 });
        let summary = crate::summarise(&run);
        assert_eq!(summary.layers.len(), 2);
        for layer in &summary.layers {
            let case = &summary.cases[layer.case as usize];
            assert_eq!(layer.median, case.quantiles[0], "{layer:?}");
        }
        let p50 = summary.layers[0].median.ns.unwrap();
        assert!((19_000..24_000).contains(&p50), "{p50}");
    }
}
