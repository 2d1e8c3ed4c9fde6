//! Calls of a server: `msgpath rpc`, in the words of the RPC lab, of Redis and of HTTP; and a server of the lab, `msgpath serve --rpc`.
//!
//! | module | what |
//! |---|---|
//! | `agent` | an end that calls, as a role of a session; the key-value server |
//! | `run` | commands become cases, and calls a record; a server of a run's own |
//! | `workload`, `record` | what calls do; what a run keeps of its calls; logs of others, formats |
//! | `section`, `analyse`, `findings` | whose clock is how far off, where the time of each kind of call goes |
//! | `present` | the view on a terminal, the figures, the object in the JSON |
//! | `verb`, `serve`, `import` | what is typed |
//!
//! The near end of an RPC run is an agent as that of an echo; its far end is a server that others may have written. It
//! connects once (`Call`) and keeps its connections and threads for the whole run. Of a round it is told as of a round of messages:
//! `Calls`, `Ready`, `Go`, `Over`, `Finish`, then rows and what was counted; a `Finish` before `Over` ends the round, which is how an
//! interruption gets there. The coordinator reads what the two processes spent before `Go` and after `Over`. Calls of one kind are a case,
//! their slices rounds, so that everything that knows cases and rounds works on them; the calls themselves, with all stamps as
//! both clocks had them, are a log of their own. Clocks are aligned when it is read, never when it is written.
#![forbid(unsafe_code)]

pub mod agent;
pub mod analyse;
pub mod findings;
mod import;
pub mod log;
pub mod present;
pub mod record;
pub mod run;
pub mod section;
mod serve;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod verb;
pub mod workload;

use msgpath_record::AnyLog;
use msgpath_verbs::feature::{Feature, NOTHING};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    workloads: &[&workload::CALLS],
    sections: &[&section::SECTION],
    views: &[&present::SECTION],
    logs: &[AnyLog::of::<record::RpcRow>()],
    importers: &[import::IMPORTER],
    exporters: record::export::EXPORTERS,
    schema: present::SCHEMA,
    verbs: &[AnyVerb::of::<verb::Arguments>()],
    servers: &[&serve::OfTheLab],
    roles: &[agent::client::SESSION, run::own::SESSION],
    begin: || msgpath_run::who::add(&run::who::MEASURES),
    ..NOTHING
};
