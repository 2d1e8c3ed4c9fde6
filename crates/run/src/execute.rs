//! A plan becomes a record: reach the far end, pilot every case, plan the rounds, run them in random order, write each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::plan::{Extent, Stamps, Workload};
use msgpath_core::schema::{
    ClockFacts, Granted, MessageRow, RoundRecord, RunEnd, RunHeader, SCHEMA, Status, UnavailableCase,
};
use msgpath_core::shuffle::order;
use msgpath_core::{Case, Exit, Plan, Problem, Target, Unavailable};
use msgpath_paths::registry::Entry;
use msgpath_record::RunWriter;
use msgpath_sys::clock;

use crate::environment;
use crate::loops::LOST;
use crate::near::{Round, RoundError, round};
use crate::place::{Link, cpu_order, placement};
use crate::team::Own;
use crate::wire::RoundOrder;

/// What to execute.
#[derive(Clone, Debug)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// The far end.
    pub target: Target,
    /// `echo`, `stream`, `compare`.
    pub verb: String,
    /// The command line.
    pub command: Vec<String>,
    /// Name of the run.
    pub name: String,
    /// The folder of the run; it must not exist yet.
    pub folder: PathBuf,
}

/// Told of what happens, outside the measured spans.
pub trait Progress {
    /// Both ends are up; environment and plan are known.
    fn started(&mut self, _header: &RunHeader) {}
    /// Case number `done` of `of` is being warmed up.
    fn warming(&mut self, _case: &Case, _done: usize, _of: usize) {}
    /// A round was recorded.
    fn round(&mut self, _round: &RoundRecord, _done: u64, _of: u64) {}
}

/// A pilot aims at this long, ns.
const PILOT_NS: f64 = 10e6;
/// A pilot gives up after this long, ns, and goes by what it has seen.
const PILOT_PATIENCE_NS: u64 = 200_000_000;
/// A round of a time is cut short after so many times the time it was planned for, and after 1 s.
const ROUND_PATIENCE: u64 = 10;
/// Messages of a stream that are not measured take at most this long, ns; so do those of an echo.
const TRIM_NS: f64 = 20e6;
/// A round has at least so many messages on a connection, whatever its time.
const LEAST: u64 = 5;
/// A round has at most so many.
const MOST: u64 = 1 << 32;
/// A value below this many clock readings is measured in batches (method: 3.14).
const BATCH_BELOW: f64 = 20.0;

/// What the pilot found out about a case.
#[derive(Clone, Debug)]
struct Pace {
    /// Time per message of all connections together, ns.
    message_ns: f64,
    trim: u64,
    batch: u64,
    granted: Vec<Granted>,
}

/// Executes a plan and writes the record.
///
/// # Errors
/// A [`Problem`] with its exit code. Where the record had begun, it holds what was measured, and the problem.
pub fn execute(request: Request, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<RunEnd, Problem> {
    let Request { mut plan, target, verb, command, name, folder } = request;
    plan.validate()?;
    let mut link = Link::open(&target, &plan.options)?;
    let near = environment::read();
    let one_machine = near.boot_id == link.environment.boot_id;
    let threads = plan.cases.iter().map(|case| case.threads).max().unwrap_or(1);
    let chosen = placement(&cpu_order(), &link.cpus, one_machine, threads);
    if plan.placement.near.is_empty() {
        plan.placement.near = chosen.near;
    }
    if plan.placement.far.is_empty() {
        plan.placement.far = chosen.far;
    }
    let (cost_ns, step_ns) = clock::measure(100_000);
    let unavailable = leave_out_unavailable(&mut plan)?;
    let mut header = RunHeader {
        schema: SCHEMA.into(),
        name,
        started: msgpath_record::utc::now(),
        command,
        version: env!("CARGO_PKG_VERSION").into(),
        verb,
        target: target.to_string(),
        plan,
        unavailable,
        near,
        far: link.environment.clone(),
        clock: ClockFacts { cost_ns, step_ns },
    };
    progress.started(&header);
    let mut paces = pilot_all(&mut link, &mut header, one_machine, progress, stop)?;
    let mut writer = RunWriter::create(&folder, &header).map_err(Problem::from)?;
    let mut run = Run { header: &header, link, target: &target, one_machine, begin: clock::now(), kept: 0 };
    let result = run.rounds(&mut paces, &mut writer, progress, stop);
    let (status, problem) = match &result {
        Ok(true) => (Status::Ok, None),
        Ok(false) => (Status::Partial, None),
        Err(problem) => (Status::Failed, Some(problem.clone())),
    };
    let granted: BTreeMap<u32, Vec<Granted>> =
        header.plan.cases.iter().zip(paces).map(|(case, pace)| (case.id, pace.granted)).collect();
    let end = RunEnd { status, ended: msgpath_record::utc::now(), problem, messages_not_kept: 0, granted };
    // A disk that is full cannot take the last block either; the first error is the one that matters.
    let end = match (writer.finish(end), &result) {
        (Ok(end), _) => end,
        (Err(_), Err(problem)) => return Err(problem.clone()),
        (Err(error), Ok(_)) => return Err(error.into()),
    };
    match result {
        Ok(_) => Ok(end),
        Err(problem) if problem.hint.is_empty() => {
            Err(problem.hint(format!("msgpath show {}   for what was measured before", header.name)))
        }
        Err(problem) => Err(problem),
    }
}

/// Takes the cases that this machine cannot measure out of the plan.
fn leave_out_unavailable(plan: &mut Plan) -> Result<Vec<UnavailableCase>, Problem> {
    let mut out = Vec::new();
    plan.cases.retain(|case| match available(case) {
        Ok(()) => true,
        Err(reason) => {
            out.push(UnavailableCase { case: case.clone(), reason });
            false
        }
    });
    renumber(plan, &out)?;
    Ok(out)
}

fn available(case: &Case) -> Result<(), Unavailable> {
    let entry = Entry::find(&case.path)
        .ok_or_else(|| Unavailable::new(format!("{} is not a message path", case.path), "msgpath paths"))?;
    let largest = case.size.max(case.reply);
    if let Some(limit) = entry.transport.max_message().filter(|limit| largest > *limit) {
        let transport = entry.transport.meta().meta.name;
        return Err(Unavailable::new(
            format!("{largest} bytes do not fit in one {transport} message (largest here: {limit} bytes)"),
            "a smaller -l",
        ));
    }
    if entry.transport.meta().lossy && case.inflight > 1 && case.connections > case.threads {
        return Err(Unavailable::new(
            "a thread cannot keep several messages under way on several connections that lose some",
            "as many threads as connections (-T), or --inflight 1",
        ));
    }
    entry.probe()
}

/// Gives the cases that are left their ids.
///
/// # Errors
/// None is left.
fn renumber(plan: &mut Plan, unavailable: &[UnavailableCase]) -> Result<(), Problem> {
    for (id, case) in plan.cases.iter_mut().enumerate() {
        case.id = id as u32;
    }
    if !plan.cases.iter().any(|case| case.path == plan.baseline)
        && let Some(first) = plan.cases.first()
    {
        plan.baseline = first.path.clone();
    }
    match (plan.cases.is_empty(), unavailable.first()) {
        (true, Some(first)) => {
            let what = format!("{} cannot be measured here: {}", first.case.path, first.reason.why);
            Err(Problem::new("E05", Exit::CannotStart, what).hint(first.reason.hint.clone()))
        }
        _ => Ok(()),
    }
}

fn round_order(plan: &Plan, case: &Case, messages: u64, trim: u64) -> RoundOrder {
    RoundOrder {
        workload: plan.workload,
        reverse: plan.reverse,
        path: case.path.clone(),
        pieces: case.pieces,
        reply: case.reply,
        connections: case.connections,
        threads: case.threads,
        inflight: case.inflight,
        messages,
        trim,
        patience_ns: 0,
        cpus: plan.placement.far.clone(),
        stamps: plan.stamps,
        options: plan.options.clone(),
    }
}

fn own(plan: &Plan, batch: u64, keep: usize) -> Own {
    Own { near: true, cpus: plan.placement.near.clone(), batch, keep }
}

fn is_lossy(case: &Case) -> bool {
    msgpath_paths::transport(&case.path.transport).is_some_and(|transport| transport.meta().lossy)
}

/// Pilots and warms every case; cases that turn out to be unavailable leave the plan.
fn pilot_all(
    link: &mut Link,
    header: &mut RunHeader,
    one_machine: bool,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Vec<Pace>, Problem> {
    let mut paces = Vec::new();
    let cases = std::mem::take(&mut header.plan.cases);
    let of = cases.len();
    for (done, case) in cases.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Problem::new("E15", Exit::Interrupted, "interrupted before the first round"));
        }
        progress.warming(&case, done, of);
        match pilot(link, &header.plan, &case, header.clock.cost_ns, one_machine, stop) {
            Ok(pace) => {
                header.plan.cases.push(case);
                paces.push(pace);
            }
            Err(RoundError::Unavailable(reason)) => header.unavailable.push(UnavailableCase { case, reason }),
            Err(RoundError::Problem(problem)) => return Err(problem),
        }
    }
    renumber(&mut header.plan, &header.unavailable)?;
    Ok(paces)
}

fn pilot(
    link: &mut Link,
    plan: &Plan,
    case: &Case,
    clock_ns: f64,
    one_machine: bool,
    stop: &AtomicBool,
) -> Result<Pace, RoundError> {
    let connections = u64::from(case.connections);
    let mut measure = |messages: u64, trim: u64| -> Result<Round, RoundError> {
        let mut order = round_order(plan, case, messages, trim);
        order.stamps = Stamps::Near;
        if plan.workload == Workload::Echo {
            order.patience_ns = PILOT_PATIENCE_NS;
        }
        round(link, &order, &own(plan, 1, 0), one_machine)
    };
    let pace_of = |round: &Round| (elapsed(plan, round) as f64 / (messages_of(plan, round).max(1) as f64)).max(1.0);
    // A count that is shorter than a pilot needs no pace.
    let most = match plan.extent {
        Extent::Count(count) if count <= 1_000 => count.min(8),
        _ => 1 << 20,
    };
    let mut messages = most.min(8);
    let mut last = measure(messages, 0)?;
    while (elapsed(plan, &last) as f64) < PILOT_NS && messages < most {
        messages = (4 * messages).min(most);
        last = measure(messages, plan.trim.min(messages / 4))?;
    }
    let mut message_ns = pace_of(&last);
    let begin = clock::now();
    while clock::now() - begin < plan.warmup_ns && !stop.load(Ordering::Relaxed) {
        let left = (plan.warmup_ns - (clock::now() - begin)).min(100_000_000) as f64;
        let messages = ((left / message_ns) as u64 / connections).clamp(1, MOST);
        last = measure(messages, 0)?;
        message_ns = pace_of(&last);
    }
    // A lossy stream knows no border between trimmed and measured messages.
    let borderless = plan.workload == Workload::Stream && is_lossy(case);
    let trim = match plan.trim {
        0 => 0,
        _ if borderless => 0,
        most => most.min(((TRIM_NS / message_ns) as u64 / connections).max(1)),
    };
    let batch = batch(plan, case, &last, clock_ns);
    // Trimmed messages go in whole batches as well, so that numbering goes on where they end.
    Ok(Pace { message_ns, trim: trim.next_multiple_of(batch), batch, granted: last.granted })
}

/// Messages per stamp pair: 1, unless a message takes less than 20 clock readings.
fn batch(plan: &Plan, case: &Case, pilot: &Round, clock_ns: f64) -> u64 {
    let median = pilot.latency.quantile(0.5).flatten().unwrap_or(0) as f64;
    let one_by_one = case.inflight > 1
        || case.connections > case.threads
        || is_lossy(case)
        || plan.stamps == Stamps::Both
        || plan.workload == Workload::Stream
        || matches!(plan.extent, Extent::Count(count) if count / u64::from(plan.rounds) < 1_000);
    if one_by_one || median == 0.0 || median >= BATCH_BELOW * clock_ns {
        return 1;
    }
    // The stamps themselves take one reading of the value.
    (BATCH_BELOW * clock_ns / (median - clock_ns).max(clock_ns / 2.0)).ceil() as u64
}

/// Time of a round's messages on the clock that decides.
fn elapsed(plan: &Plan, round: &Round) -> u64 {
    match plan.workload {
        Workload::Echo => round.near.elapsed_ns,
        Workload::Stream => round.near.elapsed_ns.max(round.far.elapsed_ns),
    }
}

fn messages_of(plan: &Plan, round: &Round) -> u64 {
    match (plan.workload, plan.reverse) {
        (Workload::Echo, _) | (Workload::Stream, false) => round.near.delivery.sent,
        (Workload::Stream, true) => round.far.delivery.sent,
    }
}

struct Run<'a> {
    header: &'a RunHeader,
    link: Link,
    target: &'a Target,
    one_machine: bool,
    begin: u64,
    kept: u64,
}

impl Run<'_> {
    /// All rounds of all passes. `Ok(false)`: stopped before the last.
    fn rounds(
        &mut self,
        paces: &mut [Pace],
        writer: &mut RunWriter,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<bool, Problem> {
        let plan = &self.header.plan;
        let (mut done, of) = (0, plan.total_rounds());
        let mut restart = 0;
        for pass in 0..plan.rounds {
            // Rounds are spread evenly over the restarts, each with a fresh process at the far end.
            let due = (u64::from(pass) * u64::from(plan.restarts) / u64::from(plan.rounds)) as u32;
            if due > restart {
                restart = due;
                self.link = Link::open(self.target, &plan.options)?;
            }
            for (position, case) in order(plan.seed, pass, plan.cases.len()).into_iter().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let place = Place { pass, restart, position: position as u32 };
                let record = self.round(&plan.cases[case], &mut paces[case], place, writer)?;
                done += 1;
                progress.round(&record, done, of);
            }
        }
        Ok(true)
    }

    fn round(
        &mut self,
        case: &Case,
        pace: &mut Pace,
        place: Place,
        writer: &mut RunWriter,
    ) -> Result<RoundRecord, Problem> {
        let plan = &self.header.plan;
        let messages = messages_in_round(plan, case, pace, place.pass);
        let keep = plan.message_log.saturating_sub(self.kept).min(1 << 18) as usize;
        // Arrival stamps are brought together with the rows, so the rows must be there.
        let rows = if plan.stamps == Stamps::Both { keep.max(1 << 18) } else { keep };
        let mut round_order = round_order(plan, case, messages, pace.trim);
        if let (Workload::Echo, Extent::Time(ns), 1) = (plan.workload, plan.extent, case.inflight) {
            round_order.patience_ns = (ROUND_PATIENCE * ns / u64::from(plan.rounds)).max(1_000_000_000);
        }
        let steal = environment::steal_ticks();
        let measured = round(&mut self.link, &round_order, &own(plan, pace.batch, rows), self.one_machine);
        let measured = match measured {
            Ok(measured) => measured,
            Err(RoundError::Problem(problem)) => return Err(problem),
            Err(RoundError::Unavailable(reason)) => {
                return Err(Problem::new("E05", Exit::Unfinished, format!("{}: {}", case.path, reason.why))
                    .why("it could be measured before")
                    .hint(reason.hint));
            }
        };
        if measured.latency.beyond() > 0 {
            return Err(Problem::new("E20", Exit::Unfinished, "a message took longer than 18 minutes")
                .why("no histogram holds it, and nothing is clipped"));
        }
        let steal_ticks = environment::steal_ticks().zip(steal).map(|(after, before)| after.saturating_sub(before));
        let record = RoundRecord {
            case: case.id,
            pass: place.pass,
            restart: place.restart,
            position: place.position,
            start_ns: measured.start.saturating_sub(self.begin),
            batch: pace.batch as u32,
            connect_ns: connects(case).then_some(measured.connect_ns),
            near: measured.near,
            far: measured.far,
            steal_ticks,
            flags: flags(&measured, messages * u64::from(case.connections), steal_ticks),
            latency: measured.latency.to_sparse(),
            one_way: measured.one_way.to_sparse(),
        };
        let messages = self.message_rows(case, pace, place, &measured, keep);
        self.kept += messages.len() as u64;
        writer.round(&record, &messages).map_err(Problem::from)?;
        // The pace follows the machine only in what was granted; the number of messages stays as planned.
        pace.granted = measured.granted;
        Ok(record)
    }

    fn message_rows(&self, case: &Case, pace: &Pace, place: Place, round: &Round, keep: usize) -> Vec<MessageRow> {
        let share = u64::from(case.connections / case.threads);
        let rows = round.rows.iter().enumerate().flat_map(|(thread, rows)| {
            rows.iter().enumerate().map(move |(at, (row, far_ns))| {
                let at = at as u64;
                MessageRow {
                    case: case.id,
                    pass: place.pass,
                    connection: (thread as u64 * share + at % share) as u32,
                    sequence: pace.trim + at / share * pace.batch,
                    start_ns: row.start.saturating_sub(self.begin),
                    latency_ns: (row.latency != LOST).then_some(row.latency),
                    far_ns: *far_ns,
                }
            })
        });
        rows.take(keep).collect()
    }
}

/// Where a round stands in the run.
#[derive(Clone, Copy)]
struct Place {
    pass: u32,
    restart: u32,
    position: u32,
}

/// Messages on each connection: planned from the pilot, the same in every round.
fn messages_in_round(plan: &Plan, case: &Case, pace: &Pace, pass: u32) -> u64 {
    let connections = u64::from(case.connections);
    let messages = match plan.extent {
        Extent::Time(ns) => {
            let round_ns = ns as f64 / f64::from(plan.rounds);
            ((round_ns / pace.message_ns) as u64 / connections).clamp(LEAST, MOST)
        }
        Extent::Count(count) => {
            let rounds = u64::from(plan.rounds);
            (count / rounds + u64::from(u64::from(pass) < count % rounds)).div_ceil(connections).max(1)
        }
    };
    messages.next_multiple_of(pace.batch)
}

fn connects(case: &Case) -> bool {
    matches!(case.path.transport.as_str(), "tcp" | "unix" | "unixseq")
}

/// Conditions that were lost while the round ran.
fn flags(round: &Round, planned: u64, steal_ticks: Option<u64>) -> Vec<String> {
    let mut flags = Vec::new();
    if round.near.delivery.sent.max(round.far.delivery.sent) < planned {
        flags.push("cut short".into());
    }
    // USER_HZ is 100 on Linux: a tick is 10 ms. One tick of a short round says nothing.
    let stolen_ns = steal_ticks.unwrap_or(0) * 10_000_000;
    let elapsed = round.near.elapsed_ns.max(round.far.elapsed_ns).max(1);
    if steal_ticks.is_some_and(|ticks| ticks > 1) && stolen_ns as f64 > 0.005 * elapsed as f64 {
        flags.push("steal".into());
    }
    flags
}
