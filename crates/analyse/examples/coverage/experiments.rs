//! What the intervals and verdicts of msgpath-analyse do on data whose truth is known. Each experiment is repeated with
//! seeds from 0 on.

use std::collections::BTreeMap;

use msgpath_analyse::Summary;
use msgpath_analyse::compare::compare;
use msgpath_analyse::refine::sizes_near_crossings;
use msgpath_analyse::results::Results;
use msgpath_analyse::settled;
use msgpath_analyse::summary::{CaseSummary, Comparison, Latency, Ratio};
use msgpath_analyse::throughput::throughput;
use msgpath_core::Workload;
use msgpath_core::plan::{Case, CaseRole, Plan};
use msgpath_core::schema::{RoundRecord, Status};
use msgpath_core::units::Pieces;
use msgpath_core::{Histogram, PathName, SparseHistogram};
use msgpath_stats::crossover::CrossoverKind;
use msgpath_stats::paired::Series;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::prediction;
use msgpath_stats::quantile::{self, Quantile, Range};
use msgpath_stats::steady::within_restarts;
use msgpath_stats::verdict::Verdict;

use super::processes::{Process, Random};

/// What became of the intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Simulated runs.
    pub runs: u32,
    /// With an interval.
    pub claimed: u32,
    /// Whose interval holds the truth.
    pub covered: u32,
    /// Whose upper end is open.
    pub open: u32,
    /// Upper by lower end.
    widths: Vec<f64>,
}

impl Coverage {
    /// None of so many runs yet.
    pub fn new(runs: u32) -> Self {
        Self { runs, ..Self::default() }
    }

    pub fn add(&mut self, truth: f64, low: Option<f64>, high: Option<f64>) {
        self.claimed += 1;
        self.covered += u32::from(low.is_none_or(|low| low <= truth) && high.is_none_or(|high| truth <= high));
        self.open += u32::from(high.is_none());
        self.widths.extend(low.zip(high).map(|(low, high)| high / low));
    }

    /// Intervals that hold the truth, of those claimed.
    pub fn share(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.claimed)
    }

    /// Median of upper by lower end; `None` where none has both.
    pub fn width(&self) -> Option<f64> {
        let mut widths = self.widths.clone();
        widths.sort_unstable_by(f64::total_cmp);
        widths.get(widths.len() / 2).copied()
    }
}

/// The quantiles that are looked at.
pub const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// So many messages of a process in rounds; one contiguous stretch is cut into 20, true rounds are 40.
pub fn quantiles(process: Process, messages: usize, runs: u32) -> [Coverage; 3] {
    let mut out = QUANTILES.map(|_| Coverage { runs, ..Default::default() });
    let rounds = if process == Process::Rounds { 40 } else { 20 };
    for seed in 0..runs {
        let latency = process.rounds(&mut Random::new(u64::from(seed)), rounds, messages / rounds, 1.0);
        for (p, coverage) in QUANTILES.iter().zip(&mut out) {
            let quantile = tail_of(&latency, *p);
            if quantile.is_interval() {
                let end = |end: Option<u64>| end.map(|ns| ns as f64);
                coverage.add(process.quantile(*p), end(quantile.lo_ns), end(quantile.hi_ns));
            }
        }
    }
    out
}

pub fn tail_of(latency: &[SparseHistogram], p: f64) -> Quantile {
    let rounds: Vec<&SparseHistogram> = latency.iter().collect();
    quantile::estimate(&rounds, &Pooled::new(&rounds), p).expect("there are messages").quantile
}

/// A machine whose level jumps: all its messages are independent, lognormal with sigma 0.1 around the level.
#[derive(Clone, Copy, Debug)]
pub struct Jumping {
    /// Rounds until the level jumps, on average; `None`: it does not.
    pub every: Option<f64>,
    /// Standard deviation of the logarithm of a level.
    pub levels: f64,
    /// The same of what a whole run has in common.
    pub runs: f64,
    /// Messages of each of 40 rounds.
    pub messages: u32,
    /// What runs have in common is heavy-tailed (t, 3 degrees of freedom).
    pub heavy: bool,
}

impl Jumping {
    /// The quantiles of one run, with their ranges, as those of a case are made, and the median of the levels that it saw.
    fn run(self, random: &mut Random, places: &[f64]) -> (Vec<Quantile>, f64) {
        let run = self.runs * if self.heavy { random.heavy() } else { random.normal() };
        let mut level = self.levels * random.normal();
        let mut seen = vec![(level, 0)];
        let records: Vec<RoundRecord> = (0..40)
            .map(|pass| {
                if self.every.is_some_and(|every| random.chance(1.0 / every)) {
                    level = self.levels * random.normal();
                    seen.push((level, 0));
                }
                seen.last_mut().expect("the first").1 += 1;
                let mut histogram = Histogram::new();
                (0..self.messages)
                    .for_each(|_| histogram.record((20_000.0 * (run + level + 0.1 * random.normal()).exp()) as u64));
                RoundRecord { latency: histogram.to_sparse(), pass, ..Default::default() }
            })
            .collect();
        let rounds: Vec<&RoundRecord> = records.iter().collect();
        let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
        let plan = Plan::new(Workload::ECHO, vec![case]);
        let curve = |rounds: &[&RoundRecord]| {
            let own: Vec<&SparseHistogram> = rounds.iter().map(|round| &round.latency).collect();
            quantile::curve(&own, &Pooled::new(&own), places, false)
        };
        let mut quantiles = curve(&rounds);
        let steadiness = within_restarts(&settled::timed(&plan, &plan.cases[0], &rounds));
        let levels = settled::levels(&plan, &plan.cases[0], &rounds, steadiness.as_ref());
        quantile::widen(&mut quantiles, &levels.iter().map(|level| curve(level)).collect::<Vec<_>>());
        // A level of a single round is a slow or a fast round, to whoever looks at it.
        let mut seen: Vec<f64> = seen.into_iter().filter(|(_, rounds)| *rounds > 1).map(|(level, _)| level).collect();
        seen.sort_unstable_by(f64::total_cmp);
        let middle = (seen[(seen.len() - 1) / 2] + seen[seen.len() / 2]) / 2.0;
        (quantiles, 20_000.0 * (run + middle).exp())
    }
}

/// What became of the ranges of runs whose level jumps, by how they came about. The truths: the median of all levels that
/// there are, and that of the levels that the run saw.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    pub intervals: [Coverage; 2],
    pub levels: [Coverage; 2],
    pub drift: [Coverage; 2],
}

impl Ranges {
    pub fn all(&self) -> [&[Coverage; 2]; 3] {
        [&self.intervals, &self.levels, &self.drift]
    }
}

pub fn jumping(machine: Jumping, runs: u32) -> Ranges {
    let mut out = Ranges::default();
    for seed in 0..runs {
        let (quantiles, seen) = machine.run(&mut Random::new(u64::from(seed)), &[0.5]);
        let p50 = &quantiles[0];
        let own = match p50.range {
            Range::Interval => &mut out.intervals,
            Range::Levels => &mut out.levels,
            _ => &mut out.drift,
        };
        for (coverage, truth) in own.iter_mut().zip([20_000.0, seen]) {
            coverage.runs = runs;
            coverage.add(truth, p50.lo_ns.map(|ns| ns as f64), p50.hi_ns.map(|ns| ns as f64));
        }
    }
    out
}

/// Whether the p50 of the next run lies in the range of the one before it, and in that over `seen` runs.
pub fn next_run(machine: Jumping, seen: usize, runs: u32) -> [Coverage; 2] {
    let mut out = [Coverage { runs, ..Default::default() }, Coverage { runs, ..Default::default() }];
    for seed in 0..runs {
        let mut random = Random::new(u64::from(seed));
        let earlier: Vec<Quantile> = (0..seen).map(|_| machine.run(&mut random, &[0.5]).0.remove(0)).collect();
        let next = machine.run(&mut random, &[0.5]).0[0].ns.expect("messages") as f64;
        let last = &earlier[seen - 1];
        out[0].add(next, last.lo_ns.map(|ns| ns as f64), last.hi_ns.map(|ns| ns as f64));
        let values: Vec<f64> = earlier.iter().filter_map(|quantile| quantile.ns).map(|ns| ns as f64).collect();
        let (low, high, _) = prediction::range(&values).expect("two runs");
        out[1].add(next, Some(low), Some(high));
    }
    out
}

/// How a round differs from the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Normal on the logarithm.
    Normal,
    /// Student's t with 3 degrees of freedom.
    Heavy,
    /// Normal, and neighbouring passes resemble each other with this correlation.
    Drifting(f64),
}

/// A comparison to simulate: paths of which one is the baseline, sizes, a hidden control.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub paths: usize,
    pub sizes: u32,
    pub rounds: u32,
    pub noise: Noise,
    /// Standard deviation of a pass's log-ratio.
    pub deviation: f64,
}

impl Setup {
    /// Paths `tcp:m0` (the baseline), `tcp:m1` ... at 64 B and powers of 4 above, and the baseline once more.
    fn plan(&self, seed: u32) -> Plan {
        let mut cases: Vec<Case> = Vec::new();
        let case = |path: usize, size: u32| {
            Case::new(PathName::new("tcp", format!("m{path}"), "block"), Pieces::whole(64 << (2 * size)))
        };
        for path in 0..self.paths {
            cases.extend((0..self.sizes).map(|size| case(path, size)));
        }
        cases.push(Case { role: CaseRole::Control, ..case(0, 0) });
        numbered(&mut cases);
        Plan { rounds: self.rounds, seed: u64::from(seed), ..Plan::new(Workload::ECHO, cases) }
    }

    /// Rounds of the cases whose true logarithm is `level`; passes of a stage have an effect in common.
    fn series(&self, plan: &Plan, random: &mut Random, level: impl Fn(&Case) -> f64) -> Vec<Series> {
        let mut common: BTreeMap<u32, f64> = BTreeMap::new();
        let each = self.deviation / 2.0_f64.sqrt();
        let mut one = |case: &Case| -> Series {
            let mut state = random.normal();
            let from = case.phase * self.rounds;
            let value = |pass: u32| {
                let noise = match self.noise {
                    Noise::Normal => random.normal(),
                    Noise::Heavy => random.heavy(),
                    Noise::Drifting(rho) => {
                        state = rho * state + (1.0 - rho * rho).sqrt() * random.normal();
                        state
                    }
                };
                let common = *common.entry(pass).or_insert_with(|| 0.1 * random.normal());
                (pass, 20_000.0 * (level(case) + common + each * noise).exp())
            };
            (from..from + self.rounds).map(value).collect()
        };
        plan.cases.iter().map(&mut one).collect()
    }

    /// One comparison by its series; without histograms there are no tails.
    fn compared(&self, seed: u32, level: impl Fn(&Case) -> f64) -> Comparison {
        let plan = self.plan(seed);
        let series = self.series(&plan, &mut Random::new(u64::from(seed)), level);
        compare(&Results { plan: &plan, cases: &[], rounds: &[], series: &series }).expect("two paths")
    }
}

fn numbered(cases: &mut [Case]) {
    cases.iter_mut().zip(0..).for_each(|(case, id)| case.id = id);
}

fn differs(ratio: &Ratio) -> bool {
    matches!(ratio.verdict, Verdict::Better | Verdict::Worse)
}

/// The interval of a ratio of 1.1 in a family of one.
pub fn paired_ratio(setup: Setup, runs: u32) -> Coverage {
    let mut out = Coverage { runs, ..Default::default() };
    for seed in 0..runs {
        let comparison = setup.compared(seed, |case| if case.id == 1 { 1.1_f64.ln() } else { 0.0 });
        out.add(1.1, comparison.ratios[0].low, comparison.ratios[0].high);
    }
    out
}

/// Runs in which some difference was claimed although all paths are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alarms {
    pub runs: u32,
    /// A difference stands after Holm, whatever its size.
    pub stands: u32,
    /// A ratio was called better or worse.
    pub ratios: u32,
    /// A path was called the best.
    pub winners: u32,
    /// A path was called the best over all sizes, or better than another there.
    pub standings: u32,
    /// A crossing was claimed.
    pub crossings: u32,
    /// Any of these.
    pub any: u32,
    /// The control was called different: the comparison is void.
    pub control: u32,
}

pub fn false_alarms(setup: Setup, runs: u32) -> Alarms {
    let mut out = Alarms { runs, ..Default::default() };
    for seed in 0..runs {
        let comparison = setup.compared(seed, |_| 0.0);
        let ratios = comparison.ratios.iter().any(differs);
        let winners = comparison.winners.iter().any(|winner| winner.path.is_some());
        let standings = comparison.standing.iter().flat_map(|standing| &standing.others).any(|rank| rank.beaten);
        let decided = |kind| !matches!(kind, CrossoverKind::Undecided | CrossoverKind::Equivalent);
        let crossings = comparison.crossovers.iter().any(|crossover| decided(crossover.crossing.kind));
        out.stands += u32::from(comparison.ratios.iter().any(|ratio| ratio.holm));
        out.ratios += u32::from(ratios);
        out.winners += u32::from(winners);
        out.standings += u32::from(standings);
        out.crossings += u32::from(crossings);
        out.any += u32::from(ratios || winners || standings || crossings);
        out.control += u32::from(comparison.control_failed);
    }
    out
}

/// What was made of a path that is 3 % slower.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    pub runs: u32,
    /// The difference stands after Holm.
    pub stands: u32,
    /// It is called worse.
    pub worse: u32,
    /// It is called better or equivalent, which it is not.
    pub wrong: u32,
    /// It is called worse at once, or in a second run of as many rounds as the first advised (at most 400).
    pub worse_in_two: u32,
}

pub fn three_percent(setup: Setup, runs: u32) -> Found {
    let mut out = Found { runs, ..Default::default() };
    let slower = |case: &Case| if case.path.method == "m1" && case.size == 64 { 1.03_f64.ln() } else { 0.0 };
    for seed in 0..runs {
        let ratio = setup.compared(seed, slower).ratios.swap_remove(0);
        out.stands += u32::from(ratio.holm);
        out.worse += u32::from(ratio.verdict == Verdict::Worse);
        out.wrong += u32::from(matches!(ratio.verdict, Verdict::Better | Verdict::Equivalent));
        let last = match ratio.rounds_needed {
            Some(rounds) => {
                let again = Setup { rounds: rounds.min(400) as u32, ..setup };
                again.compared(seed + runs, slower).ratios.swap_remove(0)
            }
            None => ratio,
        };
        out.worse_in_two += u32::from(last.verdict == Verdict::Worse);
    }
    out
}

/// What was made of tails.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tails {
    /// Interval of the last ratio.
    pub ratio: Coverage,
    /// Runs in which a difference stands after Holm, whatever its size.
    pub stands: u32,
    /// Runs in which a tail was called better or worse.
    pub decided: u32,
}

/// The p99 of the setup's paths, whose rounds are `messages` of `process`, the last of them 1.1 times as slow where
/// `slower`.
pub fn tail_ratio(setup: Setup, process: Process, messages: usize, slower: bool, runs: u32) -> Tails {
    let rounds = setup.rounds as usize;
    let mut out = Tails { ratio: Coverage { runs, ..Default::default() }, ..Default::default() };
    for seed in 0..runs {
        let mut plan = setup.plan(seed);
        plan.cases.retain(|case| case.role == CaseRole::Measured);
        let mut random = Random::new(u64::from(seed));
        let last = plan.cases.len() - 1;
        let scale = |case: usize| if slower && case == last { 1.1 } else { 1.0 };
        let latency: Vec<Vec<SparseHistogram>> =
            (0..=last).map(|case| process.rounds(&mut random, rounds, messages, scale(case))).collect();
        let cases: Vec<CaseSummary> = plan
            .cases
            .iter()
            .zip(&latency)
            .map(|(case, latency)| CaseSummary {
                latency: Latency { quantiles: vec![tail_of(latency, 0.99)], ..Latency::default() },
                ..CaseSummary::empty(case.clone())
            })
            .collect();
        let record = |(latency, pass)| RoundRecord { latency, pass, ..Default::default() };
        let records: Vec<Vec<RoundRecord>> =
            latency.into_iter().map(|own| own.into_iter().zip(0..).map(record).collect()).collect();
        let by_case: Vec<Vec<&RoundRecord>> = records.iter().map(|own| own.iter().collect()).collect();
        let series = vec![Series::new(); plan.cases.len()];
        let results = Results { plan: &plan, cases: &cases, rounds: &by_case, series: &series };
        let tails = compare(&results).expect("two paths").tails;
        if let Some(ratio) = tails.iter().find(|ratio| ratio.case as usize == last) {
            out.ratio.add(scale(last), ratio.low, ratio.high);
        }
        out.stands += u32::from(tails.iter().any(|ratio| ratio.holm));
        out.decided += u32::from(tails.iter().any(differs));
    }
    out
}

/// How two paths' times lie over the sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curves {
    /// The log-ratio falls by 5 % an octave, and is 0 at 2^14.7 bytes.
    Straight,
    /// A cost for each message and one for each byte: 2 + 0.0002 s against 3 + 0.0001 s; equal at 10,000 bytes.
    FixedAndPerByte,
    /// The log-ratio falls by 1 % an octave: almost parallel.
    AlmostParallel,
}

impl Curves {
    fn log_ratio(self, size: f64) -> f64 {
        match self {
            Curves::Straight => 0.05 * (14.7 - size.log2()),
            Curves::FixedAndPerByte => ((3.0 + 0.0001 * size) / (2.0 + 0.0002 * size)).ln(),
            Curves::AlmostParallel => 0.01 * (14.7 - size.log2()),
        }
    }

    fn truth(self) -> f64 {
        match self {
            Curves::FixedAndPerByte => 10_000.0,
            Curves::Straight | Curves::AlmostParallel => 14.7_f64.exp2(),
        }
    }
}

/// Intervals of the crossing after the first phase, and after the second where there was one. `claimed` counts runs with
/// a single crossing in the right direction; `wrong` any other claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crossings {
    pub first: Coverage,
    pub second: Coverage,
    pub wrong: u32,
}

pub fn crossing(curves: Curves, rounds: u32, deviation: f64, runs: u32) -> Crossings {
    let setup = Setup { paths: 2, sizes: 8, rounds, noise: Noise::Normal, deviation };
    let mut out = Crossings::default();
    (out.first.runs, out.second.runs) = (runs, runs);
    let level = |case: &Case| if case.path.method == "m1" { curves.log_ratio(case.size as f64) } else { 0.0 };
    for seed in 0..runs {
        let mut plan = setup.plan(seed);
        let mut random = Random::new(u64::from(seed));
        let mut series = setup.series(&plan, &mut random, level);
        let mut add = |plan: &Plan, series: &[Series], coverage: &mut Coverage| {
            let comparison = compare(&Results { plan, cases: &[], rounds: &[], series }).expect("two paths");
            let found = &comparison.crossovers[0];
            match found.crossing.kind {
                CrossoverKind::At => coverage.add(curves.truth(), found.crossing.low, found.crossing.high),
                CrossoverKind::Undecided => {}
                _ => out.wrong += 1,
            }
            comparison
        };
        let comparison = add(&plan, &series, &mut out.first);
        let summary = Summary { comparison: Some(comparison), ..Summary::empty("simulated", "compare", Status::Ok) };
        let more = sizes_near_crossings(&plan, &summary);
        if !more.is_empty() {
            let stage = Plan { cases: more.clone(), ..plan.clone() };
            series.extend(setup.series(&stage, &mut random, level));
            plan.cases.extend(more);
            add(&plan, &series, &mut out.second);
        }
    }
    out
}

/// The throughput of rounds that differ by `deviation` on the logarithm.
pub fn stream(rounds: u32, deviation: f64, heavy: bool, runs: u32) -> Coverage {
    let mut out = Coverage { runs, ..Default::default() };
    let case = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(1 << 16));
    let plan = Plan { rounds, ..Plan::new(Workload::STREAM, vec![case]) };
    for seed in 0..runs {
        let mut random = Random::new(u64::from(seed));
        let records: Vec<RoundRecord> = (0..rounds)
            .map(|pass| {
                let noise = deviation * if heavy { random.heavy() } else { random.normal() };
                let mut round = RoundRecord { pass, ..Default::default() };
                for end in round.reports_mut() {
                    (end.bytes_sent, end.bytes_received) = (1 << 30, 1 << 30);
                    (end.delivery.sent, end.delivery.received) = (1 << 14, 1 << 14);
                    end.elapsed_ns = (8.0 * (1_u64 << 30) as f64 / noise.exp()) as u64;
                }
                round
            })
            .collect();
        let own = throughput(&plan, &plan.cases[0], &records.iter().collect::<Vec<_>>(), &[]).expect("a stream");
        out.add(1e9, own.receiver_bits.low, own.receiver_bits.high);
    }
    out
}
