//! In the place of TLS, in a build that has none.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use msgpath_core::CallCounts;

/// How the connections of a thread begin: never with TLS.
pub enum Begin {}

impl Begin {
    pub fn server(_: BorrowedFd<'_>) -> io::Result<Self> {
        Err(lacking())
    }

    pub fn client(_: BorrowedFd<'_>, _: Duration) -> io::Result<Self> {
        Err(lacking())
    }

    pub fn connection(&self) -> io::Result<Box<Tls>> {
        match *self {}
    }
}

fn lacking() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this msgpath was built without TLS (cargo build --release --features tls)",
    )
}

/// TLS on one connection: none.
pub enum Tls {}

impl Tls {
    pub fn shake(&mut self, _: BorrowedFd<'_>, _: &mut CallCounts) -> io::Result<bool> {
        match *self {}
    }

    pub fn send(&mut self, _: BorrowedFd<'_>, _: &[u8], _: &mut CallCounts) -> io::Result<usize> {
        match *self {}
    }

    pub fn recv(&mut self, _: BorrowedFd<'_>, _: &mut [u8], _: &mut CallCounts) -> io::Result<usize> {
        match *self {}
    }

    pub fn end(&mut self, _: BorrowedFd<'_>, _: &mut CallCounts) {
        match *self {}
    }

    pub fn agreed(&self) -> String {
        match *self {}
    }
}
