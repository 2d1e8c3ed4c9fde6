//! Runs of calls: the client's commands, and a server of a run's own.

pub mod client;
pub mod own;
mod spent;
pub mod who;
