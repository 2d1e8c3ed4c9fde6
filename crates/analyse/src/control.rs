//! The hidden A/A: the baseline measured twice under two names. What differs between the two is noise, so it tells
//! what this machine resolves today (method.md 3.4, 3.8).

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Plan};

use crate::compare::{LEAST_MARGIN, holm, paired, seed, verdict};
use crate::series::{Series, log_ratios, same_cell};
use crate::stats::{mean, percentile};
use crate::summary::Verdict;

/// Resamples of each control pair.
const RESAMPLES: usize = 2_000;

/// What the control pairs say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Control {
    /// p95 of |A'/A - 1|; `None` without a control pair of at least 5 passes.
    pub resolution: Option<f64>,
    /// Whether a control differs from its twin: then no comparison of this run holds.
    pub failed: bool,
}

/// Judges the controls of a plan.
///
/// **Resolution**: for every control pair the per-pass log-ratios are resampled 2,000 times with replacement; the
/// resolution is the 95th percentile of |exp(mean of a resample) - 1| over the resamples of all pairs. A resample
/// carries the pair's own error and the resampling's, so with one pair the value errs on the large side (at most a
/// factor of about 1.4), which is the safe side of a margin.
///
/// **Failed**: a control's 95 % interval lies wholly outside +-2 % and its test stands after Holm over the controls.
/// The fixed margin is used because the resolution comes from the same numbers.
pub fn control(plan: &Plan, series: &[Series]) -> Control {
    let pairs: Vec<(&Case, &Case, Vec<f64>)> = plan
        .cases
        .iter()
        .filter(|case| case.role == CaseRole::Control)
        .filter_map(|case| {
            let twin = plan
                .cases
                .iter()
                .find(|twin| twin.role == CaseRole::Measured && twin.path == case.path && same_cell(twin, case))?;
            let d = log_ratios(series.get(case.id as usize)?, series.get(twin.id as usize)?);
            Some((case, twin, d.into_iter().map(|(_, d)| d).collect()))
        })
        .collect();
    let judged: Vec<_> = pairs
        .iter()
        .filter_map(|(case, twin, d)| Some((paired(d, pairs.len(), seed(plan, case, twin))?, d)))
        .filter(|(paired, _)| paired.half.is_some())
        .collect();
    let stands = holm(&judged.iter().map(|(paired, _)| paired.p).collect::<Vec<_>>());
    let differs = |verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    let failed =
        judged.iter().zip(&stands).any(|((paired, _), holm)| differs(verdict(paired, *holm, LEAST_MARGIN, false)));
    let mut random = fastrand::Rng::with_seed(plan.seed ^ 0xaa);
    let mut errors: Vec<f64> = judged
        .iter()
        .flat_map(|(_, d)| {
            let mut resample = || mean(&d.iter().map(|_| d[random.usize(..d.len())]).collect::<Vec<_>>());
            (0..RESAMPLES).map(|_| (resample().exp() - 1.0).abs()).collect::<Vec<_>>()
        })
        .collect();
    Control { resolution: (!errors.is_empty()).then(|| percentile(&mut errors, 0.95)), failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, round_effects};

    fn with_control(spread: f64, shift: f64) -> Control {
        let build = Build::echo(&["tcp:send", "tcp:writev"], &[64]).control(64);
        let values =
            |case: usize| round_effects(case as u64 + 10, 40, 20_000.0 * if case == 2 { shift } else { 1.0 }, spread);
        let series: Vec<Series> = (0..3)
            .map(|case| values(case).into_iter().enumerate().map(|(pass, v)| (pass as u32, v)).collect())
            .collect();
        control(&build.plan, &series)
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
        assert_eq!(control(&build.plan, &[Series::new()]), Control::default());
    }
}
