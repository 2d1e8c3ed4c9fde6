//! The session of an end: frames in, rounds measured, frames out. The same for both ends, for an agent and for `serve`.

mod agent;
mod control;
mod home;
mod lease;
mod programs;
pub mod roles;
mod round;
#[cfg(test)]
mod tests;
mod tracing;

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use msgpath_core::Unavailable;
use msgpath_core::doctor::Examine;
use msgpath_core::schema::ClockFacts;
use msgpath_core::target::PortRange;
use msgpath_sys::{affinity, clock, frames};

pub(crate) use agent::agent_at;
pub use agent::{agent, started};
use control::{Control, Heard};
pub use lease::Lease;
use programs::Watched;
use roles::{Context, Goes, SessionRole};
use round::{Dialled, Looks, Prepared, Started};

use crate::loops::LoopError;
use crate::memory::Budget;
use crate::observe::{self, Tracer};
use crate::presence::{self, Says, has_closed};
use crate::privileges::{Peer, Privilege, Reach, Spinning};
use crate::program::{Programs, first_reply};
use crate::seal::{Sealing, Seals, Veil};
use crate::team::{Team, no_thread, problem};
use crate::thread::ThreadError;
use crate::wire::{self, Body, Dial, FloorsOrder, FromEnd, Incoming, RoundOrder, ToEnd};
use crate::{confine, counters, doctor, environment, events, floors};

/// Between two looks at the lease and at the time of a round.
const LOOK: Duration = Duration::from_millis(100);
/// Threads that stand still for so long may wait for segments that the network drops.
const UNANSWERED: Duration = Duration::from_secs(1);
/// Between two looks at threads that measure by themselves.
const WATCH: Duration = Duration::from_millis(250);
/// Readings of which the cost of the clock is the mean.
const CLOCK_READINGS: u32 = 100_000;
/// CPUs that are examined at most: each costs a thread.
const MOST_EXAMINED: usize = 64;

/// What a far end gives to a session.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The memory of its rounds; nothing: as much as they want.
    pub budget: Option<Arc<Budget>>,
    /// The longest that a round may last; nothing: as long as the near end lives.
    pub round: Option<Duration>,
    /// The CPUs that clients without a token may keep busy.
    pub spinning: Spinning,
    /// The ports that data connections of its rounds come to; nothing: the kernel chooses.
    pub data_ports: Option<PortRange>,
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
        let mut control = Control {
            from,
            incoming: Incoming::new::<ToEnd>().sealed(hears),
            lease,
            presence,
            budget: terms.budget.as_ref(),
            frame: None,
        };
        let mut to = Sealing::new(Says { to: &mut *to, presence }, says.clone());
        let mut session = Session {
            control: &mut control,
            to: &mut to,
            veil: veil.as_mut(),
            peer,
            terms,
            next: first,
            prepared: None,
            programs: Programs::default(),
            watched: None,
            dialled: None,
            role: None,
            tracer: None,
            going: None,
            dropped: None,
            looked: Instant::now(),
            told_device: false,
        };
        let result = session.converse();
        match session.abandon() {
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

/// A session with what it has at the moment.
struct Session<'s, 'c, F, W> {
    control: &'s mut Control<'c, F>,
    to: &'s mut W,
    /// Hides the keys of data connections, where both ends have a token.
    veil: Option<&'s mut Veil>,
    peer: Peer,
    terms: &'s Terms,
    /// What was heard and not answered yet.
    next: Option<ToEnd>,
    /// The far end's round, until the near end has connected.
    prepared: Option<Prepared>,
    programs: Programs,
    watched: Option<Watched>,
    /// The near end's round, until its threads start.
    dialled: Option<Dialled>,
    /// The role that it has beside, once one was ordered.
    role: Option<(&'static str, Box<dyn SessionRole>)>,
    tracer: Option<Tracer>,
    /// The round that has threads.
    going: Option<Started>,
    /// Why a round was given up whose end was not asked for yet.
    dropped: Option<Unavailable>,
    /// When threads were last looked at that wait for the client.
    looked: Instant,
    /// The coordinator was told by which device this end's data leaves.
    told_device: bool,
}

/// What becomes of an order.
enum Answer {
    Say(FromEnd),
    /// With bytes behind it.
    With(FromEnd, Vec<u8>),
    /// Later, or never.
    Nothing,
    /// The session has ended.
    End,
}

fn out_of_turn<T>(what: &'static str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

impl<F: Read + AsFd, W: Write> Session<'_, '_, F, W> {
    fn converse(&mut self) -> io::Result<()> {
        // What it has ordered before, nobody waits for once it is gone.
        while !self.control.presence.is_gone() {
            if let Some(started) = &mut self.going {
                started.looks.look();
            }
            let look = self.look_after_round()?;
            let message =
                match self.next.take().map_or_else(|| self.control.hear(look), |next| Ok(Heard::Message(next)))? {
                    Heard::Message(message) => message,
                    Heard::End => return Ok(()),
                    Heard::Nothing => {
                        self.cut_long_round();
                        continue;
                    }
                };
            if !matches!(message, ToEnd::Hello { .. } | ToEnd::Alive) {
                self.control.lease.begins_to_work();
            }
            match self.carry_out(message)? {
                Answer::Say(answer) => self.say(answer, &[])?,
                Answer::With(answer, bytes) => self.say(answer, &bytes)?,
                Answer::Nothing => {}
                Answer::End => return Ok(()),
            }
        }
        Ok(())
    }

    fn say(&mut self, answer: FromEnd, bytes: &[u8]) -> io::Result<()> {
        let answer = match (answer, self.veil.as_mut()) {
            // They have the keys of data connections.
            (FromEnd::Offered { addresses, program }, Some(veil)) => {
                FromEnd::Offered { addresses: veil.hide(&addresses), program }
            }
            (answer, _) => answer,
        };
        wire::write(self.to, &answer, bytes)
    }

    /// Ends the threads of a round that nobody finished; whether they did end.
    fn abandon(&mut self) -> bool {
        self.going.take().is_none_or(|started| started.team.abandon())
    }

    /// Waits for what a round does by itself: threads that end or stand still, connections that come. How long may be listened
    /// then.
    fn look_after_round(&mut self) -> io::Result<Duration> {
        let mut look = LOOK;
        if let Some(started) = self.going.as_mut().filter(|started| started.running)
            && let Some(stall) = started.stall
        {
            look = Duration::ZERO;
            // Neither the end of the threads nor that of the control channel waits for the next look.
            let watched = [self.control.from.as_fd(), started.team.ended()];
            frames::wait(&watched, Some(WATCH.as_nanos() as u64), &mut Vec::new())?;
            if started.team.wait(Duration::ZERO) {
                started.running = false;
                self.say(FromEnd::Over, &[])?;
            } else {
                let still = started.team.still_for();
                if still > UNANSWERED
                    && let Some(reason) = started.team.unanswered()
                {
                    self.abandon();
                    self.say(FromEnd::Unavailable(reason), &[])?;
                } else if still > stall {
                    let error = ThreadError::Loop(LoopError::Io(io::ErrorKind::TimedOut.into()));
                    self.abandon();
                    self.say(FromEnd::Failed(problem(&error, "near").into()), &[])?;
                }
            }
        }
        if let Some(started) = self.going.as_mut().filter(|started| started.stall.is_none())
            && self.looked.elapsed() > WATCH
        {
            self.looked = Instant::now();
            if started.team.still_for() > UNANSWERED {
                self.give_up_unanswered();
            }
        }
        if let Some(prepared) = &mut self.prepared
            && let Some(admission) = prepared.offer.admission()
            && let Some(door) = admission.door()
        {
            // The near end connects: more than a listening socket keeps.
            frames::wait(&[self.control.from.as_fd(), door], Some(LOOK.as_nanos() as u64), &mut Vec::new())?;
            admission.admit();
            look = Duration::ZERO;
        }
        Ok(look)
    }

    /// Ends the server's part of a round whose replies the network drops: the reset tells the client, and the next answer why.
    fn give_up_unanswered(&mut self) {
        let served = self.going.as_ref().filter(|started| started.stall.is_none());
        if let Some(reason) = served.and_then(|started| started.team.unanswered()) {
            self.abandon();
            self.dropped = Some(reason);
        }
    }

    fn cut_long_round(&self) {
        if let Some(started) = self.going.as_ref().filter(|started| started.is_too_long(self.terms)) {
            started.team.abort();
            started.team.kick();
        }
    }

    fn carry_out(&mut self, order: ToEnd) -> io::Result<Answer> {
        match order {
            ToEnd::Hello { lease_ms, .. } => Ok(Answer::Say(self.hello(lease_ms))),
            ToEnd::Examine(order) => Ok(Answer::Say(self.examine(order))),
            ToEnd::Measure(order) => self.measure(order),
            ToEnd::Trace(order) => {
                let (tracer, tracing) = tracing::trace(order, self.peer, self.control.presence);
                self.tracer = tracer;
                self.control.lease.renew(); // it is tried first
                Ok(Answer::Say(FromEnd::Tracing(Box::new(tracing))))
            }
            ToEnd::Round(order) => Ok(Answer::Say(self.prepare(*order))),
            ToEnd::Connect { locals } => self.connect(locals),
            ToEnd::Dial(order) => self.dial(*order),
            ToEnd::Start => self.start(),
            ToEnd::Owes { ns } => self.owes(ns),
            ToEnd::Go => self.go(),
            ToEnd::Leave => {
                self.dialled = None;
                self.abandon();
                Ok(Answer::Say(FromEnd::Left))
            }
            ToEnd::Finish => self.finish(),
            ToEnd::For { role, body } => self.order_role(&role, &body),
            ToEnd::Alive => Ok(Answer::Nothing),
            ToEnd::Bye => Ok(Answer::End),
        }
    }

    fn hello(&mut self, lease_ms: u64) -> FromEnd {
        self.control.lease.lasts(Some(lease_ms));
        FromEnd::Hello {
            version: env!("CARGO_PKG_VERSION").into(),
            environment: Box::new(environment::read()),
            cpus: environment::cpu_order(),
            counters: kernel().names(),
            events: Box::new(events::set().facts().clone()),
        }
    }

    fn examine(&mut self, mut order: Examine) -> FromEnd {
        let named = order.peer.filter(|_| self.peer.may(Privilege::OtherAddress));
        order.peer = named.or(self.peer.address).or(Some((Ipv4Addr::LOCALHOST, 0).into()));
        if self.peer.reach != Reach::Own {
            // Each costs a thread: those that there are.
            let allowed = affinity::allowed();
            order.cpus = allowed.into_iter().filter(|cpu| order.cpus.contains(cpu)).collect();
        }
        order.cpus.truncate(MOST_EXAMINED);
        let _turn = (!self.peer.may(Privilege::Spinning)).then(|| self.terms.spinning.examine(&mut order));
        let (own, gone) = (order.clone(), Arc::clone(self.control.presence.flag()));
        let checks = confine::outside(move || doctor::examine(&own, &gone));
        let checks = checks.unwrap_or_else(|_| doctor::examine(&order, self.control.presence.flag()));
        self.control.lease.renew(); // the near end keeps quiet while it waits
        FromEnd::Examined { checks }
    }

    fn measure(&mut self, order: FloorsOrder) -> io::Result<Answer> {
        if !self.peer.may(Privilege::LowerBounds) {
            return out_of_turn("an order that only a parent gives");
        }
        let own = order.clone();
        Ok(Answer::Say(confine::outside(move || measured(own)).unwrap_or_else(|_| measured(order))))
    }

    fn prepare(&mut self, order: RoundOrder) -> FromEnd {
        (self.prepared, self.watched, self.dropped) = (None, None, None);
        if order.program.is_some() {
            let ready = programs::watch(order, self.peer, &mut self.programs, self.control.presence.flag());
            self.control.lease.renew(); // a program takes its time to start
            return match ready {
                Ok((watched, offered)) => {
                    self.watched = Some(watched);
                    offered
                }
                Err(reason) => FromEnd::Unavailable(reason),
            };
        }
        match round::prepare(order, self.peer, self.terms, self.control.presence) {
            Ok(ready) => {
                let addresses = ready.offer.addresses();
                self.prepared = Some(ready);
                FromEnd::Offered { addresses, program: None }
            }
            Err(reason) => FromEnd::Unavailable(reason),
        }
    }

    fn connect(&mut self, locals: Vec<String>) -> io::Result<Answer> {
        if let Some(watched) = &mut self.watched {
            watched.begin(&self.programs);
            return Ok(Answer::Say(FromEnd::ready()));
        }
        let prepared = self.prepared.take().filter(|one| locals.len() == one.order.connections as usize);
        let Some(prepared) = prepared else { return out_of_turn("a connection that was not prepared") };
        self.abandon();
        let (may_be_cut, speed_ns) = (prepared.order.patience_ns > 0, prepared.speed_ns);
        let order = Arc::clone(&prepared.order);
        let round::Accepted { team, ready, shares, seen, device } =
            match round::accept(prepared, locals, &mut self.told_device) {
                Ok(accepted) => accepted,
                Err(reason) => return Ok(Answer::Say(FromEnd::Unavailable(reason))),
            };
        let traced = match tracing::begin(&mut self.tracer, &order, &team) {
            Ok(traced) => traced,
            Err(reason) => {
                team.abandon();
                return Ok(Answer::Say(FromEnd::Unavailable(reason)));
            }
        };
        let before = kernel().read();
        team.go();
        let (threads, since) = (team.traced().to_vec(), Instant::now());
        self.going = Some(Started {
            team,
            may_be_cut,
            stall: None,
            running: true,
            speed_ns,
            before,
            since,
            looks: Looks::begin(),
            _shares: shares,
            traced,
            kept: Vec::new(),
            answered: false,
        });
        Ok(Answer::Say(FromEnd::Ready { granted: ready.granted, room: ready.room, seen, device, threads }))
    }

    fn dial(&mut self, order: Dial) -> io::Result<Answer> {
        let over_ip = round::runs_over_ip(&order.order);
        let wanted = if over_ip { Privilege::ConnectingOverIp } else { Privilege::Connecting };
        if !self.peer.may(wanted) {
            return out_of_turn("an order that only a parent gives");
        }
        self.abandon();
        self.dialled = None;
        Ok(Answer::Say(match round::dial(order, self.control.lease, self.control.presence) {
            Ok((ready, connected)) => {
                self.dialled = Some(ready);
                connected
            }
            Err(reason) => FromEnd::Unavailable(reason),
        }))
    }

    fn start(&mut self) -> io::Result<Answer> {
        let Some(Dialled { order, own, stall, speed_ns, channels, kept, abort }) = self.dialled.take() else {
            return out_of_turn("the start of a round that was not dialled");
        };
        let device = round::device(&channels, &mut self.told_device);
        let (team, ready) = match Team::start(&order, &own, channels, abort, None) {
            Ok(started) => started,
            Err(reason) => return Ok(Answer::Say(FromEnd::Unavailable(reason))),
        };
        let threads = team.traced().to_vec();
        self.going = Some(Started {
            team,
            may_be_cut: false,
            stall: Some(stall),
            running: false,
            speed_ns,
            before: kernel().read(),
            since: Instant::now(),
            looks: Looks::begin(),
            _shares: [None, None],
            traced: false,
            kept,
            answered: own.load.is_none(),
        });
        Ok(Answer::Say(FromEnd::Ready { granted: ready.granted, room: ready.room, seen: None, device, threads }))
    }

    fn owes(&mut self, ns: u64) -> io::Result<Answer> {
        match self.going.as_ref().filter(|started| started.stall.is_some() && !started.running) {
            Some(started) => started.team.owes(ns),
            None => return out_of_turn("a debt of a round that was not started"),
        }
        Ok(Answer::Nothing)
    }

    fn go(&mut self) -> io::Result<Answer> {
        if self.role.is_some() {
            return self.go_in_role();
        }
        let Some(started) = self.going.as_mut().filter(|started| started.stall.is_some()) else {
            return out_of_turn("a word to go for a round that was not started");
        };
        started.before = kernel().read();
        started.running = true;
        started.team.go();
        Ok(Answer::Nothing)
    }

    fn finish(&mut self) -> io::Result<Answer> {
        if let Some(watched) = self.watched.take() {
            return Ok(Answer::Say(watched.end(&mut self.programs)));
        }
        if let Some((_, role)) = &mut self.role {
            return match role.report(self.to)? {
                true => Ok(Answer::Nothing),
                false => out_of_turn("the end of a round that was not begun"),
            };
        }
        // Threads that send what is lost on the way would wait for minutes.
        self.give_up_unanswered();
        if let Some(reason) = self.dropped.take() {
            return Ok(Answer::Say(FromEnd::Unavailable(reason)));
        }
        let Some(mut started) = self.going.take() else { return out_of_turn("the end of a round that was not begun") };
        let counted = kernel().read().since(&started.before);
        started.looks.look();
        started.team.finish();
        if started.may_be_cut {
            started.team.abort(); // whoever still waits waits for messages that will not come
        }
        if let Err(error) = self.control.wait_for(&mut started, self.terms) {
            self.going = Some(started);
            return Err(error);
        }
        let too_long = started.is_too_long(self.terms);
        // The events come first, whatever became of the round.
        if let Some(tracer) = self.tracer.as_mut().filter(|_| started.traced) {
            match tracer.end() {
                Ok(traced) => traced.put(self.to)?,
                Err(error) => {
                    started.team.abandon();
                    return Ok(Answer::Say(FromEnd::Failed(observe::unreadable(&error).into())));
                }
            }
        }
        if too_long {
            return Ok(Answer::Say(FromEnd::Failed(round::lasted_too_long(self.terms).into())));
        }
        let Started { team, speed_ns, stall, looks, kept, answered, .. } = started;
        let more = answered && first_reply::more_came(&kept);
        Ok(match home::collect_outcomes(team, counted, speed_ns, stall.is_some(), self.to)? {
            (FromEnd::Done { .. }, _) if more => Answer::Say(FromEnd::Failed(first_reply::too_much().into())),
            (mut answer, bytes) => {
                if let FromEnd::Done { report, .. } = &mut answer {
                    report.unattended_ns = Some(looks.longest_ns());
                }
                Answer::With(answer, bytes)
            }
        })
    }

    fn order_role(&mut self, name: &str, body: &Body) -> io::Result<Answer> {
        if !self.peer.may(Privilege::Roles) {
            return out_of_turn("an order that only a parent gives");
        }
        let listed = match roles::find(name) {
            Ok(listed) => listed,
            Err(problem) => return Ok(Answer::Say(FromEnd::Failed(problem.into()))),
        };
        let (_, role) = match self.role.take().filter(|(own, _)| *own == listed.name) {
            Some(own) => self.role.insert(own),
            None => self.role.insert((listed.name, (listed.begin)())),
        };
        let context = Context { gone: self.control.presence.flag(), lease: self.control.lease };
        role.order(body, &context).map(Answer::Say)
    }

    fn go_in_role(&mut self) -> io::Result<Answer> {
        let Some((_, role)) = &mut self.role else { return Ok(Answer::End) };
        let (over, heard) = play(role.as_mut(), self.control)?;
        match heard {
            Heard::End => return Ok(Answer::End),
            Heard::Nothing => {}
            // What has ended the round is heard after it.
            Heard::Message(message) => self.next = Some(message),
        }
        Ok(Answer::Say(over))
    }
}

/// A round of a role: until it is over, or something else than a sign of life is heard, which ends it.
fn play<F: Read + AsFd>(role: &mut dyn SessionRole, control: &mut Control<'_, F>) -> io::Result<(FromEnd, Heard)> {
    let mut heard = Ok(Heard::Nothing);
    let went = role.go(&mut || {
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
        Some(over) => heard.map(|heard| (over, heard)),
        None => out_of_turn("a word to go for a round that was not made ready"),
    }
}

/// What no message is faster than.
fn measured(order: FloorsOrder) -> FromEnd {
    let FloorsOrder { near, far, one_machine, size, peer, pieces } = order;
    let floors = Box::new(floors::measure(near, far, one_machine, size, peer, pieces));
    let (cost_ns, step_ns) = clock::measure(CLOCK_READINGS);
    FromEnd::Measured { floors, clock: ClockFacts { cost_ns, step_ns } }
}
