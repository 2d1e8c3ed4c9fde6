//! The modules of `msgpath-agent` alone, for a fuzz target.

#[path = "../../../crates/agent/src/rpc/client/orders.rs"]
pub mod orders;
