//! The server: takes whatever connections come, and answers each request. Where they come one after the other its calls wait, as those
//! of a plain program do; more are told apart by epoll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use msgpath_agent::loops::{LoopError, Service};
use msgpath_agent::meter::Meter;
use msgpath_agent::thread::{Job, Outcome, ThreadError};
use msgpath_core::{CallCounts, Delivery};
use msgpath_paths::{AnyChannel, Channel, Socket, another};
use msgpath_sys::poll::is_closed;
use msgpath_sys::ready::{Direction, Event, Events, ReadySet};
use msgpath_sys::{clock, socket};

use super::tls::{Begin, Tls};
use super::{COUNTED, LAST, LOOK_MS, NoEnds, OVER, recv, send, unavailable, waits};
use crate::record::Asked;

/// Tokens beyond those of connections.
const LISTENING: u64 = u64::MAX;
const ROUND: u64 = u64::MAX - 1;
/// Connections that are still open when the client is done are answered for so long, ns.
const GRACE_NS: u64 = 200_000_000;
/// Connections that are served at a time, by a thread: as many as a client has slots, and those that it is about to leave.
const MOST: usize = 2 * 4096;
/// Reports of one wait.
const REPORTS: usize = 256;

/// A connection that came.
struct Served {
    fd: OwnedFd,
    /// Its TLS, and whether both ends have agreed.
    tls: Option<Box<Tls>>,
    agreed: bool,
    /// Bytes of the request that have come.
    got: usize,
    /// Bytes of the reply that are to go; 0: a request is awaited.
    left: usize,
    /// The first byte of the request.
    said: u8,
}

struct Server {
    set: ReadySet,
    served: Vec<Option<Served>>,
    free: Vec<usize>,
    /// Bytes of a request, and where they are read to.
    request: usize,
    inbox: Vec<u8>,
    reply: Vec<u8>,
    service: Service,
    delivery: Delivery,
    calls: CallCounts,
    /// How TLS begins, where it was asked for.
    begins: Option<Begin>,
    /// How long the calls of each connection are told to wait; `None`: not at all, or they have it from the listening socket.
    each_waits: Option<Duration>,
}

/// A thread's part of a round.
pub(super) fn run(job: Job, mut channels: Vec<AnyChannel>) -> Result<Outcome, ThreadError> {
    let order = &*job.order;
    let asked = order.parts.get::<Asked>().copied().unwrap_or_default();
    let waits = waits(order);
    let ready = |listening: BorrowedFd<'_>, round: BorrowedFd<'_>| {
        if let Some(backlog) = asked.backlog {
            socket::set_backlog(listening, backlog.min(i32::MAX as u32) as i32)?;
        }
        let each_waits = another::offer(listening, &order.options, waits)?;
        let set = ReadySet::new()?;
        set.watch(listening, Direction::Input, LISTENING)?;
        set.add(round, ROUND)?;
        Ok((set, each_waits))
    };
    let (Some(listening), Some(AnyChannel::Socket(round))) = (job.listening.clone(), channels.first_mut()) else {
        return Err(unavailable("connections to come", &io::ErrorKind::Unsupported.into()));
    };
    let (set, each_waits) =
        ready(listening.as_fd(), round.fd()).map_err(|error| unavailable("connections to come", &error))?;
    let begins = asked.tls.then(|| Begin::server(round.fd())).transpose();
    let mut server = Server {
        begins: begins.map_err(|error| unavailable("TLS", &error))?,
        set,
        each_waits,
        served: Vec::new(),
        free: Vec::new(),
        request: order.pieces.total() as usize,
        inbox: vec![0; (order.pieces.total() as usize).clamp(1, 64 << 10)],
        reply: vec![0x5a; order.reply.max(1) as usize],
        service: Service::new(order.service_time, order.seed),
        delivery: Delivery::default(),
        calls: CallCounts::default(),
    };
    job.wait_for_go(round.granted("far", &order.options), None, Vec::new())?;
    let meter = Meter::start(&job.counting, &mut NoEnds, Delivery::default());
    let served = match waits.is_some() {
        true => server.serve_one_by_one(listening.as_fd(), round),
        false => server.serve(listening.as_fd(), round),
    };
    match served {
        // The client has given up what this answers.
        Err(LoopError::Io(error)) if order.patience_ns > 0 && error.kind() == io::ErrorKind::ConnectionAborted => {}
        served => served?,
    }
    let mut report = meter.stop(&mut NoEnds, clock::now(), server.delivery);
    report.bytes_received = report.delivery.received * order.pieces.total();
    report.bytes_sent = report.delivery.sent * order.reply;
    Ok(job.finished(Outcome::new(report)))
}

impl Server {
    /// Until the client closes the connection of the round, and nothing is left to answer.
    fn serve(&mut self, listening: BorrowedFd<'_>, round: &Socket) -> Result<(), LoopError> {
        let mut events = Events::new(REPORTS);
        let mut over_since = None;
        loop {
            self.set.wait(&mut events, LOOK_MS as i32)?;
            round.limits().look()?;
            for event in events.iter() {
                match event.token {
                    LISTENING => self.accept(listening)?,
                    ROUND if event.ended => _ = over_since.get_or_insert(clock::now()),
                    ROUND => {}
                    // Nobody waits for work that is begun when the round is over.
                    _ if self.service.is_some() && is_closed(round.fd())? => return Ok(()),
                    at => self.answer(at as usize, event),
                }
            }
            let idle = self.free.len() == self.served.len();
            if over_since.is_some_and(|since| idle || clock::now() - since > GRACE_NS) {
                return Ok(());
            }
        }
    }

    /// Until the last connection that the client said is over, or the client closes the connection of the round.
    fn serve_one_by_one(&mut self, listening: BorrowedFd<'_>, round: &Socket) -> Result<(), LoopError> {
        loop {
            let Some(fd) = another::take(listening, true)? else {
                round.limits().look()?;
                if is_closed(round.fd())? {
                    return Ok(());
                }
                continue;
            };
            another::wait_at_most(fd.as_fd(), self.each_waits)?;
            let mut served = Served { fd, tls: None, agreed: true, got: 0, left: 0, said: 0 };
            // What broke is closed: the client counts what became of it.
            while let Ok(true) = self.go_on(&mut served) {
                round.limits().look()?;
                if is_closed(round.fd())? {
                    return Ok(());
                }
            }
            if served.said & OVER != 0 {
                return Ok(());
            }
        }
    }

    /// Takes what has come. One that comes alone is mostly the only one: whether others are there the next wait tells.
    fn accept(&mut self, listening: BorrowedFd<'_>) -> io::Result<()> {
        let alone = self.served.len() == self.free.len();
        while let Some(fd) = another::take(listening, false)? {
            if self.served.len() - self.free.len() >= MOST {
                continue; // more than any client of ours has under way
            }
            let at = self.free.pop().unwrap_or_else(|| {
                self.served.push(None);
                self.served.len() - 1
            });
            let tls = self.begins.as_ref().map(Begin::connection).transpose()?;
            let mut served = Served { fd, agreed: tls.is_none(), tls, got: 0, left: 0, said: 0 };
            // The request is mostly there already, and the connection over with it.
            match self.go_on(&mut served) {
                Ok(true) => {
                    self.set.add(served.fd.as_fd(), at as u64)?;
                    self.served[at] = Some(served);
                }
                Ok(false) | Err(_) => self.free.push(at),
            }
            if alone {
                break;
            }
        }
        Ok(())
    }

    /// Whatever is possible on a connection now; a broken one is closed.
    fn answer(&mut self, at: usize, event: Event) {
        let Some(mut served) = self.served.get_mut(at).and_then(Option::take) else { return };
        if event.readable || served.left > 0 || !served.agreed {
            match self.go_on(&mut served) {
                Ok(true) => {}
                // The client counts what became of it.
                Ok(false) | Err(_) => return self.free.push(at),
            }
        }
        self.served[at] = Some(served);
    }

    /// `false`: the connection has ended.
    fn go_on(&mut self, served: &mut Served) -> io::Result<bool> {
        if let Some(tls) = served.tls.as_mut().filter(|_| !served.agreed) {
            served.agreed = tls.shake(served.fd.as_fd(), &mut self.calls)?;
            if !served.agreed {
                return Ok(true);
            }
        }
        loop {
            if served.left > 0 {
                let from = self.reply.len() - served.left;
                let sent = match send(&mut served.tls, served.fd.as_fd(), &self.reply[from..], &mut self.calls) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                    sent => sent?,
                };
                served.left -= sent;
                if served.left > 0 {
                    continue;
                }
                self.delivery.sent += u64::from(served.said & COUNTED != 0);
                if served.said & LAST != 0 {
                    if let Some(tls) = &mut served.tls {
                        tls.end(served.fd.as_fd(), &mut self.calls);
                    }
                    return Ok(false);
                }
            }
            let most = (self.request - served.got).min(self.inbox.len());
            match recv(&mut served.tls, served.fd.as_fd(), &mut self.inbox[..most], &mut self.calls) {
                Ok(0) => return Ok(false),
                Ok(got) => {
                    if served.got == 0 {
                        served.said = self.inbox[0];
                    }
                    served.got += got;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            if served.got == self.request {
                if served.said & COUNTED != 0 {
                    self.delivery.received += 1;
                }
                if self.service.is_some() {
                    self.service.work(self.delivery.received);
                }
                self.reply[0] = served.said;
                (served.got, served.left) = (0, self.reply.len());
            }
        }
    }
}
