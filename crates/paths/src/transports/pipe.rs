//! Two anonymous pipes. The near end makes them and passes the far end's descriptors over a Unix socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::SocketType;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::{Listening, connect_local, pass, take};
use crate::channel::{AnyChannel, Pipe};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

pub struct Pipes;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "pipe",
        summary: "two anonymous pipes, one for each direction",
        manual: "A byte stream in pages: the writer copies in, the reader copies out. A pipe holds 64 KiB unless \
                 asked otherwise (-o sndbuf sets F_SETPIPE_SZ); a larger message is handed over in parts.",
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

/// A pipe of the size that was asked for: read end, write end.
fn pipe(need: &Need, flags: PipeFlags) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | flags)?;
    if let Some(bytes) = need.options.send_buffer {
        fcntl_setpipe_size(&write, bytes as usize)?;
    }
    Ok((read, write))
}

/// An offer of pipes, perhaps in packet mode.
pub(super) fn offer(need: &Need, flags: PipeFlags) -> io::Result<Box<dyn Offer>> {
    let channel = move |socket: OwnedFd, need: &Need| {
        let [read, write] = take::<2>(&socket, &need.limits)?;
        Ok(end(read, write, need, flags))
    };
    Ok(Box::new(Listening::local(SocketType::STREAM, need, channel)?))
}

/// One end of two pipes with these flags.
fn end(read: OwnedFd, write: OwnedFd, need: &Need, flags: PipeFlags) -> AnyChannel {
    let pipe = Pipe::new(read, write, need.limits.clone());
    AnyChannel::Pipe(if flags.contains(PipeFlags::DIRECT) { pipe.in_packets() } else { pipe })
}

/// Connects to an [`offer`] with the same flags.
pub(super) fn connect(address: &str, need: &Need, flags: PipeFlags) -> io::Result<(AnyChannel, String)> {
    let socket = connect_local(address, SocketType::STREAM)?;
    let (far_read, write) = pipe(need, flags)?;
    let (read, far_write) = pipe(need, flags)?;
    pass(&socket, &[far_read.as_fd(), far_write.as_fd()])?;
    Ok((end(read, write, need, flags), String::new()))
}

impl Transport for Pipes {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        offer(need, PipeFlags::empty())
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        connect(address, need, PipeFlags::empty())
    }
}
