//! What every part says about itself: from here come the command line's values, help, manual and `msgpath paths`.

pub use msgpath_core::traits::{Copies, Stack};
use msgpath_sys::bell;

/// A part's name and its texts.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Lower case, `[a-z][a-z0-9-]*`.
    pub name: &'static str,
    /// One line, lower case, without a full stop.
    pub summary: &'static str,
    /// A paragraph for the manual: what the kernel does, copies made, kernel needed.
    pub manual: &'static str,
}

/// How a sender wakes a receiver that waits beside shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakes {
    /// It does not: the receiver looks, or its wait is one of a descriptor.
    #[default]
    Nobody,
    /// By the ring's own futex.
    Futex,
    Bell(bell::Kind),
}

/// Something with a [`Meta`].
pub trait Part {
    /// Its texts.
    const META: Meta;

    /// Whether it serves many connections of one thread in one epoll set: a wait that can be shared, a send method whose
    /// `send` goes on where it found no room.
    const IN_EVENT_LOOP: bool = false;

    /// Waits: the program keeps its CPU and looks again and again.
    const SPINS: bool = false;
    /// Waits: the kernel polls the device's queue in the receive call, where a device has one.
    const POLLS_DEVICE: bool = false;
    /// Waits: a thread of the kernel polls for the receiver, on a CPU of its own.
    const POLLED: bool = false;
    /// Waits: the receiver waits for signals.
    const SIGNALS: bool = false;
    /// Waits over shared memory: what the sender must do.
    const WAKES: Wakes = Wakes::Nobody;
    /// Send methods: each piece is handed over by a call of its own.
    const APART: bool = false;
    /// Send methods: all pieces go with one call, and the kernel gathers them.
    const JOINS: bool = false;
    /// Send methods: zero copy, which fills the receive buffer by whole pages.
    const PAGES: bool = false;
    /// Send methods: pages are lent until the receiver has read them.
    const LENDS: bool = false;
    /// Send methods: the far end of an echo sends back what came without touching it: [`crate::Method::relay`] receives there.
    const UNTOUCHED: bool = false;
    /// Waits: one receive call takes several messages where the kernel has joined them.
    const COALESCES: bool = false;
    /// Waits: pages are mapped into the receiver instead of copied, where they can be.
    const MAPS: bool = false;
    /// Waits: the receive call waits by itself, whatever it does with what comes.
    const IN_CALL: bool = false;
    /// Send methods: zero copy is asked for in a way that the kernel ignores.
    const ASKS_IN_VAIN: bool = false;

    /// Why it makes no sense on this transport; `Ok` where it does.
    ///
    /// # Errors
    /// The reason, lower case, without a full stop.
    fn fits(_transport: &TransportMeta) -> Result<(), &'static str> {
        Ok(())
    }
}

/// What kind of channel a transport makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// One socket for both directions.
    Socket,
    /// A descriptor to read and one to write.
    Pipe,
    /// POSIX message queues, one for each direction.
    Queue,
    /// System V message queues, one for each direction.
    SystemV,
    /// Rings in shared memory.
    Ring,
    /// Memory of both processes, which the receiver reads from the sender's.
    Process,
    /// Raw Ethernet: every frame names the MAC address that it goes to.
    Packet,
    /// The same, received out of a ring in memory.
    PacketRing,
    /// Raw Ethernet past the stack (AF_XDP).
    Xsk,
    /// A protocol that a library speaks over a socket.
    Layer,
}

/// A transport's texts and properties.
#[derive(Clone, Copy, Debug)]
pub struct TransportMeta {
    /// Name and texts.
    pub meta: Meta,
    /// The channel it makes.
    pub family: Family,
    /// Message boundaries are preserved (datagrams, queues); else bytes stream.
    pub framed: bool,
    /// Messages may be lost.
    pub lossy: bool,
    /// Runs over IP: who may reach this machine may measure it.
    pub inet: bool,
    /// Hands frames to a network device as they are: only for who may do so on this machine anyway.
    pub device: bool,
    /// A connection is made by a call of its own.
    pub connects: bool,
    /// TCP: segments, Nagle's algorithm, acknowledgements, a congestion window.
    pub segments: bool,
    /// Which kernel events bound its stages.
    pub stack: Stack,
    /// Bytes of headers before a message in a packet, the likeliest first.
    pub headers: &'static [u16],
    /// Who copies.
    pub copies: Copies,
    /// The send method when none is named.
    pub default_method: &'static str,
    /// The wait when none is named.
    pub default_wait: &'static str,
}
