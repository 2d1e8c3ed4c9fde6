//! Protocols of calls as values. The RPC lab of *Understanding Software Dynamics*: its messages, its log, its names and numbers, byte
//! by byte. The framing of Redis and of HTTP. No I/O, no clock.
//!
//! Everything of the lab is little endian. A message is a [`Marker`], a [`Header`] and a body of length-prefixed strings.
#![forbid(unsafe_code)]

pub mod command;
pub mod console;
pub mod csv;
#[cfg(test)]
mod golden;
pub mod http;
pub mod json;
pub mod log;
pub mod message;
pub mod resp;
pub mod seed;
pub mod tenlg;

pub use message::{
    Header, HeaderError, Kind, MARKER_BYTES, MAX_BODY, MAX_HEADER, Marker, MarkerError, Method, RPC_HEADER_BYTES,
    Status, Telling, first_hash, put_string, take_string,
};
