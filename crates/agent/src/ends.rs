//! The ends of a measuring thread as its job sees them: the loops of its role, and what is counted around them.
//!
//! A job is written once. Only what stands behind these traits is made for each path, as few times as measuring allows
//! (`paths::registry`).

use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use msgpath_core::{CallCounts, Delivery, ZeroCopyCounts};
use msgpath_paths::{AnyMethod, AnyWait, Channel, End, Method, Wait};

use crate::event_loop::{self, EventLoop};
use crate::loops::{
    Answer, Arrivals, FarStamps, Inbox, LoopError, Messages, Row, Traffic, Windows, acknowledge, acknowledged,
    echo_far, echo_near, echo_near_batch, echo_near_window, relay_far, stream_receive, stream_send,
};
use crate::open::{Flow, Generator, open_receive, open_send};

type Done = Result<(), LoopError>;

/// One end, whatever its path.
pub trait AnyEnd {
    /// What carries its bytes.
    fn channel(&mut self) -> &mut dyn Channel;
    /// Waits for the buffers that the kernel still holds; what it said of all sends.
    ///
    /// # Errors
    /// As the system call.
    fn drain(&mut self) -> io::Result<ZeroCopyCounts>;
    /// Whether a message lies in one buffer.
    ///
    /// # Errors
    /// As the send method.
    fn is_whole(&mut self) -> io::Result<bool>;
    /// CPU time so far of threads of the kernel that work for it, ns.
    fn helpers_ns(&self) -> u64;
}

impl<C: Channel, S: Method<C>, W: Wait<C>> AnyEnd for End<C, S, W> {
    fn channel(&mut self) -> &mut dyn Channel {
        &mut self.channel
    }

    fn drain(&mut self) -> io::Result<ZeroCopyCounts> {
        self.method.drain(&mut self.channel)?;
        Ok(self.method.zerocopy())
    }

    fn is_whole(&mut self) -> io::Result<bool> {
        Ok(self.method.slot(&mut self.channel)?.count() == 1)
    }

    fn helpers_ns(&self) -> u64 {
        self.wait.helpers_ns()
    }
}

/// The ends of a thread.
pub trait Ends {
    /// How many there are.
    fn count(&self) -> usize;
    fn end(&mut self, at: usize) -> &mut dyn AnyEnd;
}

impl<C: Channel, S: Method<C>, W: Wait<C>> Ends for Vec<End<C, S, W>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn end(&mut self, at: usize) -> &mut dyn AnyEnd {
        &mut self[at]
    }
}

/// What `of` says of each channel.
pub fn each<T>(ends: &mut dyn Ends, mut of: impl FnMut(&mut dyn Channel) -> T) -> Vec<T> {
    (0..ends.count()).map(|at| of(ends.end(at).channel())).collect()
}

/// System calls of all so far.
pub fn calls(ends: &mut dyn Ends) -> CallCounts {
    let mut sum = CallCounts::default();
    each(ends, |channel| {
        channel.settle_counts();
        sum.add(channel.counts());
    });
    sum
}

/// How the near end of an echo goes about its messages.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// One message in flight.
    Single,
    /// One, with a stamp pair around so many.
    Batch(u64),
    /// Several.
    Window,
}

/// What the near end of an echo works with and fills.
pub struct NearWork<'a> {
    /// How it goes about its messages.
    pub pace: Pace,
    /// What is sent and what comes back.
    pub traffic: Traffic<'a>,
    /// Where replies arrive.
    pub inbox: &'a mut Inbox,
    /// The messages in flight.
    pub windows: &'a mut Windows,
    /// One row a message; it has room.
    pub rows: &'a mut Vec<Row>,
    /// When send calls had returned, as far as there is room.
    pub sent: &'a mut Vec<u64>,
}

/// What the far end of an echo works with and fills.
pub struct FarWork<'a> {
    /// What arrives and what is answered.
    pub traffic: Traffic<'a>,
    /// Where messages arrive.
    pub inbox: &'a mut Inbox,
    pub answer: &'a Answer<'a>,
    /// When messages came and left.
    pub stamps: &'a mut FarStamps,
}

/// The ends of an echo, near or far.
pub trait EchoEnds: Ends {
    /// `count` round trips on each connection, from message `first` on.
    ///
    /// # Errors
    /// [`LoopError`].
    fn near(&mut self, range: (u64, u64), work: NearWork<'_>) -> Done;
    /// `count` answers on each connection, from message `first` on.
    ///
    /// # Errors
    /// [`LoopError`].
    fn far(&mut self, range: (u64, u64), work: FarWork<'_>) -> Done;
}

impl<C: Channel, S: Method<C>, W: Wait<C>> EchoEnds for Vec<End<C, S, W>> {
    fn near(&mut self, range: (u64, u64), work: NearWork<'_>) -> Done {
        let NearWork { pace, traffic, inbox, windows, rows, sent } = work;
        match pace {
            Pace::Single => echo_near(self, traffic, inbox, range, rows, sent),
            Pace::Batch(batch) => echo_near_batch(&mut self[0], traffic, inbox, range, batch, rows),
            Pace::Window => echo_near_window(self, windows, traffic, inbox, range, rows),
        }
    }

    fn far(&mut self, range: (u64, u64), work: FarWork<'_>) -> Done {
        let FarWork { traffic, inbox, answer, stamps } = work;
        if self[0].method.relays() {
            return relay_far(self, inbox, range, answer, stamps, traffic.delivery);
        }
        echo_far(self, traffic, inbox, range, answer, stamps)
    }
}

/// The ends of an echo that are served from one event loop.
pub struct Looped<C: Channel, S> {
    pub ends: Vec<End<C, S, AnyWait<C>>>,
    /// What they wait in.
    pub event_loop: EventLoop,
}

impl<C: Channel, S: Method<C>> Ends for Looped<C, S> {
    fn count(&self) -> usize {
        self.ends.len()
    }

    fn end(&mut self, at: usize) -> &mut dyn AnyEnd {
        &mut self.ends[at]
    }
}

impl<C: Channel, S: Method<C>> EchoEnds for Looped<C, S> {
    fn near(&mut self, range: (u64, u64), work: NearWork<'_>) -> Done {
        event_loop::echo_near(&mut self.ends, &mut self.event_loop, work.traffic, range, work.rows)
    }

    fn far(&mut self, range: (u64, u64), work: FarWork<'_>) -> Done {
        let FarWork { traffic, answer, stamps, .. } = work;
        event_loop::echo_far(&mut self.ends, &mut self.event_loop, traffic, range, answer, stamps)
    }
}

/// The near ends of an echo by a schedule, served from one event loop: one direct loop for each send method.
pub trait OpenEnds: Ends {
    /// Messages of the generator's flow, each when it is due; see [`event_loop::open_echo`].
    ///
    /// # Errors
    /// [`LoopError`].
    fn on_time(
        &mut self,
        traffic: Traffic<'_>,
        generator: &mut Generator<'_>,
        range: Range<u64>,
        arrived: &mut [u64],
    ) -> Done;
}

impl<C: Channel, S: Method<C>> OpenEnds for Looped<C, S> {
    fn on_time(
        &mut self,
        traffic: Traffic<'_>,
        generator: &mut Generator<'_>,
        range: Range<u64>,
        arrived: &mut [u64],
    ) -> Done {
        event_loop::open_echo(&mut self.ends, &mut self.event_loop, traffic, generator, range, arrived)
    }
}

/// Ends that send: one direct loop for each send method.
pub trait SenderEnds: Ends {
    /// Sends `count` messages on each connection, from message `first` on.
    ///
    /// # Errors
    /// [`LoopError`].
    fn send(&mut self, messages: &Messages<'_>, range: (u64, u64), delivery: &mut Delivery) -> Done;
    /// Receives the acknowledgement of each connection.
    ///
    /// # Errors
    /// [`LoopError`].
    fn acknowledged(&mut self, messages: &Messages<'_>, inbox: &mut Inbox) -> Done;
    /// Sends messages of a schedule on the first connection; see [`open_send`].
    ///
    /// # Errors
    /// [`LoopError`].
    fn send_on_time(&mut self, traffic: Traffic<'_>, generator: &mut Generator<'_>, range: Range<u64>) -> Done;
}

impl<C: Channel, S: Method<C>> SenderEnds for Vec<End<C, S, AnyWait<C>>> {
    fn send(&mut self, messages: &Messages<'_>, range: (u64, u64), delivery: &mut Delivery) -> Done {
        stream_send(self, messages, range, delivery)
    }

    fn acknowledged(&mut self, messages: &Messages<'_>, inbox: &mut Inbox) -> Done {
        self.iter_mut().try_for_each(|end| acknowledged(&mut end.channel, &mut end.wait, messages, inbox))
    }

    fn send_on_time(&mut self, traffic: Traffic<'_>, generator: &mut Generator<'_>, range: Range<u64>) -> Done {
        open_send(&mut self[0], traffic, generator, range)
    }
}

/// Ends that receive: one direct loop for each wait.
pub trait ReceiverEnds: Ends {
    /// Receives `count` messages on each connection, from message `first` on; see [`stream_receive`].
    ///
    /// # Errors
    /// [`LoopError`].
    fn receive(
        &mut self,
        traffic: Traffic<'_>,
        inbox: &mut Inbox,
        range: (u64, u64),
        arrivals: &mut [Arrivals],
        finish: &AtomicBool,
    ) -> Result<u64, LoopError>;
    /// Acknowledges on each connection.
    ///
    /// # Errors
    /// [`LoopError`].
    fn acknowledge(&mut self, messages: &Messages<'_>) -> Done;
    /// Receives the answers of a schedule on the first connection; see [`open_receive`].
    ///
    /// # Errors
    /// [`LoopError`].
    fn receive_answers(
        &mut self,
        traffic: Traffic<'_>,
        inbox: &mut Inbox,
        flow: &Flow,
        range: Range<u64>,
        arrived: &mut [u64],
    ) -> Done;
}

impl<C: Channel, W: Wait<C>> ReceiverEnds for Vec<End<C, AnyMethod<C>, W>> {
    fn receive(
        &mut self,
        traffic: Traffic<'_>,
        inbox: &mut Inbox,
        range: (u64, u64),
        arrivals: &mut [Arrivals],
        finish: &AtomicBool,
    ) -> Result<u64, LoopError> {
        stream_receive(self, traffic, inbox, range, arrivals, finish)
    }

    fn acknowledge(&mut self, messages: &Messages<'_>) -> Done {
        self.iter_mut().try_for_each(|end| acknowledge(&mut end.channel, &mut end.method, messages))
    }

    fn receive_answers(
        &mut self,
        traffic: Traffic<'_>,
        inbox: &mut Inbox,
        flow: &Flow,
        range: Range<u64>,
        arrived: &mut [u64],
    ) -> Done {
        open_receive(&mut self[0], traffic, inbox, flow, range, arrived)
    }
}
