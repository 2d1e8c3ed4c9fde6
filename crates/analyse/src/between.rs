//! What differs between runs: the range in which the next run of the same plan on this machine is expected.
//!
//! The interval of a run speaks of that run. Its processes, its memory and the machine's state of the minute are one draw
//! each, which no number of rounds repeats. From k runs the next one lies with 95 % in
//!
//!   mean +- t(0.975, k - 1) s sqrt(1 + 1 / k)
//!
//! of the logarithms: the prediction interval for one further value (Hahn and Meeker, Statistical Intervals, section 4.7).
//! It is united with what was seen, since the runs need not be normal; fewer than 5 runs give what was seen alone
//! ([`range`]).

use std::collections::BTreeMap;

use msgpath_core::plan::{Case, CaseRole, Plan};
use msgpath_core::schema::{FAR, NEAR, RoundRecord, RunHeader, Status};
use msgpath_stats::pooled::Pooled;
use msgpath_stats::prediction::range;
use msgpath_stats::quantile::Quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// Older runs than these do not count.
pub const MOST: usize = 20;
/// The quantiles that are compared between runs.
const SHOWN: [f64; 3] = [0.5, 0.9, 0.99];

/// The range of a quantile over runs, or over the restarts of one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Between {
    /// 0.5, 0.9 or 0.99.
    pub p: f64,
    /// What it ranges over.
    pub over: Over,
    /// How many of them, this one included.
    pub count: u64,
    /// Lower end, ns.
    pub lo_ns: u64,
    /// Upper end, ns.
    pub hi_ns: u64,
    /// The next one is expected in it with 95 %; else it is the range of what was seen.
    pub predicts: bool,
}

/// What a range between runs is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Runs of the same plan on this machine.
    Runs,
    /// Restarts of one run.
    Restarts,
}

fn between(p: f64, over: Over, values: &[f64]) -> Option<Between> {
    let (low, high, predicts) = range(values)?;
    let (lo_ns, hi_ns) = (low.round() as u64, high.round() as u64);
    // What took no time has no logarithm and is not among them.
    let count = values.iter().filter(|value| **value > 0.0).count() as u64;
    Some(Between { p, over, count, lo_ns, hi_ns, predicts })
}

/// The range over the restarts of a case. Empty with a single one.
pub fn restarts(rounds: &[&RoundRecord]) -> Vec<Between> {
    let mut groups: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for round in rounds {
        groups.entry(round.restart).or_default().push(&round.latency);
    }
    let pooled: Vec<Pooled> = groups.values().map(|own| Pooled::new(own)).collect();
    let of = |p: f64| {
        let enough = |pooled: &&Pooled| p < 0.9 || (1.0 - p) * pooled.total() as f64 >= 1.0;
        let own: Vec<f64> =
            pooled.iter().filter(enough).filter_map(|pooled| pooled.quantile(p)?).map(|ns| ns as f64).collect();
        between(p, Over::Restarts, &own)
    };
    SHOWN.iter().filter_map(|p| of(*p)).collect()
}

/// Whether two runs are of the same plan, made by the same version on the same machine: their numbers may be put beside
/// each other. What differs from run to run by chance (the seed, what a first phase led to, into how many rounds a pilot cut the
/// time) does not count.
pub fn alike(a: &RunHeader, b: &RunHeader) -> bool {
    let machine = |header: &RunHeader| {
        [header.host(NEAR), header.host(FAR)]
            .map(|end| (end.host.clone(), end.kernel.clone(), end.cpu.clone(), end.cpus.clone()))
    };
    let what = |header: &RunHeader| (header.verb.clone(), header.version.clone(), header.target.clone());
    what(a) == what(b) && machine(a) == machine(b) && typed(&a.plan) == typed(&b.plan)
}

/// A plan as it was typed.
fn typed(plan: &Plan) -> Plan {
    let rounds = if plan.fewest_rounds == 0 { plan.rounds } else { 0 };
    let by_chance = Plan { seed: 0, rounds, rounds_ns: None, ..plan.clone() };
    let mut plan = Plan { expect: None, gates: Vec::new(), message_log: 0, metric: None, ..by_chance };
    plan.cases.retain(|case| case.role == CaseRole::Measured && case.phase == 0);
    plan.cases.iter_mut().for_each(|case| *case = same(case));
    plan
}

/// A case without what is counted or measured before it runs.
fn same(case: &Case) -> Case {
    Case { id: 0, of_capacity: None, ..case.clone() }
}

/// Of a stored summary: what is compared between runs.
#[derive(Deserialize)]
struct Stored {
    status: Status,
    cases: Vec<StoredCase>,
}

#[derive(Deserialize)]
struct StoredCase {
    case: Case,
    quantiles: Vec<Quantile>,
}

/// Puts the range over runs beside the quantiles of `summary`, which are those of the newest of them. `earlier`: stored
/// summaries of runs that are [`alike`]; those that did not end well or cannot be read do not count. A case with restarts
/// keeps the range over these.
pub fn add(summary: &mut Summary, earlier: &[Vec<u8>]) {
    let whole = |stored: &Stored| stored.status == Status::Ok;
    let earlier: Vec<Stored> = earlier.iter().filter_map(|json| stored(json)).filter(whole).take(MOST - 1).collect();
    for case in summary.cases.iter_mut().filter(|case| case.repeats.between.is_empty()) {
        let own = same(&case.case);
        let others: Vec<&StoredCase> =
            earlier.iter().filter_map(|run| run.cases.iter().find(|other| same(&other.case) == own)).collect();
        case.repeats.between = over_runs(&case.latency.quantiles, &others);
    }
}

fn stored(json: &[u8]) -> Option<Stored> {
    serde_json::from_slice(json).ok()
}

fn observed(quantiles: &[Quantile], p: f64) -> Option<u64> {
    quantiles.iter().find(|quantile| quantile.p == p)?.observed()
}

/// The ranges over a case and the same one in other runs.
fn over_runs(own: &[Quantile], others: &[&StoredCase]) -> Vec<Between> {
    let of = |p: f64| {
        let own = observed(own, p)?;
        let others = others.iter().filter_map(|other| observed(&other.quantiles, p));
        let values: Vec<f64> = others.chain([own]).map(|ns| ns as f64).collect();
        between(p, Over::Runs, &values)
    };
    SHOWN.iter().filter_map(|p| of(*p)).collect()
}

/// Reads arbitrary bytes as a stored summary and compares its cases with one another as if each were a run, for a fuzzer.
///
/// # Panics
/// Where a range does not hold what it was made of: a defect.
#[doc(hidden)]
pub fn fuzz_stored(bytes: &[u8]) {
    let Some(stored) = stored(bytes) else { return };
    let all: Vec<&StoredCase> = stored.cases.iter().take(MOST - 1).collect();
    for case in &all {
        assert!(same(&same(&case.case)) == same(&case.case));
        for range in over_runs(&case.quantiles, &all) {
            let own = observed(&case.quantiles, range.p).expect("it was compared");
            // The ends are those of logarithms; what took no time has none.
            let (lo, own, hi) = (range.lo_ns as f64, own as f64, range.hi_ns as f64);
            assert!(own == 0.0 || lo <= own * 1.000_000_1 && own <= hi * 1.000_000_1, "{range:?} without {own}");
            assert!((2..=MOST as u64).contains(&range.count), "{range:?}");
        }
    }
}

/// The range over runs or restarts of one quantile of a case.
pub fn of(between: &[Between], p: f64) -> Option<&Between> {
    between.iter().find(|found| (found.p - p).abs() < 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::{Build, relevel};

    fn stored(level: f64, status: Status) -> Vec<u8> {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        relevel(&mut run, |_| level);
        let summary = Summary { status, ..summarise(&run) };
        serde_json::to_vec(&summary).unwrap()
    }

    #[test]
    fn earlier_runs_stand_beside_the_quantiles() {
        let mut summary = summarise(&Build::echo(&["tcp:send"], &[64]).run());
        add(&mut summary, &[]);
        assert!(summary.cases[0].repeats.between.is_empty());
        let earlier = [
            stored(17_700.0, Status::Ok),
            stored(90_000.0, Status::Partial),
            b"{".to_vec(),
            stored(23_000.0, Status::Ok),
        ];
        add(&mut summary, &earlier);
        let between = &summary.cases[0].repeats.between;
        assert_eq!(between.iter().map(|found| found.p).collect::<Vec<_>>(), [0.5, 0.9, 0.99]);
        let p50 = of(between, 0.5).unwrap();
        assert_eq!((p50.over, p50.count, p50.predicts), (Over::Runs, 3, false));
        assert!(p50.lo_ns.abs_diff(17_700) < 300 && p50.hi_ns.abs_diff(23_000) < 300, "{p50:?}");
    }

    #[test]
    fn what_took_no_time_is_not_counted() {
        let found = between(0.5, Over::Runs, &[0.0, 5.0, 7.0]).unwrap();
        assert_eq!((found.count, found.lo_ns, found.hi_ns), (2, 5, 7));
        fuzz_stored(&stored(17_700.0, Status::Ok));
        fuzz_stored(b"{");
    }

    #[test]
    fn restarts_are_a_range_of_their_own() {
        let mut run = Build::echo(&["tcp:send"], &[64]).restarts(4).run();
        relevel(&mut run, |pass| [20_000.0, 30_000.0, 24_000.0, 36_000.0][pass as usize / 10]);
        let mut summary = summarise(&run);
        let p50 = of(&summary.cases[0].repeats.between, 0.5).unwrap().clone();
        assert_eq!((p50.over, p50.count), (Over::Restarts, 4));
        assert!(p50.lo_ns < 20_500 && p50.hi_ns > 35_000, "{p50:?}");
        add(&mut summary, &[stored(17_700.0, Status::Ok)]);
        assert_eq!(of(&summary.cases[0].repeats.between, 0.5), Some(&p50));
    }

    #[test]
    fn runs_are_alike_but_for_chance() {
        let header = |seed| {
            let mut header = Build::echo(&["tcp:send"], &[64]).run().header;
            header.plan.seed = seed;
            header
        };
        let a = header(1);
        assert!(alike(&a, &header(2)));
        let mut other = header(1);
        other.host_mut(NEAR).cpu = "another".into();
        assert!(!alike(&a, &other));
        let mut other = header(1);
        other.plan.cases[0].inflight = 4;
        assert!(!alike(&a, &other));
        let mut other = header(1);
        other.plan.rounds += 1;
        assert!(!alike(&a, &other), "rounds that were asked for");
        // A pilot may cut the time into fewer and longer rounds, and what is around them leaves them more or less of it.
        let piloted = |rounds, rounds_ns| {
            let mut header = header(1);
            (header.plan.rounds, header.plan.fewest_rounds) = (rounds, 10);
            header.plan.rounds_ns = Some(rounds_ns);
            header
        };
        assert!(alike(&piloted(20, 2_500_000_000), &piloted(40, 6_000_000_000)));
    }
}
