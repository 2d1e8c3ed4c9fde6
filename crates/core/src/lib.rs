//! The words of msgpath as plain values: what a path is called, what a plan holds, how sizes and times are
//! written, and the schema of the record. Nothing here touches the kernel, a file or a clock.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod calm;
pub mod carried;
pub mod counts;
pub mod doctor;
pub mod explained;
pub mod foreign;
pub mod gate;
pub mod group;
pub mod histogram;
pub mod launch;
pub mod parts;
pub mod path;
pub mod plan;
pub mod plugged;
pub mod problem;
pub mod program;
pub mod remedy;
pub mod resume;
pub mod schedule;
pub mod schema;
pub mod settling;
pub mod shuffle;
pub mod target;
pub mod traits;
pub mod units;
pub mod varint;
pub mod watch;
pub mod workload;

pub use counts::{CallCounts, Delivery, ZeroCopyCounts};
pub use histogram::{Histogram, SparseHistogram};
pub use launch::Launch;
pub use path::{PathName, PathSpec};
pub use plan::{Case, CaseRole, Plan};
pub use problem::{Exit, Problem, Unavailable};
pub use program::Program;
pub use target::Target;
pub use traits::Traits;
pub use workload::Workload;
