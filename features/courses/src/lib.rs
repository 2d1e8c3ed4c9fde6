//! What replaces the programs that people have written for courses: ready-made experiments, the pages that answer their
//! questions, and the other end of somebody's own client or server.
//!
//! | module | what |
//! |---|---|
//! | `preset` | an experiment as TOML data |
//! | `answers` | pages, made of the runs of a preset |
//! | `files` | pictures and files that a page has beside it |
//! | `classic` | lines, numbers and texts of the programs, without I/O |
//! | `peers` | their clients and servers |
//! | `verbs` | `preset` and `compat`, and what they stand on |
#![forbid(unsafe_code)]

pub mod answers;
pub mod classic;
pub mod files;
#[cfg(feature = "peers")]
pub mod peers;
pub mod preset;
#[cfg(feature = "peers")]
mod verbs;

#[cfg(feature = "peers")]
pub use verbs::FEATURE;
