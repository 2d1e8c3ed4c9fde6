//! The modules of `msgpath-agent` alone, for a fuzz target.

#[path = "../../../crates/agent/src/periodic/mac.rs"]
pub mod mac;
#[path = "../../../crates/agent/src/periodic/orders.rs"]
pub mod orders;
