//! The RPC lab's two ends.

pub mod client;
pub mod own;
pub mod server;
