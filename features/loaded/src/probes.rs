//! New connections while a load goes on, which draft-ietf-ippm-responsiveness calls foreign probes: the near end connects every so often,
//! sends a request and waits for its reply, the far end answers. Two ends of their own, beside those of the load.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use msgpath_agent::loops::{LOST, LoopError, Row};
use msgpath_agent::thread::{Job, Outcome, ThreadError};
use msgpath_agent::works::Work;
use msgpath_core::plan::{ChannelOptions, Placement};
use msgpath_core::schema::EndReport;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Delivery, PathName, Plan, Unavailable, Workload};
use msgpath_paths::another::{self, Destination};
use msgpath_paths::{AnyChannel, Channel, Socket};
use msgpath_run::traffic::Sent;
use msgpath_sys::limits::remedy;
use msgpath_sys::msg::{self, SendFlags};
use msgpath_sys::ready::{Direction, Events, ReadySet};
use msgpath_sys::{clock, set_nonblocking};

use crate::record::Probe;

/// What is done on them.
pub static PROBES: Workload = Workload {
    name: "probes",
    runs: "probes",
    messages: "new connections",
    logged: false,
    resumes: Err("its load has ended with it"),
    stages: Err("a connection has several messages"),
    ..*Workload::ECHO
};

/// What the threads of both ends do.
pub static WORK: Probing = Probing;

/// Between two of them, ns: with their headers hardly 2 kB a second in each direction, and few packets in a queue that counts packets.
const EVERY_NS: u64 = 250_000_000;
/// Most in a round.
pub const MOST: usize = 512;
/// Most that the far end serves at a time.
const MOST_SERVED: usize = 2 * MOST;
/// Bytes of a request; its reply has one.
const REQUEST: u32 = 64;
/// When the round is over, replies that are under way are waited for so long, ns; the load goes on meanwhile.
const GRACE_NS: u64 = 500_000_000;
/// Between two looks whether the round is over, ms.
const LOOK_MS: u64 = 10;
/// Reports of one wait.
const REPORTS: usize = 64;
/// Tokens beyond those of connections.
const LISTENING: u64 = u64::MAX;
const ROUND: u64 = u64::MAX - 1;

/// See [`WORK`].
pub struct Probing;

impl Work for Probing {
    fn workload(&self) -> &'static Workload {
        &PROBES
    }

    fn run(&self, job: Job, channels: Vec<AnyChannel>) -> Result<Outcome, ThreadError> {
        let ready = job.ready.clone();
        let result = if job.near { connects(&job, &channels) } else { answers(&job, &channels) };
        if let Err(ThreadError::Unavailable(reason)) = &result {
            let _ = ready.send(Err(reason.clone()));
        }
        result
    }
}

/// The plan of their two ends.
pub fn plan(options: &ChannelOptions) -> Plan {
    let case = Case { reply: 1, ..Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(REQUEST)) };
    Plan { options: options.clone(), placement: Placement::default(), unpinned: true, ..Plan::new(&PROBES, vec![case]) }
}

/// What the near end brought home, which has two rows for each connection: those that began between two times.
pub fn of_window(rows: &[Sent], (from, until): (u64, u64)) -> Vec<Probe> {
    let both = rows.chunks_exact(2).filter(|pair| (from..until).contains(&pair[0].at_ns));
    both.map(|pair| Probe {
        t_ns: pair[0].at_ns - from,
        connect_ns: pair[0].took_ns,
        // Without a connection the second row is lost as well.
        reply_ns: pair[1].took_ns,
    })
    .collect()
}

fn unavailable(error: &io::Error) -> ThreadError {
    ThreadError::Unavailable(Unavailable::new(format!("new connections beside a load: {error}"), remedy(error)))
}

fn socket(channels: &[AnyChannel]) -> Result<&Socket, ThreadError> {
    match channels.first() {
        Some(AnyChannel::Socket(socket)) => Ok(socket),
        _ => Err(unavailable(&io::ErrorKind::Unsupported.into())),
    }
}

/// A connection of the near end.
struct Made {
    /// `None`: it is closed.
    fd: Option<OwnedFd>,
    /// Just before socket(2), ns.
    begun: u64,
    /// When it was there, and its request went.
    connected: Option<u64>,
    /// When its reply had come.
    replied: Option<u64>,
}

impl Made {
    /// Goes on as far as it can now.
    fn go_on(&mut self, (writable, readable): (bool, bool)) -> io::Result<()> {
        let Some(fd) = &self.fd else { return Ok(()) };
        if self.connected.is_none() && writable {
            another::outcome(fd.as_fd())?;
            self.connected = Some(clock::now());
            // A new connection has room for so little.
            msg::send(fd.as_fd(), &[0; REQUEST as usize], SendFlags::default())?;
        }
        if self.connected.is_some() && readable {
            match msg::recv(fd.as_fd(), &mut [0]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.replied = Some(clock::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// How long connecting took, and then until its reply.
    fn rows(&self) -> [Row; 2] {
        let row = |from: Option<u64>, to: Option<u64>| Row {
            start: self.begun,
            latency: from.zip(to).map_or(LOST, |(from, to)| to - from),
        };
        [row(Some(self.begun), self.connected), row(self.connected, self.replied)]
    }
}

/// The near end: connects until it is told to finish.
fn connects(job: &Job, channels: &[AnyChannel]) -> Result<Outcome, ThreadError> {
    let round = socket(channels)?;
    let to = Destination::of(&channels[0], &job.order.options).map_err(|error| unavailable(&error))?;
    let set = ReadySet::new().map_err(|error| unavailable(&error))?;
    job.wait_for_go(round.granted("near", &job.order.options), None, Vec::new())?;
    let begun = clock::now();
    let mut made: Vec<Made> = Vec::with_capacity(MOST);
    let mut events = Events::new(REPORTS);
    let (mut next, mut over_since) = (begun, None);
    loop {
        round.limits().look().map_err(LoopError::Io)?;
        let now = clock::now();
        if over_since.is_none() && job.finish.load(Ordering::Relaxed) {
            over_since = Some(now);
        }
        let idle = || made.iter().all(|one| one.fd.is_none());
        if over_since.is_some_and(|since| now - since > GRACE_NS || idle()) {
            break;
        }
        if over_since.is_none() && now >= next && made.len() < MOST {
            next = now + EVERY_NS;
            let fd = to.begin(None).and_then(|fd| set.add(fd.as_fd(), made.len() as u64).map(|()| fd));
            // That no connection could be begun is one that was not answered.
            made.push(Made { fd: fd.ok(), begun: now, connected: None, replied: None });
        }
        set.wait(&mut events, LOOK_MS as i32).map_err(LoopError::Io)?;
        for event in events.iter() {
            let Some(one) = made.get_mut(event.token as usize) else { continue };
            let went = one.go_on((event.writable, event.readable));
            if went.is_err() || one.replied.is_some() {
                one.fd.take().into_iter().for_each(another::reset);
            }
        }
    }
    made.iter_mut().filter_map(|one| one.fd.take()).for_each(another::reset);
    let rows: Vec<Row> = made.iter().flat_map(Made::rows).collect();
    let replied = made.iter().filter(|one| one.replied.is_some()).count() as u64;
    let sent = made.len() as u64;
    let delivery = Delivery { sent, received: replied, lost: sent - replied, ..Delivery::default() };
    let report = EndReport { elapsed_ns: clock::now() - begun, delivery, ..EndReport::default() };
    Ok(job.finished(Outcome { rows, ..Outcome::new(report) }))
}

/// A connection that came to the far end: bytes of its request that are still to come.
type Served = Option<(OwnedFd, usize)>;

/// The far end: answers whatever comes until the near end closes the connection of the round.
fn answers(job: &Job, channels: &[AnyChannel]) -> Result<Outcome, ThreadError> {
    let round = socket(channels)?;
    let listening = job.listening.clone().ok_or_else(|| unavailable(&io::ErrorKind::Unsupported.into()))?;
    let ready = || {
        set_nonblocking(listening.as_fd(), true)?;
        let set = ReadySet::new()?;
        set.watch(listening.as_fd(), Direction::Input, LISTENING)?;
        set.add(round.fd(), ROUND)?;
        Ok(set)
    };
    let set = ready().map_err(|error| unavailable(&error))?;
    job.wait_for_go(round.granted("far", &job.order.options), None, Vec::new())?;
    let (begun, mut served) = (clock::now(), Vec::<Served>::new());
    let mut events = Events::new(REPORTS);
    let mut is_over = false;
    while !is_over {
        set.wait(&mut events, LOOK_MS as i32).map_err(LoopError::Io)?;
        round.limits().look().map_err(LoopError::Io)?;
        for event in events.iter() {
            match event.token {
                LISTENING => accept(listening.as_fd(), &set, &mut served).map_err(LoopError::Io)?,
                ROUND => is_over |= event.ended,
                at => {
                    let Some(one) = served.get_mut(at as usize) else { continue };
                    // Who opened it counts what became of it.
                    if one.as_mut().is_some_and(|(fd, left)| !matches!(answer(fd.as_fd(), left), Ok(true))) {
                        *one = None;
                    }
                }
            }
        }
    }
    Ok(job.finished(Outcome::new(EndReport { elapsed_ns: clock::now() - begun, ..EndReport::default() })))
}

/// Takes what has come, in the place of one that has ended.
fn accept(listening: BorrowedFd<'_>, set: &ReadySet, served: &mut Vec<Served>) -> io::Result<()> {
    while let Some(fd) = another::take(listening, false)? {
        let free = served.iter().position(Option::is_none).unwrap_or(served.len());
        if free >= MOST_SERVED {
            continue; // more than any near end of ours has
        }
        set.add(fd.as_fd(), free as u64)?;
        let one = Some((fd, REQUEST as usize));
        match served.get_mut(free) {
            Some(place) => *place = one,
            None => served.push(one),
        }
    }
    Ok(())
}

/// Reads what has come of a request, and answers a whole one; `false`: the connection has ended.
fn answer(fd: BorrowedFd<'_>, left: &mut usize) -> io::Result<bool> {
    loop {
        let mut inbox = [0; REQUEST as usize];
        match msg::recv(fd, &mut inbox[..(*left).max(1)]) {
            Ok(0) => return Ok(false),
            // Nothing follows a request.
            Ok(_) if *left == 0 => return Ok(false),
            Ok(got) => *left -= got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
        if *left == 0 {
            msg::send(fd, &[0], SendFlags::default())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn its_plan_can_be() {
        assert_eq!(plan(&ChannelOptions::default()).validate(), Ok(()));
        assert!(PROBES.timed && PROBES.is_echoed());
    }

    #[test]
    fn the_window_has_those_that_began_in_it() {
        let sent = |at_ns, took_ns| Sent { at_ns, took_ns };
        let rows = [
            sent(5, Some(1)),
            sent(5, Some(2)),
            sent(10, Some(3)),
            sent(10, Some(4)),
            sent(19, None),
            sent(19, None),
            sent(20, Some(7)),
            sent(20, Some(7)),
        ];
        let probes = of_window(&rows, (10, 20));
        let own: Vec<_> = probes.iter().map(|probe| (probe.t_ns, probe.connect_ns, probe.reply_ns)).collect();
        assert_eq!(own, [(0, Some(3), Some(4)), (9, None, None)]);
        assert!(of_window(&rows[..1], (0, 20)).is_empty(), "half of one");
    }

    #[test]
    fn a_connection_has_two_times_and_a_refused_one_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let set = ReadySet::new().unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut one = Made { fd: Some(stream.into()), begun: clock::now(), connected: None, replied: None };
        one.go_on((true, false)).unwrap();
        let mut served = Vec::new();
        // A connection may come a little after connect has returned.
        while served.is_empty() {
            accept(listener.as_fd(), &set, &mut served).unwrap();
        }
        let (fd, mut left) = served.pop().flatten().unwrap();
        while left > 0 {
            assert!(answer(fd.as_fd(), &mut left).unwrap());
        }
        while one.replied.is_none() {
            one.go_on((true, true)).unwrap();
        }
        assert!(one.rows().iter().all(|row| row.latency != LOST && row.start == one.begun));
        drop(one.fd.take());
        while answer(fd.as_fd(), &mut left).unwrap_or(false) {}
        let lost = Made { fd: None, begun: 7, connected: None, replied: None };
        assert_eq!(lost.rows().map(|row| row.latency), [LOST, LOST]);
    }
}
