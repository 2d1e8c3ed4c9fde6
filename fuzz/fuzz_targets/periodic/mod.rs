//! The modules alone, for a fuzz target.

#[path = "../../../features/periodic/src/agent/mac.rs"]
pub mod mac;
#[path = "../../../features/periodic/src/agent/orders.rs"]
pub mod orders;
