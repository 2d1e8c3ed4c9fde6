//! Where the time of a message goes: traced rounds, split into stages that add up (docs/method/attribution.md).
//!
//! A measured case has a traced replica. Its messages are joined with the kernel's events of their round ([`split`]), the
//! receiver's state is rebuilt ([`timeline`]), and whole messages are averaged by how slow they were ([`bands`]).

pub mod bands;
pub mod calls;
mod index;
pub mod occupants;
pub mod scheduler;
pub mod split;
pub mod stage;
pub mod timeline;

use std::collections::BTreeMap;

use msgpath_core::Case;
use msgpath_core::plan::{CaseRole, Plan, StageSet};
use msgpath_core::schema::{
    EventKind, FAR, KernelEvent, MessageRow, NEAR, RoundRecord, TraceRound, TracedThread, Tracing,
};
use msgpath_record::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calm;
use crate::logs::Logs;
use crate::stages::Band;
use crate::summary::AblationResult;
use bands::{AtReady, Attributed, DelayShare, Growth, Stage};
use calls::CallTimes;
use msgpath_stats::estimate::Estimate;
use occupants::{IdleExit, Occupants};
use scheduler::ThreadTimes;
use split::{Question, Reason, Round};
use stage::{Direction, Kind, Shape};

/// A split of a smaller share of the messages is not shown.
pub const COMPLETE: f64 = 0.95;
/// Messages that a split needs.
const FEWEST: usize = 100;
/// From this rank on messages are slow.
const SLOW: f64 = 0.985;

/// The stages of one measured case, from its traced replica.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CaseStages {
    /// The measured case.
    pub case: u32,
    /// Its traced replica.
    pub replica: u32,
    /// How much was traced.
    pub set: StageSet,
    /// The back end; `None`: nothing was traced.
    pub known_by: Option<String>,
    /// The completeness self-test in a sentence.
    pub self_test: String,
    /// Wake-up in flight and scheduling delay are one number.
    pub wakeups_joined: bool,
    /// Boundaries that this kernel or back end lacks, by tracepoint, and why.
    pub missing: Vec<(String, String)>,
    /// Messages of the replica in the log.
    pub messages: u64,
    /// Messages whose stages are known: each adds up to its round trip.
    pub complete: u64,
    /// Why the others have none, and how many they are.
    pub not_attributed: BTreeMap<String, u64>,
    /// Kernel events for each message.
    pub events_per_message: f64,
    /// Kernel events that found no room.
    pub events_lost: u64,
    /// Sum over the complete messages of what their stages lack of their round trip, ns: 0.
    pub residual_ns: u64,
    /// What tracing costs.
    pub observer: Option<Observer>,
    /// Why no split is shown; `None`: it is.
    pub why: Option<String>,
    /// The stages in the order of time; empty where no split is shown.
    pub stages: Vec<Stage>,
    /// Bands from usual to slowest, all messages as the last; the parts are in the order of `stages`.
    pub bands: Vec<Band>,
    /// The first message of each connection; `None`: the log has none of them (they are trimmed).
    pub first: Option<Band>,
    /// What makes slow messages slow, the largest first.
    pub growth: Vec<Growth>,
    /// The receiver's state when data became readable: request, reply.
    pub at_ready: [AtReady; 2],
    /// Share of the time runnable and not running; `None`: the back end does not tell.
    pub delay_share: Option<DelayShare>,
    /// Messages whose receive softirq ran on another CPU than the transmit stack: request, reply.
    pub softirq_elsewhere: [u64; 2],
    /// The same among the slow messages (from p98.5 on), either direction, as a share.
    pub softirq_elsewhere_slow: f64,
    /// Who held the CPU while a receiver was runnable.
    pub occupants: Occupants,
    /// Wake-ups by the idle state that they ended; empty where no idle state was seen.
    pub idle: Vec<IdleExit>,
    /// SIGIO: messages that had no signal of their own.
    pub coalesced: u64,
    /// What each thread did.
    pub threads: Vec<ThreadTimes>,
    /// System calls; only with the full set.
    pub calls: Vec<CallTimes>,
}

/// What tracing does to the round trip: the traced replica against the untraced case, their rounds interleaved.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Observer {
    /// Ratio of the medians, traced divided by untraced.
    pub ratio: Estimate,
    /// Median untraced, ns.
    pub untraced_ns: f64,
    /// Median traced, ns.
    pub traced_ns: f64,
    /// What tracing adds, ns: the untraced median times (ratio - 1).
    pub added_ns: f64,
    /// The same at the upper end of the ratio's interval; without one at the estimate.
    pub added_high_ns: f64,
}

impl Observer {
    fn new(ablation: &AblationResult) -> Self {
        let added = |ratio: f64| ablation.case_value * (ratio - 1.0);
        Self {
            ratio: ablation.ratio.clone(),
            untraced_ns: ablation.case_value,
            traced_ns: ablation.value,
            added_ns: added(ablation.ratio.value),
            added_high_ns: added(ablation.ratio.high.unwrap_or(ablation.ratio.value)),
        }
    }
}

impl CaseStages {
    /// Nothing is known yet.
    pub fn empty(case: u32, replica: u32, set: StageSet) -> Self {
        Self {
            case,
            replica,
            set,
            known_by: None,
            self_test: String::new(),
            wakeups_joined: false,
            missing: Vec::new(),
            messages: 0,
            complete: 0,
            not_attributed: BTreeMap::new(),
            events_per_message: 0.0,
            events_lost: 0,
            residual_ns: 0,
            observer: None,
            why: None,
            stages: Vec::new(),
            bands: Vec::new(),
            first: None,
            growth: Vec::new(),
            at_ready: [AtReady::default(); 2],
            delay_share: None,
            softirq_elsewhere: [0; 2],
            softirq_elsewhere_slow: 0.0,
            occupants: Occupants::default(),
            idle: Vec::new(),
            coalesced: 0,
            threads: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Share of the messages whose stages are known.
    pub fn complete_share(&self) -> f64 {
        self.complete as f64 / self.messages.max(1) as f64
    }

    /// The band of this name (`p45–55`, `p98.5–99.5`, `all`).
    pub fn band(&self, name: &str) -> Option<&Band> {
        self.bands.iter().find(|band| band.name == name)
    }

    /// Mean time of a direction in a band, ns.
    pub fn direction_ns(&self, band: &Band, direction: Direction) -> f64 {
        let own = |(stage, _): &(&Stage, &f64)| stage.direction == Some(direction);
        self.stages.iter().zip(&band.parts_ns).filter(own).map(|(_, ns)| ns).sum()
    }

    /// Mean time of a stage in a band, both directions together, ns.
    pub fn mean_ns(&self, band: &Band, kind: Kind) -> f64 {
        self.stages.iter().zip(&band.parts_ns).filter(|(stage, _)| stage.kind == kind).map(|(_, ns)| ns).sum()
    }
}

/// The stages of every case that has a traced replica.
pub fn attribute(run: &Run, logs: &Logs, ablations: &[AblationResult]) -> Vec<CaseStages> {
    let cases = run.header.plan.cases.iter().filter(|case| case.role == CaseRole::Ablation);
    let replicas: Vec<(&Case, StageSet)> = cases.filter_map(|case| Some((case, Plan::traced(case)?))).collect();
    if replicas.is_empty() {
        return Vec::new();
    }
    replicas.into_iter().map(|(replica, set)| of_case(run, logs, replica, set, ablations)).collect()
}

/// Whether the back end records an event.
fn recorded(tracing: &Tracing, kind: EventKind) -> bool {
    tracing.events.iter().any(|name| name == kind.name())
        && !tracing.missing.iter().any(|(name, _)| name == kind.name())
}

fn of_case(run: &Run, logs: &Logs, replica: &Case, set: StageSet, ablations: &[AblationResult]) -> CaseStages {
    let of = replica.ablation.as_ref().map_or(replica.id, |ablation| ablation.of);
    let mut attributed = CaseStages::empty(of, replica.id, set);
    attributed.observer = ablations.iter().find(|ablation| ablation.case == replica.id).map(Observer::new);
    let Some(tracing) = run.header.tracing.as_ref() else {
        attributed.why = Some("the kernel was not traced".into());
        return attributed;
    };
    attributed.known_by.clone_from(&tracing.backend);
    attributed.self_test.clone_from(&tracing.self_test);
    attributed.wakeups_joined = tracing.wakeups_joined;
    let shape = Shape::new(replica, |kind| recorded(tracing, kind), tracing.wakeups_joined);
    let concerned = |name: &str| EventKind::ALL.iter().any(|kind| kind.name() == name && bounds(*kind, &shape, set));
    attributed.missing = tracing.missing.iter().filter(|(name, _)| concerned(name)).cloned().collect();
    if tracing.backend.is_none() {
        let why = tracing.refused.iter().map(|(name, why)| format!("{name}: {}", why.why)).collect::<Vec<_>>();
        attributed.why = Some(match why.as_slice() {
            [] => "the kernel was not traced".into(),
            why => format!("the kernel was not traced ({})", why.join("; ")),
        });
        return attributed;
    }
    let mut rows = rows_of(&logs.traced, replica.id);
    let left_out = calm::left_out(run, replica);
    rows.retain(|row| !left_out.contains(&row.pass));
    attributed.messages = rows.len() as u64;
    let mut work = Work::new(run, logs, replica, shape, &rows);
    work.rounds(&rows);
    work.finish(&mut attributed, run);
    attributed
}

/// Whether an event bounds a stage of such a case.
fn bounds(kind: EventKind, shape: &Shape, set: StageSet) -> bool {
    match kind {
        EventKind::SchedWaking | EventKind::SchedWakeup | EventKind::SchedSwitch => true,
        EventKind::NetDevStartXmit | EventKind::NetifReceiveSkb => shape.stack.has_device(),
        EventKind::SkDataReady => shape.stack.has_ready(),
        EventKind::SignalGenerate | EventKind::SignalDeliver => shape.signals,
        EventKind::SysEnter | EventKind::SysExit => set == StageSet::Full,
        EventKind::NetifRx | EventKind::NetDevQueue => set == StageSet::Full && shape.stack.has_device(),
        _ => false,
    }
}

/// The messages of a case by pass; within a pass as they were logged.
fn rows_of(traced: &[MessageRow], case: u32) -> Vec<MessageRow> {
    let mut rows: Vec<MessageRow> = traced.iter().filter(|row| row.case == case).copied().collect();
    if !rows.is_sorted_by_key(|row| row.pass) {
        rows.sort_by_key(|row| row.pass);
    }
    rows
}

/// What adds up over the rounds of one replica.
struct Work<'a> {
    logs: &'a Logs,
    replica: &'a Case,
    shape: Shape,
    rounds: BTreeMap<u32, &'a RoundRecord>,
    /// Latency from which on a message is slow, ns.
    slow_from: u64,
    attributed: Vec<Attributed>,
    refused: BTreeMap<Reason, u64>,
    events: u64,
    lost: u64,
    residual: u64,
    seen: occupants::Seen,
    threads: BTreeMap<u8, ThreadTimes>,
    calls: calls::Counted,
}

impl<'a> Work<'a> {
    fn new(run: &'a Run, logs: &'a Logs, replica: &'a Case, mut shape: Shape, rows: &[MessageRow]) -> Self {
        let rounds =
            run.rounds.iter().filter(|round| round.case == replica.id).map(|round| (round.pass, round)).collect();
        let mut latencies: Vec<u64> = rows.iter().filter_map(|row| row.latency_ns).collect();
        let at = (SLOW * latencies.len() as f64) as usize;
        let slow_from = if at < latencies.len() { *latencies.select_nth_unstable(at).1 } else { u64::MAX };
        // The queueing discipline may be bypassed: then no packet of ours is handed to the driver where one sees it.
        if shape.xmit && shape.stack.has_device() {
            let xmit = |event: &KernelEvent| event.kind == EventKind::NetDevStartXmit;
            shape.xmit = false;
            logs.events.rounds(replica.id, |round| {
                shape.xmit = round.events.iter().any(xmit);
                shape.xmit
            });
        }
        Self {
            logs,
            replica,
            shape,
            rounds,
            slow_from,
            attributed: Vec::with_capacity(rows.len()),
            refused: BTreeMap::new(),
            events: 0,
            lost: 0,
            residual: 0,
            seen: occupants::Seen::default(),
            threads: BTreeMap::new(),
            calls: calls::Counted::default(),
        }
    }

    fn rounds(&mut self, rows: &[MessageRow]) {
        let mut left: BTreeMap<u32, &[MessageRow]> =
            rows.chunk_by(|a, b| a.pass == b.pass).map(|rows| (rows[0].pass, rows)).collect();
        let (logs, case) = (self.logs, self.replica.id);
        logs.events.rounds(case, |round| {
            if let Some(rows) = left.remove(&round.pass) {
                self.of_pass(rows, &round.events);
            }
            left.is_empty()
        });
        left.into_values().for_each(|rows| self.of_pass(rows, &[]));
    }

    fn of_pass(&mut self, rows: &[MessageRow], events: &[KernelEvent]) {
        match self.rounds.get(&rows[0].pass).copied().and_then(|round| round.trace.as_ref()) {
            Some(trace) => self.round(rows, trace, events),
            None => *self.refused.entry(Reason::NoEvents).or_default() += rows.len() as u64,
        }
    }

    fn round(&mut self, rows: &[MessageRow], trace: &TraceRound, events: &[KernelEvent]) {
        let shape = self.shape;
        let mut sorted = Vec::new();
        let events = if events.is_sorted_by_key(|event| event.t_ns) {
            events
        } else {
            sorted.extend_from_slice(events);
            sorted.sort_by_key(|event| event.t_ns);
            &sorted
        };
        let round = Round::new(Question { case: self.replica, shape: &shape, trace, events });
        self.lost += trace.lost;
        self.seen.name(&trace.tasks, &round.tasks);
        let slow_from = self.slow_from;
        let slow = |row: u32| rows[row as usize].latency_ns.is_some_and(|ns| ns >= slow_from);
        let (attributed, refused, residual) = (&mut self.attributed, &mut self.refused, &mut self.residual);
        let mut watch = occupants::OfRound { seen: &mut self.seen, slow: &slow };
        round.split(rows, &mut watch, |at, outcome| match outcome {
            Ok(split) => {
                *residual += rows[at].latency_ns.unwrap_or(0).abs_diff(split.total());
                attributed.push(Attributed { split, pass: rows[at].pass, first: rows[at].sequence == 0 });
            }
            Err(reason) => *refused.entry(reason).or_default() += 1,
        });
        let Some(window) = window(rows) else { return };
        self.events += events.iter().filter(|event| (window.0..=window.1).contains(&event.t_ns)).count() as u64;
        let tids = |threads: &[TracedThread]| {
            let mut tids: Vec<i32> = threads.iter().map(|thread| thread.tid).collect();
            tids.sort_unstable();
            tids
        };
        self.calls.add(events, &tids(trace.of(NEAR)), &tids(trace.of(FAR)), window);
        let mut counted: BTreeMap<u8, u64> = BTreeMap::new();
        for (end, threads) in [(0, trace.of(NEAR)), (4, trace.of(FAR))] {
            for thread in threads {
                let Ok(at) = round.tasks.binary_search(&thread.tid) else { continue };
                let role = end + u8::from(thread.sends) + 2 * u8::from(thread.receives);
                let times =
                    self.threads.entry(role).or_insert_with(|| ThreadTimes { who: who(role), ..Default::default() });
                times.add(&round, at, window);
                *counted.entry(role).or_default() += 1;
            }
        }
        for (role, count) in counted {
            if let Some(times) = self.threads.get_mut(&role) {
                times.threads = times.threads.max(count);
                times.messages += rows.len() as u64;
            }
        }
    }

    fn finish(self, attributed: &mut CaseStages, run: &Run) {
        let Self { attributed: messages, refused, .. } = self;
        attributed.complete = messages.len() as u64;
        attributed.coalesced = refused.get(&Reason::Coalesced).copied().unwrap_or(0);
        attributed.not_attributed = refused.iter().map(|(reason, count)| (reason.name().to_owned(), *count)).collect();
        attributed.events_per_message = self.events as f64 / attributed.messages.max(1) as f64;
        attributed.events_lost = self.lost;
        attributed.residual_ns = self.residual;
        attributed.threads = self.threads.into_values().collect();
        if attributed.set == StageSet::Full {
            attributed.calls = self.calls.finish(attributed.messages, machine(run));
        }
        attributed.why = why(attributed);
        if attributed.why.is_some() {
            return;
        }
        let mut order: Vec<u32> = (0..messages.len() as u32).collect();
        let totals: Vec<u64> = messages.iter().map(|attributed| attributed.split.total()).collect();
        order.sort_unstable_by_key(|at| (totals[*at as usize], *at));
        attributed.stages = bands::stages(&messages, &self.shape);
        attributed.bands = bands::bands(&messages, &order, &attributed.stages);
        attributed.first = bands::first(&messages, &attributed.stages);
        attributed.growth = bands::growth(&messages, &order, &self.shape, run.header.plan.seed);
        attributed.at_ready = bands::at_ready(&messages);
        attributed.delay_share = if self.shape.joined { None } else { bands::delay_share(&messages) };
        for leg in [0, 1] {
            attributed.softirq_elsewhere[leg] =
                messages.iter().filter(|attributed| attributed.split.legs[leg].elsewhere).count() as u64;
        }
        let slow = order.get((SLOW * order.len() as f64) as usize..).unwrap_or_default();
        let elsewhere = |at: &&u32| messages[**at as usize].split.legs.iter().any(|leg| leg.elsewhere);
        attributed.softirq_elsewhere_slow = slow.iter().filter(elsewhere).count() as f64 / slow.len().max(1) as f64;
        attributed.idle = occupants::idle_exits(&messages, |at| totals[at] >= self.slow_from);
        attributed.occupants = self.seen.finish(&run.header.others);
    }
}

/// Why the split is not shown.
fn why(attributed: &CaseStages) -> Option<String> {
    let reasons = || {
        let mut reasons: Vec<(&String, &u64)> = attributed.not_attributed.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        reasons.first().map_or_else(String::new, |(reason, _)| format!(", most of the others because {reason}"))
    };
    if attributed.messages == 0 {
        return Some("no message of a traced round was logged; a larger --message-log keeps them".into());
    }
    if attributed.complete_share() < COMPLETE {
        return Some(format!(
            "the stages of {} of {} messages are known{}; a split of less than 95 % says nothing about the rest",
            attributed.complete,
            attributed.messages,
            reasons()
        ));
    }
    (attributed.complete < FEWEST as u64).then(|| format!("{} messages are too few to average", attributed.complete))
}

/// From the first send to the last reply, ns.
fn window(rows: &[MessageRow]) -> Option<(u64, u64)> {
    let start = rows.iter().map(|row| row.start_ns).min()?;
    Some((start, rows.iter().map(|row| row.start_ns.saturating_add(row.latency_ns.unwrap_or(0))).max()?))
}

/// The role of a thread: end (0 near, 4 far), 1 sends, 2 receives.
fn who(role: u8) -> String {
    let end = if role < 4 { "near end" } else { "far end" };
    match role % 4 {
        1 => format!("{end}, sends"),
        2 => format!("{end}, receives"),
        _ => end.into(),
    }
}

/// What `uname -m` says at the near end; both ends of a traced run are one machine.
fn machine(run: &Run) -> &str {
    run.header.host(NEAR).facts.get("machine").map_or(std::env::consts::ARCH, String::as_str)
}

#[cfg(test)]
mod tests;
