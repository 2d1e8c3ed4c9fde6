//! What each layer of a stack adds: the same message over ever thinner stacks, the elimination by hand as one plan.

use msgpath_core::plan::{CaseRole, Change, MIN_ROUNDS_FOR_CLAIMS, Metric, Plan};
use msgpath_core::schema::RoundRecord;
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::Series;
use serde::{Deserialize, Serialize};

use crate::series::series;

/// One layer, the thickest stack first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its case.
    pub case: u32,
    /// What it is: the path, and the work of a handler where there is some.
    pub name: String,
    /// Median round trip, ns: geometric mean over rounds.
    pub median: Estimate,
    /// What this layer adds to the next thinner one, ns: the mean of the differences of the medians in the same pass, with
    /// its 95 % t interval. `None` for the last layer, and where no pass has both.
    pub adds: Option<Estimate>,
}

/// The layers of a plan that peels them; empty for any other. `rounds`: those of each case, by pass.
pub fn layers(plan: &Plan, rounds: &[Vec<&RoundRecord>]) -> Vec<Layer> {
    if !plan.peel {
        return Vec::new();
    }
    // The handler with its work is a trial of the first case: the same path, and something to do.
    let handler = |case: &&msgpath_core::Case| {
        case.trial.as_ref().is_some_and(|trial| matches!(trial.change, Change::Work(ns) if ns > 0))
    };
    let of = |case: &msgpath_core::Case| series(plan, Metric::P50, &rounds[case.id as usize]);
    let cases = plan.cases.iter().filter(handler).chain(plan.cases.iter().filter(|c| c.role == CaseRole::Measured));
    let found: Vec<(u32, String, Series)> = cases
        .map(|case| {
            let name = match &case.trial {
                Some(trial) => format!("{} with {}", case.path, trial.change),
                None => case.path.to_string(),
            };
            (case.id, name, of(case))
        })
        .filter(|(_, _, series)| !series.is_empty())
        .collect();
    (0..found.len())
        .filter_map(|at| {
            let (case, name, series) = &found[at];
            let values: Vec<f64> = series.values().copied().collect();
            let adds = found.get(at + 1).and_then(|(_, _, thinner)| difference(series, thinner));
            Some(Layer { case: *case, name: name.clone(), median: log_estimate(&values)?, adds })
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
        let mut build =
            Build::echo(&["tcp:send", "tcp:send/spin", "shm:ring/spin"], &[64]).trial(0, Change::Work(20_000));
        build.plan.peel = true;
        let factors = [1.0, 0.5, 0.1, 2.0];
        let run = build.factor(move |case| factors[case.id as usize]).run();
        let rounds: Vec<Vec<&RoundRecord>> =
            (0..4).map(|case| run.rounds.iter().filter(|round| round.case == case).collect()).collect();
        let layers = layers(&run.header.plan, &rounds);
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names, ["tcp:send with 20.0 \u{b5}s of work", "tcp:send", "tcp:send/spin", "shm:ring/spin"]);
        let base = layers[1].median.value;
        for (layer, share) in layers.iter().zip([1.0, 0.5, 0.4]) {
            let adds = layer.adds.as_ref().unwrap();
            assert!((adds.value / base - share).abs() < 0.05, "{layer:?}");
            assert!(adds.low.unwrap() < adds.value && adds.value < adds.high.unwrap());
        }
        assert!(layers[3].adds.is_none());
        assert!(super::layers(&Plan { peel: false, ..run.header.plan.clone() }, &rounds).is_empty());
    }
}
