//! One event loop: a thread serves many connections from one epoll set, at either end of an echo.
//!
//! As the other loops it is generic over the path and holds nothing but the measured thing. A message whose bytes come in
//! parts is put together in its connection's own buffer, while others are served. Sending never waits either: where there
//! is no room the rest of the message goes when there is, so that two loops that face each other cannot wait for each
//! other.

use std::io;
use std::os::fd::AsFd;

use msgpath_core::units::Pieces;
use msgpath_core::{Delivery, Unavailable};
use msgpath_paths::end::Doors;
use msgpath_paths::{Channel, End, Method, Wait};
use msgpath_sys::clock;
use msgpath_sys::ready::{Direction, Events, ReadySet};

use crate::loops::{Answer, FarStamps, Inbox, LoopError, Messages, Row, check};

type Done = Result<(), LoopError>;

/// The connections of a thread in one epoll set.
pub struct EventLoop {
    set: ReadySet,
    events: Events,
    lines: Vec<Line>,
    /// When the set first spoke of a connection that had nothing; ends with the next byte.
    quiet_since: Option<u64>,
}

/// One connection.
struct Line {
    doors: Doors,
    inbox: Inbox,
    /// Bytes of the message that is arriving.
    got: usize,
    /// Number of the next message to hand over, and of the next to arrive.
    sent: u64,
    received: u64,
    /// Send times of the messages in flight, by sequence number.
    starts: Vec<u64>,
    /// A message is handed over in part: there was no room.
    held: bool,
}

/// What the loops are told of a thread's messages.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// What arrives.
    pub incoming: Pieces,
    /// Bytes of the larger of message and reply.
    pub largest: u64,
    /// Messages in flight on a connection.
    pub inflight: u32,
    /// Buffers used in turn.
    pub copies: usize,
}

impl EventLoop {
    /// Takes the waiting for all these ends over.
    ///
    /// # Errors
    /// The path has no event loop, or there is no descriptor left.
    pub fn new<C: Channel, S, W: Wait<C>>(ends: &mut [End<C, S, W>], sizes: Sizes) -> Result<Self, Unavailable> {
        let failed = |error: io::Error| Unavailable::new(format!("an epoll set: {error}"), "");
        let set = ReadySet::new().map_err(failed)?;
        let mut lines = Vec::with_capacity(ends.len());
        for (at, End { channel, wait, .. }) in ends.iter_mut().enumerate() {
            let doors = wait.join(channel)?;
            set.watch(doors.input.as_fd(), Direction::Input, at as u64).map_err(failed)?;
            let message = sizes.incoming.total() as usize;
            lines.push(Line {
                doors,
                inbox: Inbox::new(message, sizes.largest as usize, channel.framed(), sizes.copies),
                got: 0,
                sent: 0,
                received: 0,
                starts: vec![0; (sizes.inflight as usize).next_power_of_two()],
                held: false,
            });
        }
        Ok(Self { set, events: Events::new(ends.len()), lines, quiet_since: None })
    }

    /// Every line stands before message `first`.
    fn begin(&mut self, first: u64) {
        for line in &mut self.lines {
            (line.sent, line.received) = (first, first);
        }
    }

    /// Waits until a connection is ready.
    #[inline(always)]
    fn wait<C: Channel>(&mut self, channel: &mut C) -> io::Result<()> {
        channel.counts().wait_calls += 1;
        self.set.wait(&mut self.events, channel.limits().poll_ms())?;
        channel.limits().look()
    }
}

/// The set spoke of this connection, and nothing was there.
#[cold]
fn nothing<C: Channel>(channel: &C, quiet_since: &mut Option<u64>) -> io::Result<()> {
    let since = *quiet_since.get_or_insert_with(clock::now);
    channel.limits().again(io::Error::from(io::ErrorKind::WouldBlock), since)
}

impl Line {
    #[inline(always)]
    fn start(&mut self, sequence: u64) -> &mut u64 {
        let mask = self.starts.len() as u64 - 1;
        &mut self.starts[(sequence & mask) as usize]
    }

    /// Receives once. Whether a message is whole now; `WouldBlock`: nothing was there.
    #[inline(always)]
    fn receive<C: Channel, W: Wait<C>>(&mut self, channel: &mut C, wait: &mut W) -> io::Result<bool> {
        if self.got == 0 {
            self.inbox.turn();
        }
        match wait.take(channel, self.inbox.rest(self.got))? {
            more if self.got == 0 && more == self.inbox.length() => {
                channel.counts().recv_full += 1;
                Ok(true)
            }
            more => self.part(channel, more),
        }
    }

    /// A part of a message came.
    #[cold]
    fn part<C: Channel>(&mut self, channel: &mut C, more: usize) -> io::Result<bool> {
        let message = self.inbox.length();
        self.got += more;
        if more == 0 {
            // No text: it would be allocated, and the far end may be done before this one.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        if self.got == message {
            channel.counts().recv_full += 1;
            self.got = 0;
            return Ok(true);
        }
        if channel.framed() || self.got > message {
            let what = format!("a message of {} bytes arrived where {message} were sent", self.got);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        channel.counts().recv_short += 1;
        Ok(false)
    }

    /// There was no room for all of a message: the set tells when there is. `listening`: replies are taken meanwhile.
    #[cold]
    fn hold<C: Channel>(&mut self, channel: &mut C, set: &ReadySet, at: usize, listening: bool) -> io::Result<()> {
        self.held = true;
        channel.counts().other_calls += 1;
        set.watch(self.doors.output.as_fd(), Direction::Output, at as u64)?;
        if !listening {
            channel.counts().other_calls += 1;
            set.forget(self.doors.input.as_fd())?;
        }
        Ok(())
    }

    /// The message that was held is through.
    #[cold]
    fn release<C: Channel>(&mut self, channel: &mut C, set: &ReadySet, at: usize, listening: bool) -> io::Result<()> {
        self.held = false;
        channel.counts().other_calls += 1;
        set.forget(self.doors.output.as_fd())?;
        if !listening {
            channel.counts().other_calls += 1;
            set.watch(self.doors.input.as_fd(), Direction::Input, at as u64)?;
        }
        Ok(())
    }

    /// A message is handed over.
    #[inline(always)]
    fn through(&mut self, delivery: &mut Delivery) {
        self.sent += 1;
        delivery.sent += 1;
    }

    /// Sends as many messages as may be in flight and find room. Only at the near end.
    #[inline(always)]
    fn fill<C: Channel, S: Method<C>, W>(
        &mut self,
        End { channel, method, .. }: &mut End<C, S, W>,
        messages: &Messages<'_>,
        (last, inflight): (u64, u64),
        (set, at): (&ReadySet, usize),
        delivery: &mut Delivery,
    ) -> io::Result<()> {
        while self.sent < last && self.sent - self.received < inflight && !self.held {
            let sequence = self.sent;
            messages.outgoing.number(method.slot(channel)?, sequence);
            *self.start(sequence) = clock::now();
            match hand_over(channel, method)? {
                true => self.through(delivery),
                false => self.hold(channel, set, at, true)?,
            }
        }
        Ok(())
    }
}

/// Sends, or goes on with, the message in the slot. Whether it is through.
#[inline(always)]
fn hand_over<C: Channel, S: Method<C>>(channel: &mut C, method: &mut S) -> io::Result<bool> {
    match method.send(channel).and_then(|()| method.flush(channel)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Near end of an echo: `count` messages from number `first` on, on every connection, `inflight` of them in flight on
/// each; whichever reply has come is taken, and the next message goes on its connection. `rows` gets one row a message,
/// connection by connection in turn; it must have room.
///
/// # Errors
/// [`LoopError`].
pub fn echo_near<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    event_loop: &mut EventLoop,
    messages: &Messages<'_>,
    (first, count, inflight): (u64, u64, u32),
    rows: &mut Vec<Row>,
    delivery: &mut Delivery,
) -> Done {
    let (connections, last, base) = (ends.len(), first + count, rows.len());
    rows.resize(base + connections * count as usize, Row { start: 0, latency: 0 });
    let bounds = (last, u64::from(inflight));
    event_loop.begin(first);
    let mut open = if count == 0 { 0 } else { connections };
    {
        let EventLoop { set, lines, .. } = &mut *event_loop;
        for (at, (end, line)) in ends.iter_mut().zip(lines).enumerate().filter(|_| count > 0) {
            line.fill(end, messages, bounds, (set, at), delivery)?;
        }
    }
    while open > 0 {
        event_loop.wait(&mut ends[0].channel)?;
        let EventLoop { set, events, lines, quiet_since } = &mut *event_loop;
        for event in events.iter() {
            let at = event.token as usize;
            let (end, line) = (&mut ends[at], &mut lines[at]);
            if line.held && event.writable && hand_over(&mut end.channel, &mut end.method)? {
                line.through(delivery);
                line.release(&mut end.channel, set, at, true)?;
                line.fill(end, messages, bounds, (set, at), delivery)?;
            }
            if !event.readable {
                continue;
            }
            match line.receive(&mut end.channel, &mut end.wait) {
                Ok(true) if line.received < last => {}
                Ok(true) => return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to no message").into()),
                Ok(false) => continue,
                // The far end has answered everything and gone; other connections have replies in flight.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && line.received == last => {
                    set.forget(line.doors.input.as_fd())?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    nothing(&end.channel, quiet_since)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let now = clock::now();
            *quiet_since = None;
            let sequence = line.received;
            let start = *line.start(sequence);
            rows[base + (sequence - first) as usize * connections + at] = Row { start, latency: now - start };
            line.received += 1;
            delivery.received += 1;
            check(messages.incoming, line.inbox.bytes(), sequence, delivery)?;
            if line.received == last {
                open -= 1;
            } else {
                line.fill(end, messages, bounds, (set, at), delivery)?;
            }
        }
    }
    Ok(())
}

/// Far end of an echo: answers `count` messages on every connection, whichever has come, each with an own message of the
/// reply's size. `stamps`: as far as they have room, connection by connection in turn.
///
/// # Errors
/// [`LoopError`].
pub fn echo_far<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    event_loop: &mut EventLoop,
    messages: &Messages<'_>,
    (first, count): (u64, u64),
    answer: &Answer<'_>,
    stamps: &mut FarStamps,
    delivery: &mut Delivery,
) -> Done {
    let (connections, last) = (ends.len(), first + count);
    let working = answer.service.is_some();
    event_loop.begin(first);
    let mut open = if count == 0 { 0 } else { connections };
    while open > 0 {
        event_loop.wait(&mut ends[0].channel)?;
        let EventLoop { set, events, lines, quiet_since } = &mut *event_loop;
        for event in events.iter() {
            let at = event.token as usize;
            let (End { channel, method, wait }, line) = (&mut ends[at], &mut lines[at]);
            if line.held {
                if !hand_over(channel, method)? {
                    continue;
                }
                line.release(channel, set, at, false)?;
            } else {
                match line.receive(channel, wait) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        nothing(channel, quiet_since)?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
                *quiet_since = None;
                let sequence = line.received;
                if let Some(stamp) = stamps.arrived.get_mut((sequence - first) as usize * connections + at) {
                    *stamp = clock::now();
                }
                line.received += 1;
                delivery.received += 1;
                if working {
                    answer.service.work(sequence);
                }
                check(messages.incoming, line.inbox.bytes(), sequence, delivery)?;
                messages.outgoing.number(method.slot(channel)?, sequence);
                if !hand_over(channel, method)? {
                    line.hold(channel, set, at, false)?;
                    continue;
                }
            }
            line.through(delivery);
            if line.sent == last {
                open -= 1;
            }
        }
    }
    Ok(())
}
