//! What was tried beside a case: a trial of the run, and how it is written.

use msgpath_core::plan::{Change, Metric};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady;

use super::Input;
use crate::summary::{CaseSummary, TrialResult};

/// The trial of `case` with a change that `wanted` accepts.
pub(super) fn trial<'a>(
    input: &Input<'a>,
    case: &CaseSummary,
    wanted: impl Fn(&Change) -> bool,
) -> Option<&'a TrialResult> {
    input.summary.trials.iter().find(|trial| trial.of == case.case.id && wanted(&trial.change))
}

/// Whether both halves of the run lie on the side of the whole.
pub(super) fn halves_agree(input: &Input, trial: &TrialResult) -> bool {
    let d = log_ratios(&input.series[trial.case as usize], &input.series[trial.of as usize]);
    steady::halves_agree(&d.into_iter().map(|(_, d)| d).collect::<Vec<_>>())
}

/// `p50 from 44.0 ms to 28.0 µs`: the case, then the trial.
pub(super) fn from_to(input: &Input, trial: &TrialResult) -> String {
    let write = |value: f64| match input.plan.metric() {
        Metric::Throughput => bits_per_second(value, BitUnits::Si),
        _ => Glyphs::Unicode.time(value),
    };
    format!("{} from {} to {}", input.plan.metric().name(), write(trial.case_value), write(trial.value))
}
