//! Layers: protocols on top of a path, each spoken by the library that people use for it. What such a layer adds to the bare path is
//! measured as any path is: each is a transport of the registry, once `register` has listed it.
//!
//! A layer takes the connections of the transport beneath (its keys, its socket options), gives each to a library, and offers whole
//! messages above ([`Layer`](msgpath_paths::Layer)). One message is one request of a connection that stays. Libraries that need a
//! runtime have one a connection, which runs in the measuring thread, while that thread waits: what it costs is part of what the
//! layer adds, and `tokio`, which adds nothing else, says how much that is.
#![forbid(unsafe_code)]
#![cfg(feature = "libraries")]

mod grpc;
mod http;
mod inbox;
mod probe;
mod quic;
mod runtime;
mod stack;
mod tls;
mod tokio_tcp;

pub use stack::Stack;

use msgpath_paths::{Transport, registry};
use msgpath_verbs::feature::{Feature, NOTHING};

pub static FEATURE: Feature = Feature { begin: register, ..NOTHING };

/// Every layer, those with fewer layers beneath first.
pub static LAYERS: &[&dyn Transport] =
    &[&tokio_tcp::TOKIO, &tls::TLS, &http::HTTP1, &http::HTTP2, &http::HTTPS2, &grpc::GRPC, &quic::QUIC];

/// Lists the layers among the transports. Before anything else asks for one.
pub fn register() {
    registry::add(LAYERS);
}
