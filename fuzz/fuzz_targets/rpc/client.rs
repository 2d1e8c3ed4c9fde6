//! The modules alone, for a fuzz target.

#[path = "../../../features/calls/src/agent/client/orders.rs"]
pub mod orders;
