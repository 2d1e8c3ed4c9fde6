//! What the controls of a run say: pairs of the same thing measured twice under two names, so that what differs between
//! the two is noise (docs/method/comparison.md#the-control).

use crate::describe::percentile;
use crate::resample::RESAMPLES;
use crate::verdict::{Evidence, LEAST_MARGIN, Verdict, holm_levels, judge};

/// What the control pairs say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Control {
    /// p95 of |A'/A - 1|; `None` without a control pair of at least 5 passes.
    pub resolution: Option<f64>,
    /// Whether a control differs from its baseline: then no comparison of this run holds.
    pub failed: bool,
}

impl Control {
    /// The margin of verdicts: the least one, or what this machine resolves.
    pub fn margin(&self) -> f64 {
        self.resolution.unwrap_or(0.0).max(LEAST_MARGIN)
    }
}

/// Judges control pairs: what is known of the ratio of each, and the seed for drawing its passes again.
///
/// **Resolution**: for every control pair the passes are drawn again 2,000 times; the resolution is the 95th percentile
/// of |ratio - 1| over the resamples of all pairs. A resample carries the pair's own error and the resampling's, so with
/// one pair the value errs on the large side (at most a factor of about 1.4), which is the safe side of a margin.
///
/// **Failed**: a control's interval lies wholly outside +-2 % and its test stands after Holm over the controls. The fixed
/// margin is used because the resolution comes from the same numbers.
pub fn control(pairs: &[(Box<dyn Evidence>, u64)]) -> Control {
    let judged: Vec<_> = pairs.iter().filter(|(evidence, _)| evidence.p().is_some()).collect();
    let levels = holm_levels(&judged.iter().map(|(evidence, _)| evidence.p()).collect::<Vec<_>>());
    let failed = judged.iter().zip(levels).any(|((evidence, _), level)| {
        matches!(judge(evidence.as_ref(), level, LEAST_MARGIN, false).verdict, Verdict::Better | Verdict::Worse)
    });
    let again = judged.iter().flat_map(|(evidence, seed)| evidence.redrawn(RESAMPLES, *seed));
    let mut errors: Vec<f64> = again.map(|d| (d.exp() - 1.0).abs()).collect();
    let resolution = (!errors.is_empty()).then(|| percentile(&mut errors, 0.95)).filter(|error| error.is_finite());
    Control { resolution, failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired::paired;
    use crate::simulate::round_effects;

    /// A control that differs from its baseline by `factor`, 40 passes.
    fn of(spread: f64, factor: f64) -> Control {
        let d: Vec<f64> = round_effects(3, 40, factor, spread).into_iter().map(f64::ln).collect();
        control(&[(Box::new(paired(&d, 1, 1).unwrap()), 7)])
    }

    #[test]
    fn noise_sets_the_margin_and_a_difference_voids_the_run() {
        let (quiet, loud) = (of(0.005, 1.0), of(0.3, 1.0));
        assert!(!quiet.failed && quiet.margin() == LEAST_MARGIN, "{quiet:?}");
        assert!(!loud.failed && loud.margin() > 0.05, "{loud:?}");
        assert!(of(0.01, 1.1).failed && !of(0.01, 1.01).failed);
    }

    #[test]
    fn four_passes_are_no_control() {
        assert_eq!(control(&[(Box::new(paired(&[0.5; 4], 1, 1).unwrap()), 7)]), Control::default());
        assert_eq!((control(&[]), Control::default().margin()), (Control::default(), LEAST_MARGIN));
    }
}
