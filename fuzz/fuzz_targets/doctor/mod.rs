//! The modules of `msgpath-run` alone, for a fuzz target.

#[path = "../../../crates/run/src/doctor/cgroup.rs"]
pub mod cgroup;
#[path = "../../../crates/run/src/doctor/read.rs"]
pub mod read;
