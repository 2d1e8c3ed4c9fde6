//! The one number per round that comparisons are made of, by pass.

use msgpath_core::carried::Carried;
use msgpath_core::plan::{Case, Load, Metric, Plan};
use msgpath_core::program::Source;
use msgpath_core::schedule::{Arrivals, Rate};
use msgpath_core::schema::{EndReport, RoundRecord};
use msgpath_stats::paired::Series;

use crate::cost::handled;

/// The end that receives a stream.
pub fn receiver<'a>(plan: &Plan, round: &'a RoundRecord) -> &'a EndReport {
    if plan.reverse { round.near() } else { round.far() }
}

/// The end that sends a stream.
pub fn sender<'a>(plan: &Plan, round: &'a RoundRecord) -> &'a EndReport {
    if plan.reverse { round.far() } else { round.near() }
}

/// Events per second from a count and a time in ns; `None` where either is 0.
pub fn per_second(count: f64, elapsed_ns: u64) -> Option<f64> {
    (elapsed_ns > 0 && count > 0.0).then(|| count * 1e9 / elapsed_ns as f64)
}

/// The metric of one round:
///
/// * p50: its median, ns;
/// * p99: none, a round has no tail of its own ([`msgpath_stats::tails`]);
/// * mean: of its messages, ns; of a stream, its time by its messages. A lost message is infinitely slow, so a
///   round that lost one has no mean;
/// * CPU: user and system time of all threads of both ends (calls: of the client; a server reports nothing) by the messages that were sent, ns;
/// * throughput: payload bits per second that came through ([`Carried`]).
pub fn metric(plan: &Plan, metric: Metric, round: &RoundRecord) -> Option<f64> {
    let value = match metric {
        Metric::P50 => round.latency.quantile(0.5).flatten().map(|ns| ns as f64),
        Metric::P99 => None,
        Metric::Mean if plan.workload.timed => round.latency.mean().filter(|_| round.latency.lost() == 0),
        Metric::Mean => {
            let whole = receiver(plan, round).delivery.received >= sender(plan, round).delivery.sent;
            Carried::of(plan, round).messages_per_s().filter(|_| whole).map(|rate| 1e9 / rate)
        }
        Metric::Cpu => {
            if plan.workload.is_echoed() && far_is_unseen(plan, round) {
                return None;
            }
            let cpu = |end: &EndReport| (end.user_ns + end.system_ns) as f64;
            Some((cpu(round.near()) + cpu(round.far())) / handled(round.near()).max(handled(round.far())) as f64)
        }
        Metric::Throughput => Carried::of(plan, round).bits_per_s(),
    };
    value.filter(|value| value.is_finite() && *value > 0.0)
}

/// Whether nothing is known of the CPU time of the far end: a program of others that ran already.
fn far_is_unseen(plan: &Plan, round: &RoundRecord) -> bool {
    let program = plan.cases.get(round.case as usize).and_then(|case| plan.program_of(case));
    program.is_some_and(|program| matches!(program.source, Source::Address(_) | Source::Socket(_)))
}

/// [`metric`] of each of the rounds that has one. No mean of a case of which a round lost a message: leaving out just
/// that round would leave out what was slow.
pub fn series(plan: &Plan, of: Metric, rounds: &[&RoundRecord]) -> Series {
    let own: Series = rounds.iter().filter_map(|round| Some((round.pass, metric(plan, of, round)?))).collect();
    if of == Metric::Mean && own.len() < rounds.len() { Series::new() } else { own }
}

/// Whether two cases differ in nothing but the path.
pub fn same_cell(a: &Case, b: &Case) -> bool {
    cell(a) == cell(b)
}

/// What two cases must share to be compared; orders cells by size, pieces, then threads. The stage is part of it, since
/// stages have no pass in common.
pub(crate) type Cell = (u64, u32, u64, u32, u32, u32, Option<(Rate, bool)>, u32, Option<String>);

pub(crate) fn cell(case: &Case) -> Cell {
    let load = match case.load {
        Load::Closed => None,
        Load::Open { rate, arrivals } => Some((rate, arrivals == Arrivals::Constant)),
    };
    let threads = case.threads;
    let label = case.label.clone();
    (case.size, case.pieces.count, case.reply, threads, case.connections, case.inflight, load, case.phase, label)
}

/// A seed for one pair of cases.
pub fn seed(plan: &Plan, case: &Case, base: &Case) -> u64 {
    plan.seed ^ (u64::from(case.id) << 32 | u64::from(base.id)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A seed for drawing the passes again: the same for all cases of a phase.
pub(crate) fn redraw_seed(plan: &Plan, case: &Case) -> u64 {
    plan.seed ^ (0x7a11 + u64::from(case.phase)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    fn of(build: &Build, which: Metric, change: impl Fn(&mut RoundRecord)) -> Series {
        let mut run = build.run();
        run.rounds.iter_mut().for_each(change);
        series(&build.plan, which, &run.rounds.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_metric_is_what_its_name_says() {
        let echo = Build::echo(&["tcp:send"], &[1000]).rounds(3);
        let p50 = of(&echo, Metric::P50, |_| ());
        let mean = of(&echo, Metric::Mean, |_| ());
        assert!(p50.len() == 3 && (p50[&0] / 20_000.0 - 1.0).abs() < 0.05 && (mean[&0] / p50[&0] - 1.0).abs() < 0.05);
        assert!(of(&echo, Metric::P99, |_| ()).is_empty());
        // 200 messages; both ends, user and system.
        let cpu = of(&echo, Metric::Cpu, |round| {
            (
                round.near_mut().user_ns,
                round.near_mut().system_ns,
                round.far_mut().user_ns,
                round.far_mut().system_ns,
            ) = (1_000, 2_000, 3_000, 4_000);
        });
        assert_eq!(cpu.values().copied().collect::<Vec<_>>(), [50.0; 3]);
        assert!(of(&echo, Metric::Cpu, |_| ()).is_empty(), "CPU time that was not counted is not 0");
        let stream = Build::stream(&["tcp:send"], &[1000]).rounds(3).rates(|_, _| 8e9);
        assert!((of(&stream, Metric::Throughput, |_| ())[&1] / 8e9 - 1.0).abs() < 1e-3);
        // 1,000 B at 1 GB/s: 1 µs a message.
        assert!((of(&stream, Metric::Mean, |_| ())[&1] / 1_000.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_case_that_lost_a_message_has_no_mean() {
        let echo = Build::echo(&["udp:send"], &[64]).rounds(5);
        let lossy = |round: &mut RoundRecord| {
            if round.pass == 2 {
                let mut histogram = msgpath_core::Histogram::new();
                histogram.record_n(1_000, 10);
                histogram.record_lost(1);
                round.latency = histogram.to_sparse();
            }
        };
        assert_eq!((of(&echo, Metric::Mean, lossy).len(), of(&echo, Metric::P50, lossy).len()), (0, 5));
    }

    #[test]
    fn rates_and_stages_are_cells_of_their_own() {
        let case = Build::echo(&["tcp:send"], &[64]).plan.cases[0].clone();
        let open = |rate| {
            let rate = Rate::per_second(rate).unwrap();
            Case { load: Load::Open { rate, arrivals: Arrivals::Poisson }, ..case.clone() }
        };
        assert!(same_cell(&case, &case) && same_cell(&open(10.0), &open(10.0)));
        assert!(!same_cell(&open(10.0), &open(20.0)) && !same_cell(&open(10.0), &case));
        assert!(!same_cell(&case, &Case { phase: 1, ..case.clone() }));
    }
}
