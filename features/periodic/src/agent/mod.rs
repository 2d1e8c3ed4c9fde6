//! One process of a periodic run: components that send a message every period to all others.

pub mod engine;
pub mod group;
pub mod mac;
mod membership;
pub mod orders;
pub mod process;
