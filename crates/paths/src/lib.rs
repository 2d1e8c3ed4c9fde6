//! Transports, send methods and waits, and the registry that names them all.
//!
//! A path is one of each. A transport makes a *channel* of one of several families (socket, pipe, queue, ring ...); a send
//! method and a wait are written over a family or over a capability of it, so that each serves every transport that
//! has it. [`registry::with_ends`] turns a path's name into a generic call: nothing in the measured loop is looked up
//! by name, the send method is called directly, and the wait as well where it enters no kernel. A loop that only sends, or only receives, is made once for each method or wait:
//! [`registry::with_senders`], [`registry::with_receivers`].
//!
//! Transports of another crate, the layers, are listed behind its own when the program begins: [`registry::add`].
//!
//! To add one, copy `methods/write.rs`, `waits/block.rs` or `transports/fifo.rs` and add its line in `registry.rs`.
//!
//! What is true of a path (`Traits` in `core`: lossy, framed, connects, over IP, which kernel events bound its stages, who
//! copies, whether its wait keeps the CPU ...) is declared in the files of its parts and copied into every case of the record.
//! `run`, `analyse` and `present` ask the traits. `tests/traits.json` holds those of every path, for tests that do not see the
//! registry.
//!
//! Transports of another crate are listed behind its own by `registry::add`, before anything asks for one. `layer.rs` has the channel of such a
//! *layer*, a protocol that a library speaks over a connection: whole messages in, whole messages out, through a table, a nanosecond
//! beside the microseconds of a library.
//!
//! Invariant: names of parts stand in their files, in presets, in what replaces course programs and in
//! documents; `tests/program/borders.rs` keeps the list of the few other places.
//!
//! Invariant: no loop over messages and no statistic. Invariant: what is measured is never
//! called through a table; the measured loop gets concrete types. The library of a layer is the exception. Invariant: a method owns the buffers it sends from,
//! so zero copy can keep them until the kernel lets go.
#![forbid(unsafe_code)]

pub mod another;
pub mod channel;
pub mod end;
pub mod layer;
pub mod meta;
pub mod methods;
pub mod registry;
pub mod transport;
pub mod transports;
pub mod waits;

pub use channel::{
    AnyChannel, Breaker, Channel, Fds, Limits, Looks, Packet, Pipe, Polled, Queue, Receive, RingEnd, Socket, XskEnd,
};
pub use end::{AnyMethod, AnyWait, End, Layout, Method, NewMethod, NewWait, Wait};
pub use layer::{Layer, Layered};
pub use meta::{Family, Meta, Part, TransportMeta, Wakes};
pub use methods::sendfile::most_unread;
pub use registry::{
    Driver, Entry, ReceiverDriver, SenderDriver, all, is_lossy, resolve, traits, transport, with_ends, with_receivers,
    with_senders,
};
pub use transport::{Need, Offer, Transport};
