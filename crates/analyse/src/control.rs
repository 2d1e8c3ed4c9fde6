//! The hidden A/A: the baseline measured twice under two names. What differs between the two is noise, so it tells
//! what this machine resolves today (docs/method/comparison.md#the-control).

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Metric, Plan};
use msgpath_stats::control::Control;

use crate::results::Results;
use crate::series::redraw_seed;
use crate::series::same_cell;

/// Judges the controls of a plan by `metric` ([`msgpath_stats::control`]).
pub fn control(results: &Results, metric: Metric) -> Control {
    let pairs = pairs(results.plan);
    let evidence: Vec<_> = pairs
        .iter()
        .filter_map(|(case, baseline)| {
            let evidence = results.evidence(metric, case, baseline, pairs.len())?;
            Some((evidence, redraw_seed(results.plan, case)))
        })
        .collect();
    msgpath_stats::control::control(&evidence)
}

/// Each control with the case that it repeats.
pub(crate) fn pairs(plan: &Plan) -> Vec<(&Case, &Case)> {
    let controls = plan.cases.iter().filter(|case| case.role == CaseRole::Control);
    let repeated = |control: &Case| {
        let mut measured = plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
        measured.find(|case| case.path == control.path && same_cell(case, control))
    };
    controls.filter_map(|control| Some((control, repeated(control)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;
    use msgpath_stats::paired::Series;
    use msgpath_stats::simulate::round_effects;

    fn with_control(spread: f64, shift: f64) -> Control {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64]).control(64);
        let values =
            |case: usize| round_effects(case as u64 + 10, 40, 20_000.0 * if case == 2 { shift } else { 1.0 }, spread);
        let series: Vec<Series> = (0..3)
            .map(|case| values(case).into_iter().enumerate().map(|(pass, v)| (pass as u32, v)).collect())
            .collect();
        of(&build, &series)
    }

    fn of(build: &Build, series: &[Series]) -> Control {
        control(&Results { plan: &build.plan, cases: &[], rounds: &[], series }, Metric::P50)
    }

    #[test]
    fn the_resolution_grows_with_the_noise() {
        let (quiet, loud) = (with_control(0.005, 1.0), with_control(0.1, 1.0));
        assert!(!quiet.failed && !loud.failed);
        assert!(quiet.resolution.unwrap() < 0.006 && loud.resolution.unwrap() > 0.015, "{quiet:?} {loud:?}");
    }

    #[test]
    fn a_control_that_differs_voids_the_comparison() {
        assert!(with_control(0.01, 1.1).failed);
        assert!(!with_control(0.01, 1.01).failed);
    }

    #[test]
    fn without_a_control_nothing_is_known() {
        let build = Build::echo(&["tcp:send"], &[64]);
        assert_eq!(of(&build, &[Series::new()]), Control::default());
    }
}
