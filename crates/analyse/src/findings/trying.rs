//! What was tried beside a case: an ablation of the run, and how it is written.

use msgpath_core::plan::{Change, Metric};
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_stats::paired::log_ratios;
use msgpath_stats::steady;

use super::Input;
use crate::summary::{AblationResult, CaseSummary};

/// The ablation of `case` with a change that `wanted` accepts.
pub fn ablation<'a>(
    input: &Input<'a>,
    case: &CaseSummary,
    wanted: impl Fn(&Change) -> bool,
) -> Option<&'a AblationResult> {
    input.summary.ablations.iter().find(|ablation| ablation.of == case.case.id && wanted(&ablation.change))
}

/// Whether both halves of the run lie on the side of the whole.
pub(super) fn halves_agree(input: &Input, ablation: &AblationResult) -> bool {
    let d = log_ratios(&input.series[ablation.case as usize], &input.series[ablation.of as usize]);
    steady::halves_agree(&d.into_iter().map(|(_, d)| d).collect::<Vec<_>>())
}

/// `p50 from 44.0 ms to 28.0 µs`: the case, then the ablation.
pub(super) fn from_to(input: &Input, ablation: &AblationResult) -> String {
    let write = |value: f64| match input.plan.metric() {
        Metric::Throughput => bits_per_second(value, BitUnits::Si),
        _ => Glyphs::Unicode.time(value),
    };
    format!("{} from {} to {}", input.plan.metric().name(), write(ablation.case_value), write(ablation.value))
}
