//! Conditions of the machine round by round: the two ends, and whether the rounds under a condition are the slow ones.

use std::collections::BTreeSet;

use msgpath_core::calm::{TICK_NS, busy_of};
use msgpath_core::carried::Carried;
use msgpath_core::doctor::{Check, CheckState};
use msgpath_core::plan::CaseRole;
use msgpath_core::schema::{EndReport, EndRound, Environment, FAR, KernelCounts, NEAR, RoundRecord};
use msgpath_stats::association::association;
use msgpath_stats::describe::percentile;

use super::Input;
use super::wording::percent;
use crate::summary::{CaseSummary, Confidence};

#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    /// `near` or `far`, as the record has it.
    pub(super) key: &'static str,
    /// `the near end`.
    pub(super) name: &'static str,
    pub(super) machine: &'a Environment,
    /// CPUs its threads are pinned to, in turn; empty: not pinned.
    pub(super) pinned: &'a [u32],
    /// Its counters that could be read.
    counters: &'a [String],
}

impl End<'_> {
    fn near(&self) -> bool {
        self.key == "near"
    }

    pub(super) fn report<'r>(&self, round: &'r RoundRecord) -> &'r EndReport {
        if self.near() { round.near() } else { round.far() }
    }

    /// Its time of a fixed piece of computing before a round, ns.
    pub(super) fn speed_ns(&self, round: &RoundRecord) -> Option<u64> {
        if self.near() { round.end(NEAR).speed_ns } else { round.end(FAR).speed_ns }
    }

    /// What it reports of a round, and what was read there.
    pub(super) fn seen<'r>(&self, round: &'r RoundRecord) -> &'r EndRound {
        round.end(if self.near() { NEAR } else { FAR })
    }

    /// How long the kernel counters of a round were watched, ns: what they are rates of. 0: not known.
    pub(super) fn watched_ns(&self, round: &RoundRecord) -> f64 {
        self.seen(round).watched_ns.unwrap_or(0) as f64
    }

    /// How much a kernel counter grew in a round; `None` where it could not be read.
    pub(super) fn grew(&self, round: &RoundRecord, name: &str) -> Option<u64> {
        let KernelCounts(counts) = &self.seen(round).kernel;
        counts.get(name).copied().or_else(|| self.counters.iter().any(|counter| counter == name).then_some(0))
    }
}

pub(super) fn ends<'a>(input: &Input<'a>) -> [End<'a>; 2] {
    let header = &input.run.header;
    let placement = &input.plan.placement;
    [
        End {
            key: "near",
            name: "the near end",
            machine: header.host(NEAR),
            pinned: placement.of(NEAR),
            counters: &header.end(NEAR).counters,
        },
        End {
            key: "far",
            name: "the far end",
            machine: header.host(FAR),
            pinned: placement.of(FAR),
            counters: &header.end(FAR).counters,
        },
    ]
}

/// Whether both ends share a machine: what the kernel counts for all of it is then counted twice.
pub(super) fn one_machine(input: &Input) -> bool {
    input.run.header.one_machine()
}

/// The machines: both ends where they are two, else the near end by the name `this machine`.
pub(super) fn machines<'a>(input: &Input<'a>) -> Vec<End<'a>> {
    let [near, far] = ends(input);
    if one_machine(input) { vec![End { name: "this machine", ..near }] } else { vec![near, far] }
}

/// The rounds of the cases that the user asked for, in the order of time.
pub(super) fn measured_rounds<'a>(input: &Input<'a>) -> Vec<&'a RoundRecord> {
    let cases = input.plan.cases.iter().filter(|case| case.role == CaseRole::Measured);
    let mut rounds: Vec<&RoundRecord> = cases.flat_map(|case| input.all[case.id as usize].iter().copied()).collect();
    rounds.sort_by_key(|round| round.start_ns);
    rounds
}

/// Share of the time of these rounds in which some task of an end's machine waited, by this counter of pressure, µs.
pub(super) fn pressure(end: &End, rounds: &[&RoundRecord], counter: &str) -> Option<f64> {
    let waited = rounds.iter().map(|round| end.grew(round, counter)).sum::<Option<u64>>()? as f64 * 1e3;
    let watched: f64 = rounds.iter().map(|round| end.watched_ns(round)).sum();
    (watched > 0.0).then(|| waited / watched)
}

/// Share of the time of the CPUs that an end measures on in which others used them, over all these rounds: the kernel counts
/// it in ticks, so one round says little. `None`: its CPUs are not known.
pub(super) fn used_by_others(input: &Input, end: &End, rounds: &[&RoundRecord]) -> Option<f64> {
    let cpus: BTreeSet<u32> = end.pinned.iter().copied().collect();
    let mut share = Vec::new();
    for round in rounds {
        let watched = Some(end.watched_ns(round) * cpus.len() as f64).filter(|ns| *ns > 0.0)?;
        let ticks = cpus.iter().map(|cpu| end.grew(round, &busy_of(*cpu))).sum::<Option<u64>>()?;
        let ends = [round.near(), round.far()];
        // Both ends may share the CPUs: then what either used is no one else's.
        let of = |at: usize| input.plan.placement.of(at).iter().any(|cpu| cpus.contains(cpu));
        let here = |at: usize| if one_machine(input) { of(at) } else { (at == NEAR) == end.near() };
        let used: f64 = [NEAR, FAR].into_iter().filter(|at| here(*at)).filter_map(|at| ends[at].busy()).sum();
        let threads = f64::from(input.plan.cases[round.case as usize].threads);
        share.push((ticks * TICK_NS) as f64 / watched - used * threads / cpus.len() as f64);
    }
    (!share.is_empty()).then(|| msgpath_stats::describe::mean(&share))
}

/// `this machine`'s or an end's check of `doctor`, where it has this state or a worse one.
pub(super) fn check<'a>(input: &Input<'a>, number: u8, end: &End, least: CheckState) -> Option<&'a Check> {
    let doctor = input.run.header.doctor.as_ref()?;
    let check = doctor.check(number, end.key).or_else(|| doctor.check(number, "both"))?;
    (check.state >= least).then_some(check)
}

/// `3 of 40 rounds`.
pub(super) fn of_rounds(some: usize, all: usize) -> String {
    format!("{some} of {all} round{}", if all == 1 { "" } else { "s" })
}

/// What may be said of how a case went from round to round: `confidence`, or less where rounds that say so were disturbed, and what
/// is said of that. Such a round is as slow as what disturbed it makes it.
pub(super) fn undisturbed(input: &Input, case: &CaseSummary, confidence: Confidence) -> (Confidence, String) {
    let rounds = &input.rounds[case.case.id as usize];
    let disturbed = rounds.iter().filter(|round| !input.calm.is_calm(round)).count();
    if disturbed == 0 || confidence == Confidence::CantTell {
        return (confidence, String::new());
    }
    let most = 2 * disturbed >= rounds.len();
    let were = if disturbed == 1 { "was" } else { "were" };
    let text = format!("; {} {were} disturbed, which may explain it", of_rounds(disturbed, rounds.len()));
    (if most { Confidence::CantTell } else { Confidence::Likely }, text)
}

/// Fewer rounds with or without a condition cannot be set against the others.
const FEWEST: usize = 3;
/// A level that differs by less is not worth a sentence.
const WORTH_SAYING: f64 = 0.01;

/// The rounds under a condition against the others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contrast {
    /// What it comes to, in a few words.
    pub(super) clause: String,
    /// Something is slower under the condition, in both halves of the run.
    pub(super) slower: bool,
    /// Median level (time, or one over throughput) with the condition divided by that without; NaN: not to be had.
    pub(super) level: f64,
    /// Share of the messages as slow as p99 of their case or slower, in the rounds with the condition; NaN: not to be had.
    pub(super) slow_with: f64,
    /// The same in the rounds without.
    pub(super) slow_without: f64,
}

/// Sets the rounds under a condition against the others: their level, and how frequent slow messages are in them.
/// `rounds` as [`measured_rounds`] gives them.
pub(super) fn contrast(input: &Input, rounds: &[&RoundRecord], under: impl Fn(&RoundRecord) -> bool) -> Contrast {
    let flags: Vec<bool> = rounds.iter().map(|round| under(round)).collect();
    let with = flags.iter().filter(|flag| **flag).count();
    let mut out = Contrast {
        clause: "too few other rounds to say whether these are the slow ones".into(),
        slower: false,
        level: f64::NAN,
        slow_with: f64::NAN,
        slow_without: f64::NAN,
    };
    if with < FEWEST || rounds.len() - with < FEWEST {
        if with < FEWEST {
            out.clause = "too few to say whether they are the slow ones".into();
        }
        return out;
    }
    let mut clauses = Vec::new();
    // One value a round, beside whether the condition held.
    let judge = |values: Vec<Option<f64>>| {
        let (x, y): (Vec<f64>, Vec<f64>) =
            flags.iter().zip(values).filter_map(|(flag, value)| Some((f64::from(u8::from(*flag)), value?))).unzip();
        let of = |flag: f64| x.iter().zip(&y).filter(move |(x, _)| **x == flag).map(|(_, y)| *y).collect::<Vec<f64>>();
        (of(1.0), of(0.0), association(&x, &y).is_some_and(|found| found.rises()))
    };

    let (mut level_with, mut level_without, rises) = judge(levels(input, rounds));
    if !level_with.is_empty() && !level_without.is_empty() {
        out.level = (percentile(&mut level_with, 0.5) - percentile(&mut level_without, 0.5)).exp();
        if rises && out.level > 1.0 + WORTH_SAYING {
            clauses.push(if input.plan.workload.timed {
                format!("p50 is {} % higher in them", percent(out.level - 1.0))
            } else {
                format!("throughput is {} % lower in them", percent(1.0 - 1.0 / out.level))
            });
        }
    }

    let (slow_with, slow_without, rises) = judge(rounds.iter().map(|round| slow_share(input, round)).collect());
    if !slow_with.is_empty() && !slow_without.is_empty() {
        (out.slow_with, out.slow_without) =
            (msgpath_stats::describe::mean(&slow_with), msgpath_stats::describe::mean(&slow_without));
        if rises {
            clauses.push(format!(
                "{} % of their messages are as slow as the p99 of their case or slower, {} % in the other rounds",
                percent(out.slow_with),
                percent(out.slow_without)
            ));
        }
    }
    out.slower = !clauses.is_empty();
    out.clause = if out.slower { clauses.join(", and ") } else { "that they are the slow ones is not shown".into() };
    out
}

/// Logarithm of each round's level divided by the median of its case; the inverse of a rate, so that more is slower.
pub(super) fn levels(input: &Input, rounds: &[&RoundRecord]) -> Vec<Option<f64>> {
    let level = |round: &RoundRecord| {
        if input.plan.workload.timed {
            round.latency.quantile(0.5).flatten().filter(|ns| *ns > 0).map(|ns| (ns as f64).ln())
        } else {
            Carried::of(input.plan, round).bits_per_s().map(|rate| -rate.ln())
        }
    };
    let centers: Vec<Option<f64>> = input
        .all
        .iter()
        .map(|own| {
            let mut all: Vec<f64> = own.iter().filter_map(|round| level(round)).collect();
            (!all.is_empty()).then(|| percentile(&mut all, 0.5))
        })
        .collect();
    rounds.iter().map(|round| Some(level(round)? - centers[round.case as usize]?)).collect()
}

/// Share of a round's messages that are as slow as p99 of their case or slower; lost ones are. A stall of always the
/// same length may be p99 itself, so its bin counts.
fn slow_share(input: &Input, round: &RoundRecord) -> Option<f64> {
    let case = input.summary.cases.iter().find(|case| case.case.id == round.case)?;
    let p99 = case.latency.quantiles.iter().find(|quantile| quantile.p == 0.99)?.ns?;
    let total = round.latency.total();
    let ranges = round.latency.ranges();
    let faster: u64 = ranges.filter(|(_, to, _)| *to <= p99).map(|(.., count)| count).sum();
    (total > 0).then(|| (total - faster) as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};

    /// Steal that comes and goes, in episodes of a few rounds, and slow rounds that know nothing of it.
    #[test]
    fn rounds_under_a_condition_without_effect_are_rarely_called_slow() {
        let false_claims = (0..100).filter(|seed| {
            let mut build = Build::echo(&["tcp:send"], &[64]).messages(50).noise(0.1);
            build.plan.seed = 100 + seed;
            let mut run = build.run();
            let mut random = fastrand::Rng::with_seed(*seed);
            let mut stolen = false;
            for round in &mut run.rounds {
                stolen = if random.f64() < 0.3 { !stolen } else { stolen };
                round.steal_ticks = Some(if stolen { 5 } else { 0 });
            }
            sentences(&run, "W41").iter().any(|text| !text.ends_with("that they are the slow ones is not shown"))
        });
        let false_claims = false_claims.count();
        assert!(false_claims <= 4, "{false_claims} of 100");
    }
}
