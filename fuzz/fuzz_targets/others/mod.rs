//! The modules of `msgpath-run` alone, for a fuzz target.

#[path = "../../../crates/run/src/others/stat.rs"]
pub mod stat;
