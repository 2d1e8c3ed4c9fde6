//! Periodic runs: times of each engine, the first messages apart from the steady rest, and what the processes did beside.
//!
//! The numbers here describe what was seen; those with intervals are the cases' own ([`msgpath_analyse::summary::CaseSummary`]), which
//! know the steady messages only.

pub mod pairs;
mod receivers;
mod stalls;

use std::borrow::Cow;
use std::collections::BTreeMap;

use msgpath_core::explained::Explained;
use msgpath_core::schema::{MessageRow, RoundRecord};
use msgpath_core::{Histogram, SparseHistogram, explained};
use msgpath_record::{Rows, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use receivers::GroupReceiver;
pub(crate) use receivers::widen;
pub use stalls::Stall;
use stalls::Stalls;

use msgpath_stats::describe::percentile;
use msgpath_stats::pooled::Pooled;

use msgpath_analyse::logs::Logs;

use crate::log;
use crate::record::{Component, PeriodicFacts};
use msgpath_stats::order::{OrderStatistics, Rank};

/// A 99th percentile is shown from so many messages on: five lie beyond it.
const ENOUGH_FOR_P99: u64 = 500;
/// Stalls that are kept of an engine, the longest first.
const STALLS: usize = 20;

/// All engines of a periodic run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PeriodicSummary {
    /// One entry per case, in the order of the plan.
    pub engines: Vec<Engine>,
}

/// One engine, all its sessions together.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[schemars(transform = msgpath_core::explained::schema)]
pub struct Engine {
    /// Id of the case.
    pub case: u32,
    /// Latencies of all messages.
    pub all: PeriodicTimes,
    /// Latencies of the first messages of every component.
    pub first: PeriodicTimes,
    /// Latencies of the messages after those.
    pub steady: PeriodicTimes,
    /// From a message's time to when it was made.
    pub lateness: PeriodicTimes,
    /// Parts of a message's way; empty where the log has no messages.
    pub stages: Vec<PeriodicStage>,
    /// Messages that the log has for `stages` and `stalls`.
    pub logged: u64,
    /// Receivers that were late for several messages in a row, the longest wait first; at most 20.
    pub stalls: Vec<Stall>,
    /// How many there were.
    pub stalls_found: u64,
    /// Messages that waited in them.
    pub stalled_messages: u64,
    /// Deliveries more than a period after the message's time.
    pub missed: u64,
    /// Messages made more than a period after their time.
    pub late: u64,
    /// Messages sent before their receiver was ready (storm).
    pub before_ready: u64,
    /// Slots overwritten before they were read.
    pub overrun: u64,
    /// Messages whose authentication did not fit.
    pub forged: u64,
    /// Signals that receivers took.
    pub signals: u64,
    /// Messages that they received.
    pub received: u64,
    /// Mean time from the signal's handler to the end of the receive call, ns, where signals were handled.
    pub handler_ns: Option<f64>,
    /// Time that receivers were runnable and did not run, ns a message they received.
    pub receiver_delay_ns: Option<f64>,
    /// Time that senders were runnable and did not run, ns a message they sent.
    pub sender_delay_ns: Option<f64>,
    /// The first call of the authentication in a process, ns: median and largest over processes.
    pub cold_mac_ns: Option<(f64, f64)>,
    /// The calls after it: median, ns.
    pub warm_mac_ns: Option<f64>,
    /// Stages of the set-up: median and longest over components, in order.
    pub setup: Vec<PeriodicSetup>,
    /// From the start of the first process until all components were ready, ns; the longest of the sessions.
    pub ready_ns: u64,
    /// Receivers of the multicast group, in order; empty: there is no group.
    #[serde(default)]
    pub receivers: Vec<GroupReceiver>,
}

impl Explained for Engine {
    fn reason(&self, path: &str) -> Cow<'_, str> {
        match path {
            "handler_ns" => "no signal was handled",
            "receiver_delay_ns" | "sender_delay_ns" => "schedstat could not be read",
            "cold_mac_ns" | "warm_mac_ns" => "messages were not authenticated",
            _ if path.ends_with("p99_ns") => "fewer than 500 messages, or a lost one",
            _ => "no such message arrived",
        }
        .into()
    }
}

explained!(read Engine);

/// Times of some messages.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PeriodicTimes {
    /// Number of messages that arrived.
    pub messages: u64,
    /// Number of messages that did not arrive.
    pub lost: u64,
    /// Fastest, ns.
    pub min_ns: Option<u64>,
    /// Mean of those that arrived, ns.
    pub mean_ns: Option<f64>,
    /// Median, ns; a lost message counts as infinite.
    pub p50_ns: Option<u64>,
    /// 99th percentile, ns; `None` also where too few messages carry it.
    pub p99_ns: Option<u64>,
    /// Slowest that arrived, ns.
    pub max_ns: Option<u64>,
}

impl PeriodicTimes {
    /// Of one histogram a round. Rounds count alike in the quantiles, as in those of the case: one run has one median.
    fn of(rounds: &[SparseHistogram]) -> Self {
        let mut histogram = Histogram::new();
        rounds.iter().for_each(|round| histogram.merge_sparse(round));
        let pooled = Pooled::new(&rounds.iter().collect::<Vec<_>>());
        let messages = histogram.total() - histogram.lost();
        Self {
            messages,
            lost: histogram.lost(),
            min_ns: histogram.min(),
            mean_ns: (messages > 0).then(|| histogram.sum() as f64 / messages as f64),
            p50_ns: pooled.quantile(0.5).flatten(),
            p99_ns: pooled.quantile(0.99).flatten().filter(|_| histogram.total() >= ENOUGH_FOR_P99),
            max_ns: histogram.max(),
        }
    }
}

/// A part of a message's way.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PeriodicStage {
    /// What happens in it.
    pub name: String,
    /// Mean, ns. The means of all stages add up to the mean of their messages.
    pub mean_ns: f64,
    /// Median, ns.
    pub p50_ns: f64,
    /// 99th percentile, ns.
    pub p99_ns: f64,
    /// Longest, ns.
    pub max_ns: f64,
}

/// A stage of the set-up.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PeriodicSetup {
    /// Name of the step.
    pub name: String,
    /// Median over those who have it, ns.
    pub p50_ns: f64,
    /// Longest, ns.
    pub max_ns: f64,
}

/// The engines of a run; `None` for a run of another workload.
pub fn summarise(run: &Run, logs: &Logs) -> Option<PeriodicSummary> {
    let facts = run.header.parts.get::<PeriodicFacts>()?;
    let engines = run.header.plan.cases.iter().map(|case| engine(run, facts, logs, case.id)).collect();
    Some(PeriodicSummary { engines })
}

fn engine(run: &Run, facts: &PeriodicFacts, logs: &Logs, case: u32) -> Engine {
    let rounds: Vec<_> = run.rounds.iter().filter(|round| round.case == case).collect();
    let times = |parts: &[fn(&RoundRecord) -> &SparseHistogram]| {
        let of_round = |round: &&RoundRecord| {
            let mut sum = Histogram::new();
            parts.iter().for_each(|part| sum.merge_sparse(part(round)));
            sum.to_sparse()
        };
        PeriodicTimes::of(&rounds.iter().map(of_round).collect::<Vec<_>>())
    };
    let sessions: Vec<_> = facts.sessions.iter().filter(|session| session.case == case).collect();
    let components: Vec<&Component> = sessions.iter().flat_map(|session| &session.components).collect();
    let sum = |pick: fn(&Component) -> u64| components.iter().map(|component| pick(component)).sum::<u64>();
    let steady = times(&[|round| &round.latency]);
    let log = log::log(logs);
    let walk = |each: &mut dyn FnMut(&[MessageRow])| log.rounds(&|own, _| own == case, each);
    let own = || log.index().into_iter().filter(|(of, ..)| *of == case);
    let passes = own().map(|(_, pass, _)| pass).max().map_or(1, |pass| pass + 1);
    let mut stalls = Stalls::new(facts, passes, steady.p50_ns.unwrap_or(0));
    walk(&mut |rows| stalls.round(rows));
    let longest = stalls.finish();
    let (handled, handled_ns) = (sum(|component| component.handled.0), sum(|component| component.handled.1));
    let delay = |pick: fn(&Component) -> Option<u64>, of: fn(&Component) -> bool, messages: u64| {
        let of = components.iter().filter(|component| of(component));
        let delays: Option<Vec<u64>> = of.map(|component| pick(component)).collect();
        delays.filter(|_| messages > 0).map(|delays| delays.iter().sum::<u64>() as f64 / messages as f64)
    };
    let (sent, received) = (sum(|component| component.sent), sum(|component| component.received));
    let (cold_mac_ns, warm_mac_ns) = mac_calls(&components);
    Engine {
        case,
        all: times(&[|round| &round.first, |round| &round.latency]),
        first: times(&[|round| &round.first]),
        steady,
        lateness: times(&[|round| &round.lateness]),
        stages: stages(&walk, facts.mac != "none"),
        logged: own().map(|(.., messages)| messages as u64).sum(),
        stalls_found: stalls.found,
        stalled_messages: stalls.messages,
        stalls: longest,
        missed: sum(|component| component.missed),
        late: sum(|component| component.late),
        before_ready: sessions.iter().map(|session| session.before_ready).sum(),
        overrun: sum(|component| component.overrun),
        forged: sum(|component| component.forged),
        signals: rounds.iter().map(|round| round.far().calls.signals).sum(),
        received,
        handler_ns: (handled > 0).then(|| handled_ns as f64 / handled as f64),
        receiver_delay_ns: delay(
            |component| component.receiver_delay_ns,
            |component| component.sends.is_none(),
            received,
        ),
        sender_delay_ns: delay(|component| component.sender_delay_ns, |component| component.joined.is_none(), sent),
        cold_mac_ns,
        warm_mac_ns,
        setup: setup(&components),
        receivers: receivers::receivers(facts, case, &walk),
        ready_ns: sessions
            .iter()
            .filter_map(|session| {
                let ready = session.components.iter().map(|component| component.ready_ns).max()?;
                let spawned = session.components.iter().map(|component| component.spawned_ns).min()?;
                ready.checked_sub(spawned)
            })
            .max()
            .unwrap_or(0),
    }
}

/// The first call of each process (median, largest), and the median of the calls after it.
fn mac_calls(components: &[&Component]) -> (Option<(f64, f64)>, Option<f64>) {
    // Components of one process share its caches: the first of them is cold.
    let mut seen = std::collections::BTreeSet::new();
    let first_of_process = components.iter().filter(|component| seen.insert((component.pid, component.spawned_ns)));
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for component in first_of_process {
        if let [first, rest @ ..] = component.mac_calls.as_slice() {
            cold.push(*first as f64);
            warm.extend(rest.iter().map(|ns| *ns as f64));
        }
    }
    let most = cold.iter().copied().fold(0.0, f64::max);
    let median = |values: &mut Vec<f64>| (!values.is_empty()).then(|| percentile(values, 0.5));
    (median(&mut cold).map(|median| (median, most)), median(&mut warm))
}

fn setup(components: &[&Component]) -> Vec<PeriodicSetup> {
    let mut names: Vec<&str> = Vec::new();
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, ns) in components.iter().flat_map(|component| &component.setup) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
        times.entry(name).or_default().push(*ns as f64);
    }
    let stage = |name: &str| {
        let mut own = times.remove(name).unwrap_or_default();
        let max_ns = own.iter().copied().fold(0.0, f64::max);
        PeriodicSetup { name: name.into(), p50_ns: percentile(&mut own, 0.5), max_ns }
    };
    names.into_iter().map(stage).collect()
}

/// The parts of the way of the logged messages that arrived. The send call may still run when the message is received: the
/// way begins with the call.
#[derive(Default)]
struct Ways {
    /// Made, on its way, checked.
    parts: [Part; 3],
    /// The send call.
    call: Part,
}

/// One part, and how long it took.
struct Part {
    sum_ns: u128,
    max_ns: u64,
    order: OrderStatistics,
}

impl Default for Part {
    fn default() -> Self {
        Self { sum_ns: 0, max_ns: 0, order: OrderStatistics::new(PERCENTILES) }
    }
}

/// The ranks of p50 and p99.
const PERCENTILES: &[Rank] = &[|count| rank(0.5, count), |count| rank(0.99, count)];

fn rank(p: f64, count: u64) -> u64 {
    ((p * count as f64).ceil() as u64).saturating_sub(1)
}

impl Part {
    fn add(&mut self, ns: u64) {
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
        self.order.add_unsigned(ns);
    }

    fn stage(&self, name: &str, passes: u32) -> PeriodicStage {
        let at = |rank| self.order.value(rank).unwrap_or(0) as f64;
        // Each pass has added all of them.
        let mean_ns = self.sum_ns as f64 / (self.order.count().max(1) as f64 * f64::from(passes));
        PeriodicStage { name: name.into(), mean_ns, p50_ns: at(0), p99_ns: at(1), max_ns: self.max_ns as f64 }
    }
}

impl Ways {
    fn add(&mut self, row: &MessageRow) {
        let (Some(latency), Some(received), Some(called)) = (row.latency_ns, row.far_ns, row.late_ns) else { return };
        let (Some(travel), Some(checked)) = (received.checked_sub(called), latency.checked_sub(received)) else {
            return;
        };
        self.parts.iter_mut().zip([called, travel, checked]).for_each(|(part, ns)| part.add(ns));
        if let Some(ns) = row.sent_ns.and_then(|sent| sent.checked_sub(called)) {
            self.call.add(ns);
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Part> {
        self.parts.iter_mut().chain([&mut self.call])
    }
}

/// Gives all messages, some at a time, to what it gets.
type Walk<'a> = &'a dyn Fn(&mut dyn FnMut(&[MessageRow]));

/// The stages of the messages that `walk` gives again and again.
fn stages(walk: Walk<'_>, authenticated: bool) -> Vec<PeriodicStage> {
    let mut ways = Ways::default();
    let mut passes = 0;
    while ways.all().any(|part| part.order.is_open()) {
        walk(&mut |rows| rows.iter().for_each(|row| ways.add(row)));
        ways.all().for_each(|part| part.order.narrow());
        passes += 1;
    }
    let [made, travel, checked] = &ways.parts;
    let mut out = Vec::new();
    if travel.order.count() == 0 {
        return out;
    }
    if authenticated {
        out.push(made.stage("authentication", passes));
    }
    out.push(travel.stage("send call to received", passes));
    if authenticated {
        out.push(checked.stage("check", passes));
    }
    if ways.call.order.count() > 0 {
        out.push(ways.call.stage("(the send call)", passes));
    }
    out
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{build, row};
    use super::*;

    #[test]
    fn first_and_steady_messages_are_apart_and_together() {
        let (run, logs) = build(|_| ());
        let engine = &summarise(&run, &logs).unwrap().engines[0];
        assert_eq!((engine.all.messages, engine.first.messages, engine.steady.messages), (4_600, 600, 4_000));
        assert!(engine.first.min_ns >= engine.steady.min_ns && engine.first.mean_ns > engine.steady.mean_ns);
        assert_eq!(engine.all.max_ns, engine.first.max_ns);
        let weighted = (engine.first.mean_ns.unwrap() * 600.0 + engine.steady.mean_ns.unwrap() * 4_000.0) / 4_600.0;
        assert!((engine.all.mean_ns.unwrap() - weighted).abs() < 1.0);
        assert!(engine.all.p99_ns.is_some());
    }

    #[test]
    fn steady_messages_have_the_quantiles_of_the_case() {
        // Two slow rounds with nearly all messages: those of the others are as many rounds.
        let alter = |round: &mut RoundRecord| {
            if round.pass < 2 {
                let mut slow = Histogram::new();
                slow.record_n(90_000, 10_000);
                round.latency = slow.to_sparse();
            }
        };
        let (run, logs) = super::testing::with(|_| (), alter);
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        let steady = &summary.sections.get::<PeriodicSummary>().unwrap().engines[0].steady;
        let [p50, _, p99, ..] = summary.cases[0].latency.quantiles.as_slice() else { panic!("no quantiles") };
        assert_eq!((steady.p50_ns, steady.p99_ns), (p50.ns, p99.ns));
        assert!(steady.p50_ns.unwrap() < 25_000 && steady.messages == 23_200, "{steady:?}");
    }

    #[test]
    fn a_run_of_another_workload_has_none() {
        let run = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        assert_eq!(summarise(&run, &Logs::default()), None);
    }

    #[test]
    fn stages_add_up_to_the_message() {
        let rows = [row(0, 0, 0, 100, 9_000), row(0, 1, 0, 200, 5_000)];
        let stages = stages(&|each| each(&rows), true);
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["authentication", "send call to received", "check", "(the send call)"]);
        assert_eq!(stages[..3].iter().map(|stage| stage.mean_ns).sum::<f64>(), 7_000.0);
        assert!(super::stages(&|_| (), true).is_empty());
    }

    #[test]
    fn the_first_call_of_a_process_is_cold() {
        let (run, logs) = build(|facts| {
            for component in &mut facts.sessions[0].components {
                component.mac_calls = vec![50_000, 1_000, 1_100, 1_200];
            }
            // The second component of the same process finds it warm.
            let mut second = facts.sessions[0].components[0].clone();
            second.mac_calls = vec![900, 900];
            facts.sessions[0].components.push(second);
        });
        let engine = &summarise(&run, &logs).unwrap().engines[0];
        assert_eq!((engine.cold_mac_ns, engine.warm_mac_ns), (Some((50_000.0, 50_000.0)), Some(1_100.0)));
    }
}
