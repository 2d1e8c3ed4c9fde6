//! The modules of `msgpath-agent` alone, for a fuzz target.

#[path = "../../../crates/agent/src/rpc/server/options.rs"]
mod options;

pub use options::ServerOptions;
