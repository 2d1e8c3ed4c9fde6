//! One round from the near end: order, connect, measure, finish, bring both ends' reports together.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use msgpath_core::schema::{
    EndReport, EventCounts, Granted, KernelCounts, KernelEvent, OpenRound, ThreadRecord, TraceRound,
};
use msgpath_core::{Exit, Histogram, Problem, Unavailable, Workload};
use msgpath_paths::registry::Entry;
use msgpath_sys::clock;
use msgpath_sys::limits::remedy;

use crate::loops::{FarStamps, LOST, LoopError, Row};
use crate::observe::{Traced, Tracer, events};
use crate::place::Link;
use crate::plausible::{self, Known};
use crate::team::{Own, Team, need, problem, thread_records};
use crate::thread::ThreadError;
use crate::wire::{RoundOrder, ToFar, ToNear};

/// An interrupted round that has lasted this long is given up, ns.
const STOP_NS: u64 = 1_500_000_000;

/// Both ends' view of a round.
#[derive(Debug)]
pub struct Round {
    /// When it began, ns of the monotonic clock.
    pub start: u64,
    /// The slowest connect, ns.
    pub connect_ns: u64,
    /// The near end.
    pub near: EndReport,
    /// The far end.
    pub far: EndReport,
    /// Round trips.
    pub latency: Histogram,
    /// One way by the same clock; empty without stamps at both ends.
    pub one_way: Histogram,
    /// Latencies of the messages that were trimmed.
    pub first: Histogram,
    /// Open loop: from the actual send to the reply.
    pub service: Histogram,
    /// Open loop: from the intended to the actual send.
    pub lateness: Histogram,
    /// Open loop: the rest of its account.
    pub open: Option<OpenRound>,
    /// Kept rows of each near thread.
    pub rows: Vec<Vec<Kept>>,
    /// Kernel counters that changed at the far end.
    pub far_kernel: KernelCounts,
    /// Time of a fixed piece of computing at the far end just before, ns.
    pub far_speed_ns: u64,
    /// Events that the near end's threads counted, and the far end's.
    pub events: [EventCounts; 2],
    /// The threads of the near end one by one where there are several, and those of the far end.
    pub threads: [Vec<ThreadRecord>; 2],
    /// Options of the first connection at both ends.
    pub granted: Vec<Granted>,
    /// What the kernel said, where it was traced: with times of the monotonic clock.
    pub trace: Option<(TraceRound, Vec<KernelEvent>)>,
}

/// A row with what is known beside it.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// The row.
    pub row: Row,
    /// Arrival at the far end, ns after the row's start.
    pub far_ns: Option<u64>,
    /// Open loop: the actual send, ns after the row's start.
    pub late_ns: Option<u64>,
    /// Traced: the far end was about to send its reply, ns after the row's start.
    pub far_sent_ns: Option<u64>,
    /// Traced: the send call had returned, ns after the row's start.
    pub sent_ns: Option<u64>,
}

/// Why there is no round.
#[derive(Debug)]
pub enum RoundError {
    /// The case cannot be measured here; others can.
    Unavailable(Unavailable),
    /// The run ends.
    Problem(Problem),
    /// It was interrupted.
    Stopped,
}

impl From<Problem> for RoundError {
    fn from(problem: Problem) -> Self {
        RoundError::Problem(problem)
    }
}

impl From<Unavailable> for RoundError {
    fn from(reason: Unavailable) -> Self {
        RoundError::Unavailable(reason)
    }
}

/// Measures one round. `same_clock`: both ends read one CLOCK_MONOTONIC, so that arrival stamps can be compared. `tracer`
/// listens to the kernel meanwhile.
///
/// # Errors
/// [`RoundError`]. No thread is left behind.
pub fn round(
    link: &mut Link,
    order: &RoundOrder,
    own: &Own,
    same_clock: bool,
    mut tracer: Option<&mut Tracer>,
    stop: &AtomicBool,
) -> Result<Round, RoundError> {
    let entry = Entry::find(&order.path)
        .ok_or_else(|| Unavailable::new(format!("{} is not a message path", order.path), "msgpath paths"))?;
    let abort = Arc::new(AtomicBool::new(false));
    let need = need(order, &entry, IpAddr::V4(Ipv4Addr::LOCALHOST), link.peer, Arc::clone(&abort));
    link.send(&ToFar::Round(Box::new(order.clone())))?;
    let addresses = match answer(link)? {
        ToNear::Offered { addresses } if addresses.len() == order.connections as usize => addresses,
        _ => return Err(out_of_turn().into()),
    };
    let (mut channels, mut locals, mut connect_ns) = (Vec::new(), Vec::new(), 0);
    for address in &addresses {
        let start = clock::now();
        let (channel, local) = match entry.transport.connect(address, &need) {
            Ok(connected) => connected,
            Err(error) => {
                // The end of the control channel may be noticed a little later than that of a listening socket.
                std::thread::sleep(Duration::from_millis(50));
                return Err(match link.is_gone() {
                    true => Problem::new("E17", Exit::Unfinished, "the far end vanished").why(error.to_string()).into(),
                    false => Unavailable::new(format!("{}: {error}", order.path), remedy(&error)).into(),
                });
            }
        };
        connect_ns = connect_ns.max(clock::now() - start);
        link.keep_alive()?; // lost handshakes take seconds each
        channels.push(channel);
        locals.push(local);
    }
    let begun = clock::now();
    link.send(&ToFar::Connect { locals })?;
    let (mut granted, room, far_threads) = match answer(link)? {
        ToNear::Ready { granted, room, threads } => (granted, room, threads),
        _ => return Err(out_of_turn().into()),
    };
    // In an open loop a thread of its own reads the replies.
    if !need.limits.timed && own.load.is_none() {
        deadlock_check(order, room)?;
    }
    let order = Arc::new(order.clone());
    let started = Team::start(&order, own, channels, abort);
    let (mut team, ready) = match started {
        Ok(started) => started,
        Err(reason) => {
            // The far end has begun: its threads see the connections close.
            link.send(&ToFar::Finish)?;
            link.answer()?;
            return Err(reason.into());
        }
    };
    granted.splice(0..0, ready.granted);
    let near_threads = team.traced().to_vec();
    if let Some(tracer) = tracer.as_deref_mut()
        && let Err(error) = tracer.begin(&near_threads, &far_threads, order.pieces.total().min(order.reply) as u32)
    {
        team.abandon();
        link.send(&ToFar::Finish)?;
        link.answer()?;
        return Err(Unavailable::new(format!("the kernel could not be traced: {error}"), "--stages off").into());
    }
    let start = clock::now();
    team.go();
    let broke = |error: ThreadError| match error {
        ThreadError::Unavailable(reason) => RoundError::Unavailable(reason),
        error => RoundError::Problem(problem(&error, "near")),
    };
    while !team.wait(Duration::from_millis(250)) {
        // A short round is finished; nobody waits a minute for a long one.
        if stop.load(Ordering::Relaxed) && clock::now() - start > STOP_NS {
            team.abandon();
            return Err(RoundError::Stopped);
        }
        if let Err(gone) = link.keep_alive() {
            link.end_child();
            team.abandon();
            return Err(gone.into());
        }
        if link.is_gone() {
            link.end_child();
            team.abandon();
            let gone = Problem::new("E17", Exit::Unfinished, "the far end vanished").why("in the middle of a round");
            return Err(gone.into());
        }
        if team.is_stalled(need.limits.stall) {
            link.end_child();
            team.abandon();
            let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(broke(ThreadError::Loop(LoopError::Io(error))));
        }
    }
    let outcomes = team.outcomes();
    let traced = tracer.map(Tracer::end).transpose();
    link.send(&ToFar::Finish)?;
    let (far, far_kernel, speed_ns, far_events, far_thread_records, stamps, bytes) = match link.answer()? {
        (ToNear::Done { report, kernel, speed_ns, events, mut threads, stamps }, bytes) => {
            let events = events::plausible(events, &link.events);
            threads.truncate(order.threads as usize);
            for thread in &mut threads {
                thread.events = events::plausible(std::mem::take(&mut thread.events), &link.events);
            }
            (*report, kernel, speed_ns, events, threads, stamps, bytes)
        }
        // What the far end saw first is the cause; what the near end saw is its echo.
        (ToNear::Failed(problem), _) => {
            return Err(match outcomes {
                Err(error @ ThreadError::Loop(LoopError::Different(_))) => broke(error),
                _ => problem.into(),
            });
        }
        (ToNear::Unavailable(reason), _) => return Err(reason.into()),
        _ => return Err(out_of_turn().into()),
    };
    let span_ns = clock::now() - begun;
    let outcomes = outcomes.map_err(broke)?;
    let mut near = EndReport::default();
    let [mut latency, mut first, mut service, mut lateness] = [(); 4].map(|()| Histogram::new());
    let mut open: Option<OpenRound> = None;
    for (at, outcome) in outcomes.iter().enumerate() {
        match at {
            0 => near = outcome.report,
            _ => near.add(&outcome.report),
        }
        latency.merge(&outcome.latency);
        first.merge(&outcome.first);
        service.merge(&outcome.service);
        lateness.merge(&outcome.lateness);
        match (&mut open, &outcome.open) {
            (Some(sum), Some(one)) => sum.add(one),
            (sum, one) => *sum = sum.take().or_else(|| one.clone()),
        }
    }
    let known = Known { sent: near.delivery.sent, received: near.delivery.received, open: own.load.is_some(), span_ns };
    plausible::check(&order, &known, &far)?;
    let events = [events::together(outcomes.iter().map(|outcome| &outcome.events)), far_events];
    let threads = [thread_records(&outcomes), far_thread_records];
    let lossless = near.delivery.lost == 0 && far.delivery.received == near.delivery.sent;
    let far_stamps =
        if same_clock && lossless && own.batch == 1 { split(&stamps, &bytes, order.traced) } else { Vec::new() };
    let mut one_way = Histogram::new();
    let rows = outcomes
        .into_iter()
        .enumerate()
        .map(|(thread, outcome)| {
            let far_stamps = far_stamps.get(thread);
            let joined = outcome.rows.into_iter().enumerate().map(|(at, row)| {
                let late_ns = outcome.late.get(at).copied();
                let since =
                    |stamp: u64| stamp.checked_sub(row.start).filter(|ns| *ns <= row.latency && row.latency != LOST);
                let far = |column: fn(&FarStamps) -> &Vec<u64>| column(far_stamps?).get(at).copied().and_then(since);
                let far_ns = far(|stamps| &stamps.arrived);
                if let Some(ns) = far_ns.and_then(|ns| ns.checked_sub(late_ns.unwrap_or(0))) {
                    one_way.record(ns);
                }
                let far_sent_ns = far(|stamps| &stamps.left);
                let sent_ns = outcome.sent.get(at).copied().and_then(|stamp| stamp.checked_sub(row.start));
                Kept { row, far_ns, late_ns, far_sent_ns, sent_ns }
            });
            joined.collect()
        })
        .collect();
    let trace = match traced {
        Ok(traced) => traced.map(|Traced { events, lost, tasks, unseen }| {
            (TraceRound { near: near_threads, far: far_threads, lost, unseen, tasks }, events)
        }),
        Err(error) => {
            return Err(Problem::new(
                "E29",
                Exit::Unfinished,
                format!("the kernel's events could not be read: {error}"),
            )
            .hint("--stages off")
            .into());
        }
    };
    Ok(Round {
        start,
        connect_ns,
        near,
        far,
        latency,
        one_way,
        first,
        service,
        lateness,
        open,
        rows,
        far_kernel,
        far_speed_ns: speed_ns,
        events,
        threads,
        granted,
        trace,
    })
}

/// The far end's answer, if it is neither that something is unavailable nor that it failed.
fn answer(link: &mut Link) -> Result<ToNear, RoundError> {
    match link.answer()?.0 {
        ToNear::Unavailable(reason) => Err(reason.into()),
        ToNear::Failed(problem) => Err(problem.into()),
        answer => Ok(answer),
    }
}

fn out_of_turn() -> Problem {
    Problem::new("E03", Exit::CannotStart, "the far end answers what was not asked")
        .hint("the same version at both ends")
}

/// Replies that nobody reads yet must fit into a channel that loses nothing, or both ends wait for each other.
fn deadlock_check(order: &RoundOrder, room: Option<u64>) -> Result<(), Problem> {
    let Some(room) = room.filter(|_| order.workload == Workload::Echo && order.inflight > 1) else { return Ok(()) };
    let waiting = u64::from(order.inflight - 1) * order.reply;
    if waiting <= room {
        return Ok(());
    }
    Err(Problem::new(
        "E11",
        Exit::Usage,
        format!(
            "{} replies of {} bytes do not fit into the {room} bytes that the path holds",
            order.inflight - 1,
            order.reply
        ),
    )
    .why("both ends would wait for each other to read")
    .hint(format!("--inflight {} or less, or a larger --sndbuf", room / order.reply.max(1) + 1)))
}

/// The stamps of each thread of the far end: arrivals, and in a traced round as many departures.
fn split(counts: &[u32], bytes: &[u8], traced: bool) -> Vec<FarStamps> {
    let mut stamps = bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
    let mut column = |count: u32| stamps.by_ref().take(count as usize).collect();
    let threads = counts.iter();
    threads
        .map(|count| FarStamps { arrived: column(*count), left: if traced { column(*count) } else { Vec::new() } })
        .collect()
}
