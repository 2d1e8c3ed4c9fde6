//! The two ends of calls: a server, and what calls one.

pub mod client;
pub mod server;
