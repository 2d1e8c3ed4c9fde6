//! TLS 1.3 on the connections that are measured, by rustls, which does no I/O: bytes go through it on their way to the kernel and back.
//!
//! The server makes a certificate for each of its threads and round, and says it on the connection with which the round begins; the
//! client trusts no other. Every handshake is a whole one: nothing is resumed.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use msgpath_core::CallCounts;
use msgpath_core::foreign::shown;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::poll::{Interest, poll};
use msgpath_tls::{Identity, LONGEST, Trust, name};
use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};

/// Bytes of one read from the kernel: a record and a little more.
const READ: usize = 20 << 10;
/// The certificate is looked for this often, ms.
const LOOK_MS: i32 = 50;

/// How the connections of a thread begin.
pub enum Begin {
    Client(Arc<ClientConfig>),
    Server(Arc<ServerConfig>),
}

impl Begin {
    /// The server's: its certificate is said on the connection of the round, behind its length.
    pub fn server(round: BorrowedFd<'_>) -> io::Result<Self> {
        let identity = Identity::new()?;
        let trust = identity.trust();
        let length = u16::try_from(trust.bytes().len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let said = [&length.to_be_bytes(), trust.bytes()].concat();
        let mut gone = 0;
        while gone < said.len() {
            gone += msg::send(round, &said[gone..], SendFlags::default())?;
        }
        let mut config = Arc::unwrap_or_clone(identity.server(&[])?);
        config.send_tls13_tickets = 0;
        Ok(Self::Server(Arc::new(config)))
    }

    /// The client's, which hears that certificate.
    pub fn client(round: BorrowedFd<'_>, patience: Duration) -> io::Result<Self> {
        let by = Instant::now() + patience;
        let mut length = [0; 2];
        hear(round, &mut length, by)?;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length)).clamp(1, LONGEST)];
        hear(round, &mut bytes, by)?;
        let mut config = Arc::unwrap_or_clone(Trust::from(bytes).client(&[])?);
        config.resumption = Resumption::disabled();
        Ok(Self::Client(Arc::new(config)))
    }

    /// For a connection that was just made.
    pub fn connection(&self) -> io::Result<Box<Tls>> {
        let connection: Connection = match self {
            Self::Client(config) => {
                ClientConnection::new(Arc::clone(config), name()).map_err(|error| invalid(&error))?.into()
            }
            Self::Server(config) => ServerConnection::new(Arc::clone(config)).map_err(|error| invalid(&error))?.into(),
        };
        let (outgoing, incoming) = (Vec::new(), vec![0; READ]);
        Ok(Box::new(Tls { connection, outgoing, gone: 0, taken: 0, incoming, come: 0..0 }))
    }
}

/// Fills a buffer with what the server says before the round begins.
fn hear(round: BorrowedFd<'_>, buffer: &mut [u8], by: Instant) -> io::Result<()> {
    let mut got = 0;
    while got < buffer.len() {
        if Instant::now() > by {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server said no certificate"));
        }
        if poll(round, Interest::Read, LOOK_MS)? {
            match msg::recv(round, &mut buffer[got..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => got += more,
            }
        }
    }
    Ok(())
}

fn invalid(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {}", shown(&error.to_string())))
}

/// TLS on one connection, whose socket does not block.
pub struct Tls {
    connection: Connection,
    /// Records that are on their way to the kernel, and how many of their bytes are there.
    outgoing: Vec<u8>,
    gone: usize,
    /// Bytes of the message under way whose records are `outgoing`.
    taken: usize,
    /// Where the kernel's bytes are read to, and those that are still to be taken in.
    incoming: Vec<u8>,
    come: Range<usize>,
}

impl Tls {
    /// Goes on with the handshake; whether it is done. Else the socket is to be waited for.
    pub fn shake(&mut self, fd: BorrowedFd<'_>, calls: &mut CallCounts) -> io::Result<bool> {
        loop {
            if !self.flush(fd, calls)? {
                return Ok(false);
            }
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match self.take(fd, calls) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed in the handshake")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// As send(2): how many bytes the kernel has, as records. After `WouldBlock` the same bytes are to be sent again.
    pub fn send(&mut self, fd: BorrowedFd<'_>, bytes: &[u8], calls: &mut CallCounts) -> io::Result<usize> {
        loop {
            if !self.flush(fd, calls)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if self.taken > 0 {
                return Ok(std::mem::take(&mut self.taken));
            }
            self.taken = self.connection.writer().write(bytes)?;
        }
    }

    /// As recv(2).
    pub fn recv(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8], calls: &mut CallCounts) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                // The other end has said that it closes: its end of the connection comes behind.
                Ok(0) => {
                    calls.recv_calls += 1;
                    return msg::recv(fd, &mut [0]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.take(fd, calls)? == 0 {
                return Ok(0);
            }
        }
    }

    /// Says that this end closes.
    pub fn end(&mut self, fd: BorrowedFd<'_>, calls: &mut CallCounts) {
        self.connection.send_close_notify();
        // Who does not hear it sees the connection end.
        let _ = self.flush(fd, calls);
    }

    /// Version and cipher, such as `TLSv1_3 TLS13_AES_256_GCM_SHA384`.
    pub fn agreed(&self) -> String {
        let version = self.connection.protocol_version().and_then(|version| version.as_str());
        let suite = self.connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        [version, suite].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Hands records over; `false`: there is no room.
    fn flush(&mut self, fd: BorrowedFd<'_>, calls: &mut CallCounts) -> io::Result<bool> {
        loop {
            while self.connection.wants_write() {
                self.connection.write_tls(&mut self.outgoing)?;
            }
            if self.gone == self.outgoing.len() {
                self.outgoing.clear();
                self.gone = 0;
                return Ok(true);
            }
            calls.send_calls += 1;
            match msg::send(fd, &self.outgoing[self.gone..], SendFlags::default()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                sent => self.gone += sent?,
            }
        }
    }

    /// Takes in a part of what has come: what it says is read before more of it. 0: the other end has closed.
    fn take(&mut self, fd: BorrowedFd<'_>, calls: &mut CallCounts) -> io::Result<usize> {
        if self.come.is_empty() {
            calls.recv_calls += 1;
            self.come = 0..msg::recv(fd, &mut self.incoming)?;
        }
        let mut rest = &self.incoming[self.come.clone()];
        if rest.is_empty() {
            return Ok(0);
        }
        let taken = self.connection.read_tls(&mut rest)?;
        if taken == 0 {
            // It has said that it closes: nothing behind that counts.
            return Ok(std::mem::take(&mut self.come).len());
        }
        self.come.start += taken;
        if let Err(error) = self.connection.process_new_packets() {
            // The alert says why to the other end.
            let _ = self.flush(fd, calls);
            return Err(invalid(&error));
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Both ends of a connection after their handshake.
    fn shaken(client: &Begin, server: &Begin) -> io::Result<[(Box<Tls>, TcpStream); 2]> {
        let (near, far) = pair();
        [&near, &far].iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
        let (mut own, mut other) = (client.connection()?, server.connection()?);
        let mut calls = CallCounts::default();
        let mut done = [false; 2];
        while done != [true; 2] {
            done = [own.shake(near.as_fd(), &mut calls)?, other.shake(far.as_fd(), &mut calls)?];
        }
        Ok([(own, near), (other, far)])
    }

    fn begins() -> (Begin, Begin) {
        let (near, far) = pair();
        let server = Begin::server(far.as_fd()).unwrap();
        (Begin::client(near.as_fd(), Duration::from_secs(20)).unwrap(), server)
    }

    #[test]
    fn messages_larger_than_a_record_and_the_end_cross() {
        let (client, server) = begins();
        let [(mut near, near_fd), (mut far, far_fd)] = shaken(&client, &server).unwrap();
        assert!(near.agreed().starts_with("TLSv1_3 TLS13_"), "{}", near.agreed());
        let (message, mut calls) = (vec![7_u8; 200_000], CallCounts::default());
        let (mut sent, mut came, mut buffer) = (0, 0, [0; 4096]);
        while came < message.len() {
            if sent < message.len() {
                match near.send(near_fd.as_fd(), &message[sent..], &mut calls) {
                    Ok(more) => sent += more,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            match far.recv(far_fd.as_fd(), &mut buffer, &mut calls) {
                Ok(more) => came += more,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!((sent, came), (200_000, 200_000));
        assert!(calls.send_calls > 0 && calls.recv_calls > 0);
        near.end(near_fd.as_fd(), &mut calls);
        drop(near_fd);
        let ended = loop {
            match far.recv(far_fd.as_fd(), &mut buffer, &mut calls) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                ended => break ended.unwrap(),
            }
        };
        assert_eq!(ended, 0);
    }

    #[test]
    fn certificate_of_another_server_is_refused() {
        let ((client, _), (_, other)) = (begins(), begins());
        assert_eq!(shaken(&client, &other).map(|_| ()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn server_without_a_certificate_is_an_error() {
        let (near, far) = pair();
        let silent = Begin::client(near.as_fd(), Duration::ZERO).map(|_| ()).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        (&far).write_all(&[0, 3, 1, 2, 3]).unwrap();
        let wrong = Begin::client(near.as_fd(), Duration::from_secs(20)).map(|_| ()).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidData);
        drop(far);
        assert!(Begin::client(near.as_fd(), Duration::from_secs(20)).is_err());
    }
}
