//! Rounds that begin in another state than they end in: what a run of 10 s makes of them when it throws the beginnings away, as
//! the pilot finds them (docs/method/rounds.md#settling), and when it does not.

use msgpath_core::plan::{Case, Extent, Plan};
use msgpath_core::settling::{Settling, Spans};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName, Workload};
use msgpath_stats::describe::median;
use msgpath_stats::settling::{Stretches, Timed};

use super::experiments::{Coverage, tail_of};
use super::processes::Random;

/// Median of a message in the steady state, ns.
const STEADY_NS: f64 = 20_000.0;
/// In the beginning it takes so much of that.
const BEGINNING: f64 = 0.7;
/// Standard deviations of the logarithm: of messages, and of what a round has in common.
const MESSAGES: f64 = 0.1;
const ROUNDS: f64 = 0.03;
/// Measuring time of a run, ns.
const RUN_NS: u64 = 10_000_000_000;

/// What came of the runs.
pub struct Beginnings {
    /// Settling time that the pilot found, ms: the median of the runs.
    pub found_ms: f64,
    /// Rounds of a run, the median.
    pub rounds: f64,
    /// Of p50 behind the beginnings, against the steady state.
    pub settled: Coverage,
    /// Of p50 of whole rounds, 40 a run.
    pub whole: Coverage,
    /// Median of p50 divided by the steady one: behind the beginnings, and of whole rounds.
    pub shift: [f64; 2],
}

/// Runs of a load that settles after so long.
pub fn beginnings(settles_ns: u64, runs: u32) -> Beginnings {
    let (mut found, mut counts) = (Vec::new(), Vec::new());
    let mut coverage = [Coverage::new(runs), Coverage::new(runs)];
    let mut shifts = [Vec::new(), Vec::new()];
    for seed in 0..runs {
        let random = &mut Random::new(u64::from(seed));
        let settling = pilot(random, settles_ns);
        let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
        let mut plan =
            Plan { extent: Extent::Time(RUN_NS), fewest_rounds: 10, ..Plan::new(Workload::ECHO, vec![case]) };
        let whole = Spans { thrown: 0, measured: RUN_NS / u64::from(plan.rounds) };
        let whole = (plan.rounds, whole);
        plan.rounds = plan.rounds_for(settling);
        let spans = plan.spans(&plan.cases[0], Some(settling)).expect("a plan of a time");
        found.push(settling.ns() as f64 / 1e6);
        counts.push(f64::from(plan.rounds));
        for (at, (rounds, spans)) in [(plan.rounds, spans), whole].into_iter().enumerate() {
            let latency: Vec<_> = (0..rounds).map(|_| round(random, settles_ns, spans)).collect();
            let p50 = tail_of(&latency, 0.5);
            let end = |end: Option<u64>| end.map(|ns| ns as f64);
            coverage[at].add(STEADY_NS, end(p50.lo_ns), end(p50.hi_ns));
            shifts[at].extend(p50.ns.map(|ns| ns as f64 / STEADY_NS));
        }
    }
    let [settled, whole] = coverage;
    let shift = shifts.map(|shift| median(&shift));
    Beginnings { found_ms: median(&found), rounds: median(&counts), settled, whole, shift }
}

/// The stretches of a run of one case.
fn pilot(random: &mut Random, settles_ns: u64) -> Settling {
    let found: Result<_, std::convert::Infallible> =
        Stretches::new(RUN_NS, RUN_NS).find(|length| Ok(Some(stretch(random, settles_ns, length))));
    found.unwrap_or_else(|never| match never {}).expect("a stretch has messages")
}

fn stretch(random: &mut Random, settles_ns: u64, length: u64) -> Vec<Timed> {
    let effect = ROUNDS * random.normal();
    let (mut at, mut out) = (0.0, Vec::new());
    while at < length as f64 {
        let ns = message(random, effect, at, settles_ns);
        out.push((at as u64, ns));
        at += ns;
    }
    out
}

fn round(random: &mut Random, settles_ns: u64, spans: Spans) -> msgpath_core::SparseHistogram {
    let effect = ROUNDS * random.normal();
    let mut at = spans.thrown as f64;
    let mut histogram = Histogram::new();
    while at < (spans.thrown + spans.measured) as f64 {
        let ns = message(random, effect, at, settles_ns);
        histogram.record(ns as u64);
        at += ns;
    }
    histogram.to_sparse()
}

/// A message that begins so long after its load.
fn message(random: &mut Random, effect: f64, at: f64, settles_ns: u64) -> f64 {
    let state = if at < settles_ns as f64 { BEGINNING } else { 1.0 };
    STEADY_NS * state * (effect + MESSAGES * random.normal()).exp()
}
