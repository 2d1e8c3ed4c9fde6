//! `zerocopy`: sendmsg() with MSG_ZEROCOPY, completions read from the error queue.

use std::io;

use msgpath_core::{Unavailable, ZeroCopyCounts, plan::ChannelOptions};
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::scatter::Scatter;
use msgpath_sys::socket::{self, IntOption};
use msgpath_sys::{clock, errqueue};

use super::hand_over;
use crate::channel::{Channel, Socket};
use crate::end::{Layout, Method, NewMethod};
use crate::meta::{Meta, Part, TransportMeta};

/// Bytes that the buffers of one connection may take together.
const POOL_BYTES: usize = 8 << 20;
const FLAGS: SendFlags = SendFlags { zerocopy: true, more: false };

struct Slot {
    message: Scatter,
    /// Calls that used this buffer and have no completion yet.
    open: u32,
}

pub struct ZeroCopy {
    slots: Vec<Slot>,
    next: usize,
    calls: Ledger,
}

/// Which slot each call used. The kernel numbers calls from 0 and wraps at 2^32; a short send takes two numbers.
struct Ledger {
    slot_of: Vec<u32>,
    made: u32,
    counts: ZeroCopyCounts,
}

impl Part for ZeroCopy {
    const META: Meta = Meta {
        name: "zerocopy",
        summary: "sendmsg() with MSG_ZEROCOPY; what the kernel really copied is counted",
        manual: "The kernel pins the pages and sends from them; a completion on the error queue says when the buffer \
                 may be used again and whether the bytes were copied after all. SO_ZEROCOPY is set and read back, \
                 because without it the flag is silently ignored. Whatever stays on this machine is always copied. \
                 Buffers rotate; none is used before its completion. \
                 With the waits poll and epoll a completion wakes the receiver as well: it shows as an empty receive call.",
    };
    const PAGES: bool = true;

    fn fits(transport: &TransportMeta) -> Result<(), &'static str> {
        if ["tcp", "udp"].contains(&transport.meta.name) {
            Ok(())
        } else {
            Err("MSG_ZEROCOPY exists for TCP and UDP only; elsewhere it is ignored")
        }
    }
}

impl NewMethod<Socket> for ZeroCopy {
    fn new(channel: &mut Socket, layout: Layout, _: &ChannelOptions) -> Result<Self, Unavailable> {
        let refused =
            |error: io::Error| Unavailable::new(format!("SO_ZEROCOPY: {error}"), "use a path without zerocopy");
        socket::set(channel.fd(), IntOption::Zerocopy, 1).map_err(refused)?;
        if socket::get(channel.fd(), IntOption::Zerocopy).map_err(refused)? != 1 {
            return Err(Unavailable::new("SO_ZEROCOPY was set and is not on", ""));
        }
        let count = (POOL_BYTES / layout.pieces.total().max(1) as usize).clamp(4, 64).max(layout.copies);
        let layout = Layout { copies: 1, ..layout };
        let slots: Vec<Slot> = (0..count).map(|_| Slot { message: layout.cut(), open: 0 }).collect();
        Ok(Self {
            slots,
            next: 0,
            calls: Ledger { slot_of: vec![0; 4096], made: 0, counts: ZeroCopyCounts::default() },
        })
    }
}

impl Method<Socket> for ZeroCopy {
    #[inline(always)]
    fn slot(&mut self, channel: &mut Socket) -> io::Result<&mut Scatter> {
        if self.slots[self.next].open > 0 {
            self.wait_for_slot(channel)?;
        }
        Ok(&mut self.slots[self.next].message)
    }

    #[inline(always)]
    fn send(&mut self, channel: &mut Socket) -> io::Result<()> {
        let Self { slots, next, calls } = self;
        let total = slots[*next].message.len();
        let since = clock::now();
        hand_over(channel, total, |channel, done| {
            loop {
                let message = &slots[*next].message;
                let sent = match done {
                    0 => msg::sendmsg(channel.fd(), message, FLAGS),
                    done => msg::sendmsg_rest(channel.fd(), message, done, FLAGS),
                };
                match sent {
                    Ok(sent) => {
                        calls.note(*next as u32);
                        slots[*next].open += 1;
                        return Ok(sent);
                    }
                    // No room to note another completion (optmem_max): read some, then try again.
                    Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                        calls.counts.no_buffers += 1;
                        calls.reap(channel, slots, true)?;
                        channel.limits().again(io::Error::from(io::ErrorKind::WouldBlock), since)?;
                    }
                    Err(error) => return Err(error),
                }
            }
        })?;
        self.next = (self.next + 1) % self.slots.len();
        Ok(())
    }

    fn drain(&mut self, channel: &mut Socket) -> io::Result<()> {
        let since = clock::now();
        while self.calls.open() > 0 && clock::now() - since < 1_000_000_000 {
            self.calls.reap(channel, &mut self.slots, true)?;
        }
        Ok(())
    }

    fn zerocopy(&self) -> ZeroCopyCounts {
        ZeroCopyCounts { unanswered: self.calls.open(), ..self.calls.counts }
    }
}

impl ZeroCopy {
    #[cold]
    fn wait_for_slot(&mut self, channel: &mut Socket) -> io::Result<()> {
        let since = clock::now();
        self.calls.reap(channel, &mut self.slots, false)?;
        while self.slots[self.next].open > 0 {
            self.calls.reap(channel, &mut self.slots, true)?;
            channel.limits().again(io::Error::from(io::ErrorKind::WouldBlock), since)?;
        }
        Ok(())
    }
}

impl Ledger {
    #[inline(always)]
    fn note(&mut self, slot: u32) {
        let at = self.made as usize % self.slot_of.len();
        self.slot_of[at] = slot;
        self.made = self.made.wrapping_add(1);
        self.counts.asked += 1;
    }

    fn open(&self) -> u64 {
        self.counts.asked - self.counts.copied - self.counts.zero_copied
    }

    /// Reads all completions that are there; with `wait`, waits up to 10 ms for the first.
    fn reap(&mut self, channel: &mut Socket, slots: &mut [Slot], wait: bool) -> io::Result<()> {
        let mut waited = !wait;
        loop {
            channel.counts().other_calls += 1;
            match errqueue::read(channel.fd()) {
                Ok(Some(completion)) => {
                    waited = true;
                    self.counts.notifications += 1;
                    // A completion for calls that are not open would be the kernel's mistake; it frees nothing.
                    if completion.count() > self.open() {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "a completion for sends never made"));
                    }
                    if completion.copied {
                        self.counts.copied += completion.count();
                    } else {
                        self.counts.zero_copied += completion.count();
                    }
                    for number in 0..completion.count() {
                        let call = completion.first.wrapping_add(number as u32);
                        let slot = self.slot_of[call as usize % self.slot_of.len()] as usize;
                        slots[slot].open = slots[slot].open.saturating_sub(1);
                    }
                }
                Ok(None) => waited = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if waited {
                        return Ok(());
                    }
                    waited = true;
                    channel.counts().other_calls += 1;
                    let _ = poll(channel.fd(), Interest::Error, 10)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
