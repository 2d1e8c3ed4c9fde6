//! The modules of `msgpath-agent` alone, for a fuzz target.

#[path = "../../../crates/agent/src/doctor/cgroup.rs"]
pub mod cgroup;
#[path = "../../../crates/agent/src/doctor/read.rs"]
pub mod read;
#[path = "../../../crates/agent/src/doctor/stat.rs"]
pub mod stat;
