//! Executes a plan: the message loops, the agent and its wire, the environment. Writes through `record`.
#![forbid(unsafe_code)]

mod capacity;
pub mod compat;
mod counters;
mod diagnose;
mod doctor;
mod ends;
pub mod environment;
pub mod event_loop;
mod execute;
mod far;
mod floors;
mod given_up;
pub mod greeting;
pub mod lab;
mod lateness;
pub mod loops;
mod memory;
mod near;
pub mod observe;
mod open;
mod orders;
mod others;
pub mod payload;
pub mod periodic;
mod pilot;
pub mod place;
mod plausible;
mod route;
pub mod rpc;
mod serve;
mod simulate;
mod speed;
mod suspects;
mod team;
mod thread;
mod twins;
mod who;
pub mod wire;

pub use diagnose::{DoctorRequest, WHO_ANSWERS, examine};
pub use execute::{NextStage, Progress, Request, execute};
pub use far::{Lease, Peer, Reach, Terms, agent, session};
pub use memory::Budget;
pub use serve::{ServeAddress, ServeOptions, serve};
pub use simulate::near_end;
pub use who::{Who, who};
