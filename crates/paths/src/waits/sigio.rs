//! `sigio`: sleep until the descriptor's signal, then receive until nothing is left.

use std::io;

use msgpath_core::{Unavailable, plan::ChannelOptions};
use msgpath_sys::clock;
use msgpath_sys::sigio::{self, Signals};

use super::slice_over;
use crate::channel::Polled;
use crate::end::{NewWait, Wait};
use crate::meta::{Family, Meta, Part, TransportMeta};

pub struct SigIo {
    /// Made by the first receive: signals go to the thread that receives.
    signals: Option<Signals>,
    queued: bool,
}

impl Part for SigIo {
    const META: Meta = Meta {
        name: "sigio",
        summary: "O_ASYNC: sleep until a signal comes, then receive until nothing is left",
        manual: "F_SETOWN_EX directs the signal at the receiving thread, which lets it in only while it sleeps in ppoll(): \
                 no wake-up is lost between the look and the sleep. SIGIO is not queued: one stands for many messages, \
                 and msgpath counts how many. -o queued-signals=yes asks for a real-time signal by F_SETSIG, of which each \
                 event queues one.",
    };
    const SIGNALS: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        match transport.family {
            Family::Queue => Err("message queues raise no SIGIO; what they have is mq_notify()"),
            Family::SystemV => Err("no descriptor stands for a System V queue, and no signal comes from it"),
            Family::Ring | Family::Process => Err("shared memory is not a descriptor, and no signal comes from it"),
            Family::Layer => Err("what a layer waits for, its library decides"),
            Family::Socket | Family::Pipe | Family::Packet | Family::PacketRing | Family::Xsk => Ok(()),
        }
    }
}

impl<C: Polled> NewWait<C> for SigIo {
    fn new(channel: &mut C, options: &ChannelOptions) -> Result<Self, Unavailable> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::Unsupported => Unavailable::new("this descriptor ignores O_ASYNC", "the wait epoll"),
            _ => Unavailable::new(format!("O_ASYNC: {error}"), ""),
        };
        channel.never_block().map_err(failed)?;
        sigio::probe(channel.recv_fd()).map_err(failed)?;
        Ok(Self { signals: None, queued: options.queued_signals })
    }
}

impl<C: Polled> Wait<C> for SigIo {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        let signals = match &mut self.signals {
            Some(signals) => signals,
            none => none.insert(Signals::arm(channel.recv_fd(), self.queued)?),
        };
        let slice = channel.limits().slice;
        let mut since = None;
        loop {
            channel.counts().recv_calls += 1;
            match channel.recv_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
            channel.counts().recv_empty += 1;
            channel.counts().wait_calls += 1;
            let woken = signals.sleep(slice)?;
            channel.counts().signals += sigio::take().0;
            // A signal can come without a byte (room to write, another connection of this thread): the wait goes on.
            let since = *since.get_or_insert_with(clock::now);
            if !woken || clock::now() - since > 2 * slice.as_nanos() as u64 {
                return Err(slice_over());
            }
        }
    }
}
