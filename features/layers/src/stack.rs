//! A layer as a transport: connections come from the transport beneath, and a library takes each.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_paths::channel::Limits;
use msgpath_paths::meta::{Copies, Family, Meta, Stack as Events, TransportMeta};
use msgpath_paths::registry::transport;
use msgpath_paths::transports::Admission;
use msgpath_paths::{AnyChannel, Layer, Layered, Need, Offer, Transport};
use msgpath_tls::{Identity, Trust};

use crate::probe;

/// What an end must know of its round.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Bytes of the largest message.
    pub(crate) largest: usize,
    /// Waiting.
    pub(crate) limits: Limits,
}

impl Setup {
    fn of(need: &Need) -> Self {
        Self { largest: need.largest as usize, limits: need.limits.clone() }
    }
}

/// What an end is made to.
type Made = io::Result<Box<dyn Layer>>;

/// How a layer makes its ends. The end that connects returns when both have agreed; the one that answers agrees when it first waits.
#[derive(Clone, Copy)]
pub(crate) enum Ends {
    /// In clear text.
    Plain {
        /// That connects.
        near: fn(OwnedFd, &Setup) -> Made,
        /// That answers.
        far: fn(OwnedFd, &Setup) -> Made,
    },
    /// The far end has a certificate, which the near end is told.
    Encrypted {
        /// That connects.
        near: fn(OwnedFd, Trust, &Setup) -> Made,
        /// That answers.
        far: fn(OwnedFd, Identity, &Setup) -> Made,
    },
}

#[derive(Clone, Copy)]
pub struct Stack {
    pub(crate) meta: &'static TransportMeta,
    /// The transport to which it adds something.
    pub(crate) over: &'static str,
    /// The transport whose connections it takes.
    pub(crate) base: &'static str,
    pub(crate) ends: Ends,
}

/// A layer's texts, and whether it preserves message boundaries.
pub(crate) const fn describe(
    name: &'static str,
    summary: &'static str,
    manual: &'static str,
    framed: bool,
) -> TransportMeta {
    TransportMeta {
        meta: Meta { name, summary, manual },
        family: Family::Layer,
        framed,
        lossy: false,
        inet: true,
        device: false,
        connects: true,
        // What the kernel does with its segments is the library's business, and its sockets are not traced.
        segments: false,
        stack: Events::Plain,
        headers: &[],
        copies: Copies::Unknown,
        default_method: "send",
        default_wait: "block",
    }
}

impl Stack {
    fn beneath(&self) -> io::Result<&'static dyn Transport> {
        transport(self.base).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// A connection of the transport beneath, which a library takes when the thread that measures makes its end.
fn layered(
    channel: AnyChannel,
    framed: bool,
    setup: Setup,
    make: impl FnOnce(OwnedFd, &Setup) -> Made + Send + 'static,
) -> io::Result<AnyChannel> {
    let AnyChannel::Socket(socket) = channel else { return Err(io::Error::from(io::ErrorKind::Unsupported)) };
    let fd = socket.into_fd()?;
    let (duplicate, limits) = (fd.try_clone()?, setup.limits.clone());
    Ok(AnyChannel::Layer(Layered::new(Box::new(move || make(fd, &setup)), duplicate, framed, limits)))
}

/// What stands in an address where there is no certificate.
const NO_TRUST: &str = "-";

struct Offered {
    stack: Stack,
    beneath: Box<dyn Offer>,
    /// Of an encrypted layer.
    identity: Option<Identity>,
    setup: Setup,
}

impl Offer for Offered {
    fn addresses(&self) -> Vec<String> {
        let trust = self.identity.as_ref().map_or_else(|| NO_TRUST.into(), |identity| identity.trust().to_string());
        self.beneath.addresses().into_iter().map(|address| format!("{trust} {address}")).collect()
    }

    fn admission(&mut self) -> Option<&mut Admission> {
        self.beneath.admission()
    }

    fn accept(&mut self, locals: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>> {
        let accepted = self.beneath.accept(locals, timeout)?;
        let far = |channel| {
            let (ends, identity) = (self.stack.ends, self.identity.clone());
            layered(channel, self.stack.meta.framed, self.setup.clone(), move |fd, setup| match (ends, identity) {
                (Ends::Plain { far, .. }, _) => far(fd, setup),
                (Ends::Encrypted { far, .. }, Some(identity)) => far(fd, identity, setup),
                (Ends::Encrypted { .. }, None) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            })
        };
        accepted.into_iter().map(far).collect()
    }
}

impl Transport for Stack {
    fn meta(&self) -> &'static TransportMeta {
        self.meta
    }

    fn over(&self) -> &'static str {
        self.over
    }

    fn streams(&self) -> Result<(), Unavailable> {
        Err(Unavailable::new(
            format!("each message over {} waits for its answer", self.meta.meta.name),
            "round trips: msgpath echo, msgpath compare",
        ))
    }

    fn probe(&self) -> Result<(), Unavailable> {
        probe::round_trip(self)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let identity = match self.ends {
            Ends::Plain { .. } => None,
            Ends::Encrypted { .. } => Some(Identity::new()?),
        };
        Ok(Box::new(Offered { stack: *self, beneath: self.beneath()?.offer(need)?, identity, setup: Setup::of(need) }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "this is not an offer of a layer");
        let (trust, place) = address.split_once(' ').ok_or_else(invalid)?;
        let trust: Option<Trust> = if trust == NO_TRUST { None } else { Some(trust.parse()?) };
        let (channel, local) = self.beneath()?.connect(place, need)?;
        let ends = self.ends;
        let near = move |fd, setup: &Setup| match (ends, trust) {
            (Ends::Plain { near, .. }, None) => near(fd, setup),
            (Ends::Encrypted { near, .. }, Some(trust)) => near(fd, trust, setup),
            _ => Err(invalid()),
        };
        Ok((layered(channel, self.meta.framed, Setup::of(need), near)?, local))
    }
}
