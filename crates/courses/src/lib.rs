//! What replaces the programs that people have written for courses: ready-made experiments, the pages that answer their
//! questions, and the other end of somebody's own client or server.
//!
//! It uses only what the other crates offer, and none of them knows it.
//!
//! | module | what |
//! |---|---|
//! | `preset` | an experiment as TOML data |
//! | `answers` | pages, made of the runs of a preset |
//! | `files` | pictures and files that a page has beside it |
//! | `classic` | lines, numbers and texts of the programs, without I/O |
//! | `peers` | their clients and servers |
//! | `servers` | small echo servers in other languages, built where their toolchain is |
//! | `tools` | measuring tools of others that do the same work between the rounds of a run |
#![forbid(unsafe_code)]

pub mod answers;
pub mod classic;
pub mod files;
#[cfg(feature = "peers")]
pub mod peers;
pub mod preset;
pub mod servers;
pub mod tools;
