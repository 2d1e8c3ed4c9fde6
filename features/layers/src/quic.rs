//! `quic`: one stream of a QUIC connection by quinn at both ends, TLS 1.3 inside.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use msgpath_paths::Layer;
use msgpath_paths::channel::Limits;
use msgpath_tls::{Identity, NAME, Trust};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ReadError, RecvStream, SendStream, ServerConfig, TokioRuntime,
    WriteError,
};

use crate::runtime::{Driven, broken, closed};
use crate::stack::{Ends, Setup, Stack, describe};

pub(crate) static QUIC: Stack = Stack {
    meta: &describe(
        "quic",
        "one QUIC stream over UDP: quinn, TLS 1.3 inside",
        "Messages follow one another on one bidirectional stream of one connection. Packets are encrypted, numbered, acknowledged and \
         sent again in the program; a packet has at most some 1450 bytes, even where the device would take more.",
        false,
    ),
    over: "udp",
    base: "udp",
    ends: Ends::Encrypted { near, far },
};

/// What both ends must want.
const PROTOCOL: &[u8] = b"msgpath";
/// Between two looks whether the round was given up: no descriptor wakes who waits for a datagram.
const LOOK: Duration = Duration::from_millis(100);

/// An endpoint on the socket, and where the socket is connected to.
fn endpoint(fd: OwnedFd, driven: &Driven, server: Option<ServerConfig>) -> io::Result<(Endpoint, SocketAddr)> {
    let socket = UdpSocket::from(fd);
    socket.set_nonblocking(true)?;
    let peer = socket.peer_addr()?;
    let _inside = driven.enter();
    Ok((Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?, peer))
}

/// Closes everything when the round is given up.
fn watch(endpoint: &Endpoint, driven: &Driven, limits: &Limits) {
    let (endpoint, limits) = (endpoint.clone(), limits.clone());
    driven.spawn(async move {
        while limits.look().is_ok() {
            tokio::time::sleep(LOOK).await;
        }
        endpoint.close(0_u32.into(), b"given up");
    });
}

fn near(fd: OwnedFd, trust: Trust, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let driven = Driven::new(&setup.limits)?;
    let crypto = QuicClientConfig::try_from(trust.client(&[PROTOCOL])?).map_err(io::Error::other)?;
    let (endpoint, peer) = endpoint(fd, &driven, None)?;
    watch(&endpoint, &driven, &setup.limits);
    let streams = driven.agree(async {
        let connecting = endpoint.connect_with(ClientConfig::new(Arc::new(crypto)), peer, NAME);
        let connection = connecting.map_err(io::Error::other)?.await?;
        let (send, receive) = connection.open_bi().await?;
        Ok(Streams { connection, send, receive })
    })?;
    Ok(Box::new(Quic { driven, endpoint, streams: Some(streams), near: true }))
}

fn far(fd: OwnedFd, identity: Identity, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let driven = Driven::new(&setup.limits)?;
    let crypto = QuicServerConfig::try_from(identity.server(&[PROTOCOL])?).map_err(io::Error::other)?;
    let (endpoint, _) = endpoint(fd, &driven, Some(ServerConfig::with_crypto(Arc::new(crypto))))?;
    watch(&endpoint, &driven, &setup.limits);
    Ok(Box::new(Quic { driven, endpoint, streams: None, near: false }))
}

struct Streams {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
}

impl Streams {
    /// Those that the other end opens.
    async fn accept(endpoint: &Endpoint) -> io::Result<Self> {
        let connection = endpoint.accept().await.ok_or_else(closed)?.await?;
        let (send, receive) = connection.accept_bi().await?;
        Ok(Self { connection, send, receive })
    }
}

struct Quic {
    driven: Driven,
    endpoint: Endpoint,
    /// None yet at the end that answers, before it first waits.
    streams: Option<Streams>,
    near: bool,
}

fn lost(error: quinn::ConnectionError) -> io::Error {
    match error {
        quinn::ConnectionError::ApplicationClosed(_) | quinn::ConnectionError::LocallyClosed => closed(),
        error => error.into(),
    }
}

impl Layer for Quic {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let Some(streams) = &mut self.streams else { return Err(io::Error::from(io::ErrorKind::NotConnected)) };
        self.driven.run(async {
            streams.send.write_all(message).await.map_err(|error| match error {
                WriteError::ConnectionLost(error) => lost(error),
                error => broken(&error, false),
            })
        })
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (endpoint, streams) = (&self.endpoint, &mut self.streams);
        self.driven.run(async {
            let streams = match streams {
                Some(streams) => streams,
                None => streams.insert(Streams::accept(endpoint).await?),
            };
            match streams.receive.read(buffer).await {
                Ok(got) => Ok(got.unwrap_or(0)),
                Err(ReadError::ConnectionLost(error)) => Err(lost(error)),
                Err(error) => Err(broken(&error, false)),
            }
        })
    }

    fn drain(&mut self) {
        if let Some(Streams { connection, .. }) = self.streams.as_ref().filter(|_| !self.near) {
            self.driven.drain(async { drop(connection.closed().await) });
        }
    }

    fn agreed(&self) -> Vec<(&'static str, String)> {
        let Some(Streams { connection, .. }) = &self.streams else { return Vec::new() };
        let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
        let protocol = data.and_then(|data| data.protocol).map(|name| String::from_utf8_lossy(&name).into_owned());
        let datagram = connection.stats().path.current_mtu.to_string();
        protocol.map(|name| ("ALPN protocol", name)).into_iter().chain([("QUIC datagram bytes", datagram)]).collect()
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        self.endpoint.close(0_u32.into(), b"");
        // Its task must run once more to say so; what follows, in case that is lost, is left out.
        let endpoint = &self.endpoint;
        self.driven
            .say_goodbye(async { drop(tokio::time::timeout(Duration::from_millis(5), endpoint.wait_idle()).await) });
    }
}
