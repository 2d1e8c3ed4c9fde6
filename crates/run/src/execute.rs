//! A plan becomes a record: reach the far end, pilot every case, plan the rounds, run them in random order, write each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_agent::loops::LOST;
use msgpath_agent::observe::Tracer;
use msgpath_agent::wire::Debt;
use msgpath_core::calm::{Watch, calm_ones, out_of_reach, too_few};
use msgpath_core::parts::Parts;
use msgpath_core::plan::{
    CaseRole, ChannelOptions, Dispatch, Extent, Family as IpFamily, LOOPBACK, Load, MAX_ROUNDS, Placement, Stamps,
};
use msgpath_core::resume::{PassRecord, Pilot};
use msgpath_core::schema::{
    EventFacts, FAR, Granted, MessageRow, NEAR, QUOTA_FACT, RoundRecord, RunEnd, RunHeader, UnavailableCase,
};
use msgpath_core::settling::Settling;
use msgpath_core::shuffle::order_in_blocks;
use msgpath_core::{Case, Exit, Plan, Problem, Target, Unavailable, units};
use msgpath_paths::meta::Family;
use msgpath_paths::registry::traits;
use msgpath_record::RunWriter;
use msgpath_sys::address::{self, canonical};
use msgpath_sys::{affinity, clock};

use crate::between::{self, Took};
use crate::diagnose::{diagnose, floors_of};
use crate::link::{Link, Pair};
use crate::orders::Orders;
use crate::others::Others;
use crate::pilot::{Pace, Sought, is_a_replica, model, pilot};
use crate::placement::{concerns, placement};
use crate::reach::{self, Blocked};
use crate::resume::Before;
use crate::round::{Kept, Round, RoundError};
use crate::settling::kind;
use crate::written::{self, carrier, flags, held, leave_out, renumber};
use crate::{budget, capacity, clients, places, program, replicas, simulate, suspects, traces};

/// What to execute.
#[derive(Clone, Debug)]
pub struct Request {
    pub plan: Plan,
    /// The far end.
    pub target: Target,
    /// `echo`, `stream`, `compare`.
    pub verb: String,
    pub command: Vec<String>,
    pub name: String,
    /// The folder of the run; it must not exist yet.
    pub folder: PathBuf,
    /// Whether the run is there afterwards.
    pub kept: bool,
    /// What features add to the header.
    pub parts: Parts,
}

/// Told of what happens, outside the measured spans.
pub trait Progress {
    /// Both ends are up; environment and plan are known.
    fn started(&mut self, _header: &RunHeader) {}
    /// The plan as its rounds begin, and again where cases were added to it.
    fn planned(&mut self, _plan: &Plan) {}
    /// Case number `done` of `of` is being warmed up.
    fn warming(&mut self, _case: &Case, _done: usize, _of: usize) {}
    /// A round was recorded.
    fn round(&mut self, _round: &RoundRecord, _done: u64, _of: u64) {}
    /// The same moment, for what takes longer: `alive` is called at least every second, so that the ends wait.
    fn pause(&mut self, _round: &RoundRecord, _done: u64, _of: u64, _alive: &mut dyn FnMut()) {}
    /// A round of this case, or its pilot, is about to begin: what goes on beside it begins now. `alive` is as for `pause`.
    /// `Ok(false)`: the run was interrupted meanwhile.
    ///
    /// # Errors
    /// What goes on beside it cannot.
    fn before(&mut self, _case: &Case, _alive: &mut dyn FnMut()) -> Result<bool, Problem> {
        Ok(true)
    }
    /// It is over; `pass` is that of its round, and nothing after a pilot.
    ///
    /// # Errors
    /// What went on beside it does not any more.
    fn after(&mut self, _case: &Case, _pass: Option<u32>) -> Result<(), Problem> {
        Ok(())
    }
}

/// The counter of stolen time, clock ticks.
const STEAL: &str = "stat.steal";
/// A round of a time is cut short after so many times the time it was planned for, and after 1 s.
const ROUND_PATIENCE: u64 = 10;
/// The senders of an open loop give up after so many times the time of its schedule, and after 1 s.
const OPEN_PATIENCE: f64 = 4.0;
/// A round of a punctual workload ends after so many times its time, ...
const PUNCTUAL: f64 = 1.5;
/// ... and not before this, ns.
const LEAST_PUNCTUAL_NS: u64 = 200_000_000;

/// Asked once, when the rounds that were planned are recorded: cases to add near a crossing (phase 1). It gets the
/// folder of the run, which is whole.
pub type NextPhase<'a> = &'a mut dyn FnMut(&Path) -> Vec<Case>;

/// Executes a plan and writes the record.
///
/// # Errors
/// A [`Problem`] with its exit code. Where the record had begun, it holds what was measured, and the problem.
pub fn execute(
    request: Request,
    progress: &mut dyn Progress,
    next_phase: NextPhase<'_>,
    stop: &AtomicBool,
) -> Result<RunEnd, Problem> {
    let Request { mut plan, target, verb, command, name, folder, kept, parts } = request;
    let started = clock::now();
    plan.declare(traits);
    plan.validate()?;
    let mut pair = Pair::open(&target, &plan.options)?;
    let restart_ns = clock::now() - started;
    let blocked = reach::probe(&mut pair, &target, &plan, stop)?;
    program::place(&plan, &mut pair)?;
    let (one_machine, one_clock) = (pair.one_machine(), pair.one_clock());
    // What the stamps of both ends say brings their clocks together.
    if plan.stages.is_some() && !one_clock {
        plan.stamps = Stamps::Both;
    }
    let threads = plan.cases.iter().map(|case| case.threads).max().unwrap_or(1);
    let order = pair.near.cpus.clone();
    if let Err(reason) = affinity::may_pin()
        && plan.placement == Placement::default()
    {
        plan.unpinned = true;
        pair.near.environment.facts.insert("affinity".into(), format!("{}; threads are not pinned", reason.why));
    }
    if plan.options.has_hosts() && plan.placement == Placement::default() {
        // The CPUs of one host are not those of another.
        plan.unpinned = true;
    }
    let chosen = placement(&order, &pair.far.cpus, one_machine, threads);
    if plan.placement.of(NEAR).is_empty() && !plan.unpinned {
        plan.placement.set(NEAR, chosen.of(NEAR).to_vec());
    }
    if plan.placement.of(FAR).is_empty() && !plan.unpinned {
        plan.placement.set(FAR, chosen.of(FAR).to_vec());
    }
    let spare = spare(&order, &plan, one_machine);
    let (options, stream) = (plan.options.clone(), !plan.workload.is_echoed());
    let over_v6 = pair.far.peer.map_or(options.family == IpFamily::V6, |far| canonical(far).is_ipv6());
    let through = |case: &Case| blocked.iter().find_map(|blocked| blocked.reason(case)).map_or(Ok(()), Err);
    let unavailable = leave_out(&mut plan, |case| {
        available(case, &options, (stream, over_v6), &spare)?;
        through(case)
    })?;
    let (mut near_events, mut far_events) = if plan.events {
        (pair.near.events.clone(), pair.far.events.clone())
    } else {
        (EventFacts::default(), EventFacts::default())
    };
    plan.events = plan.events && replicas::choose_events(plan.events_forced, [&mut near_events, &mut far_events]);
    let target_name = target_of(&target, &plan, &pair.far);
    let mut header =
        RunHeader { unavailable, parts, ..written::header(name.clone(), &verb, command, target_name, plan) };
    header.set_hosts([&pair.near, &pair.far].map(|link| link.environment.clone()));
    let measuring = header.plan.placement.of(NEAR);
    let near_counters = pair.near.counters.iter().filter(|name| concerns(name, measuring)).cloned().collect();
    let known = [(near_counters, near_events), (pair.far.counters.clone(), far_events)];
    for (at, (end, (counters, events))) in header.ends.iter_mut().zip(known).enumerate() {
        (end.counters, end.events) = (counters, events);
        end.cpus = header.plan.placement.of(at).to_vec();
    }
    let spin = header.plan.cases.iter().any(|case| case.traits.never_sleeps());
    header.doctor = Some(diagnose(&mut pair, &header.plan.placement, false, spin)?);
    let (floors, clock_facts) = floors_of(&header.plan, &mut pair)?;
    (header.floors, header.ends[NEAR].clock) = (Some(floors), clock_facts);
    progress.started(&header);
    let on_hosts = header.plan.options.has_hosts();
    let mut run = Run {
        header,
        pair,
        target: &target,
        one_clock,
        spare,
        paces: Vec::new(),
        kinds: Vec::new(),
        debts: BTreeMap::new(),
        around: BTreeMap::new(),
        begin: 0,
        kept: 0,
        reserved: 0,
        done: 0,
        passes: 0,
        others: Others::new(matches!(target, Target::Local)).unless(on_hosts),
        tracer: None,
        before: Before::default(),
        unused: false,
        blocked: Vec::new(),
        lost: None,
    };
    let between = run.header.plan.options.between.clone();
    let explain = |problem| places::explain(between.as_ref(), problem);
    run.pilot_all(progress, stop).map_err(explain)?;
    let restarts_ns = restart_ns * u64::from(run.header.plan.restarts - 1);
    run.keep_time(clock::now() - started + restarts_ns);
    run.open_tracer()?;
    run.header.programs = run.pair.programs.values().cloned().collect();
    run.header.pilots = run.pilots();
    run.header.data = run.pair.data.clone();
    for (end, device) in run.header.ends.iter_mut().zip(&run.pair.devices) {
        end.device.clone_from(device);
    }
    let writer = RunWriter::create(&folder, &run.header).map_err(Problem::from)?;
    let ended = carry_out(run, writer, progress, next_phase, stop);
    if kept { ended.map_err(|problem| with_resume(problem, &name)) } else { ended }
}

/// Measures what is missing, and ends the record.
pub(crate) fn carry_out(
    mut run: Run<'_>,
    mut writer: RunWriter,
    progress: &mut dyn Progress,
    next_phase: NextPhase<'_>,
    stop: &AtomicBool,
) -> Result<RunEnd, Problem> {
    let between = run.header.plan.options.between.clone();
    let explain = |problem| places::explain(between.as_ref(), problem);
    // Who used the CPUs is known from sample to sample: without one before the first round, that of a short run is lost.
    run.others.sample();
    run.begin = clock::now();
    let result = run.phases(&mut writer, progress, next_phase, stop).map_err(explain);
    if result.is_ok() {
        for (end, link) in [(NEAR, &run.pair.near), (FAR, &run.pair.far)] {
            let host = run.header.end(end).host;
            let facts = &mut run.header.hosts[host].facts;
            // One that was set meanwhile is what stopped the ends that were started here, in the groups of this process.
            if link.is_here() && facts.get(QUOTA_FACT).is_some_and(|quota| quota == "max") {
                facts.extend(msgpath_agent::environment::quota());
            }
        }
        (run.header.others, run.header.others_unseen) = run.others.finish();
        writer.replace_header(&run.header).map_err(Problem::from)?;
    }
    // The ends of the run would wait for orders for longer than they may: they leave before anything is simulated.
    let Run { mut header, paces, target, lost, .. } = run;
    if matches!(result, Ok(true)) && simulate::is_asked(&header.plan) {
        header.simulated = simulate::cases(&header.plan, target, stop);
        writer.replace_header(&header).map_err(Problem::from)?;
    }
    let result = lost.filter(|_| matches!(result, Ok(true))).map_or(result, Err);
    let granted: BTreeMap<u32, Vec<Granted>> =
        header.plan.cases.iter().zip(paces).map(|(case, pace)| (case.id, pace.granted)).collect();
    let end = written::ended(&mut writer, &result, granted)?;
    result.map(|_| end)
}

/// A problem that ended a run which is kept: it says how the run goes on.
pub(crate) fn with_resume(problem: Problem, name: &str) -> Problem {
    let on = format!("msgpath resume {name}   goes on; what was measured before: msgpath show {name}");
    let hint = if problem.hint.is_empty() { on } else { format!("{}, then {on}", problem.hint) };
    problem.hint(hint)
}

/// Between whom is measured, and over which link, for people.
fn target_of(target: &Target, plan: &Plan, far: &Link) -> String {
    if let [program] = plan.programs.as_slice()
        && plan.options.between.is_none()
        && plan.cases.iter().all(|case| case.traits.program)
    {
        return program.source.to_string();
    }
    match (&plan.options.between, &plan.options.launch) {
        (None, None) => target.to_string(),
        (None, Some(launch)) => match far.peer.map(address::shown) {
            Some(far) if far != launch.host => format!("{launch} at {far}"),
            _ => launch.to_string(),
        },
        (Some(between), _) => {
            let link = if between.properties.is_empty() { String::new() } else { format!(" ({})", between.properties) };
            format!("{} → {}{link}", between.of(NEAR).name, between.of(FAR).name)
        }
    }
}

/// CPUs that neither end measures on.
fn spare(order: &[u32], plan: &Plan, one_machine: bool) -> Vec<u32> {
    let taken =
        |cpu: &u32| plan.placement.of(NEAR).contains(cpu) || (one_machine && plan.placement.of(FAR).contains(cpu));
    order.iter().copied().filter(|cpu| !taken(cpu)).collect()
}

fn available(
    case: &Case,
    options: &ChannelOptions,
    (stream, over_v6): (bool, bool),
    spare: &[u32],
) -> Result<(), Unavailable> {
    let entry = carrier(case, over_v6)?;
    if stream {
        entry.transport.streams()?;
    }
    if case.traits.untouched {
        goes_back_untouched(case, stream)?;
    }
    if case.traits.program && !entry.transport.reaches_programs() {
        let transport = entry.transport.meta().meta.name;
        return Err(Unavailable::new(
            format!("{transport} does not reach programs of others"),
            "a path over TCP, UDP or a Unix socket",
        ));
    }
    if case.connections > 1 || case.load != Load::Closed {
        entry.transport.shares()?;
    }
    if entry.transport.meta().family == Family::Layer
        && (case.inflight > 1 || case.load != Load::Closed || case.connections > case.threads)
    {
        return Err(Unavailable::new(
            format!(
                "{} is asked one message after the other, on one connection a thread",
                entry.transport.meta().meta.name
            ),
            "without --inflight and --rate, as many threads as connections (-T)",
        ));
    }
    if entry.transport.meta().lossy && case.inflight > 1 && case.connections > case.threads {
        return Err(Unavailable::new(
            "a thread cannot keep several messages in flight on several connections that lose some",
            "as many threads as connections (-T), or --inflight 1",
        ));
    }
    if case.dispatch == Dispatch::EventLoop {
        entry.event_loop()?;
    }
    if case.load != Load::Closed && spare.is_empty() && case.traits.never_sleeps() {
        return Err(Unavailable::new(
            "an open loop sends from a thread of its own, and a receiver that spins leaves it no CPU",
            "a wait that sleeps, or a machine with a CPU more",
        ));
    }
    if options.between.is_some() && !(entry.transport.meta().inet || entry.transport.meta().device) {
        let transport = entry.transport.meta().meta.name;
        return Err(Unavailable::new(
            format!("both ends are in namespaces of their own, and {transport} does not cross the link"),
            "without --between",
        ));
    }
    if options.between.is_some() && entry.transport.meta().device && options.interface == LOOPBACK {
        return Err(Unavailable::new(
            format!("both ends are in namespaces of their own, and {LOOPBACK} does not lead from one to the other"),
            "--interface with the device of the link: mp0 in a lab",
        ));
    }
    entry.transport.suits(options, case.size.max(case.reply))?;
    entry.probe()
}

/// Whether the far end can send back what comes without touching it.
fn goes_back_untouched(case: &Case, stream: bool) -> Result<(), Unavailable> {
    let (why, hint) = if stream {
        ("in a stream nothing goes back, and untouched means that it does", "echo, or another send method")
    } else if case.reply != case.size {
        ("what is not touched goes back as long as it came", "without --reply")
    } else if case.traits.program {
        ("what a program of others touches is not known", "another send method")
    } else {
        return Ok(());
    };
    Err(Unavailable::new(why, hint))
}

pub(crate) struct Run<'a> {
    pub(crate) header: RunHeader,
    pair: Pair,
    target: &'a Target,
    /// Both ends read one CLOCK_MONOTONIC.
    one_clock: bool,
    spare: Vec<u32>,
    /// One for each case of the plan.
    paces: Vec<Pace>,
    /// How long each kind of case takes to settle, as far as one was piloted.
    kinds: Vec<(Case, Settling)>,
    /// Where the schedules of each case stand after its rounds so far.
    debts: BTreeMap<u32, Vec<Debt>>,
    /// How long rounds of each case take to make ready, and to end.
    around: BTreeMap<u32, [Took; 2]>,
    /// Start of the run, ns of the monotonic clock.
    begin: u64,
    /// Messages in the log.
    pub(crate) kept: u64,
    /// Room of the log that messages of traced rounds will need.
    pub(crate) reserved: u64,
    /// Rounds recorded.
    done: u64,
    /// Passes begun: the number of the next.
    passes: u32,
    /// Who else uses the CPUs.
    others: Others,
    tracer: Option<Tracer>,
    /// What the record holds already.
    pub(crate) before: Before,
    /// The far end is a fresh process of which no round was asked yet.
    unused: bool,
    /// Cases whose messages the network has begun to drop.
    blocked: Vec<Blocked>,
    /// What the run ends with, though it went on.
    lost: Option<Problem>,
}

/// What became of a round that was due.
enum Went {
    Recorded(Box<RoundRecord>),
    /// Its case is no longer measured.
    LeftOut,
    Interrupted,
}

impl<'a> Run<'a> {
    /// A run that goes on: its header, what its pilots found and what is recorded.
    pub(crate) fn again(header: RunHeader, pair: Pair, target: &'a Target, paces: Vec<Pace>, before: Before) -> Self {
        Self {
            spare: spare(&pair.near.cpus, &header.plan, pair.one_machine()),
            one_clock: pair.one_clock(),
            header,
            pair,
            target,
            paces,
            kinds: Vec::new(),
            debts: BTreeMap::new(),
            around: BTreeMap::new(),
            begin: 0,
            kept: 0,
            reserved: 0,
            done: 0,
            passes: 0,
            others: Others::new(matches!(target, Target::Local)),
            tracer: None,
            before,
            unused: true,
            blocked: Vec::new(),
            lost: None,
        }
    }

    /// A time of the monotonic clock as the record has it.
    fn since_start(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.begin) + self.before.start_ns
    }

    /// Pilots and warms every case; cases that turn out to be unavailable leave the plan. Then the ablations that the
    /// pilot makes worth while join it.
    fn pilot_all(&mut self, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<(), Problem> {
        let cases = std::mem::take(&mut self.header.plan.cases);
        self.join(cases, progress, stop)?;
        renumber(&mut self.header.plan, &self.header.unavailable)?;
        self.lengthen_rounds();
        if let [pace] = self.paces.as_slice() {
            let ablations = suspects::ablations(&self.header, pace);
            let missing = self.header.unavailable.len();
            self.join(ablations, progress, stop)?;
            // An ablation was nobody's wish: that it cannot be made here is not news.
            self.header.unavailable.truncate(missing);
            renumber(&mut self.header.plan, &self.header.unavailable)?;
        }
        let replicas = replicas::traced(&self.header.plan, self.one_clock);
        self.join(replicas, progress, stop)?;
        renumber(&mut self.header.plan, &self.header.unavailable)?;
        let replicas = replicas::counted(&self.header.plan, 0);
        self.join(replicas, progress, stop)?;
        renumber(&mut self.header.plan, &self.header.unavailable)
    }

    /// Fewer and longer rounds where those of the plan are too short to become steady.
    fn lengthen_rounds(&mut self) {
        let plan = &self.header.plan;
        let settling = self.paces.iter().filter_map(|pace| pace.settling);
        let rounds = settling.map(|settling| plan.rounds_for(settling)).min().unwrap_or(plan.rounds);
        self.header.plan.rounds = rounds.max(plan.restarts);
    }

    /// The rounds get what is left of the time that the user waits.
    fn keep_time(&mut self, spent_ns: u64) {
        let Some(wait_ns) = self.header.plan.wait_ns() else { return };
        let left_ns = wait_ns.saturating_sub(spent_ns);
        // Shorter rounds may have to be fewer, and fewer have less around them.
        for _ in 0..2 {
            self.header.plan.rounds_ns = budget::rounds_ns(&self.header.plan, &self.paces, left_ns);
            self.lengthen_rounds();
        }
    }

    /// What is known of every case before its first round.
    fn pilots(&self) -> Vec<Pilot> {
        let plan = &self.header.plan;
        let cases = plan.cases.iter().zip(&self.paces);
        cases.map(|(case, pace)| pace.recorded(plan, case, model(&plan.cases, case))).collect()
    }

    /// Makes ready what the traced cases need: a back end, and room in the log.
    pub(crate) fn open_tracer(&mut self) -> Result<(), Problem> {
        let Some(set) = self.header.plan.stages else { return Ok(()) };
        let plan = &self.header.plan;
        let traced = plan.cases.iter().zip(&self.paces).filter(|(case, _)| Plan::traced(case).is_some());
        let messages = traced.map(|(case, pace)| {
            let messages = pace.messages(plan, case, 0);
            (messages * u64::from(case.connections), pace.trim(plan, case, messages) * u64::from(case.connections))
        });
        let (kept, most) = messages.fold((0, 0), |(kept, most), (messages, trim)| {
            (kept + messages * u64::from(plan.rounds), most.max(messages + trim))
        });
        self.reserved = kept;
        self.header.plan.message_log = self.header.plan.message_log.max(kept);
        if kept == 0 && !self.one_clock {
            self.header.tracing = Some(traces::none_between());
            return Ok(());
        }
        self.tracer = traces::open(&mut self.pair, &mut self.header, set, replicas::room(set, most))?;
        Ok(())
    }

    /// Pilots cases and adds those that work to the plan.
    fn join(&mut self, cases: Vec<Case>, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<(), Problem> {
        let of = cases.len();
        for (done, case) in cases.into_iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            progress.warming(&case, done, of);
            let begun = clock::now();
            if !self.attended(|alive| progress.before(&case, alive))? {
                return Err(interrupted());
            }
            let before_ns = clock::now() - begun;
            let orders =
                Orders { plan: &self.header.plan, one_clock: self.one_clock, spare: &self.spare, stop, usual_ns: None };
            let model = model(&self.header.plan.cases, &case).map(|at| (&self.header.plan.cases[at], &self.paces[at]));
            let piloted = match model {
                Some((like, pace)) if is_a_replica(&case) => {
                    let case = Case { load: like.load, of_capacity: like.of_capacity.clone(), ..case.clone() };
                    Ok((pace.replica(&case), case))
                }
                // Without the case that it explains an ablation is nothing.
                None if case.ablation.is_some() => continue,
                _ => capacity::with_rate(&mut self.pair, &orders, &case).and_then(|case| {
                    let kind = kind(&case);
                    let known = match model {
                        Some((_, pace)) => pace.settling,
                        None => self.kinds.iter().find(|(other, _)| *other == kind).map(|(_, settling)| *settling),
                    };
                    let run_ns = match self.header.plan.extent {
                        Extent::Time(case_ns) if self.kinds.is_empty() => case_ns * of as u64,
                        _ => 0,
                    };
                    let sought = known.map_or(Sought::In(run_ns), Sought::Known);
                    let own = pilot(&mut self.pair, &orders, &case, self.header.end(NEAR).clock.cost_ns, sought)?;
                    if let (None, Some(found)) = (known, own.settling) {
                        self.kinds.push((kind, found));
                    }
                    Ok((if let Some((_, pace)) = model { own.like(pace) } else { own }, case))
                }),
            };
            let ended = clock::now();
            progress.after(&case, None)?;
            // What goes on beside a round begins and ends with it: its time is spent once a round.
            let beside_ns = if self.header.plan.beside { before_ns + clock::now() - ended } else { 0 };
            match piloted {
                Ok((pace, case)) => {
                    let pace = Pace { around_ns: pace.around_ns + beside_ns, ..pace };
                    self.header.plan.cases.push(Case { traits: traits(&case.path), ..case });
                    self.paces.push(pace);
                }
                Err(RoundError::Unavailable(reason)) => self.header.unavailable.push(UnavailableCase { case, reason }),
                // A program of others that fails at once is not a reason to give up the rest of a comparison.
                Err(RoundError::Problem(problem)) if case.traits.program && self.pair.is_there() => {
                    let reason = Unavailable::new(problem.what, problem.hint);
                    self.header.unavailable.push(UnavailableCase { case, reason });
                }
                Err(RoundError::Problem(problem)) => return Err(problem),
                Err(RoundError::Stopped) => return Err(interrupted()),
            }
        }
        Ok(())
    }

    /// The rounds that were planned, then those of the cases that they make worth adding. `Ok(false)`: stopped before
    /// the last.
    fn phases(
        &mut self,
        writer: &mut RunWriter,
        progress: &mut dyn Progress,
        next_phase: NextPhase<'_>,
        stop: &AtomicBool,
    ) -> Result<bool, Problem> {
        if !self.phase(0, writer, progress, stop)? {
            return Ok(false);
        }
        if !self.header.plan.refine {
            return Ok(true);
        }
        let planned = self.header.plan.cases.len();
        if self.header.plan.cases.iter().any(|case| case.phase == 1) {
            return self.phase(1, writer, progress, stop); // a run that goes on
        }
        let added: Vec<Case> = next_phase(writer.folder()).into_iter().map(|case| Case { phase: 1, ..case }).collect();
        if added.is_empty() {
            return Ok(true);
        }
        self.join(added, progress, stop)?;
        for (id, case) in self.header.plan.cases.iter_mut().enumerate().skip(planned) {
            case.id = id as u32;
        }
        let replicas = replicas::counted(&self.header.plan, 1);
        self.join(replicas, progress, stop)?;
        self.header.plan.validate()?;
        self.header.pilots = self.pilots();
        writer.replace_header(&self.header).map_err(Problem::from)?;
        self.phase(1, writer, progress, stop)
    }

    /// All rounds of all passes of one phase; those of the first go on while too few of them are calm and twice as many
    /// as planned, which are the most, can bring enough. Of an open loop every round counts, calm or not.
    fn phase(
        &mut self,
        phase: u32,
        writer: &mut RunWriter,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<bool, Problem> {
        progress.planned(&self.header.plan);
        let (rounds, restarts, seed) = (self.header.plan.rounds, self.header.plan.restarts, self.header.plan.seed);
        let own: Vec<usize> =
            self.header.plan.cases.iter().filter(|case| case.phase == phase).map(|case| case.id as usize).collect();
        let plan = &self.header.plan;
        let measured = |case: &Case| case.role == CaseRole::Measured;
        let planned = own.iter().filter(|case| measured(&plan.cases[**case])).count() as u64 * u64::from(rounds);
        let most = if phase == 0 && plan.extend && !plan.has_schedules() { 2 * rounds } else { rounds };
        let in_pass = |at| -> Vec<usize> {
            own.iter().copied().filter(|case| plan.measures_in(&plan.cases[*case], at)).collect()
        };
        let passes: Vec<Vec<usize>> = (0..most).map(in_pass).collect();
        let mut of = self.done + passes[..rounds as usize].iter().map(|cases| cases.len() as u64).sum::<u64>();
        let (watch, mut seen) = (Watch::new(&self.header), Vec::new());
        let mut restart = if phase == 0 { 0 } else { restarts - 1 };
        for (at, own) in (0..most).zip(passes) {
            let begun = self.before.passes.get(&self.passes).filter(|begun| begun.phase == phase).cloned();
            if at >= rounds {
                let (calm, recorded) = (calm_ones(&seen), seen.len() as u64);
                let in_vain = !too_few(calm, planned) || out_of_reach(calm, recorded, planned);
                if begun.is_none() && (in_vain || self.done + own.len() as u64 > MAX_ROUNDS / 2) {
                    break;
                }
                of += own.len() as u64;
            }
            let pass = self.passes;
            self.passes += 1;
            // Rounds are spread evenly over the restarts, each with a fresh process at the far end.
            let due = (u64::from(pass) * u64::from(restarts) / u64::from(rounds)) as u32;
            if phase == 0 && at < rounds && due > restart {
                restart = due;
                if !self.unused {
                    self.pair.far = Link::open(self.target, &self.header.plan.options)?;
                }
            }
            let cases = match begun {
                Some(begun) => begun.cases,
                None => {
                    let blocks: Vec<_> = own.iter().map(|case| self.header.plan.cases[*case].block()).collect();
                    let cases = order_in_blocks(seed, pass, &blocks).into_iter().map(|at| own[at] as u32).collect();
                    let begun = PassRecord { pass, phase, extra: at >= rounds, cases };
                    writer.pass(&begun).map_err(Problem::from)?;
                    begun.cases
                }
            };
            for (position, case) in cases.into_iter().map(|case| case as usize).enumerate() {
                if let Some(record) = self.before.rounds.remove(&(case as u32, pass)) {
                    if measured(&self.header.plan.cases[case]) {
                        seen.push(watch.conditions(&record));
                    }
                    self.done += 1;
                    continue;
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                self.unused = false;
                // A far end that was started to go on is one more fresh process.
                let place = Place { pass, restart: restart + self.before.times, position: position as u32 };
                let own = self.header.plan.cases[case].clone();
                if self.is_blocked(&own) {
                    of -= 1;
                    continue;
                }
                if !self.attended(|alive| progress.before(&own, alive))? {
                    return Ok(false);
                }
                let went = self.round(case, place, writer, stop)?;
                progress.after(&own, Some(pass))?;
                let record = match went {
                    Went::Recorded(record) => record,
                    Went::LeftOut => {
                        of -= 1;
                        continue;
                    }
                    Went::Interrupted => return Ok(false),
                };
                if measured(&self.header.plan.cases[case]) {
                    seen.push(watch.conditions(&record));
                }
                self.done += 1;
                self.others.sample();
                progress.round(&record, self.done, of);
                let done = self.done;
                self.attended(|alive| {
                    progress.pause(&record, done, of, alive);
                    Ok(())
                })?;
            }
        }
        Ok(true)
    }

    /// Does something that takes its time, with what keeps both ends waiting meanwhile.
    fn attended<T>(&mut self, does: impl FnOnce(&mut dyn FnMut()) -> Result<T, Problem>) -> Result<T, Problem> {
        let mut there = Ok(());
        let done = does(&mut || {
            if there.is_ok() {
                there = self.pair.keep_alive();
            }
        });
        there.and(done)
    }

    /// A case that could be measured before. Where the network has begun to drop messages of its size the others go on, and the run
    /// ends with why.
    fn lost(&mut self, case: &Case, seen: Unavailable, stop: &AtomicBool) -> Result<Went, Problem> {
        let fell = reach::fell(&mut self.pair, self.target, &self.header.plan, (case, &seen), stop)?;
        let reason = fell.as_ref().map_or(&seen, Blocked::why);
        let what = format!("{}, {}: {}", case.path, units::size(case.size), reason.why);
        let problem =
            Problem::new("E05", Exit::Unfinished, what).why("it could be measured before").hint(reason.hint.clone());
        let Some(fell) = fell else { return Err(problem) };
        self.blocked.push(fell);
        let rest = self.header.plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
        if rest.clone().all(|case| self.is_blocked(case)) {
            return Err(problem);
        }
        self.lost.get_or_insert(problem.why("it could be measured before, and the rest of the run went on"));
        Ok(Went::LeftOut)
    }

    fn is_blocked(&self, case: &Case) -> bool {
        self.blocked.iter().any(|blocked| blocked.reason(case).is_some())
    }

    /// Measures and records one round.
    fn round(&mut self, case: usize, place: Place, writer: &mut RunWriter, stop: &AtomicBool) -> Result<Went, Problem> {
        let plan = &self.header.plan;
        let (case, pace) = (&plan.cases[case], &self.paces[case]);
        let messages = pace.messages(plan, case, place.pass);
        let debts = self.debts.get(&case.id).cloned().unwrap_or_default();
        let timed = clients::timed(plan, case, pace);
        let (messages, trim) = match timed {
            Some(timed) => (clients::messages(timed), 0),
            None => measured_of(case, (messages, pace.trim(plan, case, messages)), &debts),
        };
        // An ablation explains a case; its messages are nobody's, unless they are to be split into stages.
        let room = match (Plan::traced(case), &case.ablation) {
            (Some(_), _) => messages * u64::from(case.connections),
            (None, Some(_)) => 0,
            (None, None) => plan.message_log.saturating_sub(self.reserved + self.kept),
        };
        let keep = room.min(1 << 18) as usize;
        // Arrival stamps are brought together with the rows, so the rows must be there.
        let rows = if plan.stamps == Stamps::Both { keep.max(1 << 18) } else { keep };
        let usual_ns = self.around.get(&case.id).and_then(|around| around[0].usual_ns());
        let orders = Orders { plan, one_clock: self.one_clock, spare: &self.spare, stop, usual_ns };
        let mut round_order = orders.round(case, messages, trim);
        round_order.patience_ns = timed.map_or_else(|| patience(plan, case, messages + trim), |timed| timed.ns);
        round_order.timed = timed;
        // Rounds that go on for a time have a row a message.
        let batch = if timed.is_some() { 1 } else { pace.batch };
        let mut own = orders.own(case, batch, rows, place.pass);
        if let Some(load) = &mut own.load {
            load.debts = debts;
        }
        let tracer = self.tracer.as_mut().filter(|_| round_order.traced);
        let mut measured = match orders.measure(&mut self.pair, &round_order, &own, tracer) {
            Ok(measured) => measured,
            Err(RoundError::Stopped) => return Ok(Went::Interrupted),
            Err(RoundError::Problem(problem)) => return Err(problem),
            Err(RoundError::Unavailable(reason)) => {
                let case = case.clone();
                return self.lost(&case, reason, stop);
            }
        };
        let near_kernel = &mut measured.ends[NEAR].kernel.0;
        near_kernel.retain(|name, _| concerns(name, plan.placement.of(NEAR)));
        let counted = self.header.end(NEAR).counters.iter().any(|name| name == STEAL);
        let steal_ticks = counted.then(|| near_kernel.get(STEAL).copied().unwrap_or(0));
        let (mut trace, mut events) = measured.trace.take().unzip();
        let start_ns = self.since_start(measured.start);
        for event in events.iter_mut().flatten() {
            event.t_ns = self.since_start(event.t_ns);
        }
        if let (Some(trace), Some(events), Some(far)) = (&mut trace, &mut events, measured.far_trace.take()) {
            let since_start = self.before.start_ns.wrapping_sub(self.begin) as i64;
            trace.apart.push(traces::add(events, far, start_ns, since_start));
        }
        let sent = measured.near().delivery.sent.max(measured.far().delivery.sent);
        let mut record = RoundRecord {
            case: case.id,
            pass: place.pass,
            restart: place.restart,
            position: place.position,
            start_ns,
            batch: batch as u32,
            connect_ns: case.traits.connects.then_some(measured.connect_ns),
            ends: std::mem::take(&mut measured.ends).into(),
            steal_ticks,
            flags: Vec::new(),
            latency: measured.latency.to_sparse(),
            one_way: measured.one_way.to_sparse(),
            service: measured.service.to_sparse(),
            lateness: measured.lateness.to_sparse(),
            first: measured.first.to_sparse(),
            open: measured.open.clone(),
            trace,
            parts: std::mem::take(&mut measured.parts),
            clients: std::mem::take(&mut measured.clients),
        };
        held(&record)?;
        record.flags = flags(&record, timed.is_none() && sent < messages * u64::from(case.connections));
        let numbering = Numbering { first: trim, step: batch };
        let messages = self.message_rows(case, place.pass, numbering, &measured, keep);
        match record.trace {
            Some(_) => self.reserved = self.reserved.saturating_sub(messages.len() as u64),
            None => self.kept += messages.len() as u64,
        }
        if let Some(events) = events {
            writer.events(record.case, record.pass, &events).map_err(Problem::from)?;
        }
        writer.round(&record, &messages).map_err(Problem::from)?;
        // What the far end stood still after the last answer was due for the next round.
        let usual = self.around.entry(record.case).or_default();
        let stood_still = between::stood_still(measured.around_ns[1], usual[1].usual_ns());
        for debt in &mut measured.debts {
            debt.ns = debt.ns.saturating_add(stood_still);
        }
        for (usual, took_ns) in usual.iter_mut().zip(measured.around_ns) {
            usual.add(took_ns);
        }
        self.debts.insert(record.case, measured.debts);
        // The pace follows the machine only in what was granted; the number of messages stays as planned.
        self.paces[record.case as usize].granted = measured.granted;
        Ok(Went::Recorded(Box::new(record)))
    }

    fn message_rows(
        &self,
        case: &Case,
        pass: u32,
        numbering: Numbering,
        round: &Round,
        keep: usize,
    ) -> Vec<MessageRow> {
        let share = u64::from(case.connections / case.threads);
        let rows = round.rows.iter().enumerate().flat_map(|(thread, rows)| {
            rows.iter().enumerate().map(move |(at, kept)| {
                let at = at as u64;
                let Kept { row, far_ns, late_ns, far_sent_ns, sent_ns, received_ns, replied_ns } = kept;
                MessageRow {
                    case: case.id,
                    pass,
                    connection: (thread as u64 * share + at % share) as u32,
                    sequence: numbering.first + at / share * numbering.step,
                    start_ns: self.since_start(row.start),
                    latency_ns: (row.latency != LOST).then_some(row.latency),
                    late_ns: *late_ns,
                    far_ns: *far_ns,
                    far_sent_ns: *far_sent_ns,
                    sent_ns: *sent_ns,
                    received_ns: *received_ns,
                    replied_ns: *replied_ns,
                }
            })
        });
        rows.take(keep).collect()
    }
}

/// Which messages of a connection have a row.
#[derive(Clone, Copy)]
struct Numbering {
    /// Number of the first that is measured.
    first: u64,
    /// Messages from one row to the next: those that share a stamp pair.
    step: u64,
}

/// Where a round stands in the run.
#[derive(Clone, Copy)]
struct Place {
    pass: u32,
    restart: u32,
    position: u32,
}

fn interrupted() -> Problem {
    Problem::new("E15", Exit::Interrupted, "interrupted before the first round")
}

/// Messages of a round that are measured, and before them that are not, on each connection: none of the latter where more
/// of them would be late from the begin than are to be trimmed.
fn measured_of(case: &Case, (messages, trim): (u64, u64), debts: &[Debt]) -> (u64, u64) {
    let Some(rate) = case.load.rate() else { return (messages, trim) };
    let trimmed_ns = rate.gap_ns() * f64::from(case.connections) * trim as f64;
    match debts.iter().any(|debt| debt.ns as f64 > trimmed_ns) {
        true => (messages + trim, 0),
        false => (messages, trim),
    }
}

/// After how long a round of an echo is given up, ns; 0: never.
pub fn patience(plan: &Plan, case: &Case, messages: u64) -> u64 {
    if !plan.workload.is_echoed() {
        return 0;
    }
    let punctual = plan.workload.punctual;
    let span = match (case.load, plan.extent) {
        (Load::Open { rate, .. }, _) if punctual => {
            PUNCTUAL * rate.gap_ns() * (messages * u64::from(case.connections)) as f64
        }
        (Load::Closed, Extent::Time(ns)) if punctual => PUNCTUAL * ns as f64 / f64::from(plan.rounds),
        (Load::Open { rate, .. }, _) => OPEN_PATIENCE * rate.gap_ns() * (messages * u64::from(case.connections)) as f64,
        (Load::Closed, Extent::Time(ns)) if case.inflight == 1 => (ROUND_PATIENCE * ns / u64::from(plan.rounds)) as f64,
        _ => return 0,
    };
    (span as u64).max(if punctual { LEAST_PUNCTUAL_NS } else { 1_000_000_000 })
}

#[cfg(test)]
mod tests {
    use msgpath_core::PathName;
    use msgpath_core::units::Pieces;

    use super::*;

    #[test]
    fn what_ended_a_kept_run_names_how_it_goes_on() {
        for hint in ["", "other CPUs with --cpu"] {
            let problem = with_resume(Problem::new("E05", Exit::Unfinished, "gone").hint(hint), "brisk-otter");
            assert!(problem.hint.contains("msgpath resume brisk-otter") && problem.hint.starts_with(hint), "{problem}");
            assert!(problem.hint.contains("msgpath show brisk-otter"), "{problem}");
        }
    }

    #[test]
    fn frames_do_not_cross_from_place_to_place_over_loopback() {
        let path = PathName::new("eth", "send", "poll");
        let case = Case { traits: traits(&path), ..Case::new(path, Pieces::whole(64)) };
        let place = |name: &str| msgpath_core::plan::EndPlace { name: name.into(), ..Default::default() };
        let between = Some(msgpath_core::plan::Between { ends: [place("a"), place("b")].into(), ..Default::default() });
        let options = ChannelOptions { between, ..ChannelOptions::default() };
        let reason = available(&case, &options, (false, false), &[]).unwrap_err();
        assert!(reason.why.contains("lo does not lead") && reason.hint.contains("--interface"), "{reason:?}");
        let named = ChannelOptions { interface: "mp0".into(), ..options };
        assert!(
            available(&case, &named, (false, false), &[]).is_err_and(|reason| !reason.why.contains("does not lead"))
        );
    }
}
