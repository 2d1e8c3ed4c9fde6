//! The session of an end: frames in, rounds measured, frames out. The same for both ends, for an agent and for `serve`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::iter::repeat;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use msgpath_core::plan::{EndPlace, Family};
use msgpath_core::schema::{ClockFacts, EndReport, EventCounts, KernelCounts, OpenRound, Tracing};
use msgpath_core::{Exit, Histogram, Problem, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_paths::{AnyChannel, Offer, TransportMeta};
use msgpath_sys::limits::{allow_all_open_files, remedy};
use msgpath_sys::poll::{Interest, poll};
use msgpath_sys::{affinity, clock, frames};

use crate::loops::{FarStamps, LoopError};
use crate::memory::{Budget, Share};
use crate::observe::{self, Tracer};
use crate::program::{self, Programs, trial};
use crate::role::Role;
use crate::rpc::client::Calling;
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
/// The longest lease that is given.
const LONGEST_LEASE_MS: u64 = 60_000;

/// Where the other end is, as far as the control channel tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Address of this end, for transports over IP.
    pub host: Option<IpAddr>,
    /// Address of the near end.
    pub address: Option<IpAddr>,
    /// What it may order.
    pub reach: Reach,
}

/// How far the control channel reaches: what whoever is at its other end may order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// A pipe from the process that started this one, or a Unix socket of the same user: everything.
    #[default]
    Own,
    /// A coordinator that has proven to have the token of its mesh: what runs over IP, and to which host this end connects.
    Mesh,
    /// A program on this machine, perhaps another user's, perhaps the end of a tunnel: nothing that puts frames on a
    /// device. The other paths between processes ask for themselves who connects.
    Machine,
    /// Anybody: what runs over IP and no more, which they could send themselves.
    Network,
}

impl Reach {
    /// Whether paths of this transport may be ordered.
    fn allows(self, meta: &TransportMeta) -> Result<(), Unavailable> {
        let name = meta.meta.name;
        let refused = |why| Err(Unavailable::new(why, format!("both ends on one machine: msgpath echo -x {name}")));
        match self {
            Reach::Machine if meta.device => {
                refused(format!("{name} sends to a network device: not for whoever may connect to this far end"))
            }
            Reach::Mesh | Reach::Network if !meta.inet => {
                refused(format!("{name} does not run over IP, and this far end was reached over a network"))
            }
            _ => Ok(()),
        }
    }
}

/// What a far end gives to a session.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The memory of its rounds; nothing: as much as they want.
    pub budget: Option<Arc<Budget>>,
    /// The longest that a round may last; nothing: as long as the near end lives.
    pub round: Option<Duration>,
}

/// A session's sign of life: when the last frame came, and how long silence may last.
#[derive(Debug)]
pub struct Lease {
    last: AtomicU64,
    ns: AtomicU64,
}

impl Lease {
    /// A lease that begins now.
    pub fn new(length: Duration) -> Self {
        let lease = Self { last: AtomicU64::new(0), ns: AtomicU64::new(length.as_nanos() as u64) };
        lease.renew();
        lease
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
    share: Option<Share>,
    order: Arc<RoundOrder>,
    speed_ns: u64,
    offer: Box<dyn Offer>,
    abort: Arc<AtomicBool>,
}

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
    /// Goes back when the round is over.
    _share: Option<Share>,
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
        match self.incoming.fill(self.from) {
            Ok(0) if self.incoming.is_empty() => return Ok(Heard::End),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
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

/// Serves one near end until it says bye or closes. `first`: what it has said already.
///
/// # Errors
/// As the streams; `InvalidData` for anything that is not this protocol. No thread is left behind.
pub fn session(
    from: &mut (impl Read + AsFd),
    to: &mut impl Write,
    first: Option<ToEnd>,
    peer: Peer,
    terms: &Terms,
    lease: &Lease,
) -> io::Result<()> {
    let mut team: Option<Started> = None;
    let mut control = Control { from, incoming: Incoming::new::<ToEnd>(), lease };
    let result = converse(&mut control, to, first, peer, terms, &mut team);
    match team.is_none_or(|started| started.team.abandon()) {
        true => result,
        false => Err(io::Error::other("a measuring thread does not end")),
    }
}

fn converse<F: Read + AsFd>(
    control: &mut Control<'_, F>,
    to: &mut impl Write,
    mut first: Option<ToEnd>,
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
                wire::write(to, &FromEnd::Failed(problem(&error, "near")), &[])?;
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
                // Who is not a parent of this end does not say where it looks.
                let named = order.peer.filter(|_| peer.reach == Reach::Own);
                order.peer = named.or(peer.address).or(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
                order.cpus.truncate(MOST_EXAMINED);
                let own = order.clone();
                let checks = confine::outside(move || doctor::examine(&own));
                let checks = checks.unwrap_or_else(|_| doctor::examine(&order));
                control.lease.renew(); // the near end keeps quiet while it waits
                (FromEnd::Examined { checks }, Vec::new())
            }
            ToEnd::Trace(order) => {
                let tracing;
                (tracer, tracing) = trace(order, peer.reach);
                control.lease.renew(); // it is tried first
                (FromEnd::Tracing(Box::new(tracing)), Vec::new())
            }
            ToEnd::Round(order) if order.program.is_some() => {
                (prepared, watched) = (None, None);
                let answer = match watch(*order, peer, &mut programs) {
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
                let answer = match prepare(*order, peer, terms) {
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
                    accept(prepared, &locals).and_then(|accepted| match begin(&mut tracer, &order, &accepted.0) {
                        Ok(traced) => Ok((accepted, traced)),
                        Err(reason) => {
                            accepted.0.abandon();
                            Err(reason)
                        }
                    });
                let answer = match accepted {
                    Ok(((started, ready, share, seen), traced)) => {
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
                            _share: share,
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
                if peer.reach != Reach::Own {
                    return out_of_turn("an order that only a parent gives");
                }
                let own = order.clone();
                let answer = confine::outside(move || measured(own)).unwrap_or_else(|_| measured(order));
                (answer, Vec::new())
            }
            ToEnd::Dial(order) => {
                if peer.reach != Reach::Own && !(peer.reach == Reach::Mesh && runs_over_ip(&order.order)) {
                    return out_of_turn("an order that only a parent gives");
                }
                if let Some(before) = team.take() {
                    before.team.abandon(); // a round that nobody finished
                }
                dialled = None;
                let answer = match dial(*order, control.lease) {
                    Ok((ready, connected)) => {
                        dialled = Some(ready);
                        connected
                    }
                    Err(reason) => FromEnd::Unavailable(reason),
                };
                (answer, Vec::new())
            }
            ToEnd::Call(order) => {
                if peer.reach != Reach::Own {
                    return out_of_turn("an order that only a parent gives");
                }
                // Whoever reads what the parent prints may keep it waiting: that its pipe ends says enough.
                control.lease.ns.store(0, Ordering::Relaxed);
                let answer = match Calling::connect(*order) {
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
                            _share: None,
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
                            wire::write(to, &FromEnd::Failed(observe::unreadable(&error)), &[])?;
                            continue;
                        }
                    }
                }
                match team.take() {
                    Some(_) if too_long => (FromEnd::Failed(lasted_too_long(terms)), Vec::new()),
                    Some(Started { team, speed_ns, stall, kept, answered, .. }) => {
                        let more = answered && trial::more_came(&kept);
                        match collect_outcomes(team, counted, speed_ns, stall.is_some(), to)? {
                            (FromEnd::Done { .. }, _) if more => (FromEnd::Failed(trial::too_much()), Vec::new()),
                            home => home,
                        }
                    }
                    None => return out_of_turn("the end of a round that was not begun"),
                }
            }
            ToEnd::Alive => continue,
            // Who had to prove something has, before there was a session.
            ToEnd::Prove { .. } => return out_of_turn("a proof that was not asked for"),
            ToEnd::Bye => return Ok(()),
        };
        wire::write(to, &answer, &bytes)?;
    }
}

/// Makes a tracer ready, for whoever started this end. It sees more of this machine than a message: who runs when.
fn trace(order: TraceOrder, reach: Reach) -> (Option<Tracer>, Tracing) {
    if reach == Reach::Own {
        return Tracer::open(order.set, order.room.min(observe::MAX_CARRIED));
    }
    let why = "a far end traces its kernel for whoever started it, and for nobody else";
    let refused =
        vec![(observe::KERNEL.to_owned(), Unavailable::new(why, "--launch: msgpath starts the far end there"))];
    (None, Tracing { refused, ..Tracing::default() })
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
        !matches!(heard, Ok(Heard::Nothing | Heard::Message(ToEnd::Alive)))
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
fn watch(order: RoundOrder, peer: Peer, programs: &mut Programs) -> Result<(Watched, FromEnd), Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    if peer.reach != Reach::Own {
        return Err(Unavailable::new(
            "programs are started for whoever started this far end, and for nobody else",
            "start it there by hand: msgpath echo raw://HOST:PORT",
        ));
    }
    let Some(wanted) = &order.program else { return Err(Unavailable::new("no program", "")) };
    let host = host_of(&order, peer);
    let facts = programs.ready(&wanted.program, &order.cpus, host, order.options.family)?;
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
            return FromEnd::Failed(program::ended(self.name(), why));
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

fn prepare(order: RoundOrder, peer: Peer, terms: &Terms) -> Result<Prepared, Unavailable> {
    order.check().map_err(|what| Unavailable::new(format!("the far end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path).ok_or_else(|| {
        Unavailable::new(format!("the far end does not know {}", order.path), "the same version there")
    })?;
    peer.reach.allows(entry.transport.meta())?;
    let share = terms.budget.as_ref().map(|budget| budget.take(order.memory())).transpose()?;
    allow_descriptors(&order);
    let host = host_of(&order, peer);
    let abort = Arc::new(AtomicBool::new(false));
    // Whoever gave the order by a pipe may have any address here: a translator, or a host on which it logged in first.
    let near = peer.address.filter(|_| !matches!(peer.reach, Reach::Own | Reach::Mesh));
    let need = need(&order, &entry, host, near, Arc::clone(&abort));
    entry.transport.suits(&order.options, need.largest)?;
    let offer = entry.transport.offer(&need).map_err(|error| {
        Unavailable::new(format!("the far end cannot offer {}: {error}", order.path), remedy(&error))
    })?;
    Ok(Prepared { share, order: Arc::new(order), speed_ns: speed::probe(), offer, abort })
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

type Accepted = (Team, crate::thread::Ready, Option<Share>, Option<IpAddr>);

fn accept(mut prepared: Prepared, locals: &[String]) -> Result<Accepted, Unavailable> {
    let channels = prepared
        .offer
        .accept(locals, ACCEPT)
        .map_err(|error| Unavailable::new(format!("the far end could not accept: {error}"), remedy(&error)))?;
    let seen = channels.first().and_then(AnyChannel::peer);
    let own = Own { near: false, cpus: prepared.order.cpus.clone(), batch: 1, keep: 0, load: None };
    let (team, ready) = Team::start(&prepared.order, &own, channels, prepared.abort)?;
    Ok((team, ready, prepared.share, seen))
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
            return Ok((FromEnd::Failed(problem(&error, end)), Vec::new()));
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
    // The stamps of a message that was cut off before its reply are of different length.
    let whole = |stamps: &[u64]| -> Vec<u64> { stamps.iter().copied().chain(repeat(0)).take(sent).collect() };
    let all = [arrived, left].into_iter().take(columns).flat_map(|column| whole(column));
    bytes.extend(all.flat_map(u64::to_le_bytes));
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
fn dial(order: Dial, lease: &Lease) -> Result<(Dialled, FromEnd), Unavailable> {
    let Dial { order, own, peer, addresses } = order;
    order.check().map_err(|what| Unavailable::new(format!("the near end refused: {what}"), ""))?;
    let entry = Entry::find(&order.path)
        .ok_or_else(|| Unavailable::new(format!("{} is not a message path", order.path), "msgpath paths"))?;
    allow_descriptors(&order);
    let speed_ns = speed::probe();
    let abort = Arc::new(AtomicBool::new(false));
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
        trial::answers(&order, program, &channels)?;
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
            eprintln!("{problem}");
            return problem.exit.code().into();
        }
    };
    agent_at(peer)
}

/// The same for an agent that is where it is to be.
pub(crate) fn agent_at(peer: Peer) -> std::process::ExitCode {
    // It was started as /proc/self/exe, which is not a name to find it by.
    let _ = std::fs::write("/proc/self/comm", "msgpath");
    let lease = Arc::new(Lease::new(Duration::from_secs(10)));
    let watched = Arc::clone(&lease);
    let watch = std::thread::Builder::new().name("lease".into()).spawn(move || {
        // The session itself sees the end of its lease when it listens. While it makes a round ready it does not, and on a
        // busy machine that takes its time: only one that hangs is ended from here.
        while !watched.is_over_by(HUNG) {
            std::thread::sleep(Duration::from_millis(200));
        }
        eprintln!("{}", Problem::new("E17", Exit::Unfinished, "the agent hangs: it has not listened for too long"));
        std::process::exit(Exit::Unfinished.code().into());
    });
    if let Err(error) = watch {
        let _ = wire::write(&mut io::stdout().lock(), &FromEnd::Busy { reason: no_thread(&error) }, &[]);
        return Exit::CannotStart.code().into();
    }
    // Not through a buffer of its own: what is to be read is what poll(2) sees.
    let input = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(input) => input,
        Err(error) => {
            eprintln!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
            return Exit::Unfinished.code().into();
        }
    };
    match session(&mut File::from(input), &mut io::stdout().lock(), None, peer, &Terms::default(), &lease) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", Problem::new("E17", Exit::Unfinished, format!("the agent ended: {error}")));
            Exit::Unfinished.code().into()
        }
    }
}

/// An end of messages, for a program that msgpath is part of and that starts itself as an agent.
pub fn started() -> std::process::ExitCode {
    match Role::receive() {
        Ok(Some(Role::End { places })) => agent(places.as_deref()),
        Ok(_) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the agent ended: {error}");
            Exit::Unfinished.code().into()
        }
    }
}

/// Moves to a place and says who is where.
fn peer_at([own, near]: &[EndPlace; 2]) -> Result<Peer, Problem> {
    namespace::enter(&own.namespace)?;
    let wrong = |_| Problem::new("E19", Exit::CannotStart, "the place of the agent is not what it should be");
    let address = |place: &EndPlace| place.address.parse::<IpAddr>().map_err(wrong);
    Ok(Peer { host: Some(address(own)?), address: Some(address(near)?), reach: Reach::Own })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, channel};

    use msgpath_core::plan::{Dispatch, StageSet, Workload};
    use msgpath_core::schedule::Arrivals;
    use msgpath_core::schema::{EventKind, KernelEvent};
    use msgpath_core::units::Pieces;
    use msgpath_paths::registry::TRANSPORTS;
    use msgpath_paths::{AnyChannel, Channel, Driver, End, Family, Layout, Method, Wait, transport, with_ends};
    use msgpath_sys::veth;

    use super::*;
    use crate::memory::tests::order;
    use crate::payload::{Payload, pattern};
    use crate::wire::Load;

    /// A limit that only a session which does not end reaches.
    const NEVER: Duration = Duration::from_secs(30);

    /// The near end of a session, by hand.
    struct Near {
        control: UnixStream,
        ended: Receiver<io::Result<()>>,
        lease: Arc<Lease>,
    }

    impl Near {
        fn new(reach: Reach, terms: Terms) -> Self {
            let (control, mut far) = UnixStream::pair().unwrap();
            let (done, ended) = channel();
            let lease = Arc::new(Lease::new(Duration::from_secs(60)));
            let kept = Arc::clone(&lease);
            std::thread::spawn(move || {
                let mut write = far.try_clone().unwrap();
                let peer = Peer { reach, ..Peer::default() };
                let _ = done.send(session(&mut far, &mut write, None, peer, &terms, &kept));
            });
            Self { control, ended, lease }
        }

        fn say(&mut self, message: &ToEnd) {
            wire::write(&mut self.control, message, &[]).unwrap();
        }

        fn asks(&mut self, message: &ToEnd) -> FromEnd {
            self.say(message);
            wire::read(&mut self.control).unwrap().unwrap().0
        }

        fn orders(&mut self, order: &RoundOrder) -> FromEnd {
            self.asks(&ToEnd::Round(Box::new(order.clone())))
        }

        /// Begins a round; this end's channels.
        fn begins(&mut self, order: &RoundOrder) -> Vec<AnyChannel> {
            let FromEnd::Offered { addresses, .. } = self.orders(order) else { panic!("{}: no offer", order.path) };
            let order = &on(order, DEVICES[0]);
            let entry = Entry::find(&order.path).unwrap();
            let need = need(order, &entry, IpAddr::V4(Ipv4Addr::LOCALHOST), None, Arc::default());
            let connected = addresses.iter().map(|address| entry.transport.connect(address, &need).unwrap());
            let (channels, locals) = connected.unzip();
            let ready = self.asks(&ToEnd::Connect { locals });
            assert!(matches!(ready, FromEnd::Ready { .. }), "{}: {ready:?}", order.path);
            channels
        }
    }

    /// What the end by hand does with its connection.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        Sends,
        Receives,
        Answers,
    }

    /// A pair of devices, for what wants one for each end.
    const DEVICES: [&str; 2] = ["mps0", "mps1"];

    fn wants_devices(path: &msgpath_core::PathName) -> bool {
        Entry::find(path).unwrap().transport.meta().family == Family::Xsk
    }

    /// The same order for the end that has this device.
    fn on(order: &RoundOrder, device: &str) -> RoundOrder {
        let mut order = order.clone();
        if wants_devices(&order.path) {
            order.options.interface = device.into();
        }
        order
    }

    /// Does something where both ends of a path can be.
    fn in_place<T: Send>(path: &msgpath_core::PathName, what: impl FnOnce() -> T + Send) -> T {
        if wants_devices(path) { veth::with_pair(DEVICES, what).unwrap() } else { what() }
    }

    /// Does it until it cannot any more, and counts the messages.
    struct Traffic {
        does: Does,
        /// It stands still after so many: it neither receives nor closes.
        most: u64,
        came: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
    }

    impl Traffic {
        /// Goes on in a thread of its own, which is left behind where nothing ends a full queue that nobody reads.
        fn goes_on(does: Does, most: u64, order: &RoundOrder, channels: Vec<AnyChannel>) -> Self {
            let (came, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
            let own = Self { does, most, came: Arc::clone(&came), stop: Arc::clone(&stop) };
            let (path, options) = (order.path.clone(), order.options.clone());
            std::thread::spawn(move || {
                let inflight = Layout::UNANSWERED;
                let layout = Layout { pieces: Pieces::whole(64), inflight, copies: 1, content: &pattern };
                let _ = with_ends(&path, channels, layout, &options, own);
            });
            Self { does, most, came, stop }
        }

        fn wait_for(&self, messages: u64, what: &str) {
            let begun = Instant::now();
            while self.came.load(Ordering::Relaxed) < messages && begun.elapsed() < NEVER {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(self.came.load(Ordering::Relaxed) >= messages, "{what}: nothing came");
        }
    }

    impl Drop for Traffic {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    impl Driver for Traffic {
        type Out = ();
        fn drive<C: Channel, S: Method<C>, W: Wait<C>>(self, mut ends: Vec<End<C, S, W>>) {
            let End { channel, method, wait } = &mut ends[0];
            let (mut bytes, payload) = ([0; 64], Payload::new(Pieces::whole(64)));
            while !self.stop.load(Ordering::Relaxed) {
                let sequence = self.came.load(Ordering::Relaxed);
                if sequence >= self.most {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                let received = match self.does {
                    Does::Sends => Ok(1),
                    Does::Receives | Does::Answers => wait.recv(channel, &mut bytes),
                };
                let sequence = if self.does == Does::Answers { payload.sequence(&bytes) } else { sequence };
                let done = match received {
                    Ok(length) if length > 0 && self.does != Does::Receives => method
                        .slot(channel)
                        .map(|slot| payload.number(slot, sequence))
                        .and_then(|()| method.send(channel))
                        .and_then(|()| method.flush(channel))
                        .map(|()| length),
                    other => other,
                };
                match done {
                    Ok(0) => return,
                    Ok(_) => drop(self.came.fetch_add(1, Ordering::Relaxed)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    }

    /// The round that never ends by itself: an echo server that waits, a receiver in a flood, a sender.
    fn endless(path: &msgpath_core::PathName, role: &str) -> RoundOrder {
        let order = RoundOrder {
            path: path.clone(),
            workload: if role == "echo" { Workload::Echo } else { Workload::Stream },
            reverse: role == "sender",
            messages: 1 << 39,
            ..order("tcp:send")
        };
        on(&order, DEVICES[1])
    }

    /// Nothing must run on when the control channel has closed, whatever the near end does with its data connections.
    /// How long it took: until the session had ended, and until the last message came.
    fn ends_with_its_control_channel(order: &RoundOrder, role: &str, finishing: bool) -> Duration {
        let what = format!("{} {role}, finishing: {finishing}", order.path);
        let mut near = Near::new(Reach::Own, Terms::default());
        let channels = near.begins(order);
        // An echo server waits for an end that is open and silent.
        let (does, most) = match role {
            "receiver" => (Does::Sends, u64::MAX),
            "sender" => (Does::Receives, u64::MAX),
            _ => (Does::Answers, 0),
        };
        let traffic = Traffic::goes_on(does, most, order, channels);
        traffic.wait_for(most.min(100), &what);
        if finishing {
            near.say(&ToEnd::Finish);
        }
        let closed = Instant::now();
        drop(near.control);
        let ended = near.ended.recv_timeout(NEVER).unwrap_or_else(|_| panic!("{what}: it goes on"));
        let left = ended.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!left.contains("does not end"), "{what}: {left}");
        let mut took = closed.elapsed();
        // What lies in the kernel's buffers still comes, and then nothing more.
        let came = || traffic.came.load(Ordering::Relaxed);
        let (mut seen, mut quiet) = (came(), Instant::now());
        let begun = Instant::now();
        while role == "sender" && quiet.elapsed() < Duration::from_millis(100) {
            assert!(begun.elapsed() < NEVER, "{what}: messages keep coming");
            std::thread::sleep(Duration::from_millis(5));
            let now = came();
            if now != seen {
                (seen, quiet, took) = (now, Instant::now(), closed.elapsed());
            }
        }
        say(order, role, if finishing { "finishing" } else { "" }, took)
    }

    fn say(order: &RoundOrder, role: &str, when: &str, took: Duration) -> Duration {
        println!("{:<16} {role:<18} {when:<10} {:6.1} ms", order.path.to_string(), took.as_secs_f64() * 1e3);
        took
    }

    /// The near end of a round, whose far end is done by hand: it answers for `most` messages and then stands still,
    /// keeping its connection.
    fn near_ends_with_its_control_channel(order: &RoundOrder, load: Option<Load>, most: u64) -> Duration {
        let role = match (order.workload, order.reverse, &load) {
            (Workload::Stream, false, _) => "stream sender",
            (Workload::Stream, true, _) => "stream receiver",
            (_, _, None) => "echo client",
            _ => "open-loop sender",
        };
        let what = format!("{} {role}, after {most} messages", order.path);
        let does = match role {
            "stream sender" => Does::Receives,
            "stream receiver" => Does::Sends,
            _ => Does::Answers,
        };
        let entry = Entry::find(&order.path).unwrap();
        let need = need(order, &entry, IpAddr::V4(Ipv4Addr::LOCALHOST), None, Arc::default());
        let mut offer = entry.transport.offer(&need).unwrap();
        let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 0, load };
        let mut near = Near::new(Reach::Own, Terms::default());
        let dial = Dial { order: on(order, DEVICES[0]), own, peer: None, addresses: offer.addresses() };
        let connected = near.asks(&ToEnd::Dial(Box::new(dial)));
        let FromEnd::Connected { locals, .. } = connected else { panic!("{what}: {connected:?}") };
        let traffic = Traffic::goes_on(does, most, order, offer.accept(&locals, ACCEPT).unwrap());
        let ready = near.asks(&ToEnd::Start);
        let FromEnd::Ready { threads, .. } = ready else { panic!("{what}: {ready:?}") };
        near.say(&ToEnd::Go);
        traffic.wait_for(most.min(100), &what);
        if most < u64::MAX {
            // Until queues are full and all wait; who may lose messages never does.
            let ran = || -> Vec<Option<String>> {
                let path = |tid| format!("/proc/self/task/{tid}/schedstat");
                threads.iter().map(|thread| std::fs::read_to_string(path(thread.tid)).ok()).collect()
            };
            let (begun, mut before) = (Instant::now(), Vec::new());
            while before != ran() && begun.elapsed() < Duration::from_millis(500) {
                before = ran();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        near.control.set_nonblocking(true).unwrap();
        let text = wire::read::<FromEnd>(&mut near.control);
        assert!(text.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "{what}: it was over before");
        let closed = Instant::now();
        drop(near.control);
        let ended = near.ended.recv_timeout(NEVER).unwrap_or_else(|_| panic!("{what}: it goes on"));
        let took = closed.elapsed();
        ended.unwrap_or_else(|error| panic!("{what}: {error}"));
        say(order, role, if most < u64::MAX { "stalled" } else { "" }, took)
    }

    /// The default path of every transport that is to be had here.
    fn paths() -> Vec<msgpath_core::PathName> {
        let mut paths = Vec::new();
        for transport in TRANSPORTS {
            let meta = transport.meta();
            let path = msgpath_core::PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
            match transport.probe() {
                Ok(()) => paths.push(path),
                Err(reason) => eprintln!("skipped: {path}: {}", reason.why),
            }
        }
        paths
    }

    /// What a far end can be over a path.
    fn roles(path: &msgpath_core::PathName) -> &'static [&'static str] {
        match Entry::find(path).unwrap().transport.streams() {
            Ok(()) => &["echo", "receiver", "sender"],
            Err(_) => &["echo"],
        }
    }

    /// Every transport and role of the far end, and the longest that one of them took.
    fn all_end_with_their_control_channel() -> Duration {
        let mut longest = Duration::ZERO;
        for path in paths() {
            for role in roles(&path) {
                for finishing in [false, true] {
                    let ends = || ends_with_its_control_channel(&endless(&path, role), role, finishing);
                    longest = longest.max(in_place(&path, ends));
                }
            }
        }
        let spin = "shm:ring/spin".parse::<msgpath_core::path::PathSpec>().unwrap();
        let spin = msgpath_paths::resolve(&spin, None).unwrap();
        longest = longest.max(ends_with_its_control_channel(&endless(&spin, "echo"), "echo", true));
        let epoll = msgpath_core::PathName::new("tcp", "send", "epoll");
        let looping = RoundOrder { dispatch: Dispatch::EventLoop, ..endless(&epoll, "echo") };
        longest.max(ends_with_its_control_channel(&looping, "echo", true))
    }

    /// Every transport and role of the near end, with a far end that goes on and with one that stands still.
    fn all_near_ends_end_with_their_control_channel() -> Duration {
        let load = |gap_ns| Load { gap_ns, arrivals: Arrivals::Constant, seed: (1, 0, 0), cpus: Vec::new(), most: 64 };
        // Every message of a schedule is in memory: 40 s of them.
        let open = |path: &_| RoundOrder { messages: 200_000, ..endless(path, "echo") };
        let mut longest = Duration::ZERO;
        let mut note = |took: Duration| longest = longest.max(took);
        for path in paths() {
            for most in [u64::MAX, 100] {
                // The near end sends where the far end receives.
                for far in roles(&path) {
                    let ends = || near_ends_with_its_control_channel(&endless(&path, far), None, most);
                    note(in_place(&path, ends));
                }
                if Entry::find(&path).unwrap().transport.shares().is_ok() {
                    note(near_ends_with_its_control_channel(&open(&path), Some(load(200_000.0)), most));
                }
            }
        }
        // Nothing is due for hours.
        let tcp = order("tcp:send").path;
        note(near_ends_with_its_control_channel(&open(&tcp), Some(load(1e13)), 0));
        let epoll = msgpath_core::PathName::new("tcp", "send", "epoll");
        for dispatch in [Dispatch::Turns, Dispatch::EventLoop] {
            let looping = RoundOrder { dispatch, inflight: 4, ..endless(&epoll, "echo") };
            note(near_ends_with_its_control_channel(&looping, None, u64::MAX));
            note(near_ends_with_its_control_channel(&looping, None, 100));
        }
        let spin = "shm:ring/spin".parse::<msgpath_core::path::PathSpec>().unwrap();
        let spin = msgpath_paths::resolve(&spin, None).unwrap();
        note(near_ends_with_its_control_channel(&endless(&spin, "echo"), None, 100));
        longest
    }

    #[test]
    fn nothing_runs_on_when_the_control_channel_has_closed() {
        all_end_with_their_control_channel();
    }

    #[test]
    fn no_near_end_runs_on_when_the_control_channel_has_closed() {
        all_near_ends_end_with_their_control_channel();
    }

    #[test]
    #[ignore = "a time limit, for a quiet machine: docs/serve.md names the command"]
    fn everything_ends_within_500_ms_of_its_control_channel() {
        let longest = all_end_with_their_control_channel().max(all_near_ends_end_with_their_control_channel());
        println!("the longest: {:.1} ms", longest.as_secs_f64() * 1e3);
        assert!(longest < Duration::from_millis(500), "{longest:?}");
    }

    #[test]
    fn who_came_over_a_network_gets_paths_over_ip_only() {
        let over_ip = "does not run over IP";
        for (reach, wanted) in [(Reach::Network, over_ip), (Reach::Mesh, over_ip), (Reach::Machine, "network device")] {
            let mut near = Near::new(reach, Terms::default());
            for transport in TRANSPORTS {
                let meta = transport.meta();
                let path = msgpath_core::PathName::new(meta.meta.name, meta.default_method, meta.default_wait);
                let answer = near.orders(&RoundOrder { path, ..order("tcp:send") });
                let refused = matches!(&answer, FromEnd::Unavailable(reason) if reason.why.contains(wanted));
                let must = if reach == Reach::Machine { meta.device } else { !meta.inet };
                assert_eq!(refused, must, "{reach:?} {}: {answer:?}", meta.meta.name);
            }
        }
        assert!(Reach::Own.allows(transport("eth").unwrap().meta()).is_ok());
        assert!(transport("eth").unwrap().meta().device && !transport("eth").unwrap().meta().inet);
    }

    #[test]
    fn programs_are_started_for_a_parent_and_nobody_else() {
        let program = msgpath_core::Program::parse("touch /tmp/msgpath-must-not-be-there {port}").unwrap();
        let talk = msgpath_core::program::Talk::default();
        let program = Some(Box::new(crate::wire::ProgramOrder { program, talk }));
        for reach in [Reach::Machine, Reach::Network, Reach::Mesh] {
            let answer = Near::new(reach, Terms::default())
                .orders(&RoundOrder { program: program.clone(), ..order("tcp:send") });
            assert!(
                matches!(&answer, FromEnd::Unavailable(reason) if reason.why.contains("nobody else")),
                "{answer:?}"
            );
        }
        assert!(!std::path::Path::new("/tmp/msgpath-must-not-be-there").exists());
    }

    #[test]
    fn the_kernel_is_traced_for_a_parent_and_nobody_else() {
        let order = ToEnd::Trace(TraceOrder { set: StageSet::Light, room: usize::MAX });
        for reach in [Reach::Machine, Reach::Network, Reach::Mesh] {
            let answer = Near::new(reach, Terms::default()).asks(&order);
            let FromEnd::Tracing(tracing) = answer else { panic!("{answer:?}") };
            assert!(tracing.backend.is_none() && tracing.refused[0].1.why.contains("nobody else"), "{tracing:?}");
        }
    }

    #[test]
    fn a_far_end_that_traces_says_its_events_before_its_report() {
        let (mut near, mut far) = (Near::new(Reach::Own, Terms::default()), Near::new(Reach::Own, Terms::default()));
        let answer = far.asks(&ToEnd::Trace(TraceOrder { set: StageSet::Light, room: 10_000 }));
        let FromEnd::Tracing(tracing) = answer else { panic!("{answer:?}") };
        if tracing.backend.is_none() {
            return eprintln!("skipped: {:?}", tracing.refused);
        }
        for traced in [true, false, true] {
            let order = RoundOrder { messages: 50, traced, ..order("tcp:send") };
            let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 50, load: None };
            let FromEnd::Offered { addresses, .. } = far.orders(&order) else { panic!("no offer") };
            let dial = Dial { order, own, peer: None, addresses };
            let FromEnd::Connected { locals, .. } = near.asks(&ToEnd::Dial(Box::new(dial))) else {
                panic!("no connection")
            };
            let ready = far.asks(&ToEnd::Connect { locals });
            let FromEnd::Ready { threads, .. } = ready else { panic!("{ready:?}") };
            assert!(matches!(near.asks(&ToEnd::Start), FromEnd::Ready { .. }));
            assert_eq!(near.asks(&ToEnd::Go), FromEnd::Over);
            far.say(&ToEnd::Finish);
            let (mut incoming, mut ended) = (observe::Incoming::default(), false);
            loop {
                match wire::read::<FromEnd>(&mut far.control).unwrap().unwrap() {
                    (FromEnd::Events { count }, bytes) if !ended => incoming.take(count, &bytes).unwrap(),
                    (FromEnd::Traced { .. }, _) if !ended => ended = true,
                    (FromEnd::Done { .. }, _) => break,
                    other => panic!("{other:?}"),
                }
            }
            let (events, cookie) = (incoming.finish(), threads[0].cookies[0] as u32);
            assert_eq!(ended, traced);
            // A back end that does not know a socket by its cookie calls it 0.
            let is_ready =
                |event: &&KernelEvent| event.kind == EventKind::SkDataReady && [cookie, 0].contains(&event.b);
            assert!(events.iter().filter(is_ready).count() >= if traced { 50 } else { 0 }, "{events:?}");
            assert!(traced || events.is_empty());
            near.say(&ToEnd::Finish);
            while !matches!(wire::read::<FromEnd>(&mut near.control).unwrap().unwrap().0, FromEnd::Done { .. }) {}
        }
    }

    #[test]
    fn both_ends_of_a_round_are_sessions() {
        let (mut near, mut far) = (Near::new(Reach::Own, Terms::default()), Near::new(Reach::Own, Terms::default()));
        let order = RoundOrder { messages: 50, trim: 10, ..order("unix:send") };
        let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 20, load: None };
        let dialled = |far: &mut Near, near: &mut Near| {
            let FromEnd::Offered { addresses, .. } = far.orders(&order) else { panic!("no offer") };
            let dial = Dial { order: order.clone(), own: own.clone(), peer: None, addresses };
            let FromEnd::Connected { locals, .. } = near.asks(&ToEnd::Dial(Box::new(dial))) else {
                panic!("no connection")
            };
            assert!(matches!(far.asks(&ToEnd::Connect { locals }), FromEnd::Ready { .. }));
            let ready = near.asks(&ToEnd::Start);
            assert!(matches!(&ready, FromEnd::Ready { threads, .. } if threads.len() == 1), "{ready:?}");
        };
        // A round that does not take place leaves nothing behind.
        dialled(&mut far, &mut near);
        assert_eq!(near.asks(&ToEnd::Leave), FromEnd::Left);
        assert!(matches!(far.asks(&ToEnd::Finish), FromEnd::Failed(_)), "its connections have closed");
        dialled(&mut far, &mut near);
        assert_eq!(near.asks(&ToEnd::Go), FromEnd::Over);
        near.say(&ToEnd::Finish);
        let (rows, columns) = wire::read::<FromEnd>(&mut near.control).unwrap().unwrap();
        assert_eq!((rows, columns.len()), (FromEnd::Rows { counts: [20, 20, 0, 0] }, 2 * 20 * 8));
        let (done, histograms) = wire::read::<FromEnd>(&mut near.control).unwrap().unwrap();
        let FromEnd::Done { report, times: Some(times), .. } = done else { panic!("{done:?}") };
        assert_eq!((report.delivery.sent, report.delivery.received), (50, 50));
        let [latency, first, service, lateness] = times.histograms.map(|length| length as usize);
        assert_eq!(histograms.len(), latency + first + service + lateness);
        let latency = msgpath_core::SparseHistogram::from_bytes(&histograms[..latency]).unwrap();
        assert_eq!(latency.total(), 50);
        let FromEnd::Done { report, times: None, .. } = far.asks(&ToEnd::Finish) else { panic!("no report") };
        assert_eq!(report.delivery.received, 50);
    }

    #[test]
    fn only_a_parent_tells_an_end_to_connect_somewhere() {
        let own = Own { near: true, cpus: Vec::new(), batch: 1, keep: 0, load: None };
        let dial = Dial { order: order("tcp:send"), own, peer: None, addresses: vec!["127.0.0.1:9 0".into()] };
        let measure = FloorsOrder { near: None, far: None, one_machine: false, size: 1, peer: None, pieces: None };
        for order in [ToEnd::Dial(Box::new(dial)), ToEnd::Measure(measure)] {
            for reach in [Reach::Machine, Reach::Network] {
                let mut stranger = Near::new(reach, Terms::default());
                stranger.say(&order);
                let ended = stranger.ended.recv_timeout(NEVER).expect("it ends");
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::InvalidData, "{order:?} {reach:?}");
            }
        }
        // The coordinator of a mesh has proven who it is: over IP, and no program.
        assert!(runs_over_ip(&order("tcp:send")) && runs_over_ip(&order("udp:send")));
        let talk = msgpath_core::program::Talk::default();
        let program = msgpath_core::Program::parse("x {port}").unwrap();
        let program = Some(Box::new(crate::wire::ProgramOrder { program, talk }));
        assert!(!runs_over_ip(&order("unix:send")) && !runs_over_ip(&RoundOrder { program, ..order("tcp:send") }));
    }

    #[test]
    fn memory_is_promised_before_it_is_taken() {
        let terms = Terms { budget: Some(Budget::new(8 << 20)), round: None };
        let (mut first, mut second) = (Near::new(Reach::Network, terms.clone()), Near::new(Reach::Network, terms));
        let large = RoundOrder { connections: 3, threads: 3, pieces: Pieces::whole(1 << 30), ..order("tcp:send") };
        let FromEnd::Unavailable(reason) = first.orders(&large) else { panic!("it was taken") };
        assert!(reason.hint.contains("--memory"), "{reason:?}");
        let half = RoundOrder { pieces: Pieces::whole(1 << 20), reply: 1 << 20, ..order("tcp:send") };
        assert!(matches!(first.orders(&half), FromEnd::Offered { .. }));
        let FromEnd::Unavailable(reason) = second.orders(&half) else { panic!("it was taken") };
        assert!(reason.why.contains("busy"), "{reason:?}");
        // What the first one does not want any more, the second one gets; it has lost nothing by the answer.
        assert!(matches!(first.orders(&order("tcp:send")), FromEnd::Offered { .. }));
        assert!(matches!(second.orders(&half), FromEnd::Offered { .. }));
    }

    #[test]
    fn a_round_ends_when_its_time_is_over() {
        let terms = Terms { budget: None, round: Some(Duration::from_millis(30)) };
        for role in ["echo", "sender"] {
            let mut near = Near::new(Reach::Network, terms.clone());
            let _channels = near.begins(&endless(&order("tcp:send").path, role));
            let FromEnd::Failed(problem) = near.asks(&ToEnd::Finish) else { panic!("{role}: it lasted") };
            assert!(problem.to_string().contains("longer than"), "{problem}");
            assert!(matches!(near.orders(&order("tcp:send")), FromEnd::Offered { .. }), "the session goes on");
        }
    }

    #[test]
    fn a_lease_is_short_and_silence_ends_a_session() {
        let mut near = Near::new(Reach::Network, Terms::default());
        near.asks(&ToEnd::Hello { version: String::new(), lease_ms: 3_600_000 });
        assert_eq!(near.lease.ns.load(Ordering::Relaxed), 60_000_000_000);
        near.asks(&ToEnd::Hello { version: String::new(), lease_ms: 1 });
        let ended = near.ended.recv_timeout(NEVER).expect("it ends");
        assert!(ended.unwrap_err().to_string().contains("silent"));
    }
}
