//! What each layer of a stack adds. `explain --layers`: the same message over ever fewer layers, the elimination by hand as one plan.
//! `compare --layers`: protocols on top of a path, each against what it stands on.

use msgpath_core::PathName;
use msgpath_core::plan::{Case, CaseRole, Change, MIN_ROUNDS_FOR_CLAIMS, Metric};
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;
use msgpath_stats::quantile::Quantile;
use serde::{Deserialize, Serialize};

use crate::compare::steps;
use crate::results::Results;
use crate::series::{same_cell, series};
use crate::summary::Ratio;

/// One layer, in a breakdown the stack with most layers first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its case.
    pub case: u32,
    /// What it is: the path, and the work of a handler where there is some.
    pub name: String,
    /// Median round trip: that of its case, as every other place prints it.
    pub median: Quantile,
    /// What this layer adds to the one beneath it, ns: the mean of the differences of the medians in the same pass, with
    /// its 95 % t interval. `None` where there is none beneath, and where no pass has both.
    pub adds: Option<Estimate>,
    /// The same as a ratio, against the case that it is added to, judged with all steps of the run. Protocols on top only.
    pub times: Option<Ratio>,
}

/// The layers of a plan that is about them; empty for any other.
pub fn layers(results: &Results) -> Vec<Layer> {
    let plan = results.plan;
    match (plan.layers, plan.is_ladder()) {
        (false, _) => Vec::new(),
        (true, false) => breakdown(results),
        (true, true) => ladder(results),
    }
}

/// A path as short as it is clear among these: its transport, where that has one path.
pub fn short_name<'a>(path: &PathName, mut among: impl Iterator<Item = &'a PathName>) -> String {
    if among.all(|other| other.transport != path.transport || other == path) {
        path.transport.clone()
    } else {
        path.to_string()
    }
}

/// The medians of a case by pass.
fn medians(results: &Results, case: &Case) -> Series {
    series(results.plan, Metric::P50, &results.rounds[case.id as usize])
}

/// One row of the result.
fn layer(results: &Results, case: &Case, name: String) -> Option<Layer> {
    let quantiles = &results.cases.get(case.id as usize)?.latency.quantiles;
    let median = quantiles.iter().find(|quantile| quantile.p == 0.5)?.clone();
    Some(Layer { case: case.id, name, median, adds: None, times: None })
}

/// Each adds to the one that follows.
fn breakdown(results: &Results) -> Vec<Layer> {
    // The handler with its work is an ablation of the first case: the same path, and something to do.
    let handler = |case: &&Case| {
        case.ablation.as_ref().is_some_and(|ablation| matches!(ablation.change, Change::ServiceTime(ns) if ns > 0))
    };
    let cases = &results.plan.cases;
    let in_order = cases.iter().filter(handler).chain(cases.iter().filter(|case| case.role == CaseRole::Measured));
    let found: Vec<(&Case, Series)> =
        in_order.map(|case| (case, medians(results, case))).filter(|(_, series)| !series.is_empty()).collect();
    (0..found.len())
        .filter_map(|at| {
            let (case, series) = &found[at];
            let name = match &case.ablation {
                Some(ablation) => format!("{}, {}", case.path, ablation.change),
                None => case.path.to_string(),
            };
            let adds = found.get(at + 1).and_then(|(_, fewer)| difference(series, fewer));
            Some(Layer { adds, ..layer(results, case, name)? })
        })
        .collect()
}

/// Each adds to the path that it stands on, or to the baseline where that was not measured.
fn ladder(results: &Results) -> Vec<Layer> {
    let plan = results.plan;
    let measured: Vec<&Case> = plan.cases.iter().filter(|case| case.role == CaseRole::Measured).collect();
    let beneath = |case: &Case| {
        let alike = || measured.iter().copied().filter(move |other| other.id != case.id && same_cell(case, other));
        let stands_on = alike().find(|other| other.path.transport == case.traits.over);
        stands_on.or_else(|| alike().find(|other| other.path == plan.baseline)).filter(|_| case.traits.is_layer())
    };
    let pairs: Vec<(&Case, &Case)> = measured.iter().filter_map(|case| Some((*case, beneath(case)?))).collect();
    let steps = steps(results, &pairs);
    let of = |case: &Case| {
        let beneath = pairs.iter().find(|(on, _)| on.id == case.id).map(|(_, beneath)| *beneath);
        let times = steps.iter().find(|ratio| ratio.case == case.id).cloned();
        let adds = beneath.and_then(|beneath| difference(&medians(results, case), &medians(results, beneath)));
        Some(Layer { adds, times, ..layer(results, case, case.path.to_string())? })
    };
    measured.iter().filter_map(|case| of(case)).collect()
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
    use msgpath_stats::verdict::Verdict;

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
            assert_eq!(layer.median, case.latency.quantiles[0], "{layer:?}");
        }
        let p50 = summary.layers[0].median.ns.unwrap();
        assert!((19_000..24_000).contains(&p50), "{p50}");
    }

    /// A path, two protocols on it, and a third on one of these: medians of 20 µs times the factor of the case.
    fn on_top(factors: &'static [f64]) -> Build {
        let mut build = Build::echo(&["tcp:send", "a:send", "b:send", "c:send"], &[64]).control(64);
        for (case, over) in build.plan.cases.iter_mut().zip(["", "tcp", "elsewhere", "b"]) {
            case.traits.over = over.into();
        }
        build.plan.layers = true;
        build.factor(move |case| factors.get(case.id as usize).copied().unwrap_or(factors[0]))
    }

    #[test]
    fn a_protocol_adds_to_what_it_stands_on() {
        let run = on_top(&[1.0, 1.25, 2.0, 3.0]).run();
        let layers = crate::summarise(&run).layers;
        let beneath: Vec<_> = layers.iter().map(|layer| layer.times.as_ref().map(|times| times.baseline)).collect();
        // What `b` stands on was not measured: it adds to the baseline.
        assert_eq!(beneath, [None, Some(0), Some(0), Some(2)]);
        let base = layers[0].median.ns.unwrap() as f64;
        for (layer, (times, adds)) in layers[1..].iter().zip([(1.25, 0.25), (2.0, 1.0), (1.5, 1.0)]) {
            let (ratio, added) = (layer.times.as_ref().unwrap(), layer.adds.as_ref().unwrap());
            assert!((ratio.ratio - times).abs() < 0.02 && ratio.verdict == Verdict::Worse, "{layer:?}");
            assert!(ratio.low.unwrap() < times && times < ratio.high.unwrap(), "{layer:?}");
            assert!((added.value / base - adds).abs() < 0.05, "{layer:?}");
        }
        assert!(layers[0].adds.is_none());
    }

    #[test]
    fn a_step_that_the_run_does_not_show_is_not_decided() {
        let layers = crate::summarise(&on_top(&[1.0, 1.01, 1.0, 1.0]).noise(0.2).run()).layers;
        assert!(layers[1..].iter().all(|layer| layer.times.as_ref().unwrap().verdict != Verdict::Worse), "{layers:?}");
    }
}
