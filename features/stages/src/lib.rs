//! Stages: the kernel is traced at the ends of a message, and its time split into parts that add up. `msgpath explain`, `--stages`.
//!
//! | module | what |
//! |---|---|
//! | `log` | messages and kernel events of traced rounds |
//! | `section`, `analyse`, `findings` | which events belong to which message, the state of its receiver, means by slowness; sentences |
//! | `present` | the view on a terminal, figures, tables, the object in the JSON |
//! | `verb` | what is typed |
//!
//! The base traces: a plan with stages has a replica of each case, whose rounds an end begins and ends with its tracers on
//! (`agent::observe`, `run::traces`). What they saw is in the record; here it is read.
#![forbid(unsafe_code)]

pub mod analyse;
pub mod findings;
pub mod log;
pub mod present;
pub mod section;
#[cfg(test)]
mod testing;
mod verb;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    sections: &[&section::SECTION],
    views: &[&present::SECTION],
    schema: present::SCHEMA,
    verbs: &[AnyVerb::of::<verb::Arguments>()],
    ..NOTHING
};
