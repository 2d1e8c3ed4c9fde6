//! Layers: protocols that a library speaks over a path. What speaks them is in a crate of its own (`msgpath-layers`), because the
//! libraries are many and few need them; here is the channel that takes one, so that everything else measures it as any path.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::Granted;
use msgpath_core::{CallCounts, Unavailable};

use crate::channel::{Channel, Limits, grant};

/// One end of a connection over which a library speaks its protocol.
pub trait Layer: Send {
    /// Hands a whole message over. What the library does with it may happen when the thread next waits in [`Layer::recv`].
    ///
    /// # Errors
    /// As the library: the connection broke, or the protocol was broken.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Waits for a message: a whole one where the layer preserves message boundaries, else what is there. 0 where bytes stream: the
    /// other end has closed.
    ///
    /// # Errors
    /// As [`Layer::send`]; `UnexpectedEof` where the other end has closed, `InvalidData` for a message that does not fit.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// After the last message of the end that answers: lets the library work until the other end has what was sent and closes,
    /// or nothing happens for too long.
    fn drain(&mut self) {}

    /// What both ends agreed on, as the library tells it: version, cipher, protocol.
    fn agreed(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Makes an end, in the thread that measures: the end that connects agrees with the other one, which answers when it first waits.
pub type Begin = Box<dyn FnOnce() -> io::Result<Box<dyn Layer>> + Send>;

pub struct Layered {
    begin: Option<Begin>,
    layer: Option<Box<dyn Layer>>,
    /// The socket beneath, for whoever must end a wait from outside.
    pub(crate) socket: OwnedFd,
    framed: bool,
    counts: CallCounts,
    limits: Limits,
}

impl Layered {
    /// An end that `begin` makes. `socket`: a duplicate of the one that it will use; `framed`: message boundaries are preserved.
    pub fn new(begin: Begin, socket: OwnedFd, framed: bool, limits: Limits) -> Self {
        Self { begin: Some(begin), layer: None, socket, framed, counts: CallCounts::default(), limits }
    }

    /// Makes the end, once.
    ///
    /// # Errors
    /// Both ends did not agree.
    pub fn begin(&mut self) -> Result<(), Unavailable> {
        if let Some(begin) = self.begin.take() {
            self.layer = Some(begin().map_err(|error| Unavailable::new(error.to_string(), ""))?);
        }
        Ok(())
    }

    /// The end.
    ///
    /// # Errors
    /// It was not made.
    #[inline(always)]
    pub fn layer(&mut self) -> io::Result<&mut dyn Layer> {
        match &mut self.layer {
            Some(layer) => Ok(&mut **layer),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        }
    }
}

impl Channel for Layered {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        self.framed
    }
    fn room(&self) -> Option<u64> {
        None
    }
    fn cookie(&self) -> Option<u64> {
        msgpath_sys::cookie::cookie(self.socket.as_fd()).ok()
    }
    fn granted(&self, end: &str, _: &ChannelOptions) -> Vec<Granted> {
        let agreed = self.layer.iter().flat_map(|layer| layer.agreed());
        agreed.map(|(what, value)| grant(end, what, None, value)).collect()
    }
}

impl Drop for Layered {
    /// The library says goodbye first; then the other end sees the end, also while a [`Breaker`](crate::Breaker) holds the socket.
    fn drop(&mut self) {
        self.layer = None;
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}
