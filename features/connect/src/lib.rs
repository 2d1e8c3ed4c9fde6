//! Connections: `msgpath connect`. How many a second can be made, how long connecting takes, and how long it is until the first byte of
//! a reply.
//!
//! | module | what |
//! |---|---|
//! | `agent` | what the measuring threads do instead of the loops of the base: one end opens connections, the other answers on them |
//! | `workload`, `record` | what a connection does; what a run is asked, and what each of its threads saw |
//! | `section`, `findings` | times of connecting, what failed and why |
//! | `present` | what stands below the usual view, the object in the JSON |
//! | `verb` | what is typed |
//!
//! A message of this workload is a connection. Orders, pilot, rounds, schedules and record are those of an echo; the connections with which
//! a round of the base begins stay idle beside those that are measured, and tell the far end when the round is over.
#![forbid(unsafe_code)]

mod agent;
pub mod findings;
mod present;
mod record;
mod section;
mod verb;
mod workload;

use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    verbs: &[AnyVerb::of::<verb::Arguments>()],
    workloads: &[&workload::CONNECT],
    works: &[&agent::CONNECTIONS],
    sections: &[&section::SECTION],
    views: &[&present::SECTION],
    schema: present::SCHEMA,
    ..NOTHING
};
