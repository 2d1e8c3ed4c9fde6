//! Two anonymous pipes. The near end makes them and passes the far end's descriptors over a Unix socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::SocketType;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::{LocalListener, connect_local, pass, take};
use crate::channel::{AnyChannel, Pipe};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `pipe`.
pub struct Pipes;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "pipe",
        summary: "two anonymous pipes, one for each direction",
        manual: "A byte stream in pages: the writer copies in, the reader copies out. A pipe holds 64 KiB unless \
                 asked otherwise (--sndbuf sets F_SETPIPE_SZ); a larger message is handed over in parts.",
    },
    family: Family::Pipe,
    framed: false,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Plain,
    headers: &[],
    copies: Copies::Kernel,
    default_method: "write",
    default_wait: "block",
};

struct Waiting {
    listener: LocalListener,
    need: Need,
}

/// A pipe of the size that was asked for: read end, write end.
fn pipe(need: &Need) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Some(bytes) = need.options.send_buffer {
        fcntl_setpipe_size(&write, bytes as usize)?;
    }
    Ok((read, write))
}

impl Offer for Waiting {
    fn addresses(&self) -> Vec<String> {
        self.listener.addresses()
    }

    fn door(&self) -> Option<BorrowedFd<'_>> {
        self.listener.admission.door()
    }

    fn admit(&mut self) {
        self.listener.admission.admit();
    }

    fn accept(&mut self, _: &[String], timeout: Duration) -> io::Result<Vec<AnyChannel>> {
        let accepted = self.listener.admission.accept(timeout)?.into_iter();
        accepted
            .map(|socket| {
                let [read, write] = take::<2>(&socket)?;
                Ok(AnyChannel::Pipe(Pipe::new(read, write, self.need.limits.clone())))
            })
            .collect()
    }
}

impl Transport for Pipes {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        Ok(Box::new(Waiting {
            listener: LocalListener::new(SocketType::STREAM, need.connections)?,
            need: need.clone(),
        }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let socket = connect_local(address, SocketType::STREAM)?;
        let (far_read, write) = pipe(need)?;
        let (read, far_write) = pipe(need)?;
        pass(&socket, &[far_read.as_fd(), far_write.as_fd()])?;
        Ok((AnyChannel::Pipe(Pipe::new(read, write, need.limits.clone())), String::new()))
    }
}
