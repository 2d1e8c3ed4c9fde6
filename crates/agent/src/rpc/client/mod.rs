//! What calls a server: connections, what goes over them, the loops, and the team of threads.
//!
//! A call is built before its time begins, sent by one call of the kernel, and read into a buffer that is there already.
//! Threads keep their connections for the whole run; between two rounds they wait, and the round is recorded.

pub mod connection;
pub mod http;
pub mod ledger;
pub mod loops;
pub mod maker;
pub mod part;
pub mod redis;
pub mod team;
pub mod wire;
