//! How long a preset will take, said before it starts.

use std::sync::atomic::AtomicBool;

use msgpath_core::plan::{Extent, Plan, Workload};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, PathName, Problem, Target};
use msgpath_courses::preset::Preset;
use msgpath_courses::preset::estimate::{ROUND, between_rounds, planned_ns};
use msgpath_record::store;

use crate::place::Place;
use crate::{cli, progress, runs};

/// So many of the newest runs are looked at for what this machine takes around its rounds.
const LOOKED_AT: usize = 5;

/// Rounds of a run that is only to tell what they take, and messages in each.
const PROBED: (u32, u64) = (24, 8);

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

/// Adds up what the runs of a preset are planned for. `probe`: where no kept run tells what a round takes beside its messages, a
/// short one does, which is not kept.
///
/// # Errors
/// A run that cannot be planned: what was typed does not fit.
pub(crate) fn estimate(preset: &Preset, typed: &[String], probe: bool) -> Result<Estimate, Problem> {
    let mut sum = Estimate { runs: preset.runs.len() as u64, ..Estimate::default() };
    let around = around_rounds().or_else(|| probe.then(probed).flatten()).unwrap_or(ROUND);
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
fn around_rounds() -> Option<u64> {
    let newest = store::list(&store::default_root()).into_iter().take(LOOKED_AT);
    newest.filter_map(|listed| between_rounds(&runs::read(&listed.folder).ok()?.rounds)).next()
}

/// What a round takes beside its messages, by a run of less than a second.
fn probed() -> Option<u64> {
    let (rounds, messages) = PROBED;
    let path: PathName = "tcp:send".parse().ok()?;
    let plan = Plan::new(Workload::Echo, vec![Case::new(path, Pieces::whole(64))]);
    let plan =
        Plan { extent: Extent::Count(u64::from(rounds) * messages), rounds, warmup_ns: 0, extend: false, ..plan };
    let place = Place::temporary();
    let request = msgpath_run::Request {
        plan,
        target: Target::Local,
        verb: "echo".into(),
        command: Vec::new(),
        name: place.name.clone(),
        folder: place.folder.clone(),
        kept: false,
    };
    msgpath_run::execute(request, progress::silent().as_mut(), &mut |_| Vec::new(), &AtomicBool::new(false)).ok()?;
    between_rounds(&runs::read(&place.folder).ok()?.rounds)
}
