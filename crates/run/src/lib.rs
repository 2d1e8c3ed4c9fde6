//! Executes a plan: the message loops, the agent and its wire, the environment. Writes through `record`.
#![forbid(unsafe_code)]

mod counters;
mod diagnose;
mod doctor;
pub mod environment;
mod execute;
mod far;
mod floors;
mod lateness;
pub mod loops;
mod near;
mod open;
mod orders;
pub mod payload;
mod pilot;
pub mod place;
mod route;
mod serve;
mod speed;
mod suspects;
mod team;
mod thread;
pub mod wire;

pub use diagnose::{DoctorRequest, examine};
pub use execute::{NextStage, Progress, Request, execute};
pub use far::{Lease, Peer, agent, session};
pub use serve::{ServeAddress, ServeOptions, serve};
