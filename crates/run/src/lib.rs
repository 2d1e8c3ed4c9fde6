//! Executes a plan: the message loops, the agent and its wire, the environment. Writes through `record`.
#![forbid(unsafe_code)]

pub mod environment;
mod execute;
mod far;
pub mod loops;
mod near;
pub mod payload;
pub mod place;
mod serve;
mod team;
mod thread;
pub mod wire;

pub use execute::{Progress, Request, execute};
pub use far::{Lease, Peer, agent, session};
pub use serve::{ServeAddress, ServeOptions, serve};
