//! An end that calls a server: its orders, connections, what goes over them, the loops, and the team of threads.
//!
//! A call is built before its time begins, sent by one call of the kernel, and read into a buffer that is there already.
//! Threads keep their connections for the whole run; between two rounds they wait, and the round is recorded.

//!
//! TLS is between a connection and its socket (`stream`); a connection of HTTP/2 has several calls under way, each a stream (`http2`).
//! Both are there with the cargo feature `tls`, and `without` stands in for them where it is off.

mod calling;
pub mod cluster;
mod connection;
pub mod http;
#[cfg(feature = "tls")]
mod http2;
mod ledger;
pub mod login;
mod loops;
mod maker;
mod memory;
pub mod orders;
mod part;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod redis;
mod stream;
#[cfg(feature = "tls")]
mod streams;
mod team;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without.rs"]
mod tls;
mod together;
pub mod wire;

#[cfg(not(feature = "tls"))]
use {tls as http2, tls as streams};

use msgpath_core::{Exit, Problem};

pub use calling::SESSION;

/// Whether this build speaks TLS and HTTP/2.
pub const TLS: bool = cfg!(feature = "tls");

/// E136: this build does not.
pub fn lacking(what: &str) -> Problem {
    Problem::new("E136", Exit::Usage, format!("this build has no TLS and no HTTP/2, which {what} needs"))
        .hint("cargo build --release --features tls")
}
