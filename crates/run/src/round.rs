//! One round: an order to each end, and a report of each, brought together. Nothing is measured here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use msgpath_agent::events;
use msgpath_agent::failure::Failure;
use msgpath_agent::loops::{FarStamps, LOST, Row};
use msgpath_agent::observe::{self, Incoming, Traced, Tracer};
use msgpath_agent::plausible::{self, Known};
use msgpath_agent::wire::{Debt, Dial, FromEnd, Own, RoundOrder, ToEnd, read_histograms};
use msgpath_core::parts::Parts;
use msgpath_core::schema::{
    ClientRound, EndDevice, EndReport, EndRound, FAR, Granted, KernelEvent, NEAR, OpenRound, TraceRound, TracedThread,
};
use msgpath_core::{Exit, Histogram, Problem, Unavailable};
use msgpath_paths::channel::NAPI;
use msgpath_paths::is_lossy;
use msgpath_sys::clock;

use crate::link::{Pair, Side};
use crate::{between, clients, program, reach};

/// Bytes differ from what they must be.
const DIFFERENT: &str = "E06";
/// Nothing came for so long that a round was given up.
pub(crate) const STALLED: &str = "E18";
/// Why, where the far end goes on all the same.
pub(crate) const ANSWERS_ORDERS: &str =
    "the server answers orders: the network drops what one of the two sends, or both wait for each other";
/// Two clocks of CLOCK_MONOTONIC are less apart, ns: 73 years.
const FURTHEST_NS: u64 = 1 << 61;
/// An interrupted round that has lasted this long is given up, ns.
const STOP_NS: u64 = 1_500_000_000;

/// Both ends' view of a round.
#[derive(Debug)]
pub struct Round {
    /// When it began, ns of the monotonic clock.
    pub start: u64,
    /// The slowest connect, ns.
    pub connect_ns: u64,
    /// What the near end and the far end report, and what was read there; of several near ends what they report together.
    pub ends: [EndRound; 2],
    /// The near ends one by one, where there are several.
    pub clients: Vec<ClientRound>,
    /// Round trips.
    pub latency: Histogram,
    /// One way by the same clock; empty without stamps at both ends, and without a common clock.
    pub one_way: Histogram,
    /// Latencies of the messages that were trimmed.
    pub first: Histogram,
    /// Open loop: from the actual send to the reply.
    pub service: Histogram,
    /// Open loop: from the intended to the actual send.
    pub lateness: Histogram,
    /// Open loop: the rest of its account.
    pub open: Option<OpenRound>,
    /// Open loop: where each schedule stands afterwards.
    pub debts: Vec<Debt>,
    /// How long it took to make ready, and to end, ns.
    pub around_ns: [u64; 2],
    /// What the workload of a feature has to say, one for each near thread.
    pub parts: Vec<Parts>,
    /// Kept rows of each near thread.
    pub rows: Vec<Vec<Kept>>,
    /// Options of the first connection at both ends.
    pub granted: Vec<Granted>,
    /// What the kernel said, where it was traced: with times of the monotonic clock.
    pub trace: Option<(TraceRound, Vec<KernelEvent>)>,
    /// What the far end's kernel said, where it traced itself: with times of its own clock.
    pub far_trace: Option<Traced>,
}

impl Round {
    /// The near end's report.
    pub fn near(&self) -> &EndReport {
        &self.ends[NEAR].report
    }

    /// The far end's report.
    pub fn far(&self) -> &EndReport {
        &self.ends[FAR].report
    }
}

/// A row with what is known beside it.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub row: Row,
    /// Arrival at the far end, ns after the row's start.
    pub far_ns: Option<u64>,
    /// Open loop: the actual send, ns after the row's start.
    pub late_ns: Option<u64>,
    /// Traced: the far end was about to send its reply, ns after the row's start.
    pub far_sent_ns: Option<u64>,
    /// Traced: the send call had returned, ns after the row's start.
    pub sent_ns: Option<u64>,
    /// No common clock: what the far end's clock had when the message arrived, less what the near end's had at the row's start.
    pub received_ns: Option<i64>,
    /// The same of the moment before its reply was sent.
    pub replied_ns: Option<i64>,
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

impl From<Failure> for RoundError {
    fn from(failure: Failure) -> Self {
        RoundError::Problem(failure.into())
    }
}

impl From<Unavailable> for RoundError {
    fn from(reason: Unavailable) -> Self {
        RoundError::Unavailable(reason)
    }
}

/// Measures one round. `same_clock`: both ends read one CLOCK_MONOTONIC, so that their stamps can be compared; else they are
/// kept as both clocks had them. `usual_ns`: how long an open loop takes to make ready ([`between`]). `tracer` listens to the kernel
/// meanwhile: for both ends by one clock, else for the near end alone.
///
/// # Errors
/// [`RoundError`]. No end measures any more, or it ends with its link.
pub fn round(
    pair: &mut Pair,
    order: &RoundOrder,
    own: &Own,
    (same_clock, usual_ns): (bool, Option<u64>),
    mut tracer: Option<&mut Tracer>,
    stop: &AtomicBool,
) -> Result<Round, RoundError> {
    let sides = pair.nears(order);
    let before = clock::now();
    let ready = make_ready(pair, order, own)?;
    let made_ns = clock::now() - before;
    let Ready { begun, connects_ns, mut granted, near_threads, far_threads } = ready;
    let traced_here = if same_clock { far_threads.as_slice() } else { &[] };
    if let Some(tracer) = tracer.as_deref_mut()
        && let Err(error) = tracer.begin(&near_threads, traced_here, observe::least_packet(order))
    {
        give_up(pair, sides)?;
        return Err(observe::refused(&error).into());
    }
    if own.load.is_some() {
        owe(pair, &sides, between::stood_still(made_ns, usual_ns))?;
    }
    let start = clock::now();
    let went = go(pair, &sides, None, stop);
    let traced = tracer.map(Tracer::end).transpose();
    went.map_err(|error| program::named(order, error))?;
    // What a program took is asked for while its connections are open: some start a process for each, which ends with it.
    let watched = order.program.as_ref().map(|_| far_report(pair)).transpose()?;
    let over = clock::now();
    for side in &sides {
        pair.link(*side).send(&ToEnd::Finish)?;
    }
    // All have answered before anything is made of one of them.
    let nears: Vec<Result<NearReport, RoundError>> = sides.iter().map(|side| near_report(pair, *side)).collect();
    let near = nears.into_iter().collect::<Result<Vec<NearReport>, RoundError>>();
    let reported = match watched {
        Some(reported) => reported,
        None => far_report(pair)?,
    };
    let Reported { far, far_trace } = reported;
    let (mut far, stamps, bytes) = match far {
        (FromEnd::Done { report, kernel, watched_ns, speed_ns, events, mut threads, stamps, .. }, bytes) => {
            let events = events::plausible(events, &pair.far.events);
            for thread in &mut threads {
                thread.events = events::plausible(std::mem::take(&mut thread.events), &pair.far.events);
            }
            let (report, watched_ns, speed_ns) = (*report, Some(watched_ns), Some(speed_ns));
            (EndRound { report, kernel, watched_ns, speed_ns, events, threads, process: None }, stamps, bytes)
        }
        // What the far end saw first is the cause; what the near end saw is its echo, unless it saw wrong bytes.
        (FromEnd::Failed(failure), _) => {
            return Err(match near {
                Err(RoundError::Problem(wrong)) if wrong.code == DIFFERENT => wrong.into(),
                _ => failure.into(),
            });
        }
        (FromEnd::Unavailable(reason), _) => return Err(reason.into()),
        _ => return Err(out_of_turn().into()),
    };
    let (span_ns, ended_ns) = (clock::now() - begun, clock::now() - over);
    let nears = near.map_err(|error| program::named(order, error))?;
    let clients = clients::of(order, &nears, &far, &connects_ns);
    far.threads.iter_mut().for_each(|thread| thread.slots = None);
    let mut near = clients::together(nears).ok_or_else(out_of_turn)?;
    let sent = near.end.report.delivery;
    let known = Known { sent: sent.sent, received: sent.received, open: own.load.is_some(), span_ns };
    match &order.program {
        Some(_) => far = program::shared_out(order, far, sent.sent),
        None => plausible::check(order, &known, &far.report, &far.threads)?,
    }
    let lossless = sent.lost == 0 && far.report.delivery.received == sent.sent;
    let far_stamps = if lossless && own.batch == 1 { split(&stamps, &bytes, order.departures) } else { Vec::new() };
    let mut one_way = Histogram::new();
    let rows = near.rows.into_iter().enumerate();
    let rows = rows
        .map(|(thread, rows)| match same_clock {
            true => rows.joined(far_stamps.get(thread), &mut one_way),
            false => rows.beside(far_stamps.get(thread)),
        })
        .collect();
    if order.timed.is_some() {
        clients::settle(order, &mut near.end.report, &mut far.report);
    }
    let traced = traced.map_err(|error| observe::unreadable(&error))?;
    // Where the far end alone is traced, its threads are told all the same.
    let traced = traced.or_else(|| far_trace.is_some().then(Traced::default));
    let trace = traced.map(|Traced { events, lost, tasks, unseen }| {
        let threads = vec![near_threads, far_threads];
        (TraceRound { threads, lost, unseen, tasks, apart: Vec::new() }, events)
    });
    name_polled_queues(&mut granted, [&near.end.report, &far.report]);
    let [latency, first, service, lateness] = near.histograms;
    Ok(Round {
        start,
        connect_ns: connects_ns.into_iter().max().unwrap_or(0),
        ends: [near.end, far],
        clients,
        latency,
        one_way,
        first,
        service,
        lateness,
        open: near.open,
        debts: near.debts,
        around_ns: [made_ns, ended_ns],
        parts: near.parts,
        rows,
        granted,
        trace,
        far_trace,
    })
}

/// By which queue messages come is known when some have come.
fn name_polled_queues(granted: &mut [Granted], ends: [&EndReport; 2]) {
    for entry in granted.iter_mut().filter(|entry| entry.option == NAPI) {
        let end = if entry.end == "near" { NEAR } else { FAR };
        if let Some(queue) = ends[end].polled_queue {
            entry.granted = queue.to_string();
        }
    }
}

/// A round whose threads wait at both ends.
pub(crate) struct Ready {
    /// When the far end was told to begin.
    begun: u64,
    /// The slowest connect of each near end, ns.
    connects_ns: Vec<u64>,
    granted: Vec<Granted>,
    pub(crate) near_threads: Vec<TracedThread>,
    pub(crate) far_threads: Vec<TracedThread>,
}

/// Both ends connected, their threads made.
pub(crate) fn make_ready(pair: &mut Pair, order: &RoundOrder, own: &Own) -> Result<Ready, RoundError> {
    pair.far.send(&ToEnd::Round(Box::new(order.clone())))?;
    let addresses = match answer(pair, Side::Far)? {
        FromEnd::Offered { addresses, program } if addresses.len() == order.connections as usize => {
            if let Some(facts) = program {
                pair.programs.entry(facts.name.clone()).or_insert(*facts);
            }
            addresses
        }
        _ => return Err(out_of_turn().into()),
    };
    let sides = pair.nears(order);
    let nears = sides.len();
    let share = addresses.len() / nears;
    let each = RoundOrder { connections: share as u32, threads: order.threads / nears as u32, ..order.clone() };
    let peer = pair.far.peer;
    for (at, side) in sides.iter().copied().enumerate() {
        let addresses = addresses[at * share..(at + 1) * share].to_vec();
        let mut own = clients::own(own, (at, nears), each.threads);
        if nears > 1 && !pair.link(side).is_here() {
            // By another clock than this run's, and that is what its rows would say.
            own.keep = 0;
        }
        let dial = Dial { order: each.clone(), own, peer, addresses };
        pair.link(side).send(&ToEnd::Dial(Box::new(dial)))?;
    }
    let (mut locals, mut connects_ns) = (Vec::new(), Vec::new());
    for side in sides.iter().copied() {
        match answer(pair, side) {
            Ok(FromEnd::Connected { locals: own, connect_ns }) => {
                locals.extend(own);
                connects_ns.push(connect_ns);
            }
            Ok(_) => return Err(out_of_turn().into()),
            Err(RoundError::Unavailable(reason)) => {
                // The end of the control channel may be noticed a little later than that of a listening socket.
                std::thread::sleep(Duration::from_millis(50));
                let gone = pair.far.is_gone();
                leave(pair, &sides, side)?;
                return Err(match gone {
                    true => pair.far.vanished(reason.why).into(),
                    false => reason.into(),
                });
            }
            Err(other) => return Err(other),
        }
    }
    let begun = clock::now();
    let local = locals.first().cloned().unwrap_or_default();
    pair.far.send(&ToEnd::Connect { locals })?;
    let (mut granted, room, far_threads) = match answer(pair, Side::Far)? {
        FromEnd::Ready { granted, room, threads, seen, device } => {
            if let (None, Some(data)) = (&pair.data, reach::data(pair, &local, seen)) {
                pair.data = Some(data);
            }
            remember_device(pair, FAR, device);
            (granted, room, threads)
        }
        _ => return Err(out_of_turn().into()),
    };
    // In an open loop a thread of its own reads the replies; what may be lost is not waited for.
    if own.load.is_none() && !is_lossy(&order.path.transport) {
        deadlock_check(order, room)?;
    }
    for side in &sides {
        pair.link(*side).send(&ToEnd::Start)?;
    }
    let (mut first, mut near_threads) = (None, Vec::new());
    for side in sides.iter().copied() {
        match answer(pair, side) {
            Ok(FromEnd::Ready { granted, threads, device, .. }) => {
                remember_device(pair, NEAR, device);
                first.get_or_insert(granted);
                near_threads.extend(threads);
            }
            Ok(_) => return Err(out_of_turn().into()),
            Err(reason) => {
                leave(pair, &sides, side)?;
                // The far end has begun: its threads see the connections close.
                finish_far(pair)?;
                return Err(reason);
            }
        }
    }
    granted.splice(0..0, first.unwrap_or_default());
    Ok(Ready { begun, connects_ns, granted, near_threads, far_threads })
}

/// Keeps the first device that an end names.
fn remember_device(pair: &mut Pair, end: usize, device: Option<Box<EndDevice>>) {
    /// Longest name of a device that is believed: the kernel's have up to 15 bytes.
    const LONGEST: usize = 64;
    if pair.devices[end].is_none() {
        pair.devices[end] = device.map(|device| *device).filter(|device| device.name.len() <= LONGEST);
    }
}

/// The other near ends leave a round that one of them, `but`, cannot take part in. Those behind it have not answered yet.
fn leave(pair: &mut Pair, sides: &[Side], but: Side) -> Result<(), RoundError> {
    let mut behind = false;
    for side in sides.iter().copied() {
        if side == but {
            behind = true;
            continue;
        }
        if behind {
            pair.answer(side)?;
        }
        pair.link(side).send(&ToEnd::Leave)?;
        pair.answer(side)?;
    }
    Ok(())
}

/// The far end's answer to [`ToEnd::Finish`].
struct Reported {
    far: (FromEnd, Vec<u8>),
    far_trace: Option<Traced>,
}

/// Asks the far end what it did. What it traced comes first.
fn far_report(pair: &mut Pair) -> Result<Reported, Problem> {
    pair.far.send(&ToEnd::Finish)?;
    let (mut incoming, mut far_trace) = (Incoming::default(), None);
    loop {
        match pair.answer(Side::Far)? {
            (FromEnd::Events { count }, bytes) if far_trace.is_none() => {
                incoming.take(count, &bytes).ok_or_else(out_of_turn)?;
            }
            (FromEnd::Traced { lost, tasks, unseen }, _) if far_trace.is_none() => {
                let events = std::mem::take(&mut incoming).finish();
                far_trace = Some(Traced { events, lost, tasks, unseen });
            }
            far => return Ok(Reported { far, far_trace }),
        }
    }
}

/// All ends leave a round that was made ready and does not take place.
fn give_up(pair: &mut Pair, sides: Vec<Side>) -> Result<(), RoundError> {
    for side in sides {
        pair.link(side).send(&ToEnd::Leave)?;
        pair.answer(side)?;
    }
    finish_far(pair)
}

/// The schedules of a round are behind by what the far end stood still while it was made ready, ns.
fn owe(pair: &mut Pair, sides: &[Side], ns: u64) -> Result<(), Problem> {
    for side in sides.iter().filter(|_| ns > 0) {
        pair.link(*side).send(&ToEnd::Owes { ns })?;
    }
    Ok(())
}

/// The far end's part of a round that does not take place.
fn finish_far(pair: &mut Pair) -> Result<(), RoundError> {
    far_report(pair)?;
    Ok(())
}

/// Lets the near end's threads begin and waits until their part is over.
fn go(pair: &mut Pair, sides: &[Side], until: Option<Instant>, stop: &AtomicBool) -> Result<(), RoundError> {
    let start = clock::now();
    let mut going: VecDeque<Side> = sides.iter().copied().collect();
    for side in sides {
        pair.link(*side).send(&ToEnd::Go)?;
    }
    loop {
        let Some(side) = going.front().copied() else { return Ok(()) };
        let heard = pair.link(side).hear(Duration::from_millis(250));
        // What one of several says is heard while another goes on.
        going.rotate_left(1);
        let ended = match heard {
            Ok(Some((FromEnd::Over, _))) => {
                going.pop_back();
                None
            }
            Ok(Some((FromEnd::Failed(failure), _))) => {
                let problem = Problem::from(failure);
                if problem.code == STALLED && sides.len() == 1 && pair.programs.is_empty() {
                    return Err(stalled(pair, problem));
                }
                Some(problem)
            }
            Ok(Some((FromEnd::Unavailable(reason), _))) => {
                finish_far(pair)?;
                return Err(reason.into());
            }
            Ok(Some(_)) => Some(out_of_turn()),
            Ok(None) => None,
            Err(gone) => Some(gone),
        };
        let late = until.is_some_and(|until| Instant::now() > until);
        // A short round is finished; nobody waits a minute for a long one.
        if ended.is_none() && (late || stop.load(Ordering::Relaxed) && clock::now() - start > STOP_NS) {
            return Err(RoundError::Stopped);
        }
        let ended = ended.or_else(|| pair.keep_alive().err());
        let ended = ended.or_else(|| pair.far.is_gone().then(|| pair.far.vanished("in the middle of a round")));
        if let Some(problem) = ended {
            // An agent that watches programs waits for nobody, and ends them when it ends.
            if pair.programs.is_empty() {
                pair.far.end_child();
            }
            return Err(problem.into());
        }
    }
}

/// Why the near end waits in vain, as the far end knows it: what it sends may be lost on the way.
fn stalled(pair: &mut Pair, problem: Problem) -> RoundError {
    /// A far end that runs has answered by then.
    const SOON: Duration = Duration::from_secs(1);
    let asked = pair.far.send(&ToEnd::Finish);
    match asked.and_then(|()| pair.far.hear(SOON)) {
        Ok(Some((FromEnd::Unavailable(reason), _))) => reason.into(),
        Ok(Some(_)) => problem.why(ANSWERS_ORDERS).into(),
        _ => {
            pair.far.end_child();
            problem.into()
        }
    }
}

/// What the near end reports.
pub(crate) struct NearReport {
    pub(crate) end: EndRound,
    pub(crate) histograms: [Histogram; 4],
    open: Option<OpenRound>,
    debts: Vec<Debt>,
    parts: Vec<Parts>,
    pub(crate) rows: Vec<Rows>,
}

pub(crate) fn near_report(pair: &mut Pair, side: Side) -> Result<NearReport, RoundError> {
    let mut all = Vec::new();
    loop {
        match pair.answer(side)? {
            (FromEnd::Rows { counts }, bytes) => all.push(Rows::read(counts, &bytes).ok_or_else(out_of_turn)?),
            (
                FromEnd::Done { report, kernel, watched_ns, speed_ns, events, threads, times: Some(times), .. },
                bytes,
            ) => {
                let histograms = read_histograms(times.histograms, &bytes).ok_or_else(out_of_turn)?;
                let (report, watched_ns, speed_ns) = (*report, Some(watched_ns), Some(speed_ns));
                let end = EndRound { report, kernel, watched_ns, speed_ns, events, threads, process: None };
                return Ok(NearReport {
                    end,
                    histograms,
                    open: times.open,
                    debts: times.debts,
                    parts: times.parts,
                    rows: all,
                });
            }
            (FromEnd::Failed(failure), _) => return Err(failure.into()),
            (FromEnd::Unavailable(reason), _) => return Err(reason.into()),
            _ => return Err(out_of_turn().into()),
        }
    }
}

/// The rows of one thread of the near end.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    late: Vec<u64>,
    sent: Vec<u64>,
}

impl Rows {
    /// Four columns, one behind the other.
    fn read(counts: [u32; 4], bytes: &[u8]) -> Option<Self> {
        let all = counts.iter().map(|count| *count as usize).sum::<usize>();
        if bytes.len() != 8 * all || counts[0] != counts[1] {
            return None;
        }
        let mut stamps = words(bytes);
        let [start, latency, late, sent] =
            counts.map(|count| stamps.by_ref().take(count as usize).collect::<Vec<u64>>());
        let rows = start.into_iter().zip(latency).map(|(start, latency)| Row { start, latency }).collect();
        Some(Self { rows, late, sent })
    }

    /// With what the far end's thread has seen of the same messages.
    fn joined(self, far: Option<&FarStamps>, one_way: &mut Histogram) -> Vec<Kept> {
        let Self { rows, late, sent } = self;
        let join = |(at, row): (usize, Row)| {
            let late_ns = late.get(at).copied();
            let since =
                |stamp: u64| stamp.checked_sub(row.start).filter(|ns| *ns <= row.latency && row.latency != LOST);
            let far = |column: fn(&FarStamps) -> &Vec<u64>| column(far?).get(at).copied().and_then(since);
            let far_ns = far(|stamps| &stamps.arrived);
            if let Some(ns) = far_ns.and_then(|ns| ns.checked_sub(late_ns.unwrap_or(0))) {
                one_way.record(ns);
            }
            let far_sent_ns = far(|stamps| &stamps.left);
            let sent_ns = sent.get(at).copied().and_then(|stamp| stamp.checked_sub(row.start));
            Kept { row, far_ns, late_ns, far_sent_ns, sent_ns, received_ns: None, replied_ns: None }
        };
        rows.into_iter().enumerate().map(join).collect()
    }

    /// The same where the far end has a clock of its own: nothing is compared.
    fn beside(self, far: Option<&FarStamps>) -> Vec<Kept> {
        let Self { rows, late, sent } = self;
        let join = |(at, row): (usize, Row)| {
            let since = |stamp: u64| (stamp as i64).wrapping_sub(row.start as i64);
            // 0: nothing came. What is further from this clock than a machine can have been up is not a stamp.
            let is_one = |stamp: &u64| *stamp > 0 && row.latency != LOST && since(*stamp).unsigned_abs() < FURTHEST_NS;
            let far = |column: fn(&FarStamps) -> &Vec<u64>| column(far?).get(at).copied().filter(is_one).map(since);
            Kept {
                row,
                far_ns: None,
                late_ns: late.get(at).copied(),
                far_sent_ns: None,
                sent_ns: sent.get(at).copied().and_then(|stamp| stamp.checked_sub(row.start)),
                received_ns: far(|stamps| &stamps.arrived),
                replied_ns: far(|stamps| &stamps.left),
            }
        };
        rows.into_iter().enumerate().map(join).collect()
    }
}

/// Numbers of eight bytes each.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
}

/// One round for its own sake: nobody asks the near end what it has measured. It is given up after `until`.
///
/// # Errors
/// As [`round`].
pub fn carry_out(
    pair: &mut Pair,
    order: &RoundOrder,
    own: &Own,
    until: Instant,
    stop: &AtomicBool,
) -> Result<(), RoundError> {
    make_ready(pair, order, own)?;
    go(pair, &pair.nears(order), Some(until), stop)?;
    pair.far.send(&ToEnd::Finish)?;
    answer(pair, Side::Far).map(drop)
}

/// An end's answer, if it is neither that something is unavailable nor that it failed.
fn answer(pair: &mut Pair, from: Side) -> Result<FromEnd, RoundError> {
    match pair.answer(from)?.0 {
        FromEnd::Unavailable(reason) => Err(reason.into()),
        FromEnd::Failed(failure) => Err(failure.into()),
        answer => Ok(answer),
    }
}

/// E03.
pub fn out_of_turn() -> Problem {
    Problem::new("E03", Exit::CannotStart, "an end answers what was not asked").hint("the same version at both ends")
}

/// Replies that nobody reads yet must fit into a channel that loses nothing, or both ends wait for each other.
fn deadlock_check(order: &RoundOrder, room: Option<u64>) -> Result<(), Problem> {
    let Some(room) = room.filter(|_| order.workload.is_echoed() && order.inflight > 1) else { return Ok(()) };
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
    .hint(format!("--inflight {} or less, or a larger -o sndbuf", room / order.reply.max(1) + 1)))
}

/// The stamps of each thread of the far end: arrivals, and where it was told to stamp them as many departures.
fn split(counts: &[u32], bytes: &[u8], departures: bool) -> Vec<FarStamps> {
    let mut stamps = words(bytes);
    let mut column = |count: u32| stamps.by_ref().take(count as usize).collect();
    let threads = counts.iter();
    threads
        .map(|count| FarStamps { arrived: column(*count), left: if departures { column(*count) } else { Vec::new() } })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_another_clock_are_kept_as_they_were() {
        let rows = || Rows {
            rows: [(1_000, 90), (2_000, 90), (3_000, LOST), (4_000, 90)]
                .map(|(start, latency)| Row { start, latency })
                .to_vec(),
            late: Vec::new(),
            sent: vec![1_005],
        };
        // A clock that is behind; no stamp; a lost message; what no clock shows.
        let far = FarStamps { arrived: vec![500, 0, 3_000, u64::MAX / 2], left: vec![507, 0, 3_001, 1] };
        let kept = rows().beside(Some(&far));
        let pairs: Vec<_> = kept.iter().map(|kept| (kept.received_ns, kept.replied_ns)).collect();
        assert_eq!(pairs, [(Some(-500), Some(-493)), (None, None), (None, None), (None, Some(-3_999))]);
        assert!(kept.iter().all(|kept| kept.far_ns.is_none() && kept.far_sent_ns.is_none()));
        assert_eq!(kept[0].sent_ns, Some(5));
        assert!(rows().beside(None).iter().all(|kept| kept.received_ns.is_none() && kept.replied_ns.is_none()));
        // On one clock the same stamps are not arrivals, and nothing stands beside them.
        let joined = rows().joined(Some(&far), &mut Histogram::new());
        assert!(joined.iter().all(|kept| kept.far_ns.is_none() && kept.received_ns.is_none()));
    }
}
