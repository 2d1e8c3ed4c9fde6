//! From the record to findings: pure functions, no clock, no I/O.
#![forbid(unsafe_code)]

pub mod attribution;
pub mod between;
pub mod calm;
pub mod causes;
pub mod clocks;
pub mod compare;
pub mod control;
pub mod cost;
pub mod crossover;
pub mod diff;
pub mod events;
pub mod expected;
pub mod findings;
pub mod first;
pub mod gates;
pub mod heat;
#[cfg(test)]
mod known_answers;
pub mod layers;
pub mod load_curve;
pub mod logs;
pub mod mesh;
pub mod one_way;
pub mod open_loop;
mod order;
pub mod periodic;
pub mod refine;
pub mod restarts;
pub mod round_line;
pub mod rpc;
pub mod sample;
pub mod series;
pub mod settled;
pub mod spectrum;
pub mod stages;
pub mod stretches;
pub mod strips;
pub mod summarise;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(any(test, feature = "testing"))]
pub mod testing_queue;
#[cfg(any(test, feature = "testing"))]
pub mod testing_rpc;
#[cfg(test)]
mod testing_trace;
pub mod threads;
pub mod throughput;
pub mod tracers;
pub mod trials;
pub mod verify;
pub mod watch;
pub mod words;

pub use logs::Logs;
pub use summarise::{summarise, summarise_with};
pub use summary::Summary;
