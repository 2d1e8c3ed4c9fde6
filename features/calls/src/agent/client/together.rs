//! A closed loop on several connections of one thread: each has a call under way all the time, and the kernel says which replies have come.
//!
//! Where calls are short, a thread for each connection spends more on changing threads than on calls. What has come is read of all
//! connections before any of them sends again, so that no reply waits for another's request.

use std::os::fd::AsFd;

use msgpath_core::{Exit, Problem};
use msgpath_sys::clock;
use msgpath_sys::ready::{Direction, Events, ReadySet};

use super::loops::{AGAIN, Line, Shared, finish, go, prepare, share, until};
use super::orders::{Broken, CallsOrder};
use super::part::{Gone, Part, Place};
use super::wire::Sent;

/// An interruption is looked for this often while nothing comes.
const LOOK_MS: i32 = 100;

fn no_epoll(error: &std::io::Error) -> Broken {
    Broken::Lost(Problem::new("E00", Exit::CannotStart, format!("epoll: {error}")).into())
}

/// The connections of a thread in a round.
struct Together<'a> {
    lines: &'a mut [Line],
    order: &'a CallsOrder,
    shared: &'a Shared,
    place: &'a Place,
    set: ReadySet,
    /// The call that is under way on each.
    under_way: Vec<Option<(Gone, Sent)>>,
    /// Calls that are still to be made on each.
    left: Vec<u64>,
    until: u64,
}

/// The calls of an order on the connections of a thread.
pub(super) fn round(lines: &mut [Line], order: &CallsOrder, shared: &Shared, place: &Place, part: &mut Part) {
    let left = lines.iter().map(|line| share(order, line.connection.index, shared.order.connections)).collect();
    let index = lines.first().map_or(0, |line| line.connection.index);
    let set = match ReadySet::new() {
        Ok(set) => set,
        Err(error) => {
            part.broken = Some((index, no_epoll(&error)));
            return;
        }
    };
    let under_way = lines.iter().map(|_| None).collect();
    let mut together = Together { lines, order, shared, place, set, under_way, left, until: until(order) };
    part.broken = together.run(part).err();
    // What was under way when one of them broke has no reply.
    for at in 0..together.lines.len() {
        if let Some((mut gone, sent)) = together.under_way[at].take() {
            let line = &together.lines[at];
            gone.note(sent, &line.out, line.connection.port(), &shared.order);
            part.settle(place, line.connection.index, &gone, None);
        }
    }
}

impl Together<'_> {
    fn run(&mut self, part: &mut Part) -> Result<(), (u32, Broken)> {
        for at in 0..self.lines.len() {
            self.listen(at)?;
            self.begin(at, clock::now(), part)?;
        }
        let mut events = Events::new(self.lines.len());
        let mut come = Vec::with_capacity(self.lines.len());
        while self.under_way.iter().any(Option::is_some) {
            self.set.wait(&mut events, LOOK_MS).map_err(|error| self.lost(0, &error))?;
            for event in events.iter() {
                let at = event.token as usize;
                let Line { connection, wire, .. } = &mut self.lines[at];
                if self.under_way[at].is_none() {
                    // The server has closed it, which the next call finds out.
                    let _ = self.set.forget(connection.stream.as_fd());
                    continue;
                }
                let (stream, watch) = (&connection.stream, &connection.watch);
                let received = connection.inbox.receive_now(stream, wire, watch, &mut part.report.calls);
                let t4 = clock::now();
                if let Some(received) = received.transpose() {
                    watch.received(t4);
                    come.push((at, received, t4));
                }
            }
            for (at, received, t4) in come.drain(..) {
                if self.came(at, (received, t4), part)? {
                    self.begin(at, t4, part)?;
                }
            }
        }
        match self.shared.is_over() && self.left.iter().any(|left| *left > 0) {
            true => Err((self.lines[0].connection.index, Broken::Stopped)),
            false => Ok(()),
        }
    }

    fn lost(&self, at: usize, error: &std::io::Error) -> (u32, Broken) {
        (self.lines[at].connection.index, no_epoll(error))
    }

    /// Waits for what comes over a connection, from now on.
    fn listen(&mut self, at: usize) -> Result<(), (u32, Broken)> {
        let watched = self.set.watch(self.lines[at].connection.stream.as_fd(), Direction::Input, at as u64);
        watched.map_err(|error| self.lost(at, &error))
    }

    /// Sends the next call of a connection, if there is one.
    fn begin(&mut self, at: usize, now: u64, part: &mut Part) -> Result<(), (u32, Broken)> {
        if self.left[at] == 0 || now >= self.until || self.shared.is_over() {
            return Ok(());
        }
        self.left[at] -= 1;
        let (shared, line) = (self.shared, &mut self.lines[at]);
        let renewals = line.connection.renewals;
        let step = &shared.order.steps[self.order.step];
        let prepared = prepare(line, step, shared, None).map_err(|broken| (line.connection.index, broken))?;
        line.connection.inbox.room(line.wire.guess(&prepared.1));
        if self.lines[at].connection.renewals != renewals {
            self.listen(at)?;
        }
        self.send(at, prepared, part)
    }

    fn send(&mut self, at: usize, (mut gone, sent): (Gone, Sent), part: &mut Part) -> Result<(), (u32, Broken)> {
        let Line { connection, wire, out, .. } = &mut self.lines[at];
        let result = go(connection, wire, out, (self.shared, &mut part.report.calls), &mut gone);
        let t4 = clock::now();
        self.under_way[at] = Some((gone, sent));
        match result {
            Ok(()) => Ok(()),
            Err(broken) => {
                self.lines[at].connection.watch.received(t4);
                self.came(at, (Err(broken), t4), part).map(drop)
            }
        }
    }

    /// Takes a reply, or makes a call again that the server's closing has swallowed. Whether the call is over.
    fn came(
        &mut self,
        at: usize,
        (received, t4): (Result<(usize, u64), Broken>, u64),
        part: &mut Part,
    ) -> Result<bool, (u32, Broken)> {
        let Some((mut gone, sent)) = self.under_way[at].take() else { return Ok(true) };
        let (shared, line) = (self.shared, &mut self.lines[at]);
        let (index, step) = (line.connection.index, &shared.order.steps[self.order.step]);
        if matches!(received, Err(Broken::Closed(0))) && line.connection.used && line.wire.may_repeat(&step.method) {
            let renewed = line.connection.renew(&shared.over);
            renewed.map_err(|problem| (index, Broken::Lost(problem.into())))?;
            gone.renewed = Some(AGAIN);
            self.listen(at)?;
            return self.send(at, (gone, sent), part).map(|()| false);
        }
        gone.note(sent, &line.out, line.connection.port(), &shared.order);
        let ends = (&mut line.connection, &mut line.wire, &line.out[..]);
        finish(ends, step, shared, self.place, (gone, received, t4), part).map_err(|broken| (index, broken))?;
        Ok(true)
    }
}
