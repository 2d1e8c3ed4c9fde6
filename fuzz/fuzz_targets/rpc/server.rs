//! The modules alone, for a fuzz target.

#[path = "../../../features/calls/src/agent/server/options.rs"]
mod options;

pub use options::ServerOptions;
