//! Calls of a server by name (the RPC lab, Redis, HTTP): client, server, logs in and out, whose clock is how far off, where the time
//! of each kind of call goes.
#![forbid(unsafe_code)]

pub mod analyse;
pub mod findings;
pub mod present;
pub mod section;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
