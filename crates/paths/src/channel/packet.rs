//! Raw Ethernet over a packet socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::Granted;
use msgpath_core::{CallCounts, Unavailable};
use msgpath_sys::packet::{self, Destination, Head};
use msgpath_sys::packet_ring::PacketRing;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::socket;
use rustix::net::sockopt;

use super::{Channel, Limits, Polled, Receive, grant};

/// A socket that takes frames of its own connection and sends to one NIC.
pub struct Packet {
    fd: OwnedFd,
    to: Destination,
    /// What outgoing frames begin with, but for their length.
    tag: u32,
    interface: String,
    /// Where frames arrive, where that is not in the socket's queue.
    ring: Option<PacketRing>,
    counts: CallCounts,
    limits: Limits,
}

impl Packet {
    /// A socket of [`packet::open`], where its frames go and their tag.
    ///
    /// # Errors
    /// As setsockopt(2).
    pub fn new(fd: OwnedFd, to: Destination, tag: u32, interface: &str, limits: Limits) -> io::Result<Self> {
        socket::set_timeouts(fd.as_fd(), limits.slice, limits.slice)?;
        Ok(Self { fd, to, tag, interface: interface.into(), ring: None, counts: CallCounts::default(), limits })
    }

    /// The same with a ring into which the kernel puts what arrives from now on: about so many bytes, for messages of at most
    /// `largest` bytes.
    ///
    /// # Errors
    /// As [`PacketRing::new`].
    pub fn with_ring(mut self, largest: usize, bytes: usize) -> io::Result<Self> {
        self.ring = Some(PacketRing::new(self.fd.as_fd(), packet::HEAD + largest, bytes)?);
        Ok(self)
    }

    /// The same socket once more, to send: a ring has one reader.
    pub(super) fn duplicate(&self) -> io::Result<Self> {
        Self::new(self.fd.try_clone()?, self.to, self.tag, &self.interface, self.limits.clone())
    }

    #[inline(always)]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where frames go.
    #[inline(always)]
    pub fn to(&self) -> &Destination {
        &self.to
    }

    /// A device whose queue is full (ENOBUFS) has room again soon: the frame is sent again.
    pub(crate) fn later(error: io::Error) -> io::Error {
        if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) {
            return io::Error::from(io::ErrorKind::WouldBlock);
        }
        error
    }

    /// The head of a message of so many bytes.
    ///
    /// # Errors
    /// It does not fit in a frame.
    pub fn head(&self, length: u64) -> Result<Head, Unavailable> {
        head(self.tag, length)
    }
}

/// The head of a message of so many bytes under a tag.
pub(super) fn head(tag: u32, length: u64) -> Result<Head, Unavailable> {
    let length = u16::try_from(length)
        .map_err(|_| Unavailable::new(format!("{length} bytes do not fit in one frame"), "a smaller -l"))?;
    Ok(Head { tag, length, sender: 0 })
}

impl Channel for Packet {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn settle_counts(&mut self) {
        self.counts.dropped += packet::dropped(self.fd.as_fd()).unwrap_or(0);
        if self.ring.is_some() {
            // A look into memory is not a call.
            (self.counts.recv_calls, self.counts.recv_empty) = (0, 0);
        }
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        // Half: the other half is the kernel's own bookkeeping (socket(7)).
        sockopt::socket_send_buffer_size(&self.fd).ok().map(|bytes| bytes as u64 / 2)
    }
    fn cookie(&self) -> Option<u64> {
        msgpath_sys::cookie::cookie(self.fd()).ok()
    }
    fn granted(&self, end: &str, options: &ChannelOptions) -> Vec<Granted> {
        let mut list = vec![grant(end, "interface", Some(options.interface.clone()), self.interface.clone())];
        let mut buffer = |option, asked: Option<u64>, granted: Result<usize, rustix::io::Errno>| {
            if let Ok(bytes) = granted {
                let granted = if asked.is_some() { bytes / 2 } else { bytes };
                list.push(grant(end, option, asked.map(|bytes| bytes.to_string()), granted.to_string()));
            }
        };
        buffer("SO_SNDBUF", options.send_buffer, sockopt::socket_send_buffer_size(&self.fd));
        match &self.ring {
            None => buffer("SO_RCVBUF", options.receive_buffer, sockopt::socket_recv_buffer_size(&self.fd)),
            // Whole frames, as many as a power of two.
            Some(ring) => list.push(grant(end, "PACKET_RX_RING", None, ring.bytes().to_string())),
        }
        list
    }
}

impl Receive for Packet {
    fn never_block(&mut self) -> io::Result<()> {
        Ok(()) // MSG_DONTWAIT in recv_now
    }
    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ring.is_some() {
            poll(self.fd.as_fd(), Interest::Read, self.limits.poll_ms())?;
            return self.recv_now(buffer);
        }
        packet::receive(self.fd.as_fd(), buffer, true).map(|(_, length)| length)
    }
    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = match &mut self.ring {
            None => packet::receive(self.fd.as_fd(), buffer, false),
            Some(ring) => ring.receive(buffer),
        };
        received.map(|(_, length)| length)
    }
}

impl Polled for Packet {
    fn recv_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
