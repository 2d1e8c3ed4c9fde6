//! How long a preset will take, said before it starts.

use crate::preset::estimate::{Pace, planned_ns, probe};
use crate::preset::{Preset, PresetRun};
use msgpath_core::{Plan, Problem, Target};
use msgpath_sys::signal;
use msgpath_tools::{self as tools, installed};

use msgpath_verbs::place::Place;
use msgpath_verbs::{command, progress, runs};

/// What a preset will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) runs: u64,
    /// Cases of those runs that say how many they have.
    pub(crate) cases: u64,
    /// Time that they are planned for, ns.
    pub(crate) ns: u64,
    /// Runs whose length depends on what answers them.
    pub(crate) unknown: u64,
}

/// Adds up what the runs of a preset are planned for. `measured`: by what rounds take on this machine now, else by what they usually do.
///
/// # Errors
/// A run that cannot be planned: what was typed does not fit.
pub(crate) fn estimate(preset: &Preset, typed: &[String], measured: bool) -> Result<Estimate, Problem> {
    let mut sum = Estimate { runs: preset.runs.len() as u64, ..Estimate::default() };
    let pace = measured.then(pace_here).flatten().unwrap_or(Pace::USUAL);
    for run in &preset.runs {
        match command::planned(&super::typed::words(preset, run, typed)?)? {
            Some(msgpath_verbs::verb::Planned::Plan(mut plan)) => {
                plan.declare(msgpath_paths::traits);
                sum.cases += plan.cases.len() as u64;
                sum.ns += planned_ns(&plan, pace) + of_tools(run, &plan);
            }
            Some(msgpath_verbs::verb::Planned::Time { cases, ns }) => {
                sum.cases += cases;
                sum.ns += ns;
            }
            None => sum.unknown += 1,
        }
    }
    Ok(sum)
}

/// What the tools of others take that a run has between its rounds.
fn of_tools(run: &PresetRun, plan: &Plan) -> u64 {
    let asked = run.options.iter().filter(|option| option.name == "tools").filter_map(|option| option.value.as_deref());
    let named: Vec<_> = asked.flat_map(|value| value.split(',')).filter_map(|name| tools::named(name).ok()).collect();
    tools::planned_ns(plan, &tools::wanted(&named), installed)
}

/// What rounds take on this machine, by a run of less than a second that is not kept.
fn pace_here() -> Option<Pace> {
    let place = Place::temporary().ok()?;
    let request = msgpath_run::Request {
        plan: probe(),
        target: Target::Local,
        verb: "echo".into(),
        command: Vec::new(),
        name: place.name.clone(),
        folder: place.folder.clone(),
        kept: false,
        parts: Default::default(),
    };
    msgpath_run::execute(request, progress::silent().as_mut(), &mut |_| Vec::new(), signal::stop_flag()).ok()?;
    Pace::of(&runs::read(&place.folder).ok()?.rounds)
}
