//! How long a preset will take, said before it starts.

use msgpath_core::Problem;
use msgpath_core::plan::{Extent, Plan};
use msgpath_core::preset::Preset;

use crate::cli;

/// Pilot and preparation of a case, ns, as seen on small machines.
const PILOT: u64 = 150_000_000;

/// What a preset will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Runs.
    pub(crate) runs: u64,
    /// Cases of those runs that say how many they have.
    pub(crate) cases: u64,
    /// Time that they are planned for, ns.
    pub(crate) ns: u64,
    /// Runs whose length depends on what answers them.
    pub(crate) unknown: u64,
}

/// Adds up what the runs of a preset are planned for.
///
/// # Errors
/// A run that cannot be planned: what was typed does not fit.
pub(crate) fn estimate(preset: &Preset, typed: &[String]) -> Result<Estimate, Problem> {
    let mut sum = Estimate { runs: preset.runs.len() as u64, ..Estimate::default() };
    for run in &preset.runs {
        match cli::planned(&run.command(&super::by_long_names(&run.verb, typed)))? {
            Some(cli::Planned::Plan(plan)) => {
                sum.cases += plan.cases.len() as u64;
                sum.ns += planned_ns(&plan);
            }
            Some(cli::Planned::Time { cases, ns }) => {
                sum.cases += cases;
                sum.ns += ns;
            }
            None => sum.unknown += 1,
        }
    }
    Ok(sum)
}

/// Counts without a rate take as long as the path makes them; a case of a count is held for 1 s.
fn planned_ns(plan: &Plan) -> u64 {
    let of = |case: &msgpath_core::Case| match (plan.extent, case.load.rate()) {
        (Extent::Time(ns), _) => ns,
        (Extent::Count(count), Some(rate)) => (count as f64 / rate.value() * 1e9) as u64,
        (Extent::Count(_), None) => 1_000_000_000,
    };
    plan.cases.iter().map(|case| of(case) + plan.warmup_ns + PILOT).sum()
}
