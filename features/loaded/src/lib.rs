//! Latency under load: `msgpath loaded`. An echo in idle rounds and in rounds beside which streams load the same link, in turn, and
//! where the time that the load adds stands.
//!
//! | module | what |
//! |---|---|
//! | `verb`, `workload` | what is typed; what its messages do |
//! | `run` | begins and ends the load around the rounds, when it is steady |
//! | `agent` | a session that reads the queues of its machine, as a role |
//! | `probes` | new connections beside the load: workload, what both ends do |
//! | `record` | what was read beside each round |
//! | `analyse`, `findings` | the time that is added, and where it stands |
//! | `shapes` | whole distributions, with and without what goes on beside |
//! | `mix` | other workloads beside the cases of any run, each switched off in turn: `--beside`, `--under-load` |
//! | `present` | the view on a terminal, the figure, the object in the JSON |
#![forbid(unsafe_code)]

mod agent;
pub mod analyse;
pub mod findings;
pub mod mix;
pub mod present;
pub mod probes;
pub mod record;
mod run;
pub mod section;
pub mod shapes;
#[cfg(test)]
mod testing;
mod verb;
pub mod workload;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    workloads: &[&workload::LOADED, &probes::PROBES],
    works: &[&probes::WORK],
    sections: &[&section::SECTION],
    views: &[&present::SECTION],
    schema: present::SCHEMA,
    verbs: &[AnyVerb::of::<verb::Arguments>()],
    roles: &[agent::QUEUES],
    besides: &[&mix::typed::Mix],
    ..NOTHING
};
