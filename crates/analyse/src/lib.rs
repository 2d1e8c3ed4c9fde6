//! From the record to findings: pure functions, no clock, no I/O.
#![forbid(unsafe_code)]

pub mod answers;
mod association;
pub mod attribution;
pub mod between;
pub mod calm;
pub mod causes;
pub mod compare;
pub mod control;
pub mod cost;
pub mod crossover;
pub mod diff;
pub mod events;
pub mod expected;
pub mod findings;
pub mod first;
pub mod heat;
#[cfg(test)]
mod known_answers;
pub mod load_curve;
pub mod logs;
pub mod open_loop;
pub mod paired;
pub mod peel;
pub mod periodic;
pub mod pooled;
pub mod quantile;
pub mod refine;
mod resample;
pub mod restarts;
pub mod ridge;
mod robust;
pub mod rpc;
pub mod series;
pub mod settled;
pub mod shape;
pub mod spectrum;
pub mod stages;
mod stats;
pub mod steady;
pub mod strips;
pub mod summarise;
pub mod summary;
pub mod tails;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testing_queue;
#[cfg(test)]
mod testing_rpc;
#[cfg(test)]
mod testing_trace;
pub mod threads;
pub mod throughput;
pub mod trials;
mod verdict;
pub mod verify;

pub use logs::Logs;
pub use summarise::{summarise, summarise_with};
pub use summary::Summary;
