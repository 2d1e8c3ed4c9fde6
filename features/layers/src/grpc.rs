//! `grpc`: unary calls by tonic at both ends. The service is written by hand and its messages are bytes: no schema, no generated
//! code.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use hyper::http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use msgpath_paths::Layer;
use msgpath_tls::NAME;
use tonic::body::Body;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc as Server, NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server as Listener};
use tonic::{Request, Response, Status};
use tower_service::Service;

use crate::inbox::{Answering, Calls, copy};
use crate::runtime::{Driven, broken};
use crate::stack::{Ends, Setup, Stack, describe};

pub(crate) static GRPC: Stack = Stack {
    meta: &describe(
        "grpc",
        "gRPC unary calls over HTTP/2 in clear text: tonic at both ends",
        "Each message is the request of a unary call, behind five bytes of its length, and the answer comes with its status in \
         trailers. tonic as programs use it: a channel, which hands requests to a task of its own, and a server with its router. \
         Messages are bytes; protocol buffers would cost more.",
        true,
    ),
    over: "http2",
    base: "tcp",
    ends: Ends::Plain { near, far },
};

/// The method that is called.
const METHOD: &str = "/msgpath.Echo/Echo";

/// Messages as they are.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// gRPC limits messages to 4 MiB unless told otherwise.
fn most(setup: &Setup) -> usize {
    setup.largest.max(1)
}

fn near(fd: OwnedFd, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let driven = Driven::new(&setup.limits)?;
    let connector = Once(Some(driven.tcp(fd)?));
    let endpoint = Endpoint::from_shared(format!("http://{NAME}")).map_err(io::Error::other)?;
    let channel = driven
        .agree(async { endpoint.connect_with_connector(connector).await.map_err(|error| broken(&error, false)) })?;
    let client = Client::new(channel).max_decoding_message_size(most(setup));
    Ok(Box::new(Near { driven, client, message: None }))
}

/// Gives the one connection that there is: a second one would be another, and is not made.
struct Once(Option<tokio::net::TcpStream>);

impl Service<hyper::Uri> for Once {
    type Response = TokioIo<tokio::net::TcpStream>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: hyper::Uri) -> Self::Future {
        ready(self.0.take().map(TokioIo::new).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof)))
    }
}

struct Near {
    driven: Driven,
    client: Client<Channel>,
    message: Option<Bytes>,
}

impl Layer for Near {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.message = Some(Bytes::copy_from_slice(message));
        Ok(())
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let message = self.message.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let client = &mut self.client;
        self.driven.run(async {
            client.ready().await.map_err(|error| broken(&error, true))?;
            let answer = client.unary(Request::new(message), PathAndQuery::from_static(METHOD), Raw).await;
            copy(&answer.map_err(|status| broken(&status, false))?.into_inner(), buffer, 0)
        })
    }
}

fn far(fd: OwnedFd, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let most = most(setup);
    let answering = Answering::new(Driven::new(&setup.limits)?, |driven, calls| {
        let stream = driven.tcp(fd)?;
        let incoming = tokio_stream::once(Ok::<_, io::Error>(stream));
        let router = Listener::builder().add_service(Echo { calls: calls.clone(), most });
        driven.spawn(async move {
            if let Err(error) = router.serve_with_incoming(incoming).await {
                calls.ended(broken(&error, false));
            }
        });
        Ok(())
    })?;
    Ok(Box::new(answering))
}

/// The service: one method, whose answer comes from the loop that measures.
#[derive(Clone)]
struct Echo {
    calls: Calls,
    most: usize,
}

impl NamedService for Echo {
    const NAME: &'static str = "msgpath.Echo";
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<hyper::Request<Body>> for Echo {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            let mut server = Server::new(Raw).max_decoding_message_size(echo.most);
            Ok(server.unary(echo, request).await)
        })
    }
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Boxed<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let calls = self.calls.clone();
        Box::pin(async move {
            let answer = calls.answer(request.into_inner()).await;
            answer.map(Response::new).ok_or_else(|| Status::unavailable("nobody answers any more"))
        })
    }
}
