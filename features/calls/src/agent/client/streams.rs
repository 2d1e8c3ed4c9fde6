//! The calls of one round over a connection of HTTP/2: one thread sends and receives, in a closed loop or by a schedule.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use msgpath_agent::open::{Flow, Generator};
use msgpath_core::plan::Load;
use msgpath_rpc::command::Step;
use msgpath_sys::clock;
use msgpath_sys::ready::{Direction, Events, ReadySet};

use super::http2::{Call, Done, Http2};
use super::loops::{Line, Shared, account_of, flow_of, share, until};
use super::orders::{Broken, CallsOrder};
use super::part::{Gone, Part, Place};

/// An interruption is looked for this often, ms.
const LOOK_MS: i32 = 100;

/// A round in progress.
struct Round<'a> {
    line: &'a mut Line,
    step: &'a Step,
    shared: &'a Shared,
    place: &'a Place,
    part: &'a mut Part,
    done: VecDeque<Done>,
    /// Calls that the server has not looked at.
    again: VecDeque<Call>,
    /// Calls that go together.
    batch: Vec<Call>,
    /// Buffers of calls that are over.
    spare: Vec<Vec<u8>>,
    /// By a schedule: when each reply came, ns; 0: it did not.
    arrived: Vec<u64>,
}

/// Carries out an order on a connection that a thread has for itself.
pub fn round(line: &mut Line, order: &CallsOrder, shared: &Shared, place: &Place, part: &mut Part) {
    let index = line.connection.index;
    let flow = flow_of(line, order, shared, place);
    let (done, again) = (VecDeque::new(), VecDeque::new());
    let (batch, spare, arrived) = (Vec::new(), Vec::new(), Vec::new());
    let step = &shared.order.steps[order.step];
    let mut round = Round { line, step, shared, place, part, done, again, batch, spare, arrived };
    let ended = match (shared.order.load, &flow) {
        (Load::Closed, _) => round.closed(share(order, index, shared.order.connections), until(order)),
        (Load::Open { .. }, Some(flow)) => round.by_schedule(flow, until(order)),
        (Load::Open { .. }, None) => Ok(()),
    };
    round.without_answer();
    part.broken = ended.err().map(|broken| (index, broken));
}

impl Round<'_> {
    fn http2(&mut self) -> Result<&mut Http2, Broken> {
        self.line.connection.http2.as_deref_mut().ok_or_else(|| Broken::Foreign("no HTTP/2".into()))
    }

    /// As many calls as there is room for, until all have gone or this time has come, ns.
    fn closed(&mut self, mut calls: u64, until: u64) -> Result<(), Broken> {
        let mut sequence = 0;
        loop {
            if until < u64::MAX && clock::now() >= until {
                calls = sequence;
            }
            let over = self.shared.is_over();
            let room = self.http2()?.room();
            let mut batch = std::mem::take(&mut self.batch);
            while batch.len() < room {
                match self.again.pop_front() {
                    Some(call) => batch.push(call),
                    None if sequence < calls && !over => {
                        batch.push(self.make(sequence, None));
                        sequence += 1;
                    }
                    None => break,
                }
            }
            // All that have room go in one send: none waits for another to be put together.
            let t1 = clock::now();
            batch.drain(..).try_for_each(|call| self.launch(call, t1))?;
            self.batch = batch;
            self.go()?;
            if self.http2()?.in_flight() == 0 {
                match (self.again.is_empty(), sequence < calls) {
                    (true, false) => return Ok(()),
                    _ if over => return Err(Broken::Stopped),
                    _ => self.renew()?,
                }
                continue;
            }
            self.take(true)?;
        }
    }

    /// Each call when it is due, or as soon as there is room, and none any more at this time, ns.
    fn by_schedule(&mut self, flow: &Flow, until: u64) -> Result<(), Broken> {
        let mut count = flow.count();
        self.arrived = vec![0; count as usize];
        let lost = |error: std::io::Error| Broken::Foreign(error.to_string());
        let mut generator = Generator::new(flow);
        generator.begin();
        let (mut sequence, mut next) = (0, None::<Call>);
        let (mut set, mut events, mut renewals) = (self.watched()?, Events::new(1), self.line.connection.renewals);
        let ended = loop {
            if self.shared.is_over() {
                break Err(Broken::Stopped);
            }
            if clock::now() >= until {
                (next, count) = (None, sequence);
            }
            while self.http2()?.room() > 0 {
                if next.is_none() && sequence < count {
                    next = Some(self.make(sequence, Some(flow.due(sequence))));
                    sequence += 1;
                }
                let now = clock::now();
                let is_due = |call: &mut Call| call.gone.due.is_some_and(|due| due <= now);
                let call = match self.again.pop_front() {
                    Some(call) => call,
                    None => match next.take_if(is_due) {
                        Some(call) => {
                            flow.goes(call.sequence, now, 0);
                            generator.pacer.sent(call.gone.due.unwrap_or(now), now);
                            call
                        }
                        None => break,
                    },
                };
                self.launch(call, now)?;
            }
            if let Err(broken) = self.go() {
                break Err(broken);
            }
            let in_flight = self.http2()?.in_flight();
            if in_flight == 0 && self.again.is_empty() && next.is_none() && sequence == count {
                break Ok(());
            }
            if self.http2()?.is_over() || in_flight == 0 && !self.again.is_empty() {
                if let Err(broken) = self.renew() {
                    break Err(broken);
                }
                continue;
            }
            if renewals != self.line.connection.renewals {
                (set, renewals) = (self.watched()?, self.line.connection.renewals);
            }
            let waited = match next.as_ref().and_then(|call| call.gone.due) {
                Some(due) if self.http2()?.room() > 0 => {
                    generator.pacer.look(due, |ns| set.wait_ns(&mut events, ns)).map_err(lost)
                }
                _ => set.wait(&mut events, LOOK_MS).map_err(lost),
            };
            let before = self.part.report.delivery.received;
            if let Err(broken) = waited.and_then(|()| self.take_all()) {
                break Err(broken);
            }
            for _ in before..self.part.report.delivery.received {
                flow.settle_one();
            }
        };
        let noted = generator.finish();
        let arrived = std::mem::take(&mut self.arrived);
        account_of(flow, &arrived, &noted, &mut self.line.debt, self.part);
        ended
    }

    /// The connection, to wait for.
    fn watched(&self) -> Result<ReadySet, Broken> {
        let made = ReadySet::new().and_then(|set| {
            set.watch(self.line.connection.stream.as_fd(), Direction::Input, 0)?;
            Ok(set)
        });
        made.map_err(|error| Broken::Foreign(error.to_string()))
    }

    /// Puts a call together.
    fn make(&mut self, sequence: u64, due: Option<u64>) -> Call {
        let Line { wire, draws, maker, .. } = &mut *self.line;
        let mut text = self.spare.pop().unwrap_or_default();
        let sent = wire.build(&self.step.method, maker, draws, &mut text);
        maker.advance();
        Call { sequence, gone: Gone { sent, due, ..Gone::default() }, text, tries: 0 }
    }

    /// Begins a call at this time, ns, or keeps it for later where the connection takes none now.
    fn launch(&mut self, mut call: Call, t1: u64) -> Result<(), Broken> {
        let connection = &self.line.connection;
        let (watch, port) = (std::sync::Arc::clone(&connection.watch), connection.port());
        // A call that goes again over a new connection has its time from there, as in HTTP/1.1.
        if call.tries == 0 || call.gone.port != port {
            let sent = std::mem::take(&mut call.gone.sent);
            call.gone.note(sent, &call.text, port, &self.shared.order);
            (call.gone.t1, call.gone.unix_us) = (t1, self.shared.unix_us(t1));
        }
        match self.http2()?.launch(call)? {
            None => watch.sends(t1),
            Some(call) => self.again.push_back(call),
        }
        Ok(())
    }

    fn go(&mut self) -> Result<(), Broken> {
        let connection = &mut self.line.connection;
        let Some(http2) = connection.http2.as_deref_mut() else { return Ok(()) };
        http2.go(&connection.stream, &connection.watch, &mut self.part.report.calls)
    }

    /// Takes replies; `waits`: until one comes. Whether something came.
    fn take(&mut self, waits: bool) -> Result<bool, Broken> {
        let connection = &mut self.line.connection;
        let Some(http2) = connection.http2.as_deref_mut() else { return Ok(false) };
        let counted = (&*connection.watch, &mut self.part.report.calls);
        let taken = http2.take(&connection.stream, counted, waits, &mut self.done);
        while let Some(done) = self.done.pop_front() {
            match done {
                Done::Again(mut call, why) => {
                    connection.watch.received(clock::now());
                    call.gone.renewed = Some(why);
                    self.again.push_back(call);
                }
                Done::Answered(call, got) => {
                    connection.watch.received(got.t4);
                    if let Some(arrived) = self.arrived.get_mut(call.sequence as usize) {
                        *arrived = got.t4;
                    }
                    self.part.settle(self.place, connection.index, &call.gone, Some(&got));
                    self.spare.push(call.text);
                }
            }
        }
        taken
    }

    /// Takes all that is there.
    fn take_all(&mut self) -> Result<(), Broken> {
        while self.take(false)? {}
        Ok(())
    }

    /// A new connection, where the server closes the old one.
    fn renew(&mut self) -> Result<(), Broken> {
        let http2 = self.http2()?;
        if !http2.is_over() {
            return Err(Broken::Foreign("the server allows no stream any more".into()));
        }
        if !http2.was_used() {
            return Err(self.line.connection.watch.reason(0));
        }
        self.line.connection.renew(&self.shared.over).map_err(|problem| Broken::Lost(problem.into()))
    }

    /// Calls that have gone and have no answer.
    fn without_answer(&mut self) {
        let index = self.line.connection.index;
        let under_way: Vec<Call> = self.line.connection.http2.iter_mut().flat_map(|http2| http2.drain()).collect();
        let gone = under_way.into_iter().chain(self.again.drain(..).filter(|call| call.tries > 0));
        for call in gone {
            self.part.settle(self.place, index, &call.gone, None);
        }
    }
}
