//! The modules of `msgpath-agent` alone, for a fuzz target.

pub mod server;
