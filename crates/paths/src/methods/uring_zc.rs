//! `uring-zc`: zero-copy send through io_uring, with the usage report of each notification.

use std::io;

use msgpath_core::{Unavailable, ZeroCopyCounts, plan::ChannelOptions};
use msgpath_sys::clock;
use msgpath_sys::scatter::Scatter;
use msgpath_sys::uring::Uring;

use super::hand_over;
use crate::channel::{Channel, Socket};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};
use crate::waits::uring::ring;

/// Bytes that the buffers of one connection may take together.
const POOL_BYTES: usize = 8 << 20;

struct Slot {
    message: Scatter,
    open: u32,
}

pub struct UringZc {
    slots: Vec<Slot>,
    next: usize,
    ring: Uring,
    counts: ZeroCopyCounts,
}

impl Part for UringZc {
    const META: Meta = Meta {
        name: "uring-zc",
        summary: "zero-copy send through io_uring; what the kernel really copied is counted",
        manual: "IORING_OP_SEND_ZC with IORING_SEND_ZC_REPORT_USAGE: the notification says when the buffer may be \
                 used again and whether the bytes were copied after all. Needs kernel 6.2 for the report.",
    };
    const PAGES: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if ["tcp", "udp"].contains(&transport.meta.name) {
            Ok(())
        } else {
            Err("zero-copy send exists for TCP and UDP only")
        }
    }
}

impl NewMethod<Socket> for UringZc {
    fn new(_: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let count = (POOL_BYTES / layout.pieces.total().max(1) as usize).clamp(4, 64).max(layout.copies);
        let layout = Layout { copies: 1, ..layout };
        let ring = ring(2 * count as u32)?;
        if !ring.has_send_zc().unwrap_or(false) {
            return Err(Unavailable::new("this kernel has no zero-copy send in io_uring", "kernel 6.2 or newer"));
        }
        let slots = (0..count).map(|_| Slot { message: layout.whole(), open: 0 }).collect();
        Ok(Self { slots, next: 0, ring, counts: ZeroCopyCounts::default() })
    }
}

impl Method<Socket> for UringZc {
    #[inline(always)]
    fn slot(&mut self, channel: &mut Socket) -> io::Result<&mut Scatter> {
        if self.slots[self.next].open > 0 {
            self.wait_for_slot(channel)?;
        }
        Ok(&mut self.slots[self.next].message)
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        let Self { slots, next, ring, counts } = self;
        let slot = &mut slots[*next];
        let (message, open) = (&slot.message, &mut slot.open);
        let bytes = message.piece(0);
        hand_over(channel, bytes.len(), |channel, done| {
            let (sent, notified) = ring.send_zc(channel.fd(), &bytes[done..], *next as u64)?;
            counts.asked += 1;
            // A send without a notification to come copied its few bytes and has let go already.
            if notified {
                *open += 1;
            } else {
                counts.copied += 1;
            }
            Ok(sent)
        })?;
        self.next = (self.next + 1) % self.slots.len();
        Ok(())
    }

    fn drain(&mut self, channel: &mut Socket) -> io::Result<()> {
        let since = clock::now();
        while self.open() > 0 && clock::now() - since < 1_000_000_000 {
            self.reap(channel, true)?;
        }
        Ok(())
    }

    fn zerocopy(&self) -> ZeroCopyCounts {
        ZeroCopyCounts { unanswered: self.open(), ..self.counts }
    }
}

impl UringZc {
    fn open(&self) -> u64 {
        self.counts.asked - self.counts.copied - self.counts.zero_copied
    }

    fn reap(&mut self, channel: &mut Socket, wait: bool) -> io::Result<()> {
        let Self { slots, ring, counts, .. } = self;
        channel.counts().other_calls += 1;
        ring.notifications(wait.then_some(std::time::Duration::from_millis(10)), |notification| {
            counts.notifications += 1;
            if notification.copied {
                counts.copied += 1;
            } else {
                counts.zero_copied += 1;
            }
            if let Some(slot) = slots.get_mut(notification.token as usize) {
                slot.open = slot.open.saturating_sub(1);
            }
        })
    }

    #[cold]
    fn wait_for_slot(&mut self, channel: &mut Socket) -> io::Result<()> {
        let since = clock::now();
        self.reap(channel, false)?;
        while self.slots[self.next].open > 0 {
            self.reap(channel, true)?;
            channel.limits().again(io::Error::from(io::ErrorKind::WouldBlock), since)?;
        }
        Ok(())
    }
}
