//! What a connection is written to and read from: a socket, or TLS over one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use msgpath_core::counts::CallCounts;
use msgpath_sys::msg::{self, SendFlags};

use super::tls::Tls;

/// A connected socket. Two threads may use it, one that sends and one that receives.
pub struct Stream {
    fd: OwnedFd,
    tls: Option<Box<Tls>>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Stream {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, tls: None }
    }
}

impl Stream {
    /// With TLS over it, whose handshake is done.
    pub fn with(self, tls: Tls) -> Self {
        Self { tls: Some(Box::new(tls)), ..self }
    }

    /// Sends all bytes: one call of the kernel, unless it takes only a part.
    ///
    /// # Errors
    /// The kernel's.
    #[inline(always)]
    pub fn send(&self, message: &[u8], calls: &mut CallCounts) -> io::Result<()> {
        match &self.tls {
            None => send(self.fd.as_fd(), message, calls),
            Some(tls) => tls.seal(message, |sealed| send(self.fd.as_fd(), sealed, calls)),
        }
    }

    /// Reads what is there, at least a byte; 0: the server has closed it.
    ///
    /// # Errors
    /// The kernel's; `InvalidData`: TLS that is none.
    #[inline(always)]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => msg::recv(self.fd.as_fd(), buffer),
            Some(tls) => tls.open(buffer, |sealed| msg::recv(self.fd.as_fd(), sealed)),
        }
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there.
    pub fn recv_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => msg::recv_now(self.fd.as_fd(), buffer),
            Some(tls) => tls.open(buffer, |sealed| msg::recv_now(self.fd.as_fd(), sealed)),
        }
    }

    /// What the server said in the way of TLS when it ended the connection; `None`: nothing.
    pub fn last_words(&self) -> Option<String> {
        self.tls.as_ref()?;
        let mut rest = [0; 4096];
        loop {
            match self.recv_now(&mut rest) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Some(error.to_string()),
                _ => return None,
            }
        }
    }
}

#[inline(always)]
fn send(fd: BorrowedFd<'_>, message: &[u8], calls: &mut CallCounts) -> io::Result<()> {
    let mut rest = message;
    loop {
        match msg::send(fd, rest, SendFlags::default()) {
            Ok(sent) if sent == rest.len() => {
                calls.send_calls += 1;
                return Ok(());
            }
            Ok(sent) => {
                calls.send_calls += 1;
                calls.send_short += 1;
                rest = &rest[sent..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
