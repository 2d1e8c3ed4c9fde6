//! `tokio`: TCP as a program uses it that has a tokio runtime, and nothing else on top.

use std::io;
use std::os::fd::OwnedFd;

use msgpath_paths::Layer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::runtime::Driven;
use crate::stack::{Ends, Setup, Stack, describe};

pub(crate) static TOKIO: Stack = Stack {
    meta: &describe(
        "tokio",
        "TCP in a tokio runtime: what the runtime adds, and nothing else",
        "Bytes over a TCP connection whose socket never blocks: write, and where nothing is there yet, epoll_wait and read again. \
         The runtime runs in the thread that measures, one a connection. The layers that need it stand on this one.",
        false,
    ),
    over: "tcp",
    base: "tcp",
    ends: Ends::Plain { near: open, far: open },
};

struct Plain {
    driven: Driven,
    stream: TcpStream,
}

fn open(fd: OwnedFd, setup: &Setup) -> io::Result<Box<dyn Layer>> {
    let driven = Driven::new(&setup.limits)?;
    let stream = driven.tcp(fd)?;
    Ok(Box::new(Plain { driven, stream }))
}

impl Layer for Plain {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.driven.run(self.stream.write_all(message))
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.driven.run(self.stream.read(buffer))
    }
}
