//! How long a preset will take, said before it starts.

use msgpath_core::Problem;
use msgpath_courses::preset::Preset;
use msgpath_courses::preset::estimate::{ROUND, between_rounds, planned_ns};
use msgpath_record::store;

use crate::{cli, runs};

/// So many of the newest runs are looked at for what this machine takes around its rounds.
const LOOKED_AT: usize = 5;

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
    let around = around_rounds();
    for run in &preset.runs {
        match cli::planned(&run.command(&super::by_long_names(&run.verb, typed)))? {
            Some(cli::Planned::Plan(plan)) => {
                sum.cases += plan.cases.len() as u64;
                sum.ns += planned_ns(&plan, around);
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

/// What a round takes beside its messages, by the newest kept run that tells.
fn around_rounds() -> u64 {
    let newest = store::list(&store::default_root()).into_iter().take(LOOKED_AT);
    newest.filter_map(|listed| between_rounds(&runs::read(&listed.folder).ok()?.rounds)).next().unwrap_or(ROUND)
}
