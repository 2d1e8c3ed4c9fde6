//! The modules of `msgpath-run` alone, for a fuzz target.

#[path = "../../../crates/run/src/periodic/mac.rs"]
pub mod mac;
#[path = "../../../crates/run/src/periodic/orders.rs"]
pub mod orders;
