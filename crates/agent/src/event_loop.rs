//! One event loop: a thread serves many connections from one epoll set, at either end of an echo.
//!
//! As the other loops it is generic over the path and holds nothing but the measured thing. A message whose bytes come in
//! parts is put together in its connection's own buffer, while others are served. Sending never waits either: where there
//! is no room the rest of the message goes when there is, so that two loops that face each other cannot wait for each
//! other.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use msgpath_core::units::Pieces;
use msgpath_core::{Delivery, Unavailable};
use msgpath_paths::end::Doors;
use msgpath_paths::{Channel, End, Method, Wait};
use msgpath_sys::clock;
use msgpath_sys::ready::{Events, ReadySet, Watched};

use crate::ahead::Ahead;
use crate::loops::{Answer, FarStamps, Inbox, LoopError, Messages, Row, Traffic, check};
use crate::open::Generator;

type Done = Result<(), LoopError>;

/// The connections of a thread in one epoll set.
pub struct EventLoop {
    set: ReadySet,
    events: Events,
    lines: Vec<Line>,
    /// Messages in flight on a connection.
    inflight: u64,
    /// When the set first spoke of a connection that had nothing; ends with the next byte.
    quiet_since: Option<u64>,
    /// Replies that have come since the begin of a schedule.
    answered: u64,
}

struct Line {
    /// What the set watches of it.
    watched: Watched,
    inbox: Inbox,
    /// Bytes of the message that is arriving.
    got: usize,
    /// Instead of the two above, where receive calls ask for more than a message.
    ahead: Option<Ahead>,
    /// Number of the next message to hand over, and of the next to arrive.
    sent: u64,
    received: u64,
    /// Send times of the messages in flight, by sequence number.
    starts: Vec<u64>,
    /// A message is handed over in part: there was no room.
    held: bool,
}

/// A connection's place in the set of its loop.
#[derive(Clone, Copy)]
struct Place<'a> {
    set: &'a ReadySet,
    at: usize,
}

/// How far a near end may go.
#[derive(Clone, Copy)]
struct Bounds {
    /// All messages are numbered below this.
    last: u64,
    /// Messages in flight on a connection, at most.
    inflight: u64,
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
    /// Bytes that a receive call asks for, where message boundaries are not preserved; no more than a message: those of the
    /// message.
    pub read: usize,
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
        for End { channel, wait, .. } in &mut *ends {
            wait.join(channel)?;
            let message = sizes.incoming.total() as usize;
            lines.push(Line {
                watched: Watched::default(),
                inbox: Inbox::new(message, sizes.largest as usize, channel.framed(), sizes.copies),
                got: 0,
                ahead: if channel.framed() { None } else { Ahead::new(message, sizes.read) },
                sent: 0,
                received: 0,
                starts: vec![0; (sizes.inflight as usize).next_power_of_two()],
                held: false,
            });
        }
        let (events, inflight) = (Events::new(ends.len()), u64::from(sizes.inflight));
        let mut event_loop = Self { set, events, lines, inflight, quiet_since: None, answered: 0 };
        event_loop.begin(ends, 0).map_err(failed)?;
        Ok(event_loop)
    }

    /// Every line stands before message `first` and listens.
    fn begin<C: Channel, S, W: Wait<C>>(&mut self, ends: &mut [End<C, S, W>], first: u64) -> io::Result<()> {
        self.answered = 0;
        for (at, (line, end)) in self.lines.iter_mut().zip(ends).enumerate() {
            (line.sent, line.received) = (first, first);
            line.watch(end, Place { set: &self.set, at }, Watched { input: true, output: false })?;
        }
        Ok(())
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

    /// Receives once, if no message is there; at most `left` messages are still to come. Whether one is whole now; `WouldBlock`:
    /// nothing was there.
    #[inline(always)]
    fn receive<C: Channel, W: Wait<C>>(&mut self, channel: &mut C, wait: &mut W, left: u64) -> io::Result<bool> {
        if let Some(ahead) = &mut self.ahead {
            if !ahead.is_ready() {
                ahead.read(channel, left, |channel, buffer| wait.take(channel, buffer))?;
            }
            let ready = ahead.is_ready();
            if ready {
                ahead.take();
            }
            return Ok(ready);
        }
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

    /// The message that is whole.
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.ahead.as_ref().map_or_else(|| self.inbox.bytes(), Ahead::bytes)
    }

    /// Whether another message is there already: the set does not speak of it.
    #[inline(always)]
    fn has_more(&self) -> bool {
        self.ahead.as_ref().is_some_and(Ahead::is_ready)
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

    /// From now on the set speaks of these directions.
    fn watch<C: Channel, S, W: Wait<C>>(
        &mut self,
        End { channel, wait, .. }: &mut End<C, S, W>,
        place: Place<'_>,
        now: Watched,
    ) -> io::Result<()> {
        let before = std::mem::replace(&mut self.watched, now);
        let (only_input, only_output) =
            (|of: Watched| Watched { output: false, ..of }, |of: Watched| Watched { input: false, ..of });
        let Some(Doors { input, output }) = wait.doors(channel).filter(|_| before != now) else { return Ok(()) };
        let Place { set, at } = place;
        let token = at as u64;
        if input.as_raw_fd() == output.as_raw_fd() {
            set.change(input, before, now, token)?;
        } else {
            set.change(input, only_input(before), only_input(now), token)?;
            set.change(output, only_output(before), only_output(now), token)?;
        }
        channel.counts().other_calls += 1;
        Ok(())
    }

    /// There was no room for all of a message: the set tells when there is. `listening`: replies are taken meanwhile.
    #[cold]
    fn hold<C: Channel, S, W: Wait<C>>(
        &mut self,
        end: &mut End<C, S, W>,
        place: Place<'_>,
        listening: bool,
    ) -> io::Result<()> {
        self.held = true;
        self.watch(end, place, Watched { input: listening, output: true })
    }

    /// The message that was held is through.
    #[cold]
    fn release<C: Channel, S, W: Wait<C>>(&mut self, end: &mut End<C, S, W>, place: Place<'_>) -> io::Result<()> {
        self.held = false;
        self.watch(end, place, Watched { input: true, output: false })
    }

    /// What arrives from now on belongs to what follows, or nothing will.
    #[cold]
    fn rest<C: Channel, S, W: Wait<C>>(&mut self, end: &mut End<C, S, W>, place: Place<'_>) -> io::Result<()> {
        self.watch(end, place, Watched::default())
    }

    /// Whether no further message can go: one is held, or as many are in flight as may be.
    #[inline(always)]
    fn is_full(&self, most: u64) -> bool {
        self.held || self.sent - self.received >= most
    }

    /// A message is handed over.
    #[inline(always)]
    fn through(&mut self, delivery: &mut Delivery) {
        self.sent += 1;
        delivery.sent += 1;
    }

    /// Sends as many messages as may be in flight and find room. Only at the near end.
    #[inline(always)]
    fn fill<C: Channel, S: Method<C>, W: Wait<C>>(
        &mut self,
        end: &mut End<C, S, W>,
        messages: &Messages<'_>,
        bounds: Bounds,
        place: Place<'_>,
        delivery: &mut Delivery,
    ) -> io::Result<()> {
        while self.sent < bounds.last && self.sent - self.received < bounds.inflight && !self.held {
            let sequence = self.sent;
            let End { channel, method, .. } = &mut *end;
            messages.outgoing.number(method.slot(channel)?, sequence);
            *self.start(sequence) = clock::now();
            match hand_over(channel, method)? {
                true => self.through(delivery),
                false => self.hold(end, place, true)?,
            }
        }
        Ok(())
    }

    /// Receives a reply, of `all` that will come on this connection. Whether one is whole.
    #[inline(always)]
    fn take_reply<C: Channel, S: Method<C>, W: Wait<C>>(
        &mut self,
        end: &mut End<C, S, W>,
        place: Place<'_>,
        all: u64,
        quiet_since: &mut Option<u64>,
    ) -> Result<bool, LoopError> {
        match self.receive(&mut end.channel, &mut end.wait, u64::MAX) {
            Ok(true) if self.received < all => {
                *quiet_since = None;
                return Ok(true);
            }
            Ok(true) => return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to no message").into()),
            Ok(false) => {}
            // The far end has answered everything and gone; other connections have replies in flight.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.received == all && !self.held => {
                self.rest(end, place)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => nothing(&end.channel, quiet_since)?,
            Err(error) => return Err(error.into()),
        }
        Ok(false)
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
    traffic: Traffic<'_>,
    (first, count): (u64, u64),
    rows: &mut Vec<Row>,
) -> Done {
    let Traffic { messages, delivery } = traffic;
    let (connections, last, base) = (ends.len(), first + count, rows.len());
    rows.resize(base + connections * count as usize, Row { start: 0, latency: 0 });
    let bounds = Bounds { last, inflight: event_loop.inflight };
    event_loop.begin(ends, first)?;
    let mut open = if count == 0 { 0 } else { connections };
    {
        let EventLoop { set, lines, .. } = &mut *event_loop;
        for (at, (end, line)) in ends.iter_mut().zip(lines).enumerate().filter(|_| count > 0) {
            line.fill(end, messages, bounds, Place { set, at }, delivery)?;
        }
    }
    while open > 0 {
        event_loop.wait(&mut ends[0].channel)?;
        let EventLoop { set, events, lines, quiet_since, .. } = &mut *event_loop;
        for event in events.iter() {
            let at = event.token as usize;
            let (end, line) = (&mut ends[at], &mut lines[at]);
            if line.held && event.writable && hand_over(&mut end.channel, &mut end.method)? {
                line.through(delivery);
                line.release(end, Place { set, at })?;
                line.fill(end, messages, bounds, Place { set, at }, delivery)?;
            }
            let mut readable = event.readable;
            while readable {
                if !line.take_reply(end, Place { set, at }, last, quiet_since)? {
                    break;
                }
                let now = clock::now();
                let sequence = line.received;
                let start = *line.start(sequence);
                rows[base + (sequence - first) as usize * connections + at] = Row { start, latency: now - start };
                line.received += 1;
                delivery.received += 1;
                check(messages.incoming, line.bytes(), sequence, delivery)?;
                if line.received == last {
                    open -= 1;
                } else {
                    line.fill(end, messages, bounds, Place { set, at }, delivery)?;
                }
                readable = line.has_more();
            }
        }
    }
    Ok(())
}

/// Near end of an echo by a schedule: messages `range` of the flow take the connections in turn, each goes when it is due, or
/// as soon after that as its connection has room; meanwhile whichever reply has come is taken. `arrived` gets the time of each reply by the number of its message. Where `range` ends the
/// flow, or a message before was the last one, all replies are waited for.
///
/// # Errors
/// [`LoopError`].
pub fn open_echo<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    event_loop: &mut EventLoop,
    traffic: Traffic<'_>,
    generator: &mut Generator<'_>,
    range: Range<u64>,
    arrived: &mut [u64],
) -> Done {
    let Traffic { messages, delivery } = traffic;
    let (connections, flow) = (ends.len() as u64, generator.flow);
    if range.start == 0 {
        event_loop.begin(ends, 0)?;
        generator.begin();
    }
    let (mut cut, ends_the_flow) = (flow.is_cut(), range.end == flow.count());
    for number in range {
        if cut {
            break;
        }
        let at = (number % connections) as usize;
        let due = flow.due(number);
        while event_loop.lines[at].is_full(flow.most()) {
            let set_speaks = |event_loop: &mut EventLoop, channel: &mut C| event_loop.wait(channel);
            take_replies(ends, event_loop, messages, arrived, delivery, set_speaks)?;
        }
        {
            let End { channel, method, .. } = &mut ends[at];
            messages.outgoing.number(method.slot(channel)?, number / connections);
        }
        let mut now = clock::now();
        while now < due {
            let pacer = &mut generator.pacer;
            let until_due = |event_loop: &mut EventLoop, channel: &mut C| {
                channel.counts().wait_calls += 1;
                pacer.look(due, |ns| event_loop.set.wait_ns(&mut event_loop.events, ns))?;
                channel.limits().look()
            };
            take_replies(ends, event_loop, messages, arrived, delivery, until_due)?;
            now = clock::now();
        }
        let EventLoop { set, lines, .. } = &mut *event_loop;
        let (end, line) = (&mut ends[at], &mut lines[at]);
        cut = flow.goes(number, now, generator.limit());
        match hand_over(&mut end.channel, &mut end.method)? {
            true => line.through(delivery),
            false => line.hold(end, Place { set, at }, true)?,
        }
        generator.pacer.sent(due, now);
    }
    while (cut || ends_the_flow) && event_loop.answered <= flow.last() {
        let set_speaks = |event_loop: &mut EventLoop, channel: &mut C| event_loop.wait(channel);
        take_replies(ends, event_loop, messages, arrived, delivery, set_speaks)?;
    }
    Ok(())
}

/// Waits as `wait` does, takes whichever replies have come, and goes on with messages that were held.
#[inline(always)]
fn take_replies<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    event_loop: &mut EventLoop,
    messages: &Messages<'_>,
    arrived: &mut [u64],
    delivery: &mut Delivery,
    wait: impl FnOnce(&mut EventLoop, &mut C) -> io::Result<()>,
) -> Done {
    let connections = ends.len() as u64;
    wait(event_loop, &mut ends[0].channel)?;
    let EventLoop { set, events, lines, quiet_since, answered, .. } = &mut *event_loop;
    for event in events.iter() {
        let at = event.token as usize;
        let (end, line) = (&mut ends[at], &mut lines[at]);
        if line.held && event.writable && hand_over(&mut end.channel, &mut end.method)? {
            line.through(delivery);
            line.release(end, Place { set, at })?;
        }
        let mut readable = event.readable;
        while readable {
            let sent = line.sent;
            if !line.take_reply(end, Place { set, at }, sent, quiet_since)? {
                break;
            }
            if let Some(slot) = arrived.get_mut((line.received * connections) as usize + at) {
                *slot = clock::now();
            }
            check(messages.incoming, line.bytes(), line.received, delivery)?;
            line.received += 1;
            *answered += 1;
            readable = line.has_more();
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
    traffic: Traffic<'_>,
    (first, count): (u64, u64),
    answer: &Answer<'_>,
    stamps: &mut FarStamps,
) -> Done {
    let Traffic { messages, delivery } = traffic;
    let (connections, last) = (ends.len(), first + count);
    let working = answer.service.is_some();
    event_loop.begin(ends, first)?;
    let mut open = if count == 0 { 0 } else { connections };
    while open > 0 {
        event_loop.wait(&mut ends[0].channel)?;
        let EventLoop { set, events, lines, quiet_since, .. } = &mut *event_loop;
        for event in events.iter() {
            let at = event.token as usize;
            let (end, line) = (&mut ends[at], &mut lines[at]);
            loop {
                if line.held {
                    if !hand_over(&mut end.channel, &mut end.method)? {
                        break;
                    }
                    line.release(end, Place { set, at })?;
                } else if line.received == last {
                    // A near end that sends by a schedule does not wait at the border of what is measured.
                    line.rest(end, Place { set, at })?;
                    break;
                } else {
                    let End { channel, method, wait } = &mut *end;
                    match line.receive(channel, wait, last - line.received) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            nothing(channel, quiet_since)?;
                            break;
                        }
                        Err(error) => return Err(error.into()),
                    }
                    *quiet_since = None;
                    let sequence = line.received;
                    let place = (sequence - first) as usize * connections + at;
                    if let Some(stamp) = stamps.arrived.get_mut(place) {
                        *stamp = clock::now();
                    }
                    line.received += 1;
                    delivery.received += 1;
                    if working {
                        answer.service.work(sequence);
                    }
                    check(messages.incoming, line.bytes(), sequence, delivery)?;
                    messages.outgoing.number(method.slot(channel)?, sequence);
                    if let Some(stamp) = stamps.left.get_mut(place) {
                        *stamp = clock::now();
                    }
                    if !hand_over(channel, method)? {
                        line.hold(end, Place { set, at }, false)?;
                        break;
                    }
                }
                line.through(delivery);
                if line.sent == last {
                    open -= 1;
                }
                if !line.has_more() {
                    break;
                }
            }
        }
    }
    Ok(())
}
