//! Where the time of a message goes: traced rounds, split into stages that add up (docs/method/attribution.md).
//!
//! A measured case has a traced replica. Its messages are joined with the kernel's events of their round ([`split`]), where
//! each end traced itself those of each host on the clock of that host, the receiver's state is rebuilt ([`timeline`]), and whole messages are averaged by how slow they were ([`bands`]).

pub mod bands;
pub mod calls;
mod index;
pub mod occupants;
pub mod scheduler;
pub mod split;
pub mod stage;
pub mod timeline;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use msgpath_analyse::Summary;
use msgpath_core::explained::Explained;
use msgpath_core::parts::Part;
use msgpath_core::plan::{CaseRole, Plan, StageSet};
use msgpath_core::schema::{EventKind, FAR, KernelEvent, MessageRow, NEAR, RoundRecord, TraceRound, Tracing};
use msgpath_core::{Case, explained};
use msgpath_record::{Rows, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::log;
use bands::{AtReady, Attributed, DelayShare, Growth, Stage};
use calls::CallTimes;
use msgpath_analyse::Logs;
use msgpath_analyse::calm;
use msgpath_analyse::clocks::{ClockPiece, Stamps};
use msgpath_analyse::stages::Band;
use msgpath_analyse::summary::AblationResult;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::order::{OrderStatistics, Rank};
use occupants::{IdleExit, Occupants};
use scheduler::ThreadTimes;
use split::{Apart, Question, Reason, Round};
use stage::{Kind, Shape, StageDirection};

/// A split of a smaller share of the messages is not shown.
pub const COMPLETE: f64 = 0.95;
/// Messages that a split needs.
const FEWEST: usize = 100;
/// From this rank on messages are slow.
const SLOW: f64 = 0.985;
const SLOW_FROM: &[Rank] = &[|count| (SLOW * count as f64) as u64];

/// The stages of the cases that have a traced replica: a part of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attribution(pub Vec<CaseStages>);

impl Part for Attribution {
    const NAME: &str = "attribution";
}

/// Those of a run; empty where nothing was traced.
pub fn attribution(summary: &Summary) -> &[CaseStages] {
    summary.sections.get::<Attribution>().map_or(&[], |stages| &stages.0)
}

/// The stages of one measured case, from its traced replica.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct CaseStages {
    /// Id of the measured case.
    pub case: u32,
    /// Id of the traced case, a repetition of the measured one.
    pub replica: u32,
    /// How much was traced.
    pub set: StageSet,
    /// The back end, or those of both ends; `None`: nothing was traced.
    pub known_by: Option<String>,
    /// Ends that have a clock of their own and could not trace themselves, and why: their stages are part of those beside them.
    pub untraced: Vec<(String, String)>,
    /// Two clocks: how far from the truth the time between the two hosts may be, there and back, ns; what one of the two gains
    /// by it the other loses, in all messages alike. `None`: one clock, or nothing is known.
    pub within_ns: Option<f64>,
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
    #[serde(rename = "not_shown_because", default, skip_serializing_if = "Option::is_none")]
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

impl Explained for CaseStages {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "known_by" => "nothing was traced",
            "within_ns" => "the ends have one clock, or their clocks could not be aligned",
            "observer" => "the case itself was not measured beside its traced rounds",
            "first" => "the first messages of connections are trimmed, or no split is shown",
            "delay_share" if !self.untraced.is_empty() => "one end was not traced",
            "delay_share" if self.wakeups_joined => "this back end does not tell it from the wake-up in flight",
            "delay_share" => "no split is shown",
            path if path.ends_with(".low") || path.ends_with(".high") => "no interval can be claimed",
            _ => "it is not finite",
        }
        .into()
    }
}

explained!(read CaseStages);

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
            untraced: Vec::new(),
            within_ns: None,
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
    pub fn direction_ns(&self, band: &Band, direction: StageDirection) -> f64 {
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

/// What traced the ends of a run, and of the far end where it traced itself.
#[derive(Clone, Copy)]
struct Tracers<'a> {
    here: &'a Tracing,
    far: Option<&'a Tracing>,
}

impl<'a> Tracers<'a> {
    fn of(run: &'a Run) -> Option<Self> {
        Some(Self { here: run.header.tracing.as_ref()?, far: run.header.end(FAR).tracing.as_ref() })
    }

    /// Each with what it traced, where that is one end.
    fn each(self) -> impl Iterator<Item = (&'static str, &'a Tracing)> {
        let here = if self.far.is_some() { "near end" } else { "" };
        std::iter::once((here, self.here)).chain(self.far.map(|far| ("far end", far)))
    }

    /// What they say, with the end where there are two.
    fn say(self, says: impl Fn(&'a Tracing) -> Option<String>) -> Option<String> {
        let said = |(end, tracing): (&str, &'a Tracing)| Some(at(end, &says(tracing)?));
        let all: Vec<String> = self.each().filter_map(said).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Which boundaries are seen of the messages of a replica, request and reply.
    fn shapes(self, logs: &Logs, replica: &Case) -> [Shape; 2] {
        let of = |tracing: &Tracing, end: u8| {
            let mut shape = Shape::new(replica, |kind| recorded(tracing, kind), tracing.wakeups_joined);
            // The queueing discipline may be bypassed: then no packet of ours is handed to the driver where one sees it.
            if shape.xmit && shape.stack.has_device() {
                let xmit = |event: &KernelEvent| event.kind == EventKind::NetDevStartXmit && event.end == end;
                shape.xmit = false;
                log(logs).events.rounds(replica.id, |round| {
                    shape.xmit = round.events.iter().any(xmit);
                    shape.xmit
                });
            }
            shape
        };
        let Some(far) = self.far else { return [of(self.here, NEAR as u8); 2] };
        let [near, far] = [(self.here, NEAR), (far, FAR)]
            .map(|(tracing, end)| tracing.backend.is_some().then(|| of(tracing, end as u8)));
        let between = |from: &Option<Shape>, to: &Option<Shape>| Shape::between(from.as_ref(), to.as_ref(), replica);
        [between(&near, &far), between(&far, &near)]
    }
}

/// A text about an end, where there are two.
fn at(end: &str, text: &str) -> String {
    if end.is_empty() { text.to_owned() } else { format!("{end}: {text}") }
}

/// The kernel events of a round, near and far; both as they are where one tracer saw both.
fn by_end(events: &[KernelEvent]) -> [Vec<KernelEvent>; 2] {
    let (mut near, mut far): (Vec<KernelEvent>, Vec<_>) =
        events.iter().copied().partition(|event| usize::from(event.end) != FAR);
    [&mut near, &mut far].into_iter().for_each(|own| own.sort_by_key(|event| event.t_ns));
    [near, far]
}

/// The far end's part of a round in which each end traced itself.
fn apart<'a>(trace: &TraceRound, events: &'a [KernelEvent], clock: &'a [ClockPiece]) -> Apart<'a> {
    /// Without events of the far end: every time of a clock is after it.
    const BEFORE_ALL: i64 = -(1 << 62);
    let own = trace.apart.iter().find(|own| usize::from(own.end) == FAR);
    Apart { events, origin_ns: own.map_or(BEFORE_ALL, |own| own.origin_ns), lost: own.map_or(0, |own| own.lost), clock }
}

/// What the messages of traced rounds say of two clocks where each end traced itself: what the kernel stamped lies closer
/// together than what the programs did.
pub fn exchanges(run: &Run, logs: &Logs, each: &mut dyn FnMut(Stamps)) {
    let Some(tracers) = Tracers::of(run).filter(|tracers| tracers.far.is_some()) else { return };
    for replica in run.header.plan.cases.iter().filter(|case| Plan::traced(case).is_some()) {
        let shapes = tracers.shapes(logs, replica);
        let rounds = run.rounds.iter().filter(|round| round.case == replica.id);
        let traces: BTreeMap<u32, &TraceRound> =
            rounds.filter_map(|round| Some((round.pass, round.trace.as_ref()?))).collect();
        log(logs).events.rounds(replica.id, |round| {
            if let Some(trace) = traces.get(&round.pass) {
                let [near, far] = by_end(&round.events);
                let apart = Some(apart(trace, &far, &[]));
                let asked = Question { case: replica, shapes: &shapes, trace, events: &near, apart };
                let joined = Round::new(asked);
                rows_of(logs, replica.id, round.pass, &mut |rows| {
                    joined.exchanges(rows).into_iter().for_each(&mut *each)
                });
            }
            false
        });
    }
}

/// Pulls the messages of a traced round.
fn rows_of(logs: &Logs, case: u32, pass: u32, each: &mut dyn FnMut(&[MessageRow])) {
    log(logs).messages.rounds(&|own, of| (own, of) == (case, pass), each);
}

fn of_case(run: &Run, logs: &Logs, replica: &Case, set: StageSet, ablations: &[AblationResult]) -> CaseStages {
    let of = replica.ablation.as_ref().map_or(replica.id, |ablation| ablation.of);
    let mut attributed = CaseStages::empty(of, replica.id, set);
    attributed.observer = ablations.iter().find(|ablation| ablation.case == replica.id).map(Observer::new);
    let Some(tracers) = Tracers::of(run) else {
        attributed.why = Some("the kernel was not traced".into());
        return attributed;
    };
    attributed.known_by = tracers.say(|tracing| tracing.backend.clone());
    let why = |tracing: &Tracing| {
        let why = tracing.refused.iter().map(|(name, why)| format!("{name}: {}", why.why)).collect::<Vec<_>>();
        (tracing.backend.is_none() && !why.is_empty()).then(|| why.join("; "))
    };
    if attributed.known_by.is_none() {
        attributed.why = Some(match tracers.say(why) {
            None => "the kernel was not traced".into(),
            Some(why) => format!("the kernel was not traced ({why})"),
        });
        return attributed;
    }
    attributed.self_test =
        tracers.say(|tracing| Some(tracing.self_test.clone()).filter(|text| !text.is_empty())).unwrap_or_default();
    attributed.wakeups_joined = tracers.each().any(|(_, tracing)| tracing.wakeups_joined);
    let without = tracers.each().filter(|(_, tracing)| tracing.backend.is_none());
    attributed.untraced = without
        .map(|(end, tracing)| (end.to_owned(), why(tracing).unwrap_or_else(|| "nobody knows why".into())))
        .collect();
    if tracers.far.is_some() {
        attributed.within_ns = logs.one_way.as_ref().and_then(|ways| ways.clock.within_ns());
    }
    let shapes = tracers.shapes(logs, replica);
    let concerned = |name: &str| EventKind::ALL.iter().any(|kind| kind.name() == name && bounds(*kind, &shapes, set));
    let missing = |(end, tracing): (&'static str, &Tracing)| {
        let own = tracing.missing.iter().filter(|(name, _)| concerned(name));
        own.map(move |(name, why)| (name.clone(), at(end, why))).collect::<Vec<_>>()
    };
    attributed.missing = tracers.each().flat_map(missing).collect();
    let left_out = calm::left_out(run, replica);
    let rounds = log(logs).messages.index().into_iter();
    let rounds = rounds.filter(|(case, pass, _)| *case == replica.id && !left_out.contains(pass));
    let passes: BTreeSet<u32> = rounds
        .map(|(_, pass, messages)| {
            attributed.messages += messages as u64;
            pass
        })
        .collect();
    let clock = tracers.far.map(|_| logs.one_way.as_ref().map_or(&[][..], |ways| &ways.clock.pieces));
    let mut work = Work::new(run, logs, replica, shapes, &passes, clock);
    work.rounds(passes);
    work.finish(&mut attributed, run);
    attributed
}

/// Whether an event bounds a stage of such a case.
fn bounds(kind: EventKind, shapes: &[Shape; 2], set: StageSet) -> bool {
    let shape = &shapes[0];
    match kind {
        EventKind::SchedWaking | EventKind::SchedWakeup | EventKind::SchedSwitch => true,
        EventKind::NetDevStartXmit | EventKind::NetifReceiveSkb => shape.stack.has_device(),
        EventKind::SkDataReady => shape.stack.has_ready(),
        EventKind::SignalGenerate | EventKind::SignalDeliver => shapes.iter().any(|shape| shape.signals),
        EventKind::SysEnter | EventKind::SysExit => set == StageSet::Full,
        EventKind::NetifRx | EventKind::NetDevQueue => set == StageSet::Full && shape.stack.has_device(),
        _ => false,
    }
}

/// What adds up over the rounds of one replica.
struct Work<'a> {
    logs: &'a Logs,
    replica: &'a Case,
    shapes: [Shape; 2],
    /// Each end traced itself: what is known of their clocks.
    clock: Option<&'a [ClockPiece]>,
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
    fn new(
        run: &'a Run,
        logs: &'a Logs,
        replica: &'a Case,
        shapes: [Shape; 2],
        passes: &BTreeSet<u32>,
        clock: Option<&'a [ClockPiece]>,
    ) -> Self {
        let rounds =
            run.rounds.iter().filter(|round| round.case == replica.id).map(|round| (round.pass, round)).collect();
        let mut latencies = OrderStatistics::new(SLOW_FROM);
        while latencies.is_open() {
            log(logs).messages.rounds(&|case, pass| case == replica.id && passes.contains(&pass), &mut |rows| {
                rows.iter().filter_map(|row| row.latency_ns).for_each(|ns| latencies.add_unsigned(ns));
            });
            latencies.narrow();
        }
        let slow_from = latencies.value(0).map_or(u64::MAX, |ns| ns as u64);
        Self {
            logs,
            replica,
            shapes,
            clock,
            rounds,
            slow_from,
            attributed: Vec::new(),
            refused: BTreeMap::new(),
            events: 0,
            lost: 0,
            residual: 0,
            seen: occupants::Seen::default(),
            threads: BTreeMap::new(),
            calls: calls::Counted::default(),
        }
    }

    /// Pulls the messages of each round of these passes, with its events where there are any.
    fn rounds(&mut self, mut left: BTreeSet<u32>) {
        let logs = self.logs;
        let case = self.replica.id;
        log(logs).events.rounds(case, |round| {
            if left.remove(&round.pass) {
                rows_of(logs, case, round.pass, &mut |rows| self.of_pass(rows, &round.events));
            }
            left.is_empty()
        });
        left.into_iter().for_each(|pass| rows_of(logs, case, pass, &mut |rows| self.of_pass(rows, &[])));
    }

    fn of_pass(&mut self, rows: &[MessageRow], events: &[KernelEvent]) {
        match self.rounds.get(&rows[0].pass).copied().and_then(|round| round.trace.as_ref()) {
            Some(trace) => self.round(rows, trace, events),
            None => *self.refused.entry(Reason::NoEvents).or_default() += rows.len() as u64,
        }
    }

    fn round(&mut self, rows: &[MessageRow], trace: &TraceRound, events: &[KernelEvent]) {
        let shapes = self.shapes;
        let (mut sorted, split);
        let (events, far) = match self.clock {
            Some(_) => {
                split = by_end(events);
                (split[0].as_slice(), split[1].as_slice())
            }
            None if events.is_sorted_by_key(|event| event.t_ns) => (events, [].as_slice()),
            None => {
                sorted = events.to_vec();
                sorted.sort_by_key(|event| event.t_ns);
                (sorted.as_slice(), [].as_slice())
            }
        };
        let apart = self.clock.map(|clock| apart(trace, far, clock));
        let round = Round::new(Question { case: self.replica, shapes: &shapes, trace, events, apart });
        self.lost += trace.lost + apart.map_or(0, |apart| apart.lost);
        for host in &round.hosts {
            let own = trace.apart.iter().find(|own| host.end > 0 && own.end == host.end);
            self.seen.name(host.end, own.map_or(&trace.tasks, |own| &own.tasks), &host.tasks);
        }
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
        let Some(near) = window(rows) else { return };
        let windows = [Some(near), apart.map_or(Some(near), |apart| window_there(rows, apart.origin_ns))];
        let tids = |end: usize| {
            let mut tids: Vec<i32> = trace.of(end).iter().map(|thread| thread.tid).collect();
            tids.sort_unstable();
            tids
        };
        let seen =
            [(events, tids(NEAR), if apart.is_some() { Vec::new() } else { tids(FAR) }), (far, Vec::new(), tids(FAR))];
        for ((events, near, far), window) in seen.iter().zip(windows) {
            let Some(window) = window else { continue };
            self.events += events.iter().filter(|event| (window.0..=window.1).contains(&event.t_ns)).count() as u64;
            self.calls.add(events, near, far, window);
        }
        let mut counted: BTreeMap<u8, u64> = BTreeMap::new();
        for (end, role) in [(NEAR, 0), (FAR, 4)] {
            let (host, Some(window)) = (&round.hosts[end.min(round.hosts.len() - 1)], windows[end]) else { continue };
            // Of an end that nobody traced nothing is known.
            if !shapes[1 - end].receiver {
                continue;
            }
            for thread in trace.of(end) {
                let Ok(at) = host.tasks.binary_search(&thread.tid) else { continue };
                let role = role + u8::from(thread.sends) + 2 * u8::from(thread.receives);
                let times =
                    self.threads.entry(role).or_insert_with(|| ThreadTimes { who: who(role), ..Default::default() });
                times.add(host, at, window);
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
            attributed.calls = self.calls.finish(attributed.messages, [machine(run, NEAR), machine(run, FAR)]);
        }
        attributed.why = why(attributed);
        if attributed.why.is_some() {
            return;
        }
        let mut order: Vec<u32> = (0..messages.len() as u32).collect();
        let totals: Vec<u64> = messages.iter().map(|attributed| attributed.split.total()).collect();
        order.sort_unstable_by_key(|at| (totals[*at as usize], *at));
        attributed.stages = bands::stages(&messages, &self.shapes);
        attributed.bands = bands::bands(&messages, &order, &attributed.stages);
        attributed.first = bands::first(&messages, &attributed.stages);
        attributed.growth = bands::growth(&messages, &order, &self.shapes, run.header.plan.seed);
        attributed.at_ready = bands::at_ready(&messages, &self.shapes);
        let told = self.shapes.iter().all(|shape| shape.receiver && !shape.joined);
        attributed.delay_share = if told { bands::delay_share(&messages) } else { None };
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
        return Some("no message of a traced round was logged; a larger -o message-log keeps them".into());
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

/// From the first arrival at the far end to its last reply, as its kernel events have it, ns.
fn window_there(rows: &[MessageRow], origin_ns: i64) -> Option<(u64, u64)> {
    let of = |ns: fn(&MessageRow) -> Option<i64>| {
        rows.iter().filter_map(move |row| row.start_ns.checked_add_signed(ns(row)?.checked_sub(origin_ns)?))
    };
    Some((of(|row| row.received_ns).min()?, of(|row| row.replied_ns).max()?))
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

/// What `uname -m` says at an end.
fn machine(run: &Run, end: usize) -> &str {
    run.header.host(end).facts.get("machine").map_or(std::env::consts::ARCH, String::as_str)
}

#[cfg(test)]
mod tests;
