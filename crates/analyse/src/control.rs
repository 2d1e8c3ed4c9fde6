//! The hidden A/A: the baseline measured twice under two names. What differs between the two is noise, so it tells
//! what this machine resolves today (docs/method/comparison.md#the-control).

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Metric};

use crate::compare::{Results, redraw_seed};
use crate::resample::RESAMPLES;
use crate::series::same_cell;
use crate::stats::percentile;
use crate::summary::Verdict;
use crate::verdict::{LEAST_MARGIN, holm_levels, judge};

/// What the control pairs say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Control {
    /// p95 of |A'/A - 1|; `None` without a control pair of at least 5 passes.
    pub resolution: Option<f64>,
    /// Whether a control differs from its twin: then no comparison of this run holds.
    pub failed: bool,
}

impl Control {
    /// The margin of verdicts: the least one, or what this machine resolves.
    pub fn margin(&self) -> f64 {
        self.resolution.unwrap_or(0.0).max(LEAST_MARGIN)
    }
}

/// Judges the controls of a plan by `metric`.
///
/// **Resolution**: for every control pair the passes are drawn again 2,000 times; the resolution is the 95th percentile
/// of |ratio - 1| over the resamples of all pairs. A resample carries the pair's own error and the resampling's, so with
/// one pair the value errs on the large side (at most a factor of about 1.4), which is the safe side of a margin.
///
/// **Failed**: a control's interval lies wholly outside +-2 % and its test stands after Holm over the controls. The fixed
/// margin is used because the resolution comes from the same numbers.
pub fn control(results: &Results, metric: Metric) -> Control {
    let cases = &results.plan.cases;
    let pairs: Vec<(&Case, &Case)> = cases
        .iter()
        .filter(|case| case.role == CaseRole::Control)
        .filter_map(|case| {
            let twin =
                |twin: &&Case| twin.role == CaseRole::Measured && twin.path == case.path && same_cell(twin, case);
            Some((case, cases.iter().find(twin)?))
        })
        .collect();
    let judged: Vec<_> = pairs
        .iter()
        .filter_map(|(case, twin)| Some((*case, results.evidence(metric, case, twin, pairs.len())?)))
        .filter(|(_, evidence)| evidence.p().is_some())
        .collect();
    let levels = holm_levels(&judged.iter().map(|(_, evidence)| evidence.p()).collect::<Vec<_>>());
    let failed = judged.iter().zip(levels).any(|((_, evidence), level)| {
        matches!(judge(evidence.as_ref(), level, LEAST_MARGIN, false).verdict, Verdict::Better | Verdict::Worse)
    });
    let again = judged.iter().flat_map(|(case, evidence)| evidence.redrawn(RESAMPLES, redraw_seed(results.plan, case)));
    let mut errors: Vec<f64> = again.map(|d| (d.exp() - 1.0).abs()).collect();
    let resolution = (!errors.is_empty()).then(|| percentile(&mut errors, 0.95)).filter(|error| error.is_finite());
    Control { resolution, failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Series;
    use crate::testing::{Build, round_effects};

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
