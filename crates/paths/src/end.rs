//! One end of a path: channel, send method and wait together.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use msgpath_core::units::Pieces;
use msgpath_core::{Unavailable, ZeroCopyCounts, plan::ChannelOptions};
use msgpath_sys::scatter::Scatter;

use crate::channel::Channel;
use crate::meta::Part;

/// The messages an end sends.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    /// Buffers of a message.
    pub pieces: Pieces,
    /// Messages in flight at most: when one more is made, the first of them has been answered. [`Layout::UNANSWERED`]: nobody
    /// answers, or what is in flight is not bounded.
    pub inflight: u32,
    /// Copies of a message's buffers that are used in turn; 1: always the same ones.
    pub copies: usize,
    /// Byte number so-and-so of every message. A method fills each of its buffers once, when it makes it.
    pub content: &'a (dyn Fn(usize) -> u8 + Sync),
}

impl Layout<'_> {
    /// Nothing says that a message was read.
    pub const UNANSWERED: u32 = u32::MAX;

    /// With as many copies as are needed where pages are lent: a buffer is used again when the receiver has read it. `most`: messages
    /// that can be on their way unread, and one more.
    #[must_use]
    pub fn lent(self, most: u64) -> Self {
        Self { copies: self.copies.max(most.min(self.inflight.into()) as usize), ..self }
    }

    /// The message in one buffer of a file, and the file.
    ///
    /// # Errors
    /// As [`Scatter::in_file`].
    pub fn in_file(self) -> io::Result<(OwnedFd, Scatter)> {
        let (file, message) = Scatter::in_file(self.pieces.total() as usize, self.copies)?;
        Ok((file, self.fill(message)))
    }

    /// The message in one buffer.
    pub fn whole(self) -> Scatter {
        self.filled(Pieces::whole(self.pieces.total() as u32), &[])
    }

    /// The message in one buffer behind the head of its frame.
    pub fn whole_behind(self, head: &[u8]) -> Scatter {
        self.filled(Pieces::whole(self.pieces.total() as u32), head)
    }

    /// The message in its pieces behind the head of its frame.
    pub fn cut_behind(self, head: &[u8]) -> Scatter {
        self.filled(self.pieces, head)
    }

    /// The message in its pieces.
    pub fn cut(self) -> Scatter {
        self.filled(self.pieces, &[])
    }

    fn filled(self, pieces: Pieces, head: &[u8]) -> Scatter {
        self.fill(Scatter::behind(&pieces.sizes().collect::<Vec<_>>(), self.copies, head))
    }

    fn fill(self, mut message: Scatter) -> Scatter {
        // A working set may have a thousand copies: the bytes are made once.
        let content: Vec<u8> = (0..message.len()).map(self.content).collect();
        for _ in 0..message.copies() {
            let mut rest = content.as_slice();
            for at in 0..message.count() {
                let piece = message.piece_mut(at);
                let (own, later) = rest.split_at(piece.len());
                piece.copy_from_slice(own);
                rest = later;
            }
            message.turn();
        }
        message
    }
}

/// A send method that can be set up by its name.
pub trait NewMethod<C: Channel>: Method<C> + Part + Sized + 'static {
    /// Sets up for this channel and these messages; asks the kernel for what it needs and reads it back.
    ///
    /// # Errors
    /// What is not available here, and why.
    fn new(channel: &mut C, layout: Layout, options: &ChannelOptions) -> Result<Self, Unavailable>;
}

/// How messages are handed over. A method owns the buffers it sends from, so that a zero-copy method can keep them
/// until the kernel has let go.
pub trait Method<C: Channel> {
    /// The buffer of the next message: not in flight, and the one that [`Method::send`] sends. Called once a message;
    /// where buffers rotate it goes on to the next.
    ///
    /// # Errors
    /// Waiting for a buffer to come back failed.
    fn slot(&mut self, channel: &mut C) -> io::Result<&mut Scatter>;

    /// Hands the message in the slot over, whole (or queues it until [`Method::flush`]).
    ///
    /// # Errors
    /// As the system call; short sends are continued inside. `WouldBlock` on a channel that never waits: there was no
    /// room, and the same call goes on where this one ended ([`Part::IN_EVENT_LOOP`]).
    fn send(&mut self, channel: &mut C) -> io::Result<()>;

    /// Hands over whatever was queued.
    ///
    /// # Errors
    /// As [`Method::send`].
    #[inline(always)]
    fn flush(&mut self, _channel: &mut C) -> io::Result<()> {
        Ok(())
    }

    /// Waits for buffers that are still the kernel's, at the end of a round; bounded.
    ///
    /// # Errors
    /// As the system call.
    fn drain(&mut self, _channel: &mut C) -> io::Result<()> {
        Ok(())
    }

    /// Whether the far end of an echo receives by [`Method::relay`].
    #[inline(always)]
    fn relays(&self) -> bool {
        false
    }

    /// Takes up to `most` bytes of what arrives for the next [`Method::send`], past the program, and waits for it as a receive call
    /// does. 0: the other end has closed.
    ///
    /// # Errors
    /// `WouldBlock` when the channel's slice is over; `Unsupported`: it does not do that.
    fn relay(&mut self, _channel: &mut C, _most: usize) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Zero-copy bookkeeping, where the method asks for zero copy.
    fn zerocopy(&self) -> ZeroCopyCounts {
        ZeroCopyCounts::default()
    }
}

/// A wait that can be set up by its name.
pub trait NewWait<C: Channel>: Wait<C> + Part + Sized + 'static {
    /// Sets up for this channel.
    ///
    /// # Errors
    /// What is not available here, and why.
    fn new(channel: &mut C, options: &ChannelOptions) -> Result<Self, Unavailable>;
}

/// How the receiver waits.
pub trait Wait<C: Channel> {
    /// Waits for something and receives once: a whole message where the channel preserves message boundaries, else what is there.
    /// 0: the other end has closed.
    ///
    /// # Errors
    /// `WouldBlock` when the channel's slice is over without a byte.
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize>;

    /// Leaves the waiting to an event loop that serves many channels: from now on neither sending nor receiving waits on
    /// this one, and [`Wait::take`] receives.
    ///
    /// # Errors
    /// This wait serves one channel at a time ([`Part::IN_EVENT_LOOP`]), or the kernel refused.
    fn join(&mut self, _channel: &mut C) -> Result<(), Unavailable> {
        Err(Unavailable::new("this wait serves one connection at a time", "a path with /epoll"))
    }

    /// What an event loop watches of the channel.
    fn doors<'a>(&self, _channel: &'a C) -> Option<Doors<'a>> {
        None
    }

    /// Receives once without waiting, after [`Wait::join`]. 0: the other end has closed.
    ///
    /// # Errors
    /// `WouldBlock` where nothing is there.
    fn take(&mut self, _channel: &mut C, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// CPU time so far of threads of the kernel that work for it, ns: it belongs to the end, and getrusage(2) of its thread does not
    /// have it.
    fn helpers_ns(&self) -> u64 {
        0
    }
}

/// What an event loop watches of a channel. Both may be one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Doors<'a> {
    /// Readable when something has come.
    pub input: BorrowedFd<'a>,
    /// Writable when there is room.
    pub output: BorrowedFd<'a>,
}

pub struct End<C, S, W> {
    /// What carries the bytes.
    pub channel: C,
    /// How they are handed over.
    pub method: S,
    /// How the end waits.
    pub wait: W,
}

impl<C: Channel, S: NewMethod<C>, W: NewWait<C>> End<C, S, W> {
    /// Puts the three together.
    ///
    /// # Errors
    /// What the method or the wait cannot have here.
    pub fn new(mut channel: C, layout: Layout, options: &ChannelOptions) -> Result<Self, Unavailable> {
        let method = S::new(&mut channel, layout, options)?;
        let wait = W::new(&mut channel, options)?;
        Ok(Self { channel, method, wait })
    }
}

/// A send method called through a table: for an end whose sending is not measured.
pub type AnyMethod<C> = Box<dyn Method<C>>;

/// A wait called through a table: where the call that it makes takes hundreds of times as long as finding it, and for an
/// end whose receiving is not measured.
pub type AnyWait<C> = Box<dyn Wait<C>>;

impl<C: Channel> Method<C> for AnyMethod<C> {
    fn slot(&mut self, channel: &mut C) -> io::Result<&mut Scatter> {
        (**self).slot(channel)
    }

    fn send(&mut self, channel: &mut C) -> io::Result<()> {
        (**self).send(channel)
    }

    fn flush(&mut self, channel: &mut C) -> io::Result<()> {
        (**self).flush(channel)
    }

    fn drain(&mut self, channel: &mut C) -> io::Result<()> {
        (**self).drain(channel)
    }

    fn relays(&self) -> bool {
        (**self).relays()
    }

    fn relay(&mut self, channel: &mut C, most: usize) -> io::Result<usize> {
        (**self).relay(channel, most)
    }

    fn zerocopy(&self) -> ZeroCopyCounts {
        (**self).zerocopy()
    }
}

impl<C: Channel> Wait<C> for AnyWait<C> {
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).recv(channel, buffer)
    }

    fn join(&mut self, channel: &mut C) -> Result<(), Unavailable> {
        (**self).join(channel)
    }

    fn doors<'a>(&self, channel: &'a C) -> Option<Doors<'a>> {
        (**self).doors(channel)
    }

    fn take(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).take(channel, buffer)
    }

    fn helpers_ns(&self) -> u64 {
        (**self).helpers_ns()
    }
}
