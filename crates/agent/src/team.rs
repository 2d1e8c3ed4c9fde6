//! The measuring threads of one end in one round: started, released together, brought home.

use std::io::PipeReader;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use msgpath_core::plan::Dispatch;
use msgpath_core::schema::{ThreadRecord, TracedThread};
use msgpath_core::{Exit, Problem, Unavailable};
use msgpath_paths::channel::Limits;
use msgpath_paths::registry::Entry;
use msgpath_paths::{AnyChannel, Breaker, Need};
use msgpath_sys::limits::remedy;
use msgpath_sys::signal;

use crate::confine;
use crate::events::Counting;
use crate::loops::LoopError;
use crate::memory::can_be_had;
use crate::open::Flow;
use crate::thread::{Job, Outcome, Ready, Role, ThreadError, run};
use crate::wire::{Load, Own, RoundOrder};

/// Address space of a thread: its stack and what the allocator keeps for it.
const STACK: u64 = 4 << 20;
/// Between two looks whether a round is still wanted whose threads are not ready.
const LOOK: Duration = Duration::from_millis(50);
/// Between two kicks at threads that are to end.
const KICK_EVERY: Duration = Duration::from_millis(10);
/// How long threads that are to end are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The threads of one end.
pub struct Team {
    threads: Vec<JoinHandle<()>>,
    outcomes: Receiver<(usize, Result<Outcome, ThreadError>)>,
    finished: Vec<Option<Result<Outcome, ThreadError>>>,
    /// Ends when the last thread has: each has its other end.
    ended: PipeReader,
    go: Vec<Sender<()>>,
    /// The schedules of its connections.
    flows: Vec<Arc<Flow>>,
    finish: Arc<AtomicBool>,
    abort: Arc<AtomicBool>,
    breakers: Vec<Breaker>,
    /// /proc/self/task/N of each thread, with its run time when it was last seen to change.
    pulses: Vec<(i32, Option<String>, Instant)>,
    /// The threads as somebody who traces them must know them, in the order of the threads.
    traced: Vec<TracedThread>,
}

/// How it begins where the network drops segments of a connection.
pub const UNANSWERED: &str = "a segment of up to";

/// What the connections of a round need at this end.
pub fn need(
    order: &RoundOrder,
    entry: &Entry,
    host: SocketAddr,
    peer: Option<SocketAddr>,
    abort: Arc<AtomicBool>,
) -> Need {
    let slice = match entry.transport.meta().lossy {
        true => Duration::from_nanos(order.options.loss_timeout_ns.clamp(1_000_000, 60_000_000_000)),
        false => Duration::from_millis(250),
    };
    let stall = Duration::from_nanos(order.options.stall_timeout_ns);
    let timed = entry.transport.meta().lossy;
    Need {
        connections: order.connections,
        largest: order.largest(),
        inflight: order.inflight,
        stream: !order.workload.is_echoed(),
        wakes: entry.wakes(),
        host,
        peer,
        data_ports: None,
        options: order.options.clone(),
        limits: Limits { slice, timed, stall: stall.max(slice), abort },
    }
}

impl Team {
    /// Starts the threads and waits until all ends are made. `listening`: where more connections come to the far end, for a workload that
    /// makes its own.
    ///
    /// # Errors
    /// What cannot be had here. No thread is left behind.
    pub fn start(
        order: &Arc<RoundOrder>,
        own: &Own,
        channels: Vec<AnyChannel>,
        abort: Arc<AtomicBool>,
        listening: Option<OwnedFd>,
    ) -> Result<(Self, Ready), Unavailable> {
        let role = Role::of(order, own.near);
        can_be_had(order.least_memory().saturating_add(u64::from(order.threads) * STACK))?;
        // A receiver at the near end has nobody to tell it that a lossy stream is over: silence does.
        let finish = Arc::new(AtomicBool::new(own.near && role == Role::Receiver));
        let (ready_in, ready_out) = channel();
        let (outcome_in, outcomes) = channel();
        let piped = std::io::pipe();
        let (ended, last) = piped.map_err(|error| Unavailable::new(format!("a pipe: {error}"), remedy(&error)))?;
        let last = Arc::new(last);
        // An event loop wakes up with any of its connections, and sees that it is to end.
        let watched_by_one = match order.dispatch {
            Dispatch::Turns => 1,
            Dispatch::EventLoop => (order.connections / order.threads.max(1)).max(1) as usize,
        };
        let mut team = Self {
            threads: Vec::new(),
            outcomes,
            finished: Vec::new(),
            ended,
            go: Vec::new(),
            flows: Vec::new(),
            finish,
            abort,
            breakers: channels.iter().step_by(watched_by_one).filter_map(AnyChannel::breaker).collect(),
            pulses: Vec::new(),
            traced: Vec::new(),
        };
        let parts = match parts(order, own, role, channels) {
            Ok(parts) => parts,
            Err(error) => return Err(team.give_up(Unavailable::new(format!("a second descriptor: {error}"), ""))),
        };
        team.flows = parts.iter().filter_map(|part| part.flow.clone()).collect();
        let (threads, listening) = (parts.len(), listening.map(Arc::new));
        team.traced.resize_with(threads, TracedThread::default);
        for (at, part) in parts.into_iter().enumerate() {
            let (go_in, go) = channel();
            team.go.push(go_in);
            team.finished.push(None);
            let job = Job {
                at,
                order: Arc::clone(order),
                near: own.near,
                role: part.role,
                cpu: part.cpu,
                batch: own.batch,
                keep: own.keep,
                flow: part.flow,
                finish: Arc::clone(&team.finish),
                ready: ready_in.clone(),
                go,
                counting: Counting::default(),
                listening: listening.clone(),
            };
            let (outcome_in, last) = (outcome_in.clone(), Arc::clone(&last));
            let name = format!("{}-{at}", if own.near { "near" } else { "far" });
            let thread = confine::spawn(Builder::new().name(name), move || {
                let _ = outcome_in.send((at, run(job, part.channels)));
                drop((outcome_in, last)); // in this order: whoever sees the end finds the outcome
            });
            match thread {
                Ok(thread) => team.threads.push(thread),
                Err(error) => return Err(team.give_up(no_thread(&error))),
            }
        }
        drop((ready_in, outcome_in, last));
        let mut first = None;
        while team.pulses.len() < threads {
            match ready_out.recv_timeout(LOOK) {
                Ok(Ok(ready)) => {
                    team.pulses.push((ready.thread.tid, None, Instant::now()));
                    team.traced[ready.at] = ready.thread.clone();
                    first = first.or(Some(ready));
                }
                Ok(Err(reason)) => return Err(team.give_up(reason)),
                Err(RecvTimeoutError::Timeout) if !team.abort.load(Ordering::Relaxed) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(team.give_up(Unavailable::new("the round was given up", "")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(team.give_up(Unavailable::new("a measuring thread ended early", "")));
                }
            }
        }
        let ready = first.expect("at least one thread");
        Ok((team, ready))
    }

    fn give_up(self, reason: Unavailable) -> Unavailable {
        self.abandon();
        reason
    }

    /// The threads, for whoever traces them.
    pub fn traced(&self) -> &[TracedThread] {
        &self.traced
    }

    /// The schedules are behind by so much more, ns: before the threads start.
    pub fn owes(&self, ns: u64) {
        self.flows.iter().for_each(|flow| flow.owes(ns));
    }

    /// Lets all threads start.
    pub fn go(&self) {
        self.go.iter().for_each(|go| {
            let _ = go.send(());
        });
    }

    /// Tells the threads that the other end has finished its part.
    pub fn finish(&self) {
        self.finish.store(true, Ordering::Relaxed);
    }

    /// Tells the threads to end.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.breakers.iter().for_each(Breaker::shut);
    }

    /// Ends the threads without asking what they did: whatever call one of them waits in is interrupted. Whether all have
    /// ended; one that a broken device keeps is left to the end of the program.
    pub fn abandon(mut self) -> bool {
        self.go.clear();
        self.abort();
        let begun = Instant::now();
        while !self.wait(KICK_EVERY) {
            if begun.elapsed() > PATIENCE {
                return false;
            }
        }
        self.join();
        true
    }

    /// Interrupts the calls that threads wait in, so that they see that they are to end.
    pub fn kick(&self) {
        let waiting = self.traced.iter().zip(&self.finished).filter(|(_, finished)| finished.is_none());
        waiting.filter(|(thread, _)| thread.tid != 0).for_each(|(thread, _)| signal::kick(thread.tid));
    }

    /// What the network does to a connection whose segments get no answer; its other end is told by a reset.
    pub fn unanswered(&self) -> Option<Unavailable> {
        let info = self.breakers.iter().find_map(Breaker::unanswered)?;
        self.breakers.iter().for_each(Breaker::reset);
        let (bytes, times, mtu) = (info.snd_mss, info.retransmits, info.pmtu);
        let why =
            format!("{UNANSWERED} {bytes} bytes was retransmitted {times} times without an answer (path MTU {mtu})");
        Some(Unavailable::new(why, "smaller messages (-l), or mend the MTU on the way: ping -M do -s SIZE shows it"))
    }

    /// For how long no thread has run at all: each waits for something that does not come. A thread that spins runs, and looks at
    /// its own clock.
    pub fn still_for(&mut self) -> Duration {
        // A thread that has ended is no longer listed.
        self.pulses.retain(|(thread, ..)| std::path::Path::new(&format!("/proc/self/task/{thread}")).exists());
        for (thread, seen, since) in &mut self.pulses {
            let path = format!("/proc/self/task/{thread}/schedstat");
            let now = std::fs::read_to_string(path).ok().and_then(|text| Some(text.split(' ').next()?.to_owned()));
            // Where the kernel does not tell, nobody is called stalled.
            if now != *seen || now.is_none() {
                (*seen, *since) = (now, Instant::now());
            }
        }
        self.pulses.iter().map(|(_, _, since)| since.elapsed()).min().unwrap_or_default()
    }

    /// Waits for all threads, at most this long. Whether all are home; those that were told to end are interrupted, again each
    /// time: a thread may have been about to begin a sleep without a limit.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        while self.finished.iter().any(Option::is_none) {
            match self.outcomes.recv_timeout(timeout) {
                Ok((at, outcome)) => self.finished[at] = Some(outcome),
                Err(RecvTimeoutError::Timeout) => {
                    if self.abort.load(Ordering::Relaxed) {
                        self.kick();
                    }
                    return false;
                }
                Err(RecvTimeoutError::Disconnected) => return true, // the others ended without a word
            }
        }
        true
    }

    /// Can be read when all threads have ended: for whoever waits for something else as well.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// All outcomes, in the order of the threads.
    ///
    /// # Errors
    /// The first error in the order of what tells most: a difference, then anything else than a closed connection.
    pub fn outcomes(mut self) -> Result<Vec<Outcome>, ThreadError> {
        while !self.wait(Duration::from_secs(1)) {}
        self.join();
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for outcome in self.finished.drain(..) {
            match outcome {
                Some(Ok(outcome)) => good.push(outcome),
                Some(Err(error)) => bad.push(error),
                None => {}
            }
        }
        let rank = |error: &ThreadError| match error {
            ThreadError::Loop(LoopError::Different(_)) => 0,
            ThreadError::Loop(LoopError::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => 2,
            _ => 1,
        };
        match bad.into_iter().min_by_key(rank) {
            Some(error) => Err(error),
            None => Ok(good),
        }
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A thread that could not be had.
pub fn no_thread(error: &std::io::Error) -> Unavailable {
    Unavailable::new(
        format!("busy: no further thread can be started ({error})"),
        "fewer threads or connections, or a higher limit (ulimit -u, ulimit -v, pids.max of the control group)",
    )
}

/// The same, where it ends the run: E00.
pub fn thread_problem(error: &std::io::Error) -> Problem {
    let Unavailable { why, hint } = no_thread(error);
    Problem::new("E00", Exit::CannotStart, why).hint(hint)
}

/// What each thread of an end brought home, where there are several.
pub fn thread_records(outcomes: &[Outcome]) -> Vec<ThreadRecord> {
    let record = |one: &Outcome| ThreadRecord {
        cpu: one.cpu,
        report: one.report,
        events: one.events.clone(),
        slots: one.slots.clone(),
    };
    if outcomes.len() > 1 || outcomes.iter().any(|one| one.slots.is_some()) {
        outcomes.iter().map(record).collect()
    } else {
        Vec::new()
    }
}

/// What one thread gets.
struct Part {
    role: Role,
    cpu: Option<u32>,
    channels: Vec<AnyChannel>,
    flow: Option<Arc<Flow>>,
}

/// Divides the connections among the threads of an end. In an open loop each connection has two (the receivers come
/// first, then the senders), but where an event loop serves them.
fn parts(order: &RoundOrder, own: &Own, role: Role, channels: Vec<AnyChannel>) -> std::io::Result<Vec<Part>> {
    let turn = |cpus: &[u32], at: usize| cpus.get(at % cpus.len().max(1)).copied();
    let looped = order.dispatch == Dispatch::EventLoop;
    let load = match &own.load {
        Some(load) if !looped => load,
        load => {
            let share = channels.len() / order.threads.max(1) as usize;
            // A sender that has a CPU for itself may spin: one thread on each, and not the far end's.
            let alone =
                own.cpus.len() >= order.threads as usize && !own.cpus.iter().any(|cpu| order.cpus.contains(cpu));
            let load =
                load.clone().map(|load| Load { cpus: if alone { own.cpus.clone() } else { Vec::new() }, ..load });
            let mut channels = channels.into_iter();
            let parts = (0..order.threads as usize).map(|at| Part {
                role: if load.is_some() { Role::OpenEcho } else { role },
                cpu: turn(&own.cpus, at),
                channels: channels.by_ref().take(share).collect(),
                flow: load.as_ref().map(|load| {
                    let flow = Flow::of_event_loop(load, at as u32, share as u64, order.trim, order.messages);
                    Arc::new(flow.after(load.debt(at)))
                }),
            });
            return Ok(parts.collect());
        }
    };
    let (mut receivers, mut senders) = (Vec::new(), Vec::new());
    for (at, channel) in channels.into_iter().enumerate() {
        let flow = Flow::new(load, at as u32, order.trim, order.messages).after(load.debt(at));
        let flow = Some(Arc::new(flow));
        let duplicate = channel.duplicate()?;
        let cpu = turn(&own.cpus, at);
        let sender = turn(&load.cpus, at).or(cpu);
        senders.push(Part { role: Role::OpenSender, cpu: sender, channels: vec![duplicate], flow: flow.clone() });
        receivers.push(Part { role: Role::OpenReceiver, cpu, channels: vec![channel], flow });
    }
    receivers.extend(senders);
    Ok(receivers)
}

/// What the user reads of a thread that broke.
pub fn problem(error: &ThreadError, end: &str) -> Problem {
    match error {
        ThreadError::Unavailable(reason) => {
            Problem::new("E05", Exit::CannotStart, reason.why.clone()).hint(reason.hint.clone())
        }
        ThreadError::Loop(LoopError::Different(_)) => Problem::new("E06", Exit::Unfinished, error.to_string())
            .why("a measurement of wrong data is worthless, so the run stopped"),
        ThreadError::Loop(LoopError::Io(io)) => match io.kind() {
            std::io::ErrorKind::TimedOut => {
                Problem::new("E18", Exit::Unfinished, format!("no progress at the {end} end for too long"))
                    .why("both ends may be waiting for each other, or the other end stands still")
                    .hint("fewer messages in flight, or a larger -o sndbuf")
            }
            _ => Problem::new("E17", Exit::Unfinished, format!("the connection broke at the {end} end: {io}"))
                .why("the other end vanished or closed in the middle of a round"),
        },
    }
}
