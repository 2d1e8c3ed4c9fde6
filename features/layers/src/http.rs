//! `http1`, `http2`, `https2`: POST requests on one connection, by hyper at both ends.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::header::{HOST, HeaderValue};
use hyper::server::conn::{http1 as server1, http2 as server2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use msgpath_paths::Layer;
use msgpath_tls::{Identity, NAME, Trust, name};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::inbox::{Answering, Calls, copy};
use crate::runtime::{Driven, broken};
use crate::stack::{Ends, Setup, Stack, describe};
use crate::tls::said;

pub(crate) static HTTP1: Stack = Stack {
    meta: &describe(
        "http1",
        "HTTP/1.1 in clear text: a POST and its answer, hyper at both ends",
        "Each message is the body of a POST on a connection that stays open, with its length in a header; the answer is the body of \
         the reply. hyper in a tokio runtime at both ends.",
        true,
    ),
    over: "tokio",
    base: "tcp",
    ends: Ends::Plain {
        near: |fd, setup| near_plain(fd, Version::One, setup),
        far: |fd, setup| far_plain(fd, Version::One, setup),
    },
};

pub(crate) static HTTP2: Stack = Stack {
    meta: &describe(
        "http2",
        "HTTP/2 in clear text: a stream for each POST, hyper at both ends",
        "Each message is the body of a POST on a stream of its own; all streams go over one connection, one after the other. Both \
         ends know that it is HTTP/2 (prior knowledge). Frames have at most 16 KiB of a body.",
        true,
    ),
    over: "tokio",
    base: "tcp",
    ends: Ends::Plain {
        near: |fd, setup| near_plain(fd, Version::Two, setup),
        far: |fd, setup| far_plain(fd, Version::Two, setup),
    },
};

pub(crate) static HTTPS2: Stack = Stack {
    meta: &describe(
        "https2",
        "HTTP/2 over TLS 1.3: hyper and rustls, chosen by ALPN",
        "As http2, over TLS: both ends agree on HTTP/2 in the handshake (ALPN), and the connection is refused where they do not.",
        true,
    ),
    over: "http2",
    base: "tcp",
    ends: Ends::Encrypted { near: near_encrypted, far: far_encrypted },
};

/// HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

/// What HTTP goes over.
trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

fn of(error: &hyper::Error) -> io::Error {
    broken(error, error.is_closed() || error.is_canceled() || error.is_incomplete_message())
}

fn near_plain(fd: OwnedFd, version: Version, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let driven = Driven::new(&setup.limits)?;
    let stream = driven.tcp(fd)?;
    let asking = driven.agree(Asking::over(stream, version, "http", Vec::new()))?;
    Ok(Box::new(Near { driven, asking: Some(asking), message: None }))
}

fn near_encrypted(fd: OwnedFd, trust: Trust, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let driven = Driven::new(&setup.limits)?;
    let stream = driven.tcp(fd)?;
    let connector = TlsConnector::from(trust.client(&[H2])?);
    let asking = driven.agree(async {
        let stream = connector.connect(name(), stream).await?;
        let connection = stream.get_ref().1;
        is_http2(connection.alpn_protocol())?;
        let agreed = said(connection);
        Asking::over(stream, Version::Two, "https", agreed).await
    })?;
    Ok(Box::new(Near { driven, asking: Some(asking), message: None }))
}

fn is_http2(protocol: Option<&[u8]>) -> io::Result<()> {
    match protocol {
        Some(H2) => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the other end did not agree on HTTP/2")),
    }
}

enum Sender {
    One(client1::SendRequest<Full<Bytes>>),
    Two(client2::SendRequest<Full<Bytes>>),
}

/// A connection on which requests are sent.
struct Asking {
    sender: Sender,
    connection: JoinHandle<()>,
    /// Where HTTP/2 sends its requests; HTTP/1.1 has it in a header.
    uri: String,
    agreed: Vec<(&'static str, String)>,
}

impl Asking {
    async fn over(
        io: impl Io,
        version: Version,
        scheme: &str,
        mut agreed: Vec<(&'static str, String)>,
    ) -> io::Result<Self> {
        let io = TokioIo::new(io);
        let (sender, connection) = match version {
            Version::One => {
                let (sender, connection) = client1::handshake(io).await.map_err(|error| of(&error))?;
                (Sender::One(sender), tokio::spawn(async { drop(connection.await) }))
            }
            Version::Two => {
                let made = client2::handshake(TokioExecutor::new(), io).await;
                let (sender, connection) = made.map_err(|error| of(&error))?;
                (Sender::Two(sender), tokio::spawn(async { drop(connection.await) }))
            }
        };
        let mut asking = Self { sender, connection, uri: format!("{scheme}://{NAME}/"), agreed: Vec::new() };
        // One request that is not measured: settings have been exchanged when it is answered.
        let answer = asking.ask(Method::GET, Bytes::new()).await?;
        agreed.push(("HTTP version", format!("{:?}", answer.version())));
        answer.into_body().collect().await.map_err(|error| of(&error))?;
        Ok(Self { agreed, ..asking })
    }

    async fn ask(&mut self, method: Method, message: Bytes) -> io::Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = method;
        let answer = match &mut self.sender {
            Sender::One(sender) => {
                request.headers_mut().insert(HOST, HeaderValue::from_static(NAME));
                sender.ready().await.map_err(|error| of(&error))?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                *request.uri_mut() = self.uri.parse().map_err(io::Error::other)?;
                sender.ready().await.map_err(|error| of(&error))?;
                sender.send_request(request).await
            }
        };
        let answer = answer.map_err(|error| of(&error))?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            status => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the other end answered {status}"))),
        }
    }
}

struct Near {
    driven: Driven,
    /// Gone when it closes.
    asking: Option<Asking>,
    message: Option<Bytes>,
}

impl Layer for Near {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.message = Some(Bytes::copy_from_slice(message));
        Ok(())
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (Some(asking), Some(message)) = (&mut self.asking, self.message.take()) else {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        };
        self.driven.run(async {
            let mut body = asking.ask(Method::POST, message).await?.into_body();
            let mut got = 0;
            while let Some(frame) = body.frame().await {
                if let Some(part) = frame.map_err(|error| of(&error))?.data_ref() {
                    got = copy(part, buffer, got)?;
                }
            }
            Ok(got)
        })
    }

    fn agreed(&self) -> Vec<(&'static str, String)> {
        self.asking.as_ref().map(|asking| asking.agreed.clone()).unwrap_or_default()
    }
}

impl Drop for Near {
    /// The connection ends when nobody sends on it any more.
    fn drop(&mut self) {
        if let Some(Asking { sender, connection, .. }) = self.asking.take() {
            drop(sender);
            self.driven.say_goodbye(async { drop(connection.await) });
        }
    }
}

fn far_plain(fd: OwnedFd, version: Version, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let largest = setup.largest;
    let answering = Answering::new(Driven::new(&setup.limits)?, |driven, calls| {
        let stream = driven.tcp(fd)?;
        driven.spawn(serve(stream, version, calls, largest));
        Ok(())
    })?;
    Ok(Box::new(answering))
}

fn far_encrypted(fd: OwnedFd, identity: Identity, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let largest = setup.largest;
    let acceptor = TlsAcceptor::from(identity.server(&[H2])?);
    let answering = Answering::new(Driven::new(&setup.limits)?, |driven, calls| {
        let stream = driven.tcp(fd)?;
        driven.spawn(async move {
            match acceptor.accept(stream).await {
                Ok(stream) => match is_http2(stream.get_ref().1.alpn_protocol()) {
                    Ok(()) => serve(stream, Version::Two, calls, largest).await,
                    Err(error) => calls.ended(error),
                },
                Err(error) => calls.ended(error),
            }
        });
        Ok(())
    })?;
    Ok(Box::new(answering))
}

/// Serves one connection until the other end closes it.
async fn serve(io: impl Io, version: Version, calls: Calls, largest: usize) {
    let (io, to) = (TokioIo::new(io), calls.clone());
    let service = service_fn(move |request| answer(request, to.clone(), largest));
    let served = match version {
        Version::One => server1::Builder::new().serve_connection(io, service).await,
        Version::Two => server2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await,
    };
    if let Err(error) = served {
        calls.ended(of(&error));
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn answer(request: Request<Incoming>, calls: Calls, largest: usize) -> Result<Response<Full<Bytes>>, Failed> {
    if request.method() != Method::POST {
        return Ok(Response::new(Full::default()));
    }
    let message = Limited::new(request.into_body(), largest).collect().await?.to_bytes();
    let answer = calls.answer(message).await.ok_or("nobody answers any more")?;
    Ok(Response::new(Full::new(answer)))
}
