//! Rounds that go on for a time instead of a number of messages. There are several near ends then, of which one may be a hundred times
//! faster than another: with a number of messages most of the round would be the slowest one's alone.
//!
//! Each end stops at its own time, so that neither the end of a connection nor what is left in its buffers is an error. Receivers count
//! in slots of time, from which the time in which all of them received is cut out afterwards.

use std::io::ErrorKind;

use msgpath_core::schema::{EndReport, Slots, TcpInfo};
use msgpath_core::{Delivery, Histogram};
use msgpath_sys::clock;

use crate::ends::{EchoEnds, Ends, NearWork, Pace, ReceiverEnds, SenderEnds, each};
use crate::loops::{Arrivals, Inbox, LoopError, Messages, Row, Traffic, Windows};
use crate::meter::Meter;
use crate::thread::{Job, Outcome, fold, is_the_end};
use crate::wire::Timed;

/// Most messages of a stream on each connection between two looks at the clock.
const MOST_CHUNK: u64 = 1 << 14;
/// Most messages in flight of an echo that go there and back between two looks.
const CHUNK: u64 = 16;

/// How long a far end that sends waits for near ends that do not close, ns.
const WAITS_NS: u64 = 10_000_000_000;

/// Messages on each connection until the next look at the clock: they take between an eighth and half of a slot, whatever the link gives.
fn next_chunk(chunk: u64, took_ns: u64, slot_ns: u64, (least, most): (u64, u64)) -> u64 {
    if took_ns < slot_ns / 8 {
        (2 * chunk).min(most)
    } else if took_ns > slot_ns / 2 {
        (chunk / 2).max(least)
    } else {
        chunk
    }
}

/// Whether a part of the round was carried out; `false`: its connections have ended, as they may.
fn went(result: Result<(), LoopError>) -> Result<bool, LoopError> {
    match result {
        Ok(()) => Ok(true),
        Err(LoopError::Io(error)) if is_the_end(&error) || error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Timeouts of the connections since they were made: those of the begin, when all ends send at once, are what counts.
fn with_timeouts(report: &mut EndReport, ends: &mut dyn Ends) {
    let now = each(ends, |channel| channel.tcp_info()).into_iter().flatten().reduce(TcpInfo::plus);
    if let (Some(tcp), Some(now)) = (&mut report.tcp, now) {
        (tcp.timeouts, tcp.total_retrans) = (now.timeouts, now.total_retrans);
    }
}

impl Job {
    /// Sends until the time is over.
    pub(crate) fn send_in_time(
        &self,
        ends: &mut dyn SenderEnds,
        messages: &Messages<'_>,
        timed: Timed,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let (mut delivery, mut next, mut goes) = (Delivery::default(), 0, true);
        let begin = clock::now();
        // The far end begins before the near ends do, and goes on until they close.
        let end = begin + if self.near { timed.ns } else { timed.ns.saturating_mul(4) + WAITS_NS };
        let (mut now, mut chunk) = (begin, 1);
        let mut until = |ends: &mut dyn SenderEnds, end: u64, delivery: &mut Delivery| -> Result<(), LoopError> {
            while goes && next < order.messages && now < end {
                let count = chunk.min(order.messages - next);
                goes = went(ends.send(messages, (next, count), delivery))?;
                // How many of the last ones went is not known; what has arrived of them was sent.
                delivery.sent += if goes || messages.lossy { 0 } else { count * ends.count() as u64 };
                next += count;
                let before = std::mem::replace(&mut now, clock::now());
                chunk = next_chunk(chunk, now - before, timed.slot_ns, (1, MOST_CHUNK));
            }
            Ok(())
        };
        until(ends, begin + timed.lead_ns, &mut delivery)?;
        let meter = Meter::start(&self.counting, ends, delivery);
        let trimmed_ns = meter.start - begin;
        until(ends, end, &mut delivery)?;
        let mut report = meter.stop(ends, clock::now(), delivery);
        report.trimmed_ns = trimmed_ns;
        report.bytes_sent = report.delivery.sent * order.pieces.total();
        with_timeouts(&mut report, ends);
        // What the kernel still holds of zero-copy sends goes with the connection.
        Ok(Outcome::new(report))
    }

    /// Receives until the time is over; what may be lost until nothing comes any more.
    pub(crate) fn receive_in_time(
        &self,
        ends: &mut dyn ReceiverEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
        timed: Timed,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let lossy_ends = if messages.lossy { ends.count() } else { 0 };
        let mut receiving = Receiving {
            job: self,
            arrivals: (0..lossy_ends).map(|_| Arrivals::new(order.messages)).collect(),
            chunk: 1,
            delivery: Delivery::default(),
            slots: Slots::default(),
            next: 0,
            last: 0,
            goes: true,
        };
        // The first message of each connection starts the clock.
        receiving.some(ends, messages, inbox)?;
        let begin = receiving.last;
        receiving.slots = Slots::new(timed.slot_ns, begin, (timed.lead_ns, timed.ns));
        receiving.until(ends, messages, inbox, begin + timed.lead_ns)?;
        let meter = Meter::start(&self.counting, ends, receiving.delivery);
        // What comes from now on counts.
        let trimmed_ns = if begin > 0 { meter.start - begin } else { 0 };
        receiving.until(ends, messages, inbox, begin + timed.ns)?;
        if messages.lossy {
            receiving.rest(ends, messages, inbox)?;
        }
        let end = receiving.last.max(meter.start);
        let mut report = meter.stop(ends, end, receiving.delivery);
        report.trimmed_ns = trimmed_ns;
        report.bytes_received = report.delivery.received * order.pieces.total();
        // A sender that waits for room would not see that its time is over.
        let slots = std::mem::take(&mut receiving.slots);
        receiving.rest(ends, messages, inbox)?;
        Ok(Outcome { slots: Some(slots), ..Outcome::new(report) })
    }

    /// Echoes until the time is over, one row a message.
    pub(crate) fn echo_in_time(
        &self,
        ends: &mut dyn EchoEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
        timed: Timed,
    ) -> Result<Outcome, LoopError> {
        let order = &*self.order;
        let (least, most) = (u64::from(order.inflight), CHUNK * u64::from(order.inflight));
        let mut chunk = least;
        let most_rows = most as usize * ends.count();
        let mut rows = vec![Row { start: 1, latency: 0 }; most_rows]; // touched: no page fault in the loop
        let mut kept = Vec::with_capacity(self.keep);
        let (mut windows, mut latency, mut first) =
            (Windows::new(ends.count(), order.inflight), Histogram::new(), Histogram::new());
        let (mut delivery, mut next, mut no_stamps) = (Delivery::default(), 0, Vec::new());
        let pace = if order.inflight > 1 { Pace::Window } else { Pace::Single };
        let begin = clock::now();
        let mut slots = Slots::new(timed.slot_ns, begin, (timed.lead_ns, timed.ns));
        let mut now = begin;
        let mut some = |ends: &mut dyn EchoEnds, delivery: &mut Delivery, into: &mut Histogram, keep: usize| {
            rows.clear();
            let before = delivery.received;
            let count = chunk.min(order.messages - next);
            let traffic = Traffic { messages, delivery };
            let work = NearWork { pace, traffic, inbox, windows: &mut windows, rows: &mut rows, sent: &mut no_stamps };
            ends.near((next, count), work)?;
            next += count;
            let before_ns = std::mem::replace(&mut now, clock::now());
            chunk = next_chunk(chunk, now - before_ns, timed.slot_ns, (least, most));
            slots.add(now, (delivery.received - before) * order.reply);
            fold(&rows, into);
            let room = keep.saturating_sub(kept.len());
            kept.extend(rows.iter().take(room));
            Ok::<_, LoopError>((now, next < order.messages))
        };
        let mut goes = true;
        while goes && clock::now() < begin + timed.lead_ns {
            goes = some(ends, &mut delivery, &mut first, 0)?.1;
        }
        let meter = Meter::start(&self.counting, ends, delivery);
        let mut end = meter.start;
        while goes && end < begin + timed.ns {
            (end, goes) = some(ends, &mut delivery, &mut latency, self.keep)?;
        }
        let mut report = meter.stop(ends, end, delivery);
        report.bytes_sent = report.delivery.sent * order.pieces.total();
        report.bytes_received = report.delivery.received * order.reply;
        with_timeouts(&mut report, ends);
        self.settle(ends, &mut report)?;
        Ok(Outcome { latency, first, rows: kept, slots: Some(slots), ..Outcome::new(report) })
    }
}

/// A receiver of a stream that goes on for a time.
struct Receiving<'a> {
    job: &'a Job,
    arrivals: Vec<Arrivals>,
    delivery: Delivery,
    slots: Slots,
    /// Messages on each connection until the next look.
    chunk: u64,
    /// Number of the next message.
    next: u64,
    /// When the last one had come, ns.
    last: u64,
    goes: bool,
}

impl Receiving<'_> {
    /// Some messages on each connection.
    fn some(
        &mut self,
        ends: &mut dyn ReceiverEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<(), LoopError> {
        let (order, finish) = (&*self.job.order, &self.job.finish);
        let (count, since) = (self.chunk.min(order.messages - self.next), self.last);
        let before = self.delivery.received;
        let traffic = Traffic { messages, delivery: &mut self.delivery };
        let result = ends.receive(traffic, inbox, (self.next, count), &mut self.arrivals, finish);
        self.goes = went(result.map(|ns| self.last = ns))?;
        self.next += count;
        // The first message is waited for, however long.
        if since > 0 {
            let took_ns = self.last.saturating_sub(since);
            self.chunk = next_chunk(self.chunk, took_ns, self.slots.width_ns, (1, MOST_CHUNK));
        }
        let came = self.delivery.received - before;
        // Which of those that did not come were sent the sender says.
        self.delivery.lost = 0;
        self.slots.add(self.last, came * order.pieces.total());
        if !self.goes || self.next >= order.messages {
            self.goes = false;
        } else if messages.lossy && came < count * ends.count() as u64 {
            // Silence ends the far end's part; the near end goes on until its time is over.
            self.goes = self.job.near;
            self.last = if self.job.near { clock::now() } else { self.last };
        }
        Ok(())
    }

    /// The far end receives what still comes, until the near end closes or the round is ended.
    fn rest(
        &mut self,
        ends: &mut dyn ReceiverEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
    ) -> Result<(), LoopError> {
        while self.goes && !self.job.near {
            self.some(ends, messages, inbox)?;
        }
        Ok(())
    }

    fn until(
        &mut self,
        ends: &mut dyn ReceiverEnds,
        messages: &Messages<'_>,
        inbox: &mut Inbox,
        end: u64,
    ) -> Result<(), LoopError> {
        while self.goes && self.last < end {
            self.some(ends, messages, inbox)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_between_two_looks_take_a_part_of_a_slot_whatever_the_link_gives() {
        let settled = |each_ns: u64| {
            let mut chunk = 1;
            for _ in 0..30 {
                chunk = next_chunk(chunk, chunk * each_ns, 5_000_000, (1, MOST_CHUNK));
            }
            chunk
        };
        // 64 bytes at 50 ns, 128 KiB at 10 Gbit/s, 128 KiB at 10 Mbit/s.
        assert_eq!([50, 100_000, 100_000_000].map(settled), [16_384, 8, 1]);
        assert_eq!(next_chunk(16, 4_000_000, 5_000_000, (16, 256)), 16, "no less than are in flight");
    }

    #[test]
    fn a_connection_that_ends_is_not_an_error_and_wrong_bytes_are() {
        let io = |kind: ErrorKind| Err(LoopError::Io(kind.into()));
        for kind in [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe] {
            assert!(matches!(went(io(kind)), Ok(false)), "{kind}");
        }
        assert!(matches!(went(Ok(())), Ok(true)) && went(io(ErrorKind::InvalidData)).is_err());
    }
}
