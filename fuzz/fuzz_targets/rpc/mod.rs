//! The modules alone, for a fuzz target.

pub mod client;
#[allow(dead_code, unused_imports)]
pub mod server;
