//! `tls`: TLS 1.3 by rustls, over a socket that blocks: encryption, and nothing else on top of TCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;

use msgpath_paths::Layer;
use msgpath_tls::{Identity, Trust, name};
use rustls::{ClientConnection, CommonState, ConnectionCommon, ServerConnection, SideData, StreamOwned};

use crate::runtime::handshake;
use crate::stack::{Ends, Setup, Stack, describe};

pub(crate) static TLS: Stack = Stack {
    meta: &describe(
        "tls",
        "TLS 1.3 over TCP: rustls, a socket that blocks",
        "Records of at most 16 KiB, each encrypted and authenticated; AES-256-GCM unless the processor has no instructions for it. \
         The certificate is made for the round, and the near end trusts no other. A socket that blocks, so that the step from TCP \
         is encryption alone: no runtime.",
        false,
    ),
    over: "tcp",
    base: "tcp",
    ends: Ends::Encrypted { near, far },
};

fn near(fd: OwnedFd, trust: Trust, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(handshake(&setup.limits)))?;
    let mut connection = ClientConnection::new(trust.client(&[])?, name()).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut &stream).map_err(silent)?;
    }
    Ok(Box::new(Tls(StreamOwned::new(connection, blocking(stream, setup)?))))
}

/// It answers the handshake when it first reads.
fn far(fd: OwnedFd, identity: Identity, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let connection = ServerConnection::new(identity.server(&[])?).map_err(io::Error::other)?;
    Ok(Box::new(Tls(StreamOwned::new(connection, blocking(fd.into(), setup)?))))
}

/// The socket, with a limit to its waits where they are timed.
fn blocking(stream: TcpStream, setup: &Setup) -> io::Result<TcpStream> {
    let most = setup.limits.timed.then_some(setup.limits.stall);
    stream.set_read_timeout(most)?;
    stream.set_write_timeout(most)?;
    Ok(stream)
}

/// A time limit of a socket looks as if nothing were there.
fn silent(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the other end is silent"),
        _ => error,
    }
}

struct Tls<C>(StreamOwned<C, TcpStream>);

impl<C, S> Layer for Tls<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>> + Send,
    S: SideData,
{
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.write_all(message).and_then(|()| self.0.flush()).map_err(silent)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(silent)
    }

    fn agreed(&self) -> Vec<(&'static str, String)> {
        said(&self.0.conn)
    }
}

/// What both ends agreed on.
pub(crate) fn said(connection: &CommonState) -> Vec<(&'static str, String)> {
    let version = connection.protocol_version().and_then(|version| version.as_str().map(str::to_owned));
    let suite = connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str().map(str::to_owned));
    let protocol = connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
    let all = [("TLS version", version), ("TLS cipher suite", suite), ("ALPN protocol", protocol)];
    all.into_iter().filter_map(|(what, value)| Some((what, value?))).collect()
}
