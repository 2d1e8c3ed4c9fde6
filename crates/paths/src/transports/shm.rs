//! Rings in shared memory. The near end makes the memfd and passes it over a Unix socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use msgpath_sys::bell::Bell;
use msgpath_sys::ring::Ring;
use msgpath_sys::socket::peer_process;
use rustix::net::SocketType;

use super::{Listening, connect_local, other_descriptors, pass, take_all};
use crate::channel::{AnyChannel, RingEnd};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta, Wakes};
use crate::transport::{Need, Offer, Transport};

pub struct Shm;

/// Largest message; two rings of four of them are the memory it takes.
const MAX_MESSAGE: u64 = 64 << 20;
/// Bytes that a stream may be ahead, as those of a pipe.
const STREAM: u64 = 64 << 10;

static META: TransportMeta = TransportMeta {
    meta: Meta {
        name: "shm",
        summary: "a ring in shared memory for each direction (memfd), no system call but to sleep and wake",
        manual: "The sender copies the message into memory that both processes map and marks it as there; the \
                 receiver copies it out. Pages are faulted in before the first message. With the wait spin no system \
                 call is made; with every other one the sender wakes a receiver that sleeps, and the waits differ in the \
                 call that wakes.",
    },
    family: Family::Ring,
    framed: true,
    lossy: false,
    inet: false,
    device: false,
    connects: false,
    segments: false,
    stack: Stack::Memory,
    headers: &[],
    copies: Copies::Program,
    default_method: "ring",
    default_wait: "futex",
};

impl Transport for Shm {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(MAX_MESSAGE)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        let channel = |socket: OwnedFd, need: &Need| {
            let mut fds = take_all(&socket, &need.limits)?.into_iter();
            let fd = fds.next().ok_or_else(other_descriptors)?;
            let mut ring = Ring::attach(&fd, need.wakes != Wakes::Nobody)?;
            if let Wakes::Bell(kind) = need.wakes {
                ring.hang(Bell::attach(kind, &ring, peer_process(socket.as_fd()), fds.collect())?);
            }
            Ok(AnyChannel::Ring(RingEnd::new(ring, need.limits.clone())))
        };
        Ok(Box::new(Listening::local(SocketType::STREAM, need, channel)?))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let socket = connect_local(address, SocketType::STREAM)?;
        let least = if need.stream { STREAM / need.largest.max(128) } else { 4 };
        let messages = u64::from(need.inflight).max(least) as usize;
        let (fd, mut ring) = Ring::create(need.largest as usize, messages, need.wakes != Wakes::Nobody)?;
        let mut fds = vec![fd];
        if let Wakes::Bell(kind) = need.wakes {
            let (bell, others) = Bell::create(kind, &ring, peer_process(socket.as_fd()))?;
            ring.hang(bell);
            fds.extend(others);
        }
        pass(&socket, &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        Ok((AnyChannel::Ring(RingEnd::new(ring, need.limits.clone())), String::new()))
    }
}
