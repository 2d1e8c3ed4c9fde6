//! Several threads or connections: who got how much, which CPUs were busy, and whether more of them brought more.
//!
//! Rates are compared pass by pass. A factor is claimed only where every thread can have a CPU: with more threads than
//! CPUs a rate tells how the scheduler shares them out, not how the path scales.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::plan::{Case, CaseRole, Dispatch, Load, Metric, Plan};
use msgpath_core::schema::{EndRound, FAR, NEAR, RoundRecord, RunHeader, ThreadRecord};
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::paired::{Series, log_ratios, paired};
use msgpath_stats::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::handled;
use crate::series::seed;
use crate::series::{metric, per_second};

/// What is known of the threads of a case.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ThreadFigures {
    /// Measuring threads and the CPUs that they have, where there are more of the former.
    pub oversubscribed: Option<Oversubscribed>,
    /// The threads of each end in order; empty where they were not recorded one by one.
    pub ends: Vec<Vec<ThreadShare>>,
    /// CPUs that threads were pinned to, by number. Of one machine a CPU is listed once, with what both ends spent there.
    pub cores: Vec<CoreUse>,
    /// CPUs that the threads of both ends kept busy together: their CPU time divided by the time.
    pub busy_cpus: Option<Estimate>,
    /// Messages a second of all threads together, or bits a second of a stream, against one thread.
    pub scaling: Option<Scaling>,
    /// Messages in flight as rate and mean time imply them (Little's law); echo in a closed loop.
    pub implied: Option<Estimate>,
    /// Messages in flight as they were asked for.
    pub in_flight: u64,
}

impl ThreadFigures {
    pub fn of(&self, end: usize) -> &[ThreadShare] {
        self.ends.get(end).map_or(&[], Vec::as_slice)
    }
}

/// More threads than CPUs.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Oversubscribed {
    /// Number of measuring threads.
    pub threads: u64,
    /// Number of CPUs that they may use.
    pub cpus: u64,
    /// Whose: `both ends, which share this machine`, `the near end`, `the far end`.
    pub end: String,
}

/// The share of one measuring thread in the work of its end.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ThreadShare {
    /// The CPU that it was pinned to; `None`: it was not pinned.
    pub cpu: Option<u32>,
    /// Messages a second.
    pub rate_per_s: Option<Estimate>,
    /// Its rate divided by the mean of the end's threads: 1 is fair.
    pub share: Option<Estimate>,
    /// CPU time divided by time, 0 to 1.
    pub busy: Option<Estimate>,
}

/// How much of one CPU measuring threads used.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CoreUse {
    /// `near` or `far`; empty where both ends are on one machine.
    pub end: String,
    /// Number of the CPU, as in /proc/cpuinfo.
    pub cpu: u32,
    /// Number of threads that were pinned to it.
    pub threads: u64,
    /// Share of the time that measuring threads ran there, 0 to 1.
    pub busy: Option<Estimate>,
}

/// A case against the case with one thread.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Scaling {
    /// Id of the case with one thread.
    pub base: u32,
    /// Rate divided by that of one thread, paired by pass.
    pub factor: Estimate,
    /// The factor divided by the number of threads: 1 is in proportion.
    pub efficiency: Estimate,
    /// Mean round trip divided by that of one thread, paired by pass; echo.
    pub time_factor: Option<Estimate>,
}

/// The figures of a case; `None` where the plan has one thread, one connection and one message in flight throughout.
pub(crate) fn figures(
    header: &RunHeader,
    plan: &Plan,
    case: &Case,
    rounds: &[Vec<&RoundRecord>],
) -> Option<ThreadFigures> {
    let own = rounds.get(case.id as usize).filter(|own| !own.is_empty())?;
    let closed = case.role == CaseRole::Measured && case.load == Load::Closed;
    let in_rounds = plan.workload.in_rounds;
    let several = |case: &Case| case.threads > 1 || case.connections > 1 || case.inflight > 1;
    if !closed || !in_rounds || !plan.cases.iter().any(|case| case.role == CaseRole::Measured && several(case)) {
        return None;
    }
    let ends = (0..header.ends.len()).map(|end| shares(own, |round| &round.end(end).threads)).collect();
    let threads = f64::from(case.threads);
    let busy = |round: &RoundRecord| Some(threads * (round.near().busy()? + round.far().busy()?));
    let busy: Vec<f64> = own.iter().filter_map(|round| busy(round)).filter(|busy| *busy > 0.0).collect();
    let oversubscribed = crowds(header, case.threads as usize, case.threads as usize).into_iter().next();
    Some(ThreadFigures {
        oversubscribed: oversubscribed.map(|(threads, cpus, end)| Oversubscribed {
            threads: threads as u64,
            cpus: cpus as u64,
            end: end.into(),
        }),
        ends,
        cores: cores(header, case, own),
        busy_cpus: log_estimate(&busy),
        scaling: base(plan, case).and_then(|base| scaling(plan, case, base, own, rounds.get(base.id as usize)?)),
        implied: plan.workload.is_echoed().then(|| implied(own)).flatten(),
        in_flight: Plan::in_flight(case),
    })
}

/// Threads that want a CPU, CPUs that they have, and whose.
pub(crate) type Crowd = (usize, usize, &'static str);

/// The ends at which `near` and `far` threads outnumber the CPUs. An end that did not say which it has is not judged.
pub(crate) fn crowds(header: &RunHeader, near: usize, far: usize) -> Vec<Crowd> {
    let placement = &header.plan.placement;
    let cpus = |pinned: &[u32], allowed: &[u32]| -> BTreeSet<u32> {
        if pinned.is_empty() { allowed } else { pinned }.iter().copied().collect()
    };
    let near_cpus = cpus(placement.of(NEAR), &header.host(NEAR).cpus);
    let far_cpus = cpus(placement.of(FAR), &header.host(FAR).cpus);
    let ends = if header.one_machine() {
        vec![(near + far, near_cpus.union(&far_cpus).count(), "both ends, which share this machine")]
    } else {
        vec![(near, near_cpus.len(), "the near end"), (far, far_cpus.len(), "the far end")]
    };
    ends.into_iter().filter(|(threads, cpus, _)| *cpus > 0 && threads > cpus).collect()
}

fn shares(rounds: &[&RoundRecord], of: impl Fn(&RoundRecord) -> &Vec<ThreadRecord>) -> Vec<ThreadShare> {
    let count = rounds.iter().map(|round| of(round).len()).max().unwrap_or(0);
    let rate = |thread: &ThreadRecord| per_second(handled(&thread.report) as f64, thread.report.elapsed_ns);
    let whole: Vec<&Vec<ThreadRecord>> =
        rounds.iter().map(|round| of(round)).filter(|all| all.len() == count).collect();
    (0..count)
        .map(|at| {
            let rates: Vec<f64> = whole.iter().filter_map(|all| rate(&all[at])).collect();
            let share = |all: &&Vec<ThreadRecord>| {
                let rates = all.iter().map(rate).collect::<Option<Vec<f64>>>()?;
                Some(rates[at] / msgpath_stats::describe::mean(&rates))
            };
            let shares: Vec<f64> = whole.iter().filter_map(share).collect();
            let busy: Vec<f64> =
                whole.iter().filter_map(|all| all[at].report.busy()).filter(|busy| *busy > 0.0).collect();
            ThreadShare {
                cpu: whole.first().and_then(|all| all[at].cpu),
                rate_per_s: log_estimate(&rates),
                share: log_estimate(&shares),
                busy: log_estimate(&busy),
            }
        })
        .collect()
}

/// CPU time by CPU. Where threads were not recorded one by one there is one at an end, pinned to the first of its CPUs.
fn cores(header: &RunHeader, case: &Case, rounds: &[&RoundRecord]) -> Vec<CoreUse> {
    let one_machine = header.one_machine();
    let placement = header.plan.placement_of(case);
    let mut spent: BTreeMap<(&str, u32), (u64, Vec<f64>)> = BTreeMap::new();
    for round in rounds {
        let mut sums: BTreeMap<(&str, u32), (u64, f64)> = BTreeMap::new();
        for (at, end) in header.ends.iter().enumerate() {
            let EndRound { threads, report, .. } = round.end(at);
            let cpus = placement.of(at);
            let end = end.name.as_str();
            let key = |cpu: u32| (if one_machine { "" } else { end }, cpu);
            let alone = (case.threads == 1 && threads.is_empty()).then(|| (cpus.first().copied(), report));
            for (cpu, report) in threads.iter().map(|thread| (thread.cpu, &thread.report)).chain(alone) {
                let Some((cpu, busy)) = cpu.zip(report.busy()) else { continue };
                let sum = sums.entry(key(cpu)).or_default();
                sum.0 += 1;
                sum.1 += busy;
            }
        }
        for (key, (threads, busy)) in sums {
            let entry = spent.entry(key).or_default();
            entry.0 = threads;
            entry.1.push(busy);
        }
    }
    let core = |((end, cpu), (threads, busy)): ((&str, u32), (u64, Vec<f64>))| CoreUse {
        end: end.into(),
        cpu,
        threads,
        busy: log_estimate(&busy),
    };
    spent.into_iter().map(core).collect()
}

/// The case with one thread that differs in nothing but threads: with as many connections, or with one.
fn base<'a>(plan: &'a Plan, case: &Case) -> Option<&'a Case> {
    let like = |other: &&Case| {
        other.role == CaseRole::Measured
            && other.threads == 1
            && (&other.path, other.size, other.pieces, other.reply) == (&case.path, case.size, case.pieces, case.reply)
            && (other.inflight, other.load, other.dispatch, other.phase)
                == (case.inflight, case.load, case.dispatch, case.phase)
    };
    let mut own = plan.cases.iter().filter(like).filter(|_| case.threads > 1);
    let same = own.clone().find(|other| other.connections == case.connections);
    same.or_else(|| own.find(|other| other.connections * case.threads == case.connections))
}

fn scaling(plan: &Plan, case: &Case, base: &Case, own: &[&RoundRecord], other: &[&RoundRecord]) -> Option<Scaling> {
    let factor = ratio(plan, case, base, &rates(plan, own), &rates(plan, other))?;
    let each = |value: f64| value / f64::from(case.threads);
    let efficiency = Estimate { value: each(factor.value), low: factor.low.map(each), high: factor.high.map(each) };
    Some(Scaling { base: base.id, efficiency, time_factor: time_ratio(plan, case, base, own, other), factor })
}

/// What all threads together get done in a second, by pass: messages (echo), bits (stream).
pub fn rates(plan: &Plan, rounds: &[&RoundRecord]) -> Series {
    let rate = |round: &&RoundRecord| {
        let rate = if plan.workload.timed {
            per_second(arrived(round), round.near().elapsed_ns)
        } else {
            metric(plan, Metric::Throughput, round)
        }?;
        Some((round.pass, rate))
    };
    rounds.iter().filter_map(rate).collect()
}

fn arrived(round: &RoundRecord) -> f64 {
    (round.latency.total() - round.latency.lost()) as f64 * f64::from(round.batch.max(1))
}

/// The mean round trip of `case` divided by that of `base`, paired by pass; `None` of streams and where one lost messages.
pub fn time_ratio(
    plan: &Plan,
    case: &Case,
    base: &Case,
    own: &[&RoundRecord],
    other: &[&RoundRecord],
) -> Option<Estimate> {
    let times = |rounds| crate::series::series(plan, Metric::Mean, rounds);
    plan.workload.is_echoed().then(|| ratio(plan, case, base, &times(own), &times(other))).flatten()
}

/// `own` divided by `other`, paired by pass, with its 95 % interval; `None` without a pass that both have.
pub fn ratio(plan: &Plan, case: &Case, base: &Case, own: &Series, other: &Series) -> Option<Estimate> {
    let d: Vec<f64> = log_ratios(own, other).into_iter().map(|(_, d)| d).collect();
    Some(paired(&d, 1, seed(plan, case, base))?.ratio())
}

/// Rate times mean time of the messages, round by round.
pub(crate) fn implied(rounds: &[&RoundRecord]) -> Option<Estimate> {
    let one = |round: &&RoundRecord| {
        let mean = quantile::mean_ns(&[&round.latency])?;
        Some(per_second(arrived(round), round.near().elapsed_ns)? * mean / 1e9)
    };
    log_estimate(&rounds.iter().filter_map(one).collect::<Vec<_>>())
}

/// A case in the words of its threads: `4 connections, a thread each`, `16 connections in one event loop`.
pub fn arrangement(case: &Case) -> String {
    let plural = |count: u32, word: &str| if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") };
    let connections = plural(case.connections, "connection");
    let mut text = match (case.dispatch, case.threads) {
        (Dispatch::EventLoop, 1) => format!("{connections} in one event loop"),
        (Dispatch::EventLoop, threads) => format!("{connections} in {}", plural(threads, "event loop")),
        (Dispatch::Turns, 1) if case.connections == 1 => connections,
        (Dispatch::Turns, threads) if threads == case.connections => format!("{connections}, a thread each"),
        (Dispatch::Turns, threads) => format!("{connections}, served in turn by {}", plural(threads, "thread")),
    };
    if case.inflight > 1 {
        text.push_str(&format!(", {} in flight on each", case.inflight));
    }
    text
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! A closed loop of a known capacity, for tests: `workers` servers of a fixed service time, whatever the connections.

    use msgpath_core::plan::Placement;
    use msgpath_core::schema::{EndReport, FAR, NEAR, ThreadRecord};
    use msgpath_core::{Case, Delivery};
    use msgpath_record::Run;
    use msgpath_stats::simulate::lognormal_rounds;

    use crate::testing::Build;

    /// One case a thread count, a connection a thread; `workers`: how many messages are served at once at most; 20 µs
    /// each. The near end's threads are pinned to CPU 0, the far end's to CPU 1, unless `cpus` are more.
    pub fn closed(threads: &[u32], workers: f64, cpus: u32) -> Run {
        let mut build = Build::echo(&["tcp:send"], &vec![64; threads.len()]);
        for (case, threads) in build.plan.cases.iter_mut().zip(threads) {
            (case.threads, case.connections) = (*threads, *threads);
        }
        build.plan.placement = Placement(vec![(0..cpus).step_by(2).collect(), (1..cpus.max(2)).step_by(2).collect()]);
        let mut run = build.run();
        run.header.host_mut(NEAR).cpus = (0..cpus.max(2)).collect();
        run.header.host_mut(FAR).cpus = run.header.host(NEAR).cpus.clone();
        let cases = run.header.plan.cases.clone();
        for round in &mut run.rounds {
            serve(round, &cases[round.case as usize], workers);
        }
        run
    }

    /// Makes a round that of a closed loop whose capacity is `workers` messages in 20 µs.
    pub fn serve(round: &mut msgpath_core::schema::RoundRecord, case: &Case, workers: f64) {
        let in_flight = msgpath_core::Plan::in_flight(case) as f64;
        let messages = 400;
        let service = 20_000.0;
        let served = workers.min(in_flight);
        let time = service * in_flight / served;
        let seed = u64::from(round.pass * 100 + round.case);
        round.latency = lognormal_rounds(seed, 1, messages as usize, time, 0.05, 0.02).remove(0);
        let mean = msgpath_stats::quantile::mean_ns(&[&round.latency]).expect("messages");
        let elapsed = (messages as f64 * mean / in_flight) as u64;
        let threads = u64::from(case.threads);
        let report = EndReport {
            delivery: Delivery { sent: messages / threads, received: messages / threads, ..Delivery::default() },
            elapsed_ns: elapsed,
            metered_ns: Some(elapsed),
            system_ns: (elapsed as f64 * served / workers.max(served) / threads as f64 * 0.98) as u64,
            ..EndReport::default()
        };
        for end in [NEAR, FAR] {
            let own = round.end_mut(end);
            own.report = EndReport {
                delivery: Delivery { sent: messages, received: messages, ..Delivery::default() },
                system_ns: report.system_ns * threads,
                metered_ns: Some(elapsed * threads),
                ..report
            };
            own.threads = (0..threads)
                .filter(|_| threads > 1)
                .map(|_| ThreadRecord { cpu: Some(end as u32), report, ..ThreadRecord::default() })
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::closed;
    use super::*;
    use crate::summarise;
    use crate::testing::Build;

    #[test]
    fn a_fixed_capacity_scales_to_itself_and_latency_is_depth_times_service() {
        let summary = summarise(&closed(&[1, 2, 8], 2.0, 32));
        let of = |at: usize| summary.cases[at].threads.as_ref().unwrap();
        assert_eq!((of(0).scaling.clone(), of(0).in_flight, of(2).in_flight), (None, 1, 8));
        let two = of(1).scaling.as_ref().unwrap();
        let eight = of(2).scaling.as_ref().unwrap();
        assert!((two.factor.value - 2.0).abs() < 0.05 && (eight.factor.value - 2.0).abs() < 0.05, "{two:?} {eight:?}");
        assert!((eight.efficiency.value - 0.25).abs() < 0.01 && eight.factor.low.unwrap() < eight.factor.value);
        assert!((eight.time_factor.as_ref().unwrap().value - 4.0).abs() < 0.1, "{eight:?}");
        let implied = of(2).implied.as_ref().unwrap();
        assert!((implied.value - 8.0).abs() < 0.01, "{implied:?}");
        assert_eq!(of(2).of(NEAR).len(), 8);
        assert!((of(2).of(NEAR)[3].share.as_ref().unwrap().value - 1.0).abs() < 1e-9);
    }

    #[test]
    fn more_threads_than_cpus_are_oversubscribed() {
        let summary = summarise(&closed(&[1, 2, 4], 2.0, 2));
        let of = |at: usize| summary.cases[at].threads.as_ref().unwrap().oversubscribed.clone();
        let end = "both ends, which share this machine".to_owned();
        assert_eq!(
            [of(0), of(1), of(2)],
            [
                None,
                Some(Oversubscribed { threads: 4, cpus: 2, end: end.clone() }),
                Some(Oversubscribed { threads: 8, cpus: 2, end }),
            ]
        );
    }

    #[test]
    fn cores_add_up_what_both_ends_spent() {
        let mut run = closed(&[1, 2], 1.0, 2);
        for round in &mut run.rounds {
            round.end_mut(FAR).threads.iter_mut().for_each(|thread| thread.cpu = Some(0));
        }
        let figures = summarise(&run).cases[1].threads.clone().unwrap();
        assert_eq!(figures.cores.len(), 1);
        let core = &figures.cores[0];
        let near: f64 = figures.of(NEAR).iter().map(|thread| thread.busy.as_ref().unwrap().value).sum();
        assert_eq!((core.cpu, core.threads, core.end.as_str()), (0, 4, ""));
        assert!((core.busy.as_ref().unwrap().value - 2.0 * near).abs() < 1e-6, "{core:?}");
        assert!((figures.busy_cpus.unwrap().value - 2.0 * near).abs() < 0.01);
    }

    #[test]
    fn one_of_everything_has_no_figures() {
        assert!(summarise(&Build::echo(&["tcp:send"], &[64]).run()).cases[0].threads.is_none());
    }

    #[test]
    fn arrangements_in_words() {
        let case = |connections, threads, dispatch, inflight| {
            arrangement(&Case {
                connections,
                threads,
                dispatch,
                inflight,
                ..Case::new("tcp:send".parse().unwrap(), msgpath_core::units::Pieces::whole(64))
            })
        };
        assert_eq!(case(1, 1, Dispatch::Turns, 1), "1 connection");
        assert_eq!(case(4, 4, Dispatch::Turns, 1), "4 connections, a thread each");
        assert_eq!(case(8, 2, Dispatch::Turns, 1), "8 connections, served in turn by 2 threads");
        assert_eq!(case(16, 1, Dispatch::EventLoop, 4), "16 connections in one event loop, 4 in flight on each");
        assert_eq!(case(16, 16, Dispatch::EventLoop, 1), "16 connections in 16 event loops");
    }
}
