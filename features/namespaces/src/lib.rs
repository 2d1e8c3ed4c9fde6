//! Network namespaces on this machine, joined by virtual links: `msgpath lab`, and `--between` of the verbs that measure.
//!
//! | module | what |
//! |---|---|
//! | `verb` | `msgpath lab up`, `status`, `down` |
//! | `between` | `--between` and `--link`: the places of a run, those that are named and those that are made for it |
//! | `present` | `lab status --json`, and its part of the schema |
//! | `lab` | labs, kept and held; the relay that delays and loses where the kernel has no netem |
//!
//! A lab that a run makes for itself has no name: its two namespaces are held by the coordinator and by a child of it, and end with
//! them, whatever ends these. A lab of `msgpath lab up` is written down before it is made; what is not written down is never removed.
#![forbid(unsafe_code)]

mod between;
mod lab;
mod present;
mod verb;

use std::process::ExitCode;

use msgpath_verbs::feature::{Feature, NOTHING, Process};
use msgpath_verbs::verb::AnyVerb;

pub static FEATURE: Feature = Feature {
    verbs: &[AnyVerb::of::<verb::Arguments>()],
    places: Some(&between::Labs),
    schema: present::SCHEMA,
    processes: &[
        Process {
            name: lab::HOLDER,
            run: |_| {
                lab::hold()?;
                Ok(ExitCode::SUCCESS)
            },
        },
        Process {
            name: lab::RELAY,
            run: |_| {
                lab::relay()?;
                Ok(ExitCode::SUCCESS)
            },
        },
    ],
    ..NOTHING
};
