//! Many hosts: which pairs, in which steps, and their measurement. The coordinator measures nothing: it starts an agent on
//! each host, once, and orders pair after pair from two of them.

mod door;
mod execute;
mod fleet;
mod pair;
pub mod schedule;

#[cfg(test)]
pub(crate) use door::tests as door_tests;
pub use door::{Door, Expected};
pub use execute::{Agents, MeshProgress, Outcome, Suspects, execute, pairs, resources, resume, time_of_a_pair};
