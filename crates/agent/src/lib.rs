//! An end: what a process does that takes part in a run.
//!
//! It gets orders over a stream of bytes, examines its machine, runs message loops in a team of threads, and reports what it
//! counted. It knows no plan, no case and no record: those are the coordinator's.
#![forbid(unsafe_code)]

mod ahead;
pub mod confine;
pub mod counters;
pub mod crowd;
pub mod doctor;
pub mod ends;
pub mod environment;
pub mod event_loop;
pub mod events;
pub mod failure;
pub mod floors;
mod given_up;
pub mod greeting;
pub mod handshake;
pub mod join;
pub mod last_output;
pub mod lateness;
pub mod launched;
pub mod loops;
pub mod memory;
mod meter;
pub mod namespace;
pub mod observe;
pub mod open;
mod pacer;
pub mod payload;
pub mod periodic;
pub mod plausible;
mod presence;
mod privileges;
pub mod program;
pub mod role;
pub mod route;
pub mod rpc;
pub mod seal;
mod send_costs;
pub mod serve;
mod session;
pub mod speed;
pub mod team;
pub mod thread;
pub mod token;
pub mod wire;

pub use memory::Budget;
pub use privileges::{Peer, Reach, Spinning};
pub use serve::{ServeAddress, ServeOptions, serve};
pub use session::{Begun, Lease, Terms, agent, session, started};
