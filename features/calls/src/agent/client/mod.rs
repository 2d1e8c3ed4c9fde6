//! An end that calls a server: its orders, connections, what goes over them, the loops, and the team of threads.
//!
//! A call is built before its time begins, sent by one call of the kernel, and read into a buffer that is there already.
//! Threads keep their connections for the whole run; between two rounds they wait, and the round is recorded.

mod calling;
mod connection;
pub mod http;
mod ledger;
pub mod login;
mod loops;
mod maker;
mod memory;
pub mod orders;
mod part;
pub mod redis;
mod team;
pub mod wire;

pub use calling::SESSION;
