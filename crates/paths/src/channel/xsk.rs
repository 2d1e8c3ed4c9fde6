//! Raw Ethernet past the stack: a socket of AF_XDP and the program that hands it its frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use msgpath_core::plan::ChannelOptions;
use msgpath_core::schema::Granted;
use msgpath_core::{CallCounts, Unavailable};
use msgpath_sys::clock;
use msgpath_sys::packet::HEAD;
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::xdp::{Link, Mode};
use msgpath_sys::xsk::{ETHERNET, Xsk};

use super::packet::head;
use super::{Channel, Limits, Polled, Receive, grant};

/// The option of [`Granted`] that says where the program runs.
pub const MODE: &str = "XDP mode";
/// That which says whether the kernel copies frames.
const COPIES: &str = "XDP_OPTIONS";

/// A socket on queue 0 of a device that takes frames of its own connection and sends to one NIC.
pub struct XskEnd {
    socket: Xsk,
    /// Ends with the connection.
    program: Link,
    /// What outgoing frames begin with.
    ethernet: [u8; ETHERNET],
    /// What follows it, but for the length.
    tag: u32,
    interface: String,
    counts: CallCounts,
    limits: Limits,
}

impl XskEnd {
    /// A socket, the program that hands it its frames, and what its own frames begin with.
    pub fn new(
        (socket, program): (Xsk, Link),
        (ethernet, tag): ([u8; ETHERNET], u32),
        interface: &str,
        limits: Limits,
    ) -> Self {
        Self { socket, program, ethernet, tag, interface: interface.into(), counts: CallCounts::default(), limits }
    }

    /// What a message of so many bytes begins with.
    ///
    /// # Errors
    /// It does not fit in a frame.
    pub fn head(&self, length: u64) -> Result<[u8; ETHERNET + HEAD], Unavailable> {
        let mut bytes = [0; ETHERNET + HEAD];
        bytes[..ETHERNET].copy_from_slice(&self.ethernet);
        bytes[ETHERNET..].copy_from_slice(&head(self.tag, length)?.bytes());
        Ok(bytes)
    }

    /// Puts a message into the send ring; where no frame is free, when one is.
    ///
    /// # Errors
    /// As [`Xsk::post`]; `TimedOut` after a stall.
    #[inline(always)]
    pub fn post(&mut self, message: &Scatter) -> io::Result<()> {
        match self.socket.post(message) {
            Ok(()) => Ok(()),
            Err(error) => self.post_later(message, error),
        }
    }

    #[cold]
    fn post_later(&mut self, message: &Scatter, mut error: io::Error) -> io::Result<()> {
        let since = clock::now();
        loop {
            self.limits.again(error, since)?;
            self.counts.send_calls += 1;
            // What it says does not matter: frames come back or not.
            let _ = self.socket.kick();
            error = match self.socket.post(message) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
        }
    }

    /// Has the kernel send what is in the ring.
    ///
    /// # Errors
    /// `WouldBlock`: the device had no room yet.
    #[inline(always)]
    pub fn kick(&self) -> io::Result<()> {
        self.socket.kick().or_else(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            // The device dropped it: it is lost as any other frame.
            Some(rustix::io::Errno::BUSY) => Ok(()),
            Some(rustix::io::Errno::NOBUFS) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            _ => Err(error),
        })
    }
}

impl Channel for XskEnd {
    #[inline(always)]
    fn counts(&mut self) -> &mut CallCounts {
        &mut self.counts
    }
    fn settle_counts(&mut self) {
        self.counts.dropped = self.socket.statistics().map_or(0, |counts| counts.dropped);
        // A look into memory is not a call.
        (self.counts.recv_calls, self.counts.recv_empty) = (0, 0);
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn framed(&self) -> bool {
        true
    }
    fn room(&self) -> Option<u64> {
        None
    }
    fn cookie(&self) -> Option<u64> {
        msgpath_sys::cookie::cookie(self.socket.as_fd()).ok()
    }
    fn granted(&self, end: &str, options: &ChannelOptions) -> Vec<Granted> {
        let mode = match self.program.mode {
            Mode::Native => "native",
            Mode::Generic => "generic",
        };
        let copies = match self.socket.is_zero_copy() {
            Ok(true) => "zero copy",
            Ok(false) => "copy",
            Err(_) => "not known",
        };
        vec![
            grant(end, "interface", Some(options.interface.clone()), self.interface.clone()),
            grant(end, MODE, Some("native".into()), mode.into()),
            grant(end, COPIES, None, copies.into()),
        ]
    }
}

impl Receive for XskEnd {
    fn never_block(&mut self) -> io::Result<()> {
        Ok(()) // looking never waits
    }
    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll(self.socket.as_fd(), Interest::Read, self.limits.poll_ms())?;
        self.recv_now(buffer)
    }
    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer).map(|(_, length)| length)
    }
}

impl Polled for XskEnd {
    fn recv_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
