//! What is true of a path: declared in the files of its parts, copied into the record, asked by whoever must know
//! something of a path. No other crate compares names of parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which kernel events bound the stages of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// The IP stack: a device transmits and receives, and a socket says that it has data.
    Network,
    /// Packet sockets: the same without IP.
    Frames,
    /// Unix sockets: a socket says that it has data, without a device.
    Local,
    /// Pipes and message queues: neither; the wake-up is the first that is seen.
    #[default]
    Plain,
    /// Shared memory: the same, and a receiver that runs sees the store itself.
    Memory,
}

impl Stack {
    /// Whether packets go through a network device.
    pub fn has_device(self) -> bool {
        matches!(self, Stack::Network | Stack::Frames)
    }

    /// Whether a socket says that it has data.
    pub fn has_ready(self) -> bool {
        self.has_device() || self == Stack::Local
    }
}

/// Who copies a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copies {
    /// Not known.
    #[default]
    Unknown,
    /// The kernel, at the send call and at the receive call.
    Kernel,
    /// The program, into shared memory and out of it.
    Program,
    /// The kernel, once: from the memory of one process into that of the other.
    Once,
}

/// What is true of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Traits {
    /// Message boundaries are preserved (datagrams, queues); else bytes stream.
    #[serde(skip_serializing_if = "is_default")]
    pub framed: bool,
    /// Messages may be lost.
    #[serde(skip_serializing_if = "is_default")]
    pub lossy: bool,
    /// A connection is made by a call of its own, which takes time.
    #[serde(skip_serializing_if = "is_default")]
    pub connects: bool,
    /// Runs over IP.
    #[serde(skip_serializing_if = "is_default")]
    pub inet: bool,
    /// Hands frames to a network device as they are.
    #[serde(skip_serializing_if = "is_default")]
    pub device: bool,
    /// TCP: the kernel cuts segments, holds small ones back (Nagle), acknowledges, and keeps a congestion window.
    #[serde(skip_serializing_if = "is_default")]
    pub segments: bool,
    /// Which kernel events bound its stages.
    #[serde(skip_serializing_if = "is_default")]
    pub stack: Stack,
    /// Bytes of headers before a message in a packet as a device sees it, the likeliest first; empty: no packets.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<u16>,
    /// Who copies the bytes, and how often.
    #[serde(skip_serializing_if = "is_default")]
    pub copies: Copies,
    /// Each piece of a message is handed over by a call of its own.
    #[serde(skip_serializing_if = "is_default")]
    pub apart: bool,
    /// Zero copy is asked for in a way that the kernel ignores.
    #[serde(skip_serializing_if = "is_default")]
    pub asks_in_vain: bool,
    /// Zero copy: the receive buffer is charged by whole pages.
    #[serde(skip_serializing_if = "is_default")]
    pub pages: bool,
    /// Pages are lent, not copied: what the sender writes into its buffer after the call is what the receiver reads.
    #[serde(skip_serializing_if = "is_default")]
    pub lends: bool,
    /// A receive call takes several messages where the kernel has joined them.
    #[serde(skip_serializing_if = "is_default")]
    pub coalesces: bool,
    /// Pages are mapped into the receiver instead of copied, where they can be.
    #[serde(skip_serializing_if = "is_default")]
    pub maps: bool,
    /// The far end of an echo sends the pages back as they came, and never touches the payload.
    #[serde(skip_serializing_if = "is_default")]
    pub untouched: bool,
    /// The send method that hands all pieces over in one call; empty: there is none here, or this is it.
    #[serde(skip_serializing_if = "is_default")]
    pub joined_method: String,
    /// The wait that keeps its CPU; empty: there is none here, or this is it.
    #[serde(skip_serializing_if = "is_default")]
    pub spinning_wait: String,
    /// The receiver keeps its CPU and looks again and again.
    #[serde(skip_serializing_if = "is_default")]
    pub spins: bool,
    /// The receiver polls the device's queue inside its call.
    #[serde(skip_serializing_if = "is_default")]
    pub polls_device: bool,
    /// A thread of the kernel polls for the receiver, on a CPU of its own.
    #[serde(skip_serializing_if = "is_default")]
    pub polled: bool,
    /// The receiver waits for signals.
    #[serde(skip_serializing_if = "is_default")]
    pub signals: bool,
    /// The transport that it stands on, where a library speaks a protocol over it; empty: it is not a layer. System calls are then the
    /// library's own, and nobody counts them.
    #[serde(skip_serializing_if = "is_default")]
    pub over: String,
    /// The far end is a program of others: what it counts, and when its messages came, is not known.
    #[serde(skip_serializing_if = "is_default")]
    pub program: bool,
}

impl Traits {
    pub fn is_layer(&self) -> bool {
        !self.over.is_empty()
    }

    /// Whether the receiver keeps its CPU while it waits, in the program or in the kernel.
    pub fn never_sleeps(&self) -> bool {
        self.spins || self.polls_device
    }
}

/// What is not true takes no room in the record.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
