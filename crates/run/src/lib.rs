//! The coordinator: reaches the ends, orders rounds, watches the kernel meanwhile, and writes the record.
#![forbid(unsafe_code)]

mod capacity;
mod diagnose;
mod execute;
pub mod lab;
pub mod launch;
mod link;
pub mod mesh;
mod orders;
mod others;
pub mod periodic;
mod pilot;
mod placement;
mod program;
mod reach;
mod replicas;
pub mod resume;
mod round;
pub mod rpc;
mod simulate;
mod suspects;
mod traces;
pub mod watch;
mod who;

pub use diagnose::{DoctorRequest, Examination, WHO_ANSWERS, examine};
pub use execute::{NextPhase, Progress, Request, execute};
pub use who::{Who, who};
