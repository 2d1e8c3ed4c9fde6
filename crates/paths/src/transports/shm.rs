//! Rings in shared memory. The near end makes the memfd and passes it over a Unix socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use msgpath_sys::ring::Ring;
use rustix::net::SocketType;

use super::{LocalListener, connect_local, pass, take};
use crate::channel::{AnyChannel, RingEnd};
use crate::meta::{Copies, Family, Meta, Stack, TransportMeta};
use crate::transport::{Need, Offer, Transport};

/// `shm`.
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
                 call is made; with futex a sleeping receiver is woken.",
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

struct Waiting {
    listener: LocalListener,
    need: Need,
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
                let [fd] = take::<1>(&socket)?;
                let ring = Ring::attach(&fd, self.need.notify)?;
                Ok(AnyChannel::Ring(RingEnd::new(ring, self.need.limits.clone())))
            })
            .collect()
    }
}

impl Transport for Shm {
    fn meta(&self) -> &'static TransportMeta {
        &META
    }

    fn max_message(&self) -> Option<u64> {
        Some(MAX_MESSAGE)
    }

    fn offer(&self, need: &Need) -> io::Result<Box<dyn Offer>> {
        Ok(Box::new(Waiting {
            listener: LocalListener::new(SocketType::STREAM, need.connections)?,
            need: need.clone(),
        }))
    }

    fn connect(&self, address: &str, need: &Need) -> io::Result<(AnyChannel, String)> {
        let socket = connect_local(address, SocketType::STREAM)?;
        let least = if need.stream { STREAM / need.largest.max(128) } else { 4 };
        let messages = u64::from(need.inflight).max(least) as usize;
        let (fd, ring) = Ring::create(need.largest as usize, messages, need.notify)?;
        pass(&socket, &[fd.as_fd()])?;
        Ok((AnyChannel::Ring(RingEnd::new(ring, need.limits.clone())), String::new()))
    }
}
