//! From the record to findings: pure functions, no clock, no I/O.
#![forbid(unsafe_code)]

pub mod compare;
pub mod control;
pub mod cost;
pub mod crossover;
pub mod findings;
pub mod pooled;
pub mod quantile;
pub mod series;
pub mod shape;
mod stats;
pub mod steady;
pub mod summarise;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod throughput;
pub mod trials;

pub use summarise::summarise;
pub use summary::Summary;
