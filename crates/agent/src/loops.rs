//! The message loops: echo at the near end, echo at the far end, a stream's sender and receiver.
//!
//! Each is generic over the path, so that every path gets its own direct loop. Inside there is nothing but the measured
//! thing: no allocation, no lock, no formatting; at most two clock readings and one store a message. What rarely
//! happens (a short read, a loss, a difference) is in cold functions. Every loop that sends looks for each message whether
//! the round was given up: one load of a cached line, without which a loop that never waits would never end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::plan::{Distribution, ServiceTime};
use msgpath_core::schedule::exponential;
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{Delivery, Histogram};
use msgpath_paths::{Channel, End, Method, Wait};
use msgpath_sys::clock;

use crate::ahead::Ahead;
use crate::given_up::GivenUp;
use crate::payload::{Difference, Payload};

/// Latency of a message that was lost.
pub const LOST: u64 = u64::MAX;

/// One measured message (or one batch): when it began, and how long it took, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Just before the send call.
    pub start: u64,
    /// Round trip; [`LOST`].
    pub latency: u64,
}

/// Notes a latency; [`LOST`] is a loss.
pub fn record(into: &mut Histogram, latency: u64) {
    match latency {
        LOST => into.record_lost(1),
        ns => into.record(ns),
    }
}

/// Why a loop ended early.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// A system call failed, the peer closed, or nothing happened for too long.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Something arrived that was not sent.
    #[error("message {} came back different: byte {} sent {:#04x}, got {:#04x}", .0.message, .0.byte, .0.sent, .0.got)]
    Different(Difference),
}

impl From<Difference> for LoopError {
    fn from(difference: Difference) -> Self {
        LoopError::Different(difference)
    }
}

type Done = Result<(), LoopError>;

/// What a receive buffer must hold, and how far one call may write into it. Several buffers are used in turn on
/// request.
pub struct Inbox {
    buffer: Vec<u8>,
    message: usize,
    window: usize,
    /// Bytes of one buffer, its number, and the number of buffers less 1 (a power of two less 1).
    stride: usize,
    at: usize,
    mask: usize,
    /// Where the buffer in use begins.
    begin: usize,
    /// What may still arrive late.
    given_up: GivenUp,
    /// Where receive calls ask for more than a message: what has come of each connection. Else none.
    ahead: Vec<Ahead>,
}

/// Messages that were given up and that an inbox knows: one is given up after a whole slice of silence.
const KNOWN_LOST: usize = 64;

impl Inbox {
    /// For messages of `message` bytes on a channel whose largest message has `largest` bytes. Bytes that stream are
    /// taken up to the end of the message; messages with boundaries get room for the largest (mq wants it so).
    /// `copies`: how many buffers are used in turn, rounded up to a power of two.
    pub fn new(message: usize, largest: usize, framed: bool, copies: usize) -> Self {
        let copies = copies.max(1).next_power_of_two();
        let stride = if copies == 1 { largest.max(message) } else { largest.max(message).next_multiple_of(64) };
        let mut buffer = vec![1; stride * copies];
        buffer.fill(0); // touched: no page fault in the loop
        let window = if framed { stride } else { message };
        Self {
            buffer,
            message,
            window,
            stride,
            at: 0,
            mask: copies - 1,
            begin: 0,
            given_up: GivenUp::new(KNOWN_LOST),
            ahead: Vec::new(),
        }
    }

    /// For receive calls that ask for up to `bytes`, on so many connections without message boundaries.
    #[must_use]
    pub fn reading_ahead(mut self, connections: usize, bytes: usize) -> Self {
        self.ahead = (0..connections).filter_map(|_| Ahead::new(self.message, bytes)).collect();
        self
    }

    /// Receives the next whole message of connection `at`, of `left` that are still to come, where messages cannot be lost.
    #[inline(always)]
    pub(crate) fn next_of<C: Channel, W: Wait<C>>(
        &mut self,
        at: usize,
        channel: &mut C,
        wait: &mut W,
        left: u64,
    ) -> io::Result<&[u8]> {
        if at < self.ahead.len() {
            return self.ahead[at].next(channel, wait, left);
        }
        self.receive(channel, wait, false)?;
        Ok(self.bytes())
    }

    /// The message that arrived last; with calls that ask for more, that of the last connection.
    #[inline(always)]
    fn last(&self) -> &[u8] {
        self.ahead.last().map_or_else(|| self.bytes(), Ahead::bytes)
    }

    /// The message that arrived last.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.begin + self.message]
    }

    /// The next buffer, as far as one call may write into it.
    #[inline(always)]
    fn next(&mut self) -> &mut [u8] {
        self.at = (self.at + 1) & self.mask;
        self.begin = self.at * self.stride;
        &mut self.buffer[self.begin..self.begin + self.window]
    }

    /// Goes on to the next buffer.
    #[inline(always)]
    pub(crate) fn turn(&mut self) {
        let _ = self.next();
    }

    /// The buffer in use behind its first `got` bytes, as far as one call may write into it.
    #[inline(always)]
    pub(crate) fn rest(&mut self, got: usize) -> &mut [u8] {
        &mut self.buffer[self.begin + got..self.begin + self.window]
    }

    /// Bytes of a message.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        self.message
    }

    /// Receives one whole message, as [`receive`].
    #[inline(always)]
    pub(crate) fn receive<C: Channel, W: Wait<C>>(
        &mut self,
        channel: &mut C,
        wait: &mut W,
        lossy: bool,
    ) -> io::Result<bool> {
        let message = self.message;
        receive(channel, wait, self.next(), message, lossy)
    }
}

/// Receives one whole message. `Ok(false)`: nothing came for a slice (only where messages may be lost).
#[inline(always)]
fn receive<C: Channel, W: Wait<C>>(
    channel: &mut C,
    wait: &mut W,
    buffer: &mut [u8],
    message: usize,
    lossy: bool,
) -> io::Result<bool> {
    match wait.recv(channel, buffer) {
        Ok(got) if got == message => {
            channel.counts().recv_full += 1;
            Ok(true)
        }
        other => receive_rest(channel, wait, buffer, message, lossy, other),
    }
}

#[cold]
fn receive_rest<C: Channel, W: Wait<C>>(
    channel: &mut C,
    wait: &mut W,
    buffer: &mut [u8],
    message: usize,
    lossy: bool,
    mut last: io::Result<usize>,
) -> io::Result<bool> {
    let mut since = clock::now();
    let mut got = 0;
    loop {
        match last {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end closed")),
            Ok(more) => {
                got += more;
                if got == message {
                    channel.counts().recv_full += 1;
                    return Ok(true);
                }
                if channel.framed() || got > message {
                    let what = format!("a message of {got} bytes arrived where {message} were sent");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                channel.counts().recv_short += 1;
                since = clock::now();
            }
            Err(error) => {
                let waited = error.kind() != io::ErrorKind::Interrupted;
                channel.limits().again(error, since)?;
                if lossy && waited && got == 0 {
                    return Ok(false);
                }
            }
        }
        last = wait.recv(channel, &mut buffer[got..]);
    }
}

/// What all loops of a thread know of their messages.
pub struct Messages<'a> {
    /// What is sent.
    pub outgoing: &'a Payload,
    /// What arrives.
    pub incoming: &'a Payload,
    /// Messages may be lost.
    pub lossy: bool,
}

/// What a measured loop is told of its messages, and where it counts what became of them.
pub struct Traffic<'a> {
    /// What is sent and what arrives.
    pub messages: &'a Messages<'a>,
    /// What became of them.
    pub delivery: &'a mut Delivery,
}

/// Checks the sequence number, and every byte of a sampled message.
#[inline(always)]
pub(crate) fn check(payload: &Payload, bytes: &[u8], sequence: u64, delivery: &mut Delivery) -> Done {
    let sampled = payload.is_sampled(sequence);
    if sampled || payload.sequence(bytes) != sequence & payload.mask() {
        payload.compare(bytes, sequence)?;
    }
    delivery.verified += u64::from(sampled);
    Ok(())
}

/// Checks the sequence number alone; where it differs, says how.
#[inline(always)]
fn check_number(payload: &Payload, bytes: &[u8], sequence: u64) -> Done {
    match payload.sequence(bytes) == sequence & payload.mask() {
        true => Ok(()),
        false => Ok(payload.compare(bytes, sequence)?),
    }
}

/// Compares the message that a loop ended with, so that no round goes without: sampling alone may miss a short one.
fn check_last(payload: &Payload, bytes: &[u8], sequence: u64, delivery: &mut Delivery) -> Done {
    if !payload.is_sampled(sequence) {
        payload.compare(bytes, sequence)?;
        delivery.verified += 1;
    }
    Ok(())
}

/// Near end of an echo, one message in flight: `count` messages from number `first` on, on the connections in turn.
/// `rows` gets one row a message, in order; it must have room. `sent` gets the time at which each send call had returned,
/// as far as it has room.
///
/// # Errors
/// [`LoopError`].
pub fn echo_near<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    rows: &mut Vec<Row>,
    sent: &mut Vec<u64>,
) -> Done {
    let Traffic { messages, delivery } = traffic;
    let traced = sent.capacity() > 0;
    for sequence in first..first + count {
        for (at, End { channel, method, wait }) in ends.iter_mut().enumerate() {
            channel.limits().look()?;
            let slot = method.slot(channel)?;
            messages.outgoing.number(slot, sequence);
            let start = clock::now();
            method.send(channel)?;
            method.flush(channel)?;
            if traced && sent.len() < sent.capacity() {
                sent.push(clock::now());
            }
            let mut arrived = inbox.receive(channel, wait, messages.lossy)?;
            let mut end = clock::now();
            delivery.sent += 1;
            if messages.lossy {
                while arrived && let Some(older) = older(messages.incoming, inbox.bytes(), sequence) {
                    inbox.given_up.count((at, older), delivery);
                    arrived = inbox.receive(channel, wait, true)?;
                    end = clock::now();
                }
                if !arrived {
                    delivery.lost += 1;
                    inbox.given_up.add((at, sequence));
                    rows.push(Row { start, latency: LOST });
                    continue;
                }
            }
            rows.push(Row { start, latency: end - start });
            delivery.received += 1;
            check(messages.incoming, inbox.bytes(), sequence, delivery)?;
        }
    }
    if !messages.lossy && count > 0 {
        check_last(messages.incoming, inbox.bytes(), first + count - 1, delivery)?;
    }
    Ok(())
}

/// The message before `sequence` that `bytes` answer; `None`: they answer no older one.
#[inline(always)]
fn older(payload: &Payload, bytes: &[u8], sequence: u64) -> Option<u64> {
    let behind = sequence.wrapping_sub(payload.sequence(bytes)) & payload.mask();
    (behind != 0 && behind <= payload.mask() / 2).then(|| sequence.wrapping_sub(behind))
}

/// Near end of an echo in batch mode: one stamp pair around `batch` messages; a row is their mean. One connection.
///
/// # Errors
/// [`LoopError`]. `count` is rounded down to whole batches.
pub fn echo_near_batch<C: Channel, S: Method<C>, W: Wait<C>>(
    end: &mut End<C, S, W>,
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    batch: u64,
    rows: &mut Vec<Row>,
) -> Done {
    let Traffic { messages, delivery } = traffic;
    let End { channel, method, wait } = end;
    messages.outgoing.number(method.slot(channel)?, first);
    for of in 0..count / batch {
        let from = first + of * batch;
        let start = clock::now();
        for sequence in from..from + batch {
            method.send(channel)?;
            method.flush(channel)?;
            // Between an answer and the next message lies nothing else: what is left is done while this one travels.
            channel.limits().look()?;
            if sequence != from {
                check_number(messages.incoming, inbox.bytes(), sequence - 1)?;
            }
            messages.outgoing.number(method.slot(channel)?, sequence + 1);
            inbox.receive(channel, wait, false)?;
        }
        rows.push(Row { start, latency: (clock::now() - start) / batch });
        delivery.sent += batch;
        delivery.received += batch;
        // The last message of the batch is still in the inbox: compared outside the timed span.
        messages.incoming.compare(inbox.bytes(), from + batch - 1)?;
        delivery.verified += 1;
    }
    Ok(())
}

/// The messages in flight on all connections of a thread.
pub struct Windows {
    each: Vec<Window>,
    inflight: u64,
}

impl Windows {
    /// Room for `inflight` messages on each of `connections`.
    pub fn new(connections: usize, inflight: u32) -> Self {
        Self { each: (0..connections).map(|_| Window::new(inflight)).collect(), inflight: inflight.into() }
    }
}

/// Send times of the messages in flight on a connection, by sequence number.
struct Window {
    starts: Vec<u64>,
    mask: u64,
    /// Send time of the newest message that was answered.
    answered: u64,
    /// What may still arrive late.
    given_up: GivenUp,
}

const NOT_UNDER_WAY: u64 = 0;

impl Window {
    fn new(inflight: u32) -> Self {
        let slots = u64::from(inflight).next_power_of_two();
        let given_up = GivenUp::new(2 * slots as usize);
        Self { starts: vec![NOT_UNDER_WAY; slots as usize], mask: slots - 1, answered: 0, given_up }
    }

    #[inline(always)]
    fn slot(&mut self, sequence: u64) -> &mut u64 {
        &mut self.starts[(sequence & self.mask) as usize]
    }
}

/// Near end of an echo with several messages in flight on each connection: a reply that arrives lets the next message
/// go. Rows are in the order of arrival.
///
/// # Errors
/// [`LoopError`].
pub fn echo_near_window<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    windows: &mut Windows,
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    rows: &mut Vec<Row>,
) -> Done {
    if traffic.messages.lossy {
        return echo_near_window_lossy(ends, windows, traffic, inbox, (first, count), rows);
    }
    let Traffic { messages, delivery } = traffic;
    let last = first + count;
    let ahead = windows.inflight.min(count);
    let windows = &mut windows.each;
    for sequence in first..first + ahead {
        for (end, window) in ends.iter_mut().zip(windows.iter_mut()) {
            send_one(end, window, messages, sequence, delivery)?;
        }
    }
    for expected in first..last {
        for (at, (end, window)) in ends.iter_mut().zip(windows.iter_mut()).enumerate() {
            let bytes = inbox.next_of(at, &mut end.channel, &mut end.wait, last - expected)?;
            let now = clock::now();
            rows.push(Row { start: *window.slot(expected), latency: now - *window.slot(expected) });
            delivery.received += 1;
            check(messages.incoming, bytes, expected, delivery)?;
            if expected + ahead < last {
                send_one(end, window, messages, expected + ahead, delivery)?;
            }
        }
    }
    if count > 0 {
        check_last(messages.incoming, inbox.last(), last - 1, delivery)?;
    }
    Ok(())
}

/// The same where messages may be lost: a window is filled again as far as it is free, and when nothing comes for a
/// slice, all that is in flight on that connection is lost.
fn echo_near_window_lossy<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    windows: &mut Windows,
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    rows: &mut Vec<Row>,
) -> Done {
    let Traffic { messages, delivery } = traffic;
    for (end, window) in ends.iter_mut().zip(windows.each.iter_mut()) {
        let (mut next, mut in_flight) = (first, 0);
        while next < first + count || in_flight > 0 {
            while next < first + count && in_flight < windows.inflight && *window.slot(next) == NOT_UNDER_WAY {
                send_one(end, window, messages, next, delivery)?;
                next += 1;
                in_flight += 1;
            }
            let arrived = inbox.receive(&mut end.channel, &mut end.wait, true)?;
            let now = clock::now();
            if arrived {
                let reply = Reply { bytes: inbox.bytes(), at: now, newest: next - 1 };
                in_flight -= lossy_arrival(window, messages.incoming, reply, rows, delivery)?;
                continue;
            }
            for sequence in next.saturating_sub(window.mask + 1)..next {
                let start = std::mem::replace(window.slot(sequence), NOT_UNDER_WAY);
                if start != NOT_UNDER_WAY {
                    rows.push(Row { start, latency: LOST });
                    delivery.lost += 1;
                    window.given_up.add((0, sequence));
                }
            }
            in_flight = 0;
        }
    }
    Ok(())
}

#[inline(always)]
fn send_one<C: Channel, S: Method<C>, W: Wait<C>>(
    end: &mut End<C, S, W>,
    window: &mut Window,
    messages: &Messages<'_>,
    sequence: u64,
    delivery: &mut Delivery,
) -> Done {
    let End { channel, method, .. } = end;
    channel.limits().look()?;
    messages.outgoing.number(method.slot(channel)?, sequence);
    *window.slot(sequence) = clock::now();
    method.send(channel)?;
    method.flush(channel)?;
    delivery.sent += 1;
    Ok(())
}

/// What came back while messages may be lost.
struct Reply<'a> {
    bytes: &'a [u8],
    /// When it came, ns of the monotonic clock.
    at: u64,
    /// Number of the last message that was sent by then.
    newest: u64,
}

/// Notes a reply. Returns how many messages it answers: 1, or 0 for one that comes twice or too late.
fn lossy_arrival(
    window: &mut Window,
    payload: &Payload,
    reply: Reply<'_>,
    rows: &mut Vec<Row>,
    delivery: &mut Delivery,
) -> Result<u64, LoopError> {
    let behind = reply.newest.wrapping_sub(payload.sequence(reply.bytes)) & payload.mask();
    let Some(sequence) = reply.newest.checked_sub(behind) else {
        // It answers nothing that was sent.
        delivery.late += 1;
        return Ok(0);
    };
    let awaited = behind <= window.mask && *window.slot(sequence) != NOT_UNDER_WAY;
    if !awaited {
        window.given_up.count((0, sequence), delivery);
        return Ok(0);
    }
    let start = std::mem::replace(window.slot(sequence), NOT_UNDER_WAY);
    delivery.reordered += u64::from(start < window.answered);
    window.answered = window.answered.max(start);
    rows.push(Row { start, latency: reply.at - start });
    delivery.received += 1;
    payload.compare(reply.bytes, sequence)?;
    delivery.verified += 1;
    Ok(1)
}

/// How the far end of an echo answers.
pub struct Answer<'a> {
    /// The very bytes that arrived go back; else an own message of the reply's size.
    pub same_bytes: bool,
    /// Set when the near end has finished: silence is then the end.
    pub finish: &'a AtomicBool,
    /// Service time before each answer.
    pub service: &'a Service,
}

/// Service times of a far end that works: by sequence number, over and over.
pub struct Service {
    times: Vec<u64>,
}

impl Service {
    /// Exponential times are drawn this often before they repeat; a power of two.
    const DRAWN: usize = 1 << 16;

    /// Drawn from `time`; none for `None`.
    pub fn new(time: Option<ServiceTime>, seed: u64) -> Self {
        let times = match time {
            None => Vec::new(),
            Some(ServiceTime { mean_ns, distribution: Distribution::Constant }) => vec![mean_ns],
            Some(ServiceTime { mean_ns, distribution: Distribution::Exponential }) => {
                let mut random = SplitMix64::new(seed);
                (0..Self::DRAWN).map(|_| exponential(&mut random, mean_ns as f64) as u64).collect()
            }
        };
        Self { times }
    }

    /// Whether there is any.
    pub fn is_some(&self) -> bool {
        !self.times.is_empty()
    }

    /// Works for message number `sequence`: computes until its time is over.
    #[inline(always)]
    pub fn work(&self, sequence: u64) {
        let until = clock::now() + self.times[sequence as usize & (self.times.len() - 1)];
        while clock::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// When messages came and replies left at the far end: connection by connection in turn, as far as there is room. Without
/// room nothing is stamped.
#[derive(Debug, Default)]
pub struct FarStamps {
    /// After the receive call.
    pub arrived: Vec<u64>,
    /// Before the send call of the reply.
    pub left: Vec<u64>,
}

/// Far end of an echo: answers `count` messages on each connection in turn. Ends early when the near end has finished and
/// nothing comes any more. Where the way doubles messages, those are answered as well, so it goes on to the last one's number.
///
/// # Errors
/// [`LoopError`].
pub fn echo_far<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    answer: &Answer<'_>,
    stamps: &mut FarStamps,
) -> Done {
    let Traffic { messages, delivery } = traffic;
    let working = answer.service.is_some();
    let (stamping, leaving) = (stamps.arrived.capacity() > 0, stamps.left.capacity() > 0);
    let end = first + count;
    let (mut turn, mut is_last) = (first, !messages.lossy || count == 0);
    while turn < end || !is_last {
        for (at, End { channel, method, wait }) in ends.iter_mut().enumerate() {
            // Whatever need not lie between the message and its answer comes before it.
            channel.limits().look()?;
            let slot = method.slot(channel)?;
            let message = inbox.message;
            let bytes: &[u8] = match inbox.ahead.get_mut(at) {
                Some(ahead) => {
                    let bytes = ahead.next(channel, wait, end - turn)?;
                    if answer.same_bytes {
                        slot.piece_mut(0).copy_from_slice(bytes);
                    }
                    bytes
                }
                None => {
                    let buffer = if answer.same_bytes { slot.piece_mut(0) } else { inbox.next() };
                    while !receive(channel, wait, buffer, message, messages.lossy)? {
                        if answer.finish.load(Ordering::Relaxed) {
                            return Ok(());
                        }
                    }
                    &buffer[..message]
                }
            };
            if stamping && stamps.arrived.len() < stamps.arrived.capacity() {
                stamps.arrived.push(clock::now());
            }
            delivery.received += 1;
            is_last = is_last || older(messages.incoming, bytes, end - 1).is_none();
            if working {
                answer.service.work(turn);
            }
            // Bytes that go back as they came are compared at the near end: what this end sees is part of that.
            if !answer.same_bytes {
                // Where messages may be lost, the number that arrived decides; else it must be the next one.
                let sequence = if messages.lossy { messages.incoming.sequence(bytes) } else { turn };
                check(messages.incoming, bytes, sequence, delivery)?;
                messages.outgoing.number(slot, sequence);
            }
            if leaving && stamps.left.len() < stamps.left.capacity() {
                stamps.left.push(clock::now());
            }
            method.send(channel)?;
            method.flush(channel)?;
            delivery.sent += 1;
        }
        turn += 1;
    }
    Ok(())
}

/// [`echo_far`] of ends that send back what they never touch: [`Method::relay`]. The near end compares.
///
/// # Errors
/// [`LoopError`].
pub fn relay_far<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    answer: &Answer<'_>,
    stamps: &mut FarStamps,
    delivery: &mut Delivery,
) -> Done {
    if !answer.same_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "what is not touched goes back as it came").into());
    }
    let (stamping, leaving) = (stamps.arrived.capacity() > 0, stamps.left.capacity() > 0);
    let message = inbox.message;
    for turn in first..first + count {
        for End { channel, method, .. } in ends.iter_mut() {
            channel.limits().look()?;
            receive(channel, &mut Relayed(method), inbox.rest(0), message, false)?;
            if stamping && stamps.arrived.len() < stamps.arrived.capacity() {
                stamps.arrived.push(clock::now());
            }
            delivery.received += 1;
            if answer.service.is_some() {
                answer.service.work(turn);
            }
            if leaving && stamps.left.len() < stamps.left.capacity() {
                stamps.left.push(clock::now());
            }
            method.send(channel)?;
            method.flush(channel)?;
            delivery.sent += 1;
        }
    }
    Ok(())
}

/// Receiving by [`Method::relay`]: of the buffer only the size counts.
struct Relayed<'a, S>(&'a mut S);

impl<C: Channel, S: Method<C>> Wait<C> for Relayed<'_, S> {
    #[inline(always)]
    fn recv(&mut self, channel: &mut C, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.relay(channel, buffer.len())
    }
}

/// Sender of a stream: `count` messages on each connection in turn. No clock in the loop.
///
/// # Errors
/// [`LoopError`].
pub fn stream_send<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    messages: &Messages<'_>,
    (first, count): (u64, u64),
    delivery: &mut Delivery,
) -> Done {
    for sequence in first..first + count {
        for End { channel, method, .. } in ends.iter_mut() {
            channel.limits().look()?;
            messages.outgoing.number(method.slot(channel)?, sequence);
            method.send(channel)?;
        }
    }
    for End { channel, method, .. } in ends.iter_mut() {
        method.flush(channel)?;
    }
    delivery.sent += count * ends.len() as u64;
    Ok(())
}

/// Receives the acknowledgement of a stream: what is still in a buffer is not through.
///
/// # Errors
/// [`LoopError`].
pub fn acknowledged<C: Channel, W: Wait<C>>(
    channel: &mut C,
    wait: &mut W,
    messages: &Messages<'_>,
    inbox: &mut Inbox,
) -> Done {
    channel.limits().look()?;
    inbox.receive(channel, wait, false)?;
    messages.incoming.compare(inbox.bytes(), 0)?;
    Ok(())
}

/// Acknowledges a stream.
///
/// # Errors
/// [`LoopError`].
pub fn acknowledge<C: Channel, S: Method<C>>(channel: &mut C, method: &mut S, messages: &Messages<'_>) -> Done {
    channel.limits().look()?;
    messages.outgoing.number(method.slot(channel)?, 0);
    method.send(channel)?;
    method.flush(channel)?;
    Ok(())
}

/// Which messages of a lossy stream have arrived, one bit each.
pub struct Arrivals {
    seen: Vec<u64>,
    /// All messages are numbered below this.
    messages: u64,
    highest: u64,
}

impl Arrivals {
    /// Room for messages numbered below `messages`; beyond 2^27 of them nothing is told apart any more.
    pub fn new(messages: u64) -> Self {
        Self { seen: vec![0; (messages.min(1 << 27) as usize).div_ceil(64)], messages, highest: 0 }
    }

    fn note(&mut self, sequence: u64, delivery: &mut Delivery) {
        if let Some(word) = self.seen.get_mut((sequence / 64) as usize) {
            let bit = 1 << (sequence % 64);
            if *word & bit != 0 {
                delivery.duplicated += 1;
                return;
            }
            *word |= bit;
        }
        if sequence < self.highest {
            delivery.reordered += 1;
        }
        self.highest = self.highest.max(sequence);
        delivery.received += 1;
    }
}

/// Receiver of a stream. Reliable: exactly `count` messages a connection. Lossy: until as many have come, whichever they are,
/// or `finish` is set and nothing comes any more. Returns when the last message had come, ns of the monotonic clock: the silence that
/// ends a lossy stream is not part of it.
///
/// # Errors
/// [`LoopError`].
pub fn stream_receive<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    (first, count): (u64, u64),
    arrivals: &mut [Arrivals],
    finish: &AtomicBool,
) -> Result<u64, LoopError> {
    if traffic.messages.lossy {
        return stream_receive_lossy(ends, traffic, inbox, count, arrivals, finish);
    }
    let Traffic { messages, delivery } = traffic;
    for sequence in first..first + count {
        for (at, End { channel, wait, .. }) in ends.iter_mut().enumerate() {
            channel.limits().look()?;
            let bytes = inbox.next_of(at, channel, wait, first + count - sequence)?;
            check(messages.incoming, bytes, sequence, delivery)?;
        }
    }
    let end = clock::now();
    if count > 0 {
        check_last(messages.incoming, inbox.last(), first + count - 1, delivery)?;
    }
    delivery.received += count * ends.len() as u64;
    Ok(end)
}

fn stream_receive_lossy<C: Channel, S: Method<C>, W: Wait<C>>(
    ends: &mut [End<C, S, W>],
    traffic: Traffic<'_>,
    inbox: &mut Inbox,
    count: u64,
    arrivals: &mut [Arrivals],
    finish: &AtomicBool,
) -> Result<u64, LoopError> {
    let Traffic { messages, delivery } = traffic;
    let payload = messages.incoming;
    let wanted = count * ends.len() as u64;
    let before = delivery.received;
    let mut quiet_since = None;
    while delivery.received - before < wanted {
        let mut idle = true;
        for (End { channel, wait, .. }, arrivals) in ends.iter_mut().zip(arrivals.iter_mut()) {
            channel.limits().look()?;
            if !inbox.receive(channel, wait, true)? {
                let slice = channel.limits().slice.as_nanos() as u64;
                quiet_since.get_or_insert_with(|| clock::now() - slice);
                continue;
            }
            idle = false;
            quiet_since = None;
            let sequence = payload.nearest(inbox.bytes(), arrivals.highest);
            if payload.is_sampled(sequence) {
                payload.compare(inbox.bytes(), sequence)?;
                delivery.verified += 1;
            }
            if sequence < arrivals.messages {
                arrivals.note(sequence, delivery);
            }
        }
        if idle && finish.load(Ordering::Relaxed) {
            break;
        }
    }
    delivery.lost += wanted - (delivery.received - before);
    Ok(quiet_since.unwrap_or_else(clock::now))
}
