//! What each layer of a stack adds to what it stands on. `explain --layers`: the same message over ever fewer layers, the elimination by
//! hand as one plan. `compare --layers`: protocols on top of a path.

use msgpath_core::PathName;
use msgpath_core::plan::{Case, CaseRole, Change, MIN_ROUNDS_FOR_CLAIMS, Metric, Plan};
use msgpath_core::traits::Stack;
use msgpath_stats::dependence::independent;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::paired::Series;

use crate::compare::steps;
use crate::results::Results;
use crate::series::{same_cell, series};
use crate::summary::Layer;

/// The layers of a plan that is about them; empty for any other. Each adds to what it stands on.
pub fn layers(results: &Results) -> Vec<Layer> {
    let plan = results.plan;
    if !plan.layers {
        return Vec::new();
    }
    // A handler with work is an ablation of the first case: the same path, and something to do.
    let handler = |case: &&Case| {
        case.ablation.as_ref().is_some_and(|ablation| matches!(ablation.change, Change::ServiceTime(ns) if ns > 0))
    };
    let measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    let cases: Vec<&Case> = plan.cases.iter().filter(handler).chain(measured).collect();
    let with_rounds: Vec<&Case> = cases.into_iter().filter(|case| !medians(results, case).is_empty()).collect();
    let beneath = |case: &Case| match &case.ablation {
        Some(ablation) => with_rounds.iter().copied().find(|other| other.id == ablation.of),
        None if plan.is_ladder() => beneath_protocol(plan, case, &with_rounds),
        None => beneath_path(case, &with_rounds),
    };
    let pairs: Vec<(&Case, &Case)> = with_rounds.iter().filter_map(|case| Some((*case, beneath(case)?))).collect();
    let steps = steps(results, &pairs);
    let of = |case: &Case| {
        let beneath = pairs.iter().find(|(on, _)| on.id == case.id).map(|(_, beneath)| *beneath);
        let times = steps.iter().find(|ratio| ratio.case == case.id).cloned();
        let adds = beneath.and_then(|beneath| difference(&medians(results, case), &medians(results, beneath)));
        let quantiles = &results.cases.get(case.id as usize)?.latency.quantiles;
        let median = quantiles.iter().find(|quantile| quantile.p == 0.5)?.clone();
        let name = match &case.ablation {
            Some(ablation) => format!("{}, {}", case.path, ablation.change),
            None => case.path.to_string(),
        };
        Some(Layer { case: case.id, name, median, adds, times })
    };
    with_rounds.iter().filter_map(|case| of(case)).collect()
}

/// What a protocol stands on, or the baseline where that was not measured; `None` for a path that carries itself.
fn beneath_protocol<'a>(plan: &Plan, case: &Case, measured: &[&'a Case]) -> Option<&'a Case> {
    let alike = || measured.iter().copied().filter(|other| other.id != case.id && same_cell(case, other));
    let stands_on = alike().find(|other| other.path.transport == case.traits.over);
    stands_on.or_else(|| alike().find(|other| other.path == plan.baseline)).filter(|_| case.traits.is_layer())
}

/// What a path stands on without a protocol of a library: a receiver that is woken on one that spins; what spins on the next thinner
/// stack that does. Two ways to be woken are no layers of each other.
fn beneath_path<'a>(case: &Case, measured: &[&'a Case]) -> Option<&'a Case> {
    let alike = || measured.iter().copied().filter(|other| other.id != case.id && same_cell(case, other));
    if !case.traits.spins {
        return alike().find(|other| {
            let (own, spinning) = (&case.path, &other.path);
            (&own.transport, &own.method) == (&spinning.transport, &spinning.method)
                && case.traits.spinning_wait == spinning.wait
        });
    }
    let thinner = alike().filter(|other| other.traits.spins && thickness(other) < thickness(case));
    thinner.max_by_key(|other| thickness(other))
}

/// How much of the kernel a message passes.
fn thickness(case: &Case) -> u8 {
    match case.traits.stack {
        Stack::Network => 4,
        Stack::Frames => 3,
        Stack::Local => 2,
        Stack::Plain => 1,
        Stack::Memory => 0,
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

    /// Ways to be woken over two stacks, what spins over three, and a handler: medians of 20 µs times these factors.
    const STACKS: [(&str, f64); 6] = [
        ("tcp:send", 1.5),
        ("tcp:send/epoll", 1.2),
        ("tcp:send/spin", 0.5),
        ("eth:send/spin", 0.4),
        ("shm:ring/futex", 0.3),
        ("shm:ring/spin", 0.1),
    ];

    fn stacks() -> Build {
        let mut build = Build::echo(&STACKS.map(|(path, _)| path), &[64]).ablation(0, Change::ServiceTime(20_000));
        build.plan.layers = true;
        for case in &mut build.plan.cases {
            case.traits.spins = case.path.wait == "spin";
            case.traits.spinning_wait = if case.traits.spins { String::new() } else { "spin".into() };
            case.traits.stack = match case.path.transport.as_str() {
                "tcp" => Stack::Network,
                "eth" => Stack::Frames,
                _ => Stack::Memory,
            };
        }
        build.factor(|case| STACKS.get(case.id as usize).map_or(2.5, |(_, factor)| *factor))
    }

    #[test]
    fn a_layer_adds_to_what_it_stands_on() {
        let run = stacks().run();
        let layers = crate::summarise(&run).layers;
        let name = |id: u32| layers.iter().find(|layer| layer.case == id).unwrap().name.as_str();
        let steps: Vec<(&str, Option<&str>)> = layers
            .iter()
            .map(|layer| (layer.name.as_str(), layer.times.as_ref().map(|times| name(times.baseline))))
            .collect();
        assert_eq!(
            steps,
            [
                ("tcp:send, service time 20.0 \u{b5}s", Some("tcp:send")),
                ("tcp:send", Some("tcp:send/spin")),
                // Not on tcp:send, though it was measured next to it: both are ways to be woken.
                ("tcp:send/epoll", Some("tcp:send/spin")),
                ("tcp:send/spin", Some("eth:send/spin")),
                ("eth:send/spin", Some("shm:ring/spin")),
                ("shm:ring/futex", Some("shm:ring/spin")),
                ("shm:ring/spin", None),
            ]
        );
        for (layer, microseconds) in layers.iter().zip([20.0, 20.0, 14.0, 2.0, 6.0, 4.0]) {
            let adds = layer.adds.as_ref().unwrap();
            assert!((adds.value / 1e3 - microseconds).abs() < 1.0, "{layer:?}");
            assert!(adds.low.unwrap() < adds.value && adds.value < adds.high.unwrap());
        }
        assert!(layers[6].adds.is_none());
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
