//! What a transport can do: offer connections at the far end, connect to them at the near end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use msgpath_core::Unavailable;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::target::PortRange;

use crate::channel::{AnyChannel, Limits};
use crate::meta::{TransportMeta, Wakes};
use crate::transports::Admission;

/// What the connections of a case need.
#[derive(Clone, Debug)]
pub struct Need {
    /// How many.
    pub connections: u32,
    /// Bytes of the largest message, either way.
    pub largest: u64,
    /// Messages in flight on a connection.
    pub inflight: u32,
    /// Messages follow one another without waiting for an answer.
    pub stream: bool,
    /// How a sender must wake a sleeping receiver itself.
    pub wakes: Wakes,
    /// Address of the far end, for transports over IP; its port has no meaning.
    pub host: SocketAddr,
    /// The only address that may connect, where that is known; its port has no meaning.
    pub peer: Option<SocketAddr>,
    /// The ports that the server's sockets take; `None`: the kernel chooses.
    pub data_ports: Option<PortRange>,
    pub options: ChannelOptions,
    /// Waiting.
    pub limits: Limits,
}

impl Need {
    /// A need of one connection on this machine, for probes and tests.
    pub fn local(largest: u64) -> Self {
        Self {
            connections: 1,
            largest,
            inflight: 1,
            stream: false,
            wakes: Wakes::Nobody,
            host: (Ipv4Addr::LOCALHOST, 0).into(),
            peer: None,
            data_ports: None,
            options: ChannelOptions::default(),
            limits: Limits::new(Duration::from_millis(250), Duration::from_secs(5)),
        }
    }
}

/// Connections that the far end has made ready.
pub trait Offer: Send {
    /// Where the near end connects, one text a connection.
    fn addresses(&self) -> Vec<String>;

    /// Who lets connections in while the near end still connects, where a listening socket would not keep them all until
    /// [`Offer::accept`].
    fn admission(&mut self) -> Option<&mut Admission> {
        None
    }

    /// The socket to which connections come, once more; `None`: there is none. It goes on listening when the offer has ended.
    ///
    /// # Errors
    /// As dup(2).
    fn listening(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// Takes the connections, in the order of the addresses. `locals` are what [`Transport::connect`] returned.
    ///
    /// # Errors
    /// Nobody came in time, or the wrong one.
    fn accept(&mut self, locals: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>>;
}

pub trait Transport: Sync {
    /// Its texts and properties.
    fn meta(&self) -> &'static TransportMeta;

    /// The transport that it stands on, where it is a layer; empty: it is none.
    fn over(&self) -> &'static str {
        ""
    }

    /// The largest message, bytes; `None`: no limit of its own.
    fn max_message(&self) -> Option<u64> {
        None
    }

    /// The same over IPv4, whose headers count into the 64 KiB of a packet.
    fn max_message_v4(&self) -> Option<u64> {
        self.max_message()
    }

    /// Whether it can be had here with these options for messages of so many bytes, before anything is opened.
    ///
    /// # Errors
    /// Why not, and the cure.
    fn suits(&self, _options: &ChannelOptions, _largest: u64) -> Result<(), Unavailable> {
        Ok(())
    }

    /// Whether messages may follow one another without waiting for an answer.
    ///
    /// # Errors
    /// Why not, and what to do instead.
    fn streams(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    /// Whether there may be several connections of it at once, and two threads on one.
    ///
    /// # Errors
    /// Why not, and what to do instead.
    fn shares(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    /// What it means that the kernel refuses a connection of it, and the cure.
    fn refused(&self, error: &io::Error) -> Unavailable {
        Unavailable::new(format!("{}: {error}", self.meta().meta.name), "")
    }

    /// Tries the real thing on this machine.
    ///
    /// # Errors
    /// Why it does not work here.
    fn probe(&self) -> Result<(), Unavailable> {
        self.connects_here().map(drop).map_err(|error| self.refused(&error))
    }

    /// Both ends of a connection of this process with itself.
    ///
    /// # Errors
    /// As the system calls.
    fn connects_here(&self) -> io::Result<[AnyChannel; 2]> {
        let need = Need::local(64);
        let mut offer = self.offer(&need)?;
        let (near, local) = self.connect(&offer.addresses()[0], &need)?;
        let far = offer.accept(&[local], Duration::from_secs(1))?.pop().ok_or(io::ErrorKind::NotConnected)?;
        Ok([near, far])
    }

    /// Makes connections ready at the far end.
    ///
    /// # Errors
    /// As the system calls.
    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>>;

    /// Connects the near end to one address of an offer. Returns the channel and this end's own address, which the
    /// far end may need.
    ///
    /// # Errors
    /// As the system calls.
    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)>;

    /// Whether it reaches programs of others: [`Transport::connect_to_program`].
    fn reaches_programs(&self) -> bool {
        false
    }

    /// Connects to a program of others, which knows of no offer: nothing is said before the first message.
    ///
    /// # Errors
    /// `Unsupported` where there is no such way; else as the system calls.
    fn connect_to_program(&self, _address: &str, _need: &Need) -> io::Result<AnyChannel> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
