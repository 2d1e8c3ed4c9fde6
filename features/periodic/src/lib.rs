//! Messages by a clock, one to many: `msgpath periodic`. Processes, each with components that send a message every period to all
//! others.
//!
//! | module | what |
//! |---|---|
//! | `agent` | one of the processes |
//! | `run` | starts them, and makes a record of what they say; `aside`: beside the rounds of another run |
//! | `workload`, `record` | what its messages do, what the header of its runs has |
//! | `section`, `log`, `analyse`, `findings` | times of each engine, what the processes did beside |
//! | `present` | the view on a terminal, the figures, the object in the JSON |
//! | `verb` | what is typed |
#![forbid(unsafe_code)]

pub mod agent;
pub mod analyse;
pub mod findings;
pub mod log;
pub mod present;
pub mod record;
pub mod run;
pub mod section;
#[cfg(test)]
mod tests;
mod verb;
pub mod workload;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    workloads: &[&workload::PERIODIC],
    sections: &[&section::SECTION],
    views: &[&present::SECTION],
    schema: present::SCHEMA,
    verbs: &[AnyVerb::of::<verb::Arguments>()],
    traffic: &[&run::aside::KIND],
    roles: &[agent::process::SESSION],
    ..NOTHING
};
