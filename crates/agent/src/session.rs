//! The session of an end: frames in, rounds measured, frames out. The same for both ends, for an agent and for `serve`.

use std::io::{self, Read, Write};
use std::iter::repeat;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use msgpath_core::plan::{EndPlace, Family};
use msgpath_core::schema::{ClockFacts, EndReport, EventCounts, KernelCounts, OpenRound, Tracing};
use msgpath_core::{Exit, Histogram, Problem, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_paths::{AnyChannel, Offer};
use msgpath_sys::limits::{allow_all_open_files, remedy};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::say;
use msgpath_sys::{affinity, clock, frames};

use crate::loops::{FarStamps, LoopError};
use crate::memory::{Budget, Share};
use crate::observe::{self, Tracer};
use crate::presence::{self, Presence, Says, has_closed};
use crate::privileges::{Peer, Privilege, Reach, Spinning};
use crate::program::{self, Programs, first_reply};
use crate::role::{Channel, Role};
use crate::rpc::client::{Calling, Goes};
use crate::seal::{Sealing, Seals, Veil};
use crate::team::{Team, need, no_thread, problem, thread_records};
use crate::thread::{Outcome, ThreadError};
use crate::wire::{
    self, Dial, FloorsOrder, FromEnd, Incoming, Own, RoundOrder, Times, ToEnd, TraceOrder, put_histograms,
};
use crate::{confine, counters, doctor, environment, events, floors, namespace, speed};

/// How long the far end waits for connections that were announced.
const ACCEPT: Duration = Duration::from_secs(8);
/// Between two looks at the lease and at the time of a round.
const LOOK: Duration = Duration::from_millis(100);
/// The same while a round ends, when its threads are waited for.
const SHORT_LOOK: Duration = Duration::from_millis(20);
/// Bytes of a frame whose memory counts, and how much more it takes once it is read.
const LARGE_FRAME: u64 = 64 << 10;
const READ_FRAME: u64 = 5;
/// The longest lease that is given.
const LONGEST_LEASE_MS: u64 = 60_000;

/// What a far end gives to a session.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The memory of its rounds; nothing: as much as they want.
    pub budget: Option<Arc<Budget>>,
    /// The longest that a round may last; nothing: as long as the near end lives.
    pub round: Option<Duration>,
    /// The CPUs that clients without a token may keep busy.
    pub spinning: Spinning,
}

/// A session's sign of life: when the last frame came, and how long silence may last.
#[derive(Debug)]
pub struct Lease {
    last: AtomicU64,
    ns: AtomicU64,
    /// Something was ordered.
    worked: AtomicBool,
}

impl Lease {
    /// A lease that begins now.
    pub fn new(length: Duration) -> Self {
        let lease = Self {
            last: AtomicU64::new(0),
            ns: AtomicU64::new(length.as_nanos() as u64),
            worked: AtomicBool::new(false),
        };
        lease.renew();
        lease
    }

    /// The near end orders something.
    pub(crate) fn begins_to_work(&self) {
        self.worked.store(true, Ordering::Relaxed);
    }

    /// Whether the near end has ordered anything since it greeted.
    pub fn has_worked(&self) -> bool {
        self.worked.load(Ordering::Relaxed)
    }

    /// Whether the near end has been silent for too long.
    pub fn is_over(&self) -> bool {
        self.is_over_by(1)
    }

    /// Whether nothing was heard for so many leases.
    fn is_over_by(&self, leases: u64) -> bool {
        let ns = self.ns.load(Ordering::Relaxed);
        ns > 0 && clock::now().saturating_sub(self.last.load(Ordering::Relaxed)) > ns * leases
    }

    fn renew(&self) {
        self.last.store(clock::now(), Ordering::Relaxed);
    }
}

/// A session that has not listened for so many leases hangs.
const HUNG: u64 = 6;
/// Between two looks at threads that measure by themselves.
const WATCH: Duration = Duration::from_millis(250);
/// Readings of which the cost of the clock is the mean.
const CLOCK_READINGS: u32 = 100_000;
/// Connections for which the usual limit of 1024 descriptors is enough: each takes up to four.
const USUAL_CONNECTIONS: u32 = 128;
/// CPUs that are examined at most: each costs a thread.
const MOST_EXAMINED: usize = 64;

/// A round with a program of others: it is watched, and that is all.
struct Watched {
    order: Arc<RoundOrder>,
    speed_ns: u64,
    /// CPU time of its processes when the round began; `None`: it was not started here.
    cpu_ns: Option<u64>,
    before: counters::Sample,
}

struct Prepared {
    shares: Shares,
    order: Arc<RoundOrder>,
    speed_ns: u64,
    offer: Box<dyn Offer>,
    abort: Arc<AtomicBool>,
}

/// Memory and CPUs that a round has taken. They go back when it is over.
type Shares = [Option<Share>; 2];

/// The near end of a round, connected.
struct Dialled {
    order: Arc<RoundOrder>,
    own: Own,
    stall: Duration,
    speed_ns: u64,
    channels: Vec<AnyChannel>,
    /// Connections to a program of others, kept until its end has told what the round took there.
    kept: Vec<AnyChannel>,
    abort: Arc<AtomicBool>,
}

/// A round that is going on.
struct Started {
    team: Team,
    may_be_cut: bool,
    /// The near end's, which goes by itself and says when it is over: how long all threads may stand still.
    stall: Option<Duration>,
    /// Its threads were told to go, and nobody was told yet that they have ended.
    running: bool,
    speed_ns: u64,
    before: counters::Sample,
    since: Instant,
    _shares: Shares,
    /// The kernel is traced meanwhile.
    traced: bool,
    /// See [`Dialled::kept`]; and whether every message that was sent has been waited for.
    kept: Vec<AnyChannel>,
    answered: bool,
}

impl Started {
    /// Whether the round has lasted for longer than this far end gives it.
    fn is_too_long(&self, terms: &Terms) -> bool {
        terms.round.is_some_and(|most| self.since.elapsed() > most)
    }
}

/// The control channel, read without ever waiting for the rest of a frame.
struct Control<'a, F> {
    from: &'a mut F,
    incoming: Incoming,
    lease: &'a Lease,
    presence: &'a Presence,
    budget: Option<&'a Arc<Budget>>,
    /// The memory of a large frame, until the next one comes.
    frame: Option<Share>,
}

/// What came over it.
enum Heard {
    Message(ToEnd),
    Nothing,
    /// The near end has closed it.
    End,
}

impl<F: Read + AsFd> Control<'_, F> {
    /// Listens for so long at most.
    fn hear(&mut self, wait: Duration) -> io::Result<Heard> {
        match poll(self.from.as_fd(), Interest::Read, wait.as_millis() as i32) {
            Ok(true) => {}
            Ok(false) => return self.nothing(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.nothing(),
            Err(error) => return Err(error),
        }
        if self.incoming.is_empty() {
            self.frame = None;
        }
        match self.incoming.fill(self.from) {
            Ok(0) if self.incoming.is_empty() => return Ok(Heard::End),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let announced = self.incoming.announced() as u64;
        if let Some(budget) = self.budget.filter(|_| announced > LARGE_FRAME && self.frame.is_none()) {
            let taken = budget.take(announced.saturating_mul(READ_FRAME));
            self.frame = Some(taken.map_err(|reason| io::Error::new(io::ErrorKind::OutOfMemory, reason.why))?);
        }
        match self.incoming.take()? {
            Some((message, _)) => {
                self.lease.renew();
                Ok(Heard::Message(message))
            }
            None => self.nothing(),
        }
    }

    fn nothing(&self) -> io::Result<Heard> {
        match self.lease.is_over() {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "the near end was silent for too long")),
            false => Ok(Heard::Nothing),
        }
    }

    /// Waits for the threads of a round. They end early when the near end goes, and when the round takes too long.
    fn wait_for(&mut self, started: &mut Started, terms: &Terms) -> io::Result<()> {
        while !started.team.wait(SHORT_LOOK) {
            match self.hear(Duration::ZERO)? {
                Heard::Nothing | Heard::Message(ToEnd::Alive) => {}
                Heard::Message(_) | Heard::End => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            }
            if started.is_too_long(terms) {
                started.team.abort();
            }
        }
        Ok(())
    }
}

/// The kernel's counters, read by all sessions of this process through the same files.
fn kernel() -> MutexGuard<'static, counters::Reader> {
    static KERNEL: OnceLock<Mutex<counters::Reader>> = OnceLock::new();
    let reader = KERNEL.get_or_init(|| Mutex::new(counters::Reader::new(&affinity::allowed())));
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was said on a control channel before its session.
#[derive(Debug, Default)]
pub struct Begun {
    /// What the near end has said, and was not answered.
    pub first: Option<ToEnd>,
    /// The seals of what follows, where both have proven to have a token.
    pub seals: Option<Seals>,
}

/// Serves one near end until it says bye or closes, whatever is going on then.
///
/// # Errors
/// As the streams; `InvalidData` for anything that is not this protocol, `PermissionDenied` for what the near end has not said.
/// No thread is left behind.
pub fn session(
    from: &mut (impl Read + AsFd),
    to: &mut impl Write,
    Begun { first, seals }: Begun,
    peer: Peer,
    terms: &Terms,
    lease: &Lease,
) -> io::Result<()> {
    let (says, hears, mut veil) = match seals {
        Some(Seals { says, hears, veil }) => (Some(says), Some(hears), Some(veil)),
        None => (None, None, None),
    };
    let watched = from.as_fd().try_clone_to_owned()?;
    let served = presence::watched(watched.as_fd(), |presence| {
        let mut team: Option<Started> = None;
        let mut control = Control {
            from,
            incoming: Incoming::new::<ToEnd>().sealed(hears),
            lease,
            presence,
            budget: terms.budget.as_ref(),
            frame: None,
        };
        let mut to = Sealing::new(Says { to: &mut *to, presence }, says.clone());
        let result = converse(&mut control, &mut to, (first, veil.as_mut()), peer, terms, &mut team);
        match team.is_none_or(|started| started.team.abandon()) {
            // What failed when the near end had gone failed because of that; what it said before is told.
            true => result.or_else(|error| match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied => Err(error),
                _ if presence.is_gone() || has_closed(&watched) => Ok(()),
                _ => Err(error),
            }),
            false => Err(io::Error::other("a measuring thread does not end")),
        }
    });
    served.unwrap_or_else(|error| {
        wire::write(&mut Sealing::new(&mut *to, says), &FromEnd::Busy { reason: no_thread(&error) }, &[])?;
        Err(error)
    })
}

fn converse<F: Read + AsFd>(
    control: &mut Control<'_, F>,
    to: &mut impl Write,
    (mut first, mut veil): (Option<ToEnd>, Option<&mut Veil>),
    peer: Peer,
    terms: &Terms,
    team: &mut Option<Started>,
) -> io::Result<()> {
    let out_of_turn = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut prepared: Option<Prepared> = None;
    let (mut programs, mut watched) = (Programs::default(), None::<Watched>);
    let mut dialled: Option<Dialled> = None;
    let mut calling: Option<Calling> = None;
    let mut tracer: Option<Tracer> = None;
    loop {
        if control.presence.is_gone() {
            return Ok(()); // what it had ordered before, nobody waits for
        }
        let mut look = LOOK;
        if let Some(started) = team.as_mut().filter(|started| started.running)
            && let Some(stall) = started.stall
        {
            look = Duration::ZERO;
            // Neither the end of the threads nor that of the control channel waits for the next look.
            let watched = [control.from.as_fd(), started.team.ended()];
            frames::wait(&watched, Some(WATCH.as_nanos() as u64), &mut Vec::new())?;
            if started.team.wait(Duration::ZERO) {
                started.running = false;
                wire::write(to, &FromEnd::Over, &[])?;
            } else if started.team.is_stalled(stall) {
                let error = ThreadError::Loop(LoopError::Io(io::ErrorKind::TimedOut.into()));
                let _ = team.take().is_none_or(|started| started.team.abandon());
                wire::write(to, &FromEnd::Failed(problem(&error, "near").into()), &[])?;
            }
        }
        if let Some(prepared) = &mut prepared
            && let Some(admission) = prepared.offer.admission()
            && let Some(door) = admission.door()
        {
            // The near end connects: more than a listening socket keeps.
            frames::wait(&[control.from.as_fd(), door], Some(LOOK.as_nanos() as u64), &mut Vec::new())?;
            admission.admit();
            look = Duration::ZERO;
        }
        let message = match first.take() {
            Some(message) => message,
            None => match control.hear(look)? {
                Heard::Message(message) => message,
                Heard::End => return Ok(()),
                Heard::Nothing => {
                    if let Some(started) = team.as_ref().filter(|started| started.is_too_long(terms)) {
                        started.team.abort();
                        started.team.kick();
                    }
                    continue;
                }
            },
        };
        if !matches!(message, ToEnd::Hello { .. } | ToEnd::Alive) {
            control.lease.begins_to_work();
        }
        let (answer, bytes) = match message {
            ToEnd::Hello { lease_ms, .. } => {
                control.lease.ns.store(lease_ms.clamp(100, LONGEST_LEASE_MS) * 1_000_000, Ordering::Relaxed);
                let hello = FromEnd::Hello {
                    version: env!("CARGO_PKG_VERSION").into(),
                    environment: Box::new(environment::read()),
                    cpus: environment::cpu_order(),
                    counters: kernel().names(),
                    events: Box::new(events::set().facts().clone()),
                };
                (hello, Vec::new())
            }
            ToEnd::Examine(mut order) => {
                let named = order.peer.filter(|_| peer.may(Privilege::OtherAddress));
                order.peer = named.or(peer.address).or(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
                if peer.reach != Reach::Own {
                    // Each costs a thread: those that there are.
                    let allowed = affinity::allowed();
                    order.cpus = allowed.into_iter().filter(|cpu| order.cpus.contains(cpu)).collect();
                }
                order.cpus.truncate(MOST_EXAMINED);
                let _turn = (!peer.may(Privilege::Spinning)).then(|| terms.spinning.examine(&mut order));
                let (own, gone) = (order.clone(), Arc::clone(control.presence.flag()));
                let checks = confine::outside(move || doctor::examine(&own, &gone));
                let checks = checks.unwrap_or_else(|_| doctor::examine(&order, control.presence.flag()));
                control.lease.renew(); // the near end keeps quiet while it waits
                (FromEnd::Examined { checks }, Vec::new())
            }
            ToEnd::Trace(order) => {
                let tracing;
                (tracer, tracing) = trace(order, peer, control.presence);
                control.lease.renew(); // it is tried first
                (FromEnd::Tracing(Box::new(tracing)), Vec::new())
            }
            ToEnd::Round(order) if order.program.is_some() => {
                (prepared, watched) = (None, None);
                let answer = match watch(*order, peer, &mut programs, control.presence.flag()) {
                    Ok((ready, offered)) => {
                        watched = Some(ready);
                        offered
                    }
                    Err(reason) => FromEnd::Unavailable(reason),
                };
                control.lease.renew(); // a program takes its time to start
                (answer, Vec::new())
            }
            ToEnd::Connect { .. } if watched.is_some() => {
                if let Some(watched) = &mut watched {
                    watched.begin(&programs);
                }
                (FromEnd::Ready { granted: Vec::new(), room: None, threads: Vec::new(), seen: None }, Vec::new())
            }
            ToEnd::Finish if watched.is_some() => match watched.take() {
                Some(watched) => (watched.end(&mut programs), Vec::new()),
                None => return out_of_turn("the end of a round that was not begun"),
            },
            ToEnd::Round(order) => {
                (prepared, watched) = (None, None);
                let answer = match prepare(*order, peer, terms, control.presence) {
                    Ok(ready) => {
                        let addresses = ready.offer.addresses();
                        prepared = Some(ready);
                        FromEnd::Offered { addresses, program: None }
                    }
                    Err(reason) => FromEnd::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToEnd::Connect { locals } => {
                let Some(prepared) = prepared.take().filter(|one| locals.len() == one.order.connections as usize)
                else {
                    return out_of_turn("a connection that was not prepared");
                };
                if let Some(before) = team.take() {
                    before.team.abandon(); // a round that nobody finished
                }
                let (may_be_cut, speed_ns) = (prepared.order.patience_ns > 0, prepared.speed_ns);
                let order = Arc::clone(&prepared.order);
                let accepted =
                    accept(prepared, locals).and_then(|accepted| match begin(&mut tracer, &order, &accepted.0) {
                        Ok(traced) => Ok((accepted, traced)),
                        Err(reason) => {
                            accepted.0.abandon();
                            Err(reason)
                        }
                    });
                let answer = match accepted {
                    Ok(((started, ready, shares, seen), traced)) => {
                        let before = kernel().read();
                        started.go();
                        let (threads, since) = (started.traced().to_vec(), Instant::now());
                        let (stall, running) = (None, true);
                        *team = Some(Started {
                            team: started,
                            may_be_cut,
                            stall,
                            running,
                            speed_ns,
                            before,
                            since,
                            _shares: shares,
                            traced,
                            kept: Vec::new(),
                            answered: false,
                        });
                        FromEnd::Ready { granted: ready.granted, room: ready.room, seen, threads }
                    }
                    Err(reason) => FromEnd::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToEnd::Measure(order) => {
                if !peer.may(Privilege::LowerBounds) {
                    return out_of_turn("an order that only a parent gives");
                }
                let own = order.clone();
                let answer = confine::outside(move || measured(own)).unwrap_or_else(|_| measured(order));
                (answer, Vec::new())
            }
            ToEnd::Dial(order) => {
                let over_ip = runs_over_ip(&order.order);
                let wanted = if over_ip { Privilege::ConnectingOverIp } else { Privilege::Connecting };
                if !peer.may(wanted) {
                    return out_of_turn("an order that only a parent gives");
                }
                if let Some(before) = team.take() {
                    before.team.abandon(); // a round that nobody finished
                }
                dialled = None;
                let answer = match dial(*order, control.lease, control.presence) {
                    Ok((ready, connected)) => {
                        dialled = Some(ready);
                        connected
                    }
                    Err(reason) => FromEnd::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToEnd::Call(order) => {
                if !peer.may(Privilege::Calls) {
                    return out_of_turn("an order that only a parent gives");
                }
                // Whoever reads what the parent prints may keep it waiting: that its pipe ends says enough.
                control.lease.ns.store(0, Ordering::Relaxed);
                let answer = match Calling::connect(*order, control.presence.flag()) {
                    Ok((connected, answer)) => {
                        calling = Some(connected);
                        answer
                    }
                    Err(answer) => answer,
                };
                (answer, Vec::new())
            }
            ToEnd::Calls(order) => {
                let prepared = calling.as_mut().ok_or("a round of nobody who calls");
                match prepared.and_then(|calling| calling.prepare(order)) {
                    Ok(ready) => (ready, Vec::new()),
                    Err(what) => return out_of_turn(what),
                }
            }
            ToEnd::Go if calling.is_some() => {
                let heard = calling.as_mut().map_or(Ok(Heard::End), |calling| calls(calling, control))?;
                first = match heard {
                    Heard::End => return Ok(()),
                    Heard::Nothing => None,
                    // What has ended the round is heard after it.
                    Heard::Message(message) => Some(message),
                };
                (FromEnd::Over, Vec::new())
            }
            ToEnd::Finish if calling.is_some() => {
                match calling.as_mut().map(|calling| calling.report(to)).transpose()? {
                    Some(Some(home)) => home,
                    _ => return out_of_turn("the end of a round that was not begun"),
                }
            }
            ToEnd::Start => {
                let Some(Dialled { order, own, stall, speed_ns, channels, kept, abort }) = dialled.take() else {
                    return out_of_turn("the start of a round that was not dialled");
                };
                let answer = match Team::start(&order, &own, channels, abort) {
                    Ok((started, ready)) => {
                        let threads = started.traced().to_vec();
                        *team = Some(Started {
                            team: started,
                            may_be_cut: false,
                            stall: Some(stall),
                            running: false,
                            speed_ns,
                            before: kernel().read(),
                            since: Instant::now(),
                            _shares: [None, None],
                            traced: false,
                            kept,
                            answered: own.load.is_none(),
                        });
                        FromEnd::Ready { granted: ready.granted, room: ready.room, seen: None, threads }
                    }
                    Err(reason) => FromEnd::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToEnd::Go => {
                let Some(started) = team.as_mut().filter(|started| started.stall.is_some()) else {
                    return out_of_turn("a word to go for a round that was not started");
                };
                started.before = kernel().read();
                started.running = true;
                started.team.go();
                continue;
            }
            ToEnd::Leave => {
                dialled = None;
                if let Some(before) = team.take() {
                    before.team.abandon();
                }
                (FromEnd::Left, Vec::new())
            }
            ToEnd::Finish => {
                let Some(started) = team else { return out_of_turn("the end of a round that was not begun") };
                let counted = kernel().read().since(&started.before);
                started.team.finish();
                if started.may_be_cut {
                    started.team.abort(); // whoever still waits waits for messages that will not come
                }
                control.wait_for(started, terms)?;
                let too_long = started.is_too_long(terms);
                // The events come first, whatever became of the round.
                if let Some(tracer) = tracer.as_mut().filter(|_| started.traced) {
                    match tracer.end() {
                        Ok(traced) => traced.put(to)?,
                        Err(error) => {
                            let _ = team.take().is_none_or(|started| started.team.abandon());
                            wire::write(to, &FromEnd::Failed(observe::unreadable(&error).into()), &[])?;
                            continue;
                        }
                    }
                }
                match team.take() {
                    Some(_) if too_long => (FromEnd::Failed(lasted_too_long(terms).into()), Vec::new()),
                    Some(Started { team, speed_ns, stall, kept, answered, .. }) => {
                        let more = answered && first_reply::more_came(&kept);
                        match collect_outcomes(team, counted, speed_ns, stall.is_some(), to)? {
                            (FromEnd::Done { .. }, _) if more => {
                                (FromEnd::Failed(first_reply::too_much().into()), Vec::new())
                            }
                            home => home,
                        }
                    }
                    None => return out_of_turn("the end of a round that was not begun"),
                }
            }
            ToEnd::Alive => continue,
            ToEnd::Bye => return Ok(()),
        };
        let answer = match (answer, veil.as_mut()) {
            // They have the keys of data connections.
            (FromEnd::Offered { addresses, program }, Some(veil)) => {
                FromEnd::Offered { addresses: veil.hide(&addresses), program }
            }
            (answer, _) => answer,
        };
        wire::write(to, &answer, &bytes)?;
    }
}

/// Makes a tracer ready, for whoever started this end. It sees more of this machine than a message: who runs when.
fn trace(order: TraceOrder, peer: Peer, presence: &Presence) -> (Option<Tracer>, Tracing) {
    if peer.may(Privilege::Tracing) {
        return tracer(order, presence);
    }
    let why = "a far end traces its kernel for whoever started it, and for nobody else";
    let refused =
        vec![(observe::KERNEL.to_owned(), Unavailable::new(why, "--launch: msgpath starts the far end there"))];
    (None, Tracing { refused, ..Tracing::default() })
}

/// The same by a thread of its own: reading the types of a kernel and loading programs into it takes longer than a session may
/// outlive its control channel, and cannot be interrupted. Where nobody waits for it any more, the thread ends with what it has
/// made.
fn tracer(order: TraceOrder, presence: &Presence) -> (Option<Tracer>, Tracing) {
    let (room, stop) = (order.room.min(observe::MAX_CARRIED), Arc::clone(presence.flag()));
    let (done, opened) = channel();
    let opens = move || drop(done.send(Tracer::open_unless(order.set, room, &stop)));
    let refused = |why: Unavailable| Tracing { refused: vec![(observe::KERNEL.to_owned(), why)], ..Tracing::default() };
    if let Err(error) = Builder::new().name("tracer".into()).spawn(opens) {
        return (None, refused(no_thread(&error)));
    }
    loop {
        match opened.recv_timeout(SHORT_LOOK) {
            Ok(opened) => return opened,
            Err(RecvTimeoutError::Timeout) if !presence.is_gone() => {}
            Err(_) => return (None, refused(Unavailable::new("it was not waited for", ""))),
        }
    }
}

/// Begins to trace the threads of this end, where the round is one that is traced here. Whether it is.
fn begin(tracer: &mut Option<Tracer>, order: &RoundOrder, team: &Team) -> Result<bool, Unavailable> {
    let Some(tracer) = tracer.as_mut().filter(|_| order.traced) else { return Ok(false) };
    let begun = tracer.begin(&[], team.traced(), order.pieces.total().min(order.reply) as u32);
    begun.map_err(|error| observe::refused(&error))?;
    Ok(true)
}

/// A round of calls: until it is over, or something else than a sign of life is heard, which ends it.
fn calls<F: Read + AsFd>(calling: &mut Calling, control: &mut Control<'_, F>) -> io::Result<Heard> {
    let mut heard = Ok(Heard::Nothing);
    let went = calling.go(|| {
        if matches!(heard, Ok(Heard::Nothing | Heard::Message(ToEnd::Alive))) {
            heard = control.hear(Duration::ZERO);
        }
        match heard {
            _ if control.presence.is_gone() => Goes::Nowhere,
            Ok(Heard::Nothing | Heard::Message(ToEnd::Alive)) => Goes::On,
            _ => Goes::ToItsEnd,
        }
    });
    match went {
        true => heard,
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "a word to go for calls that were not made ready")),
    }
}

/// What no message is faster than.
fn measured(order: FloorsOrder) -> FromEnd {
    let FloorsOrder { near, far, one_machine, size, peer, pieces } = order;
    let floors = Box::new(floors::measure(near, far, one_machine, size, peer, pieces));
    let (cost_ns, step_ns) = clock::measure(CLOCK_READINGS);
    FromEnd::Measured { floors, clock: ClockFacts { cost_ns, step_ns } }
}

/// Whether a round takes nothing but the network: no program, and no path that stays on a machine or puts frames on a device.
fn runs_over_ip(order: &RoundOrder) -> bool {
    order.program.is_none() && Entry::find(&order.path).is_some_and(|entry| entry.transport.meta().inet)
}

/// A round with a program of others: makes it listen.
fn watch(
    order: RoundOrder,
    peer: Peer,
    programs: &mut Programs,
    stop: &AtomicBool,
) -> Result<(Watched, FromEnd), Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    if !peer.may(Privilege::Programs) {
        return Err(Unavailable::new(
            "programs are started for whoever started this far end, and for nobody else",
            "start it there by hand: msgpath echo raw://HOST:PORT",
        ));
    }
    let Some(wanted) = &order.program else { return Err(Unavailable::new("no program", "")) };
    let host = host_of(&order, peer);
    let facts = programs.ready(&wanted.program, &order.cpus, host, order.options.family, stop)?;
    let addresses = vec![facts.address.clone(); order.connections as usize];
    let offered = FromEnd::Offered { addresses, program: Some(Box::new(facts)) };
    let (speed_ns, before) = (speed::probe(), kernel().read());
    Ok((Watched { order: Arc::new(order), speed_ns, cpu_ns: None, before }, offered))
}

impl Watched {
    fn name(&self) -> &str {
        self.order.program.as_ref().map_or("", |program| &program.program.name)
    }

    fn begin(&mut self, programs: &Programs) {
        self.before = kernel().read();
        self.cpu_ns = programs.cpu_time(self.name());
    }

    /// What the program took. The CPU time is that of the whole round: of messages that were not measured as well.
    fn end(self, programs: &mut Programs) -> FromEnd {
        let cpu_ns = programs.cpu_time(self.name()).zip(self.cpu_ns);
        let kernel = kernel().read().since(&self.before);
        if let Some(why) = programs.ended(self.name()) {
            return FromEnd::Failed(program::ended(self.name(), why).into());
        }
        let user_ns = cpu_ns.map_or(0, |(after, before)| after.saturating_sub(before));
        let report = Box::new(EndReport { user_ns, ..EndReport::default() });
        let (events, threads, stamps) = (EventCounts::new(), Vec::new(), Vec::new());
        FromEnd::Done { report, kernel, speed_ns: self.speed_ns, events, threads, stamps, times: None }
    }
}

fn lasted_too_long(terms: &Terms) -> Problem {
    let most = terms.round.map_or(0, |most| most.as_secs());
    Problem::new("E18", Exit::Unfinished, format!("a round took longer than the {most} s that the far end allows"))
        .hint("shorter rounds: more of them with -r, or fewer messages with -c")
}

fn prepare(order: RoundOrder, peer: Peer, terms: &Terms, presence: &Presence) -> Result<Prepared, Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path).ok_or_else(|| {
        Unavailable::new(format!("the far end does not know {}", order.path), "the same version there")
    })?;
    peer.may_order(&order, entry.transport.meta())?;
    let memory = terms.budget.as_ref().map(|budget| budget.take(order.memory())).transpose()?;
    let cpus = if peer.may(Privilege::Spinning) { None } else { terms.spinning.take(&order)? };
    allow_descriptors(&order);
    let host = host_of(&order, peer);
    let abort = presence.round();
    // Whoever gave the order by a pipe may have any address here: a translator, or a host on which it logged in first.
    let near = peer.address.filter(|_| !matches!(peer.reach, Reach::Own | Reach::Mesh));
    let need = need(&order, &entry, host, near, Arc::clone(&abort));
    entry.transport.suits(&order.options, need.largest)?;
    let offer = entry.transport.offer(&need).map_err(|error| {
        Unavailable::new(format!("the far end cannot offer {}: {error}", order.path), remedy(&error))
    })?;
    Ok(Prepared { shares: [memory, cpus], order: Arc::new(order), speed_ns: speed::probe(), offer, abort })
}

/// Raises the limit on descriptors where there are many connections: what is refused is said by who needs one.
fn allow_descriptors(order: &RoundOrder) {
    if order.connections > USUAL_CONNECTIONS {
        let _ = allow_all_open_files();
    }
}

/// The address of this end.
fn host_of(order: &RoundOrder, peer: Peer) -> IpAddr {
    peer.host.unwrap_or(match order.options.family {
        Family::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    })
}

type Accepted = (Team, crate::thread::Ready, Shares, Option<IpAddr>);

fn accept(prepared: Prepared, locals: Vec<String>) -> Result<Accepted, Unavailable> {
    let mut offer = prepared.offer;
    // `procvm` tries here to read the memory of the other end, which threads that listen may not.
    let accepted = confine::outside(move || {
        let channels = offer.accept(&locals, ACCEPT);
        (offer, channels)
    });
    let refused = |error: io::Error| Unavailable::new(format!("the far end could not accept: {error}"), remedy(&error));
    let (_offer, channels) = accepted.map_err(refused)?;
    let channels = channels.map_err(refused)?;
    let seen = channels.first().and_then(AnyChannel::peer);
    let own = Own { near: false, cpus: prepared.order.cpus.clone(), batch: 1, keep: 0, load: None };
    let (team, ready) = Team::start(&prepared.order, &own, channels, prepared.abort)?;
    Ok((team, ready, prepared.shares, seen))
}

/// What the threads of an end bring home. The rows of a near end's threads are said at once, the rest is returned.
fn collect_outcomes(
    team: Team,
    kernel: KernelCounts,
    speed_ns: u64,
    near: bool,
    to: &mut impl Write,
) -> io::Result<(FromEnd, Vec<u8>)> {
    let outcomes = match team.outcomes() {
        Ok(outcomes) => outcomes,
        Err(ThreadError::Unavailable(reason)) => return Ok((FromEnd::Unavailable(reason), Vec::new())),
        Err(error) => {
            let end = if near { "near" } else { "far" };
            return Ok((FromEnd::Failed(problem(&error, end).into()), Vec::new()));
        }
    };
    let mut bytes = Vec::new();
    let (stamps, times) = match near {
        true => {
            outcomes.iter().try_for_each(|outcome| say_rows(outcome, to))?;
            (Vec::new(), Some(Box::new(times(&outcomes, &mut bytes))))
        }
        false => (outcomes.iter().map(|outcome| put_stamps(outcome, &mut bytes)).collect(), None),
    };
    let sum = |mut sum: EndReport, one: EndReport| {
        sum.add(&one);
        sum
    };
    let report = Box::new(outcomes.iter().map(|outcome| outcome.report).reduce(sum).unwrap_or_default());
    let events = events::together(outcomes.iter().map(|outcome| &outcome.events));
    let threads = thread_records(&outcomes);
    Ok((FromEnd::Done { report, kernel, speed_ns, events, threads, stamps, times }, bytes))
}

/// Adds the stamps of a far end's thread; how many. A frame is limited: what does not fit is not sent, and the coordinator
/// sees how many there are.
fn put_stamps(outcome: &Outcome, bytes: &mut Vec<u8>) -> u32 {
    let FarStamps { arrived, left } = &outcome.stamps;
    let columns = if left.is_empty() { 1 } else { 2 };
    let sent = arrived.len().min((wire::MAX_BYTES - bytes.len()) / 8 / columns);
    bytes.reserve(8 * columns * sent);
    for column in [arrived, left].into_iter().take(columns) {
        // The stamps of a message that was cut off before its reply are of different length.
        bytes.extend(column.iter().copied().chain(repeat(0)).take(sent).flat_map(u64::to_le_bytes));
    }
    sent as u32
}

/// Says the rows of a near end's thread.
fn say_rows(outcome: &Outcome, to: &mut impl Write) -> io::Result<()> {
    let Outcome { rows, late, sent, .. } = outcome;
    let counts = [rows.len(), rows.len(), late.len(), sent.len()].map(|count| count as u32);
    let columns = rows.iter().map(|row| row.start).chain(rows.iter().map(|row| row.latency));
    let columns = columns.chain(late.iter().chain(sent).copied());
    wire::write(to, &FromEnd::Rows { counts }, &columns.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
}

/// What a near end's threads have timed; adds the histograms.
fn times(outcomes: &[Outcome], bytes: &mut Vec<u8>) -> Times {
    let of: [fn(&Outcome) -> &Histogram; 4] =
        [|one| &one.latency, |one| &one.first, |one| &one.service, |one| &one.lateness];
    let sums = of.map(|of| {
        let mut sum = Histogram::new();
        outcomes.iter().for_each(|outcome| sum.merge(of(outcome)));
        sum
    });
    let histograms = put_histograms(sums.each_ref(), bytes);
    let sum = |mut sum: OpenRound, one: OpenRound| {
        sum.add(&one);
        sum
    };
    Times { histograms, open: outcomes.iter().filter_map(|outcome| outcome.open.clone()).reduce(sum) }
}

/// Connects the near end of a round to the far end, which is prepared.
fn dial(order: Dial, lease: &Lease, presence: &Presence) -> Result<(Dialled, FromEnd), Unavailable> {
    let Dial { order, own, peer, addresses } = order;
    order.check().map_err(|what| Unavailable::new(format!("the near end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path)
        .ok_or_else(|| Unavailable::new(format!("{} is not a message path", order.path), "msgpath paths"))?;
    allow_descriptors(&order);
    let speed_ns = speed::probe();
    let abort = presence.round();
    let need = need(&order, &entry, IpAddr::V4(Ipv4Addr::LOCALHOST), peer, Arc::clone(&abort));
    let (mut channels, mut locals, mut connect_ns) = (Vec::new(), Vec::new(), 0);
    for address in &addresses {
        let start = clock::now();
        let connected = match &order.program {
            None => entry.transport.connect(address, &need),
            Some(_) => entry.transport.connect_to_program(address, &need).map(|channel| (channel, String::new())),
        };
        let (channel, local) =
            connected.map_err(|error| Unavailable::new(format!("{}: {error}", order.path), remedy(&error)))?;
        connect_ns = connect_ns.max(clock::now() - start);
        lease.renew(); // lost handshakes take seconds each
        channels.push(channel);
        locals.push(local);
    }
    let mut kept = Vec::new();
    if let Some(program) = &order.program {
        first_reply::answers(&order, program, &channels, &need.limits)?;
        lease.renew();
        kept = channels;
        let twice = kept.iter().map(AnyChannel::duplicate).collect::<io::Result<_>>();
        channels = twice.map_err(|error| Unavailable::new(format!("a second descriptor: {error}"), remedy(&error)))?;
    }
    let stall = need.limits.stall;
    let dialled = Dialled { order: Arc::new(order), own, stall, speed_ns, channels, kept, abort };
    Ok((dialled, FromEnd::Connected { locals, connect_ns }))
}

/// The agent: a session over standard input and output. Ends when its parent does (the input ends then), or when the
/// lease is over; in both cases it tidies up, which a signal would not let it do.
///
/// `places`: its own, where it moves first, and that of the near end; nothing to stay where it was started.
pub fn agent(places: Option<&[EndPlace; 2]>) -> std::process::ExitCode {
    let peer = match places.map_or_else(|| Ok(Peer::default()), peer_at) {
        Ok(peer) => peer,
        Err(problem) => {
            say!("{problem}");
            return problem.exit.code().into();
        }
    };
    match Channel::standard() {
        Ok(channel) => agent_at(peer, channel),
        Err(error) => ended(&error),
    }
}

/// Says why an agent ended.
fn ended(error: &io::Error) -> std::process::ExitCode {
    say!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
    Exit::Unfinished.code().into()
}

/// The same for an agent that is where it is to be.
pub(crate) fn agent_at(peer: Peer, mut channel: Channel) -> std::process::ExitCode {
    // It was started as /proc/self/exe, which is not a name to find it by.
    let _ = std::fs::write("/proc/self/comm", "msgpath");
    let lease = Arc::new(Lease::new(Duration::from_secs(10)));
    let watched = Arc::clone(&lease);
    let watch = Builder::new().name("lease".into()).spawn(move || {
        // The session itself sees the end of its lease when it listens. While it makes a round ready it does not, and on a
        // busy machine that takes its time: only one that hangs is ended from here.
        while !watched.is_over_by(HUNG) {
            std::thread::sleep(Duration::from_millis(200));
        }
        say!("{}", Problem::new("E17", Exit::Unfinished, "the agent hangs: it has not listened for too long"));
        std::process::exit(Exit::Unfinished.code().into());
    });
    if let Err(error) = watch {
        let mut out = Sealing::new(io::stdout().lock(), channel.seals.map(|seals| seals.says));
        let _ = wire::write(&mut out, &FromEnd::Busy { reason: no_thread(&error) }, &[]);
        return Exit::CannotStart.code().into();
    }
    let begun = Begun { first: None, seals: channel.seals };
    match session(&mut channel.input, &mut io::stdout().lock(), begun, peer, &Terms::default(), &lease) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => ended(&error),
    }
}

/// An end of messages, for a program that msgpath is part of and that starts itself as an agent.
pub fn started() -> std::process::ExitCode {
    match Role::receive() {
        Ok(Some(Role::End { places })) => agent(places.as_deref()),
        Ok(_) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            say!("the agent ended: {error}");
            Exit::Unfinished.code().into()
        }
    }
}

/// Moves to a place and says who is where.
fn peer_at([own, near]: &[EndPlace; 2]) -> Result<Peer, Problem> {
    namespace::enter(&own.namespace)?;
    let wrong = |_| Problem::new("E19", Exit::CannotStart, "the place of the agent is not what it should be");
    let address = |place: &EndPlace| place.address.parse::<IpAddr>().map_err(wrong);
    Ok(Peer { host: Some(address(own)?), address: Some(address(near)?), ..Peer::default() })
}

#[cfg(test)]
mod tests;
