//! What is printed about an open loop, held against queueing theory (docs/method/open-loop.md#known-answers).

use msgpath_core::SparseHistogram;
use msgpath_core::plan::ServiceTime;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::quantile::{estimate_queued, mean_ns};

use crate::open_loop::open_loop;
use crate::summarise;
use crate::summary::{OpenLoop, Summary};
use crate::testing_queue::{Queue, run};

/// Runs of which an interval must hold the truth in at least [`LEAST`] of 100.
const RUNS: u64 = 200;
const LEAST: u32 = 93;

/// The intervals of p50 and p99 over many runs. The quantile is claimed in most of them, and of those that are claimed so
/// many hold `truth(p)`. Returns the mean of all runs.
fn covers(queue: impl Fn(u64) -> Queue, truth: impl Fn(f64) -> f64) -> f64 {
    let mut counts = [(0.5, 0, 0), (0.99, 0, 0)];
    let mut means = 0.0;
    for seed in 0..RUNS {
        let rounds = queue(10_000 + seed).records(0);
        let latency: Vec<_> = rounds.iter().map(|round| &round.latency).collect();
        let pooled = Pooled::new(&latency);
        means += mean_ns(&latency).unwrap() / RUNS as f64;
        for (p, claimed, covered) in &mut counts {
            let quantile = estimate_queued(&latency, &pooled, *p).unwrap().quantile;
            if quantile.is_interval() {
                *claimed += 1;
                let truth = truth(*p);
                let holds =
                    quantile.lo_ns.unwrap() as f64 <= truth && quantile.hi_ns.is_none_or(|hi| truth <= hi as f64);
                *covered += u32::from(holds);
            }
        }
    }
    println!("{:?}: p, claimed, covered {counts:?}", queue(0));
    for (p, claimed, covered) in counts {
        assert!(claimed >= 100 && 100 * covered >= LEAST * claimed, "p {p}: {covered} of {claimed}");
    }
    means
}

/// Time in the system of M/M/1 with service of 1 µs: exponential with mean 1 / (mu - lambda).
fn mm1(utilisation: f64, p: f64) -> f64 {
    -(1.0 - p).ln() * 1_000.0 / (1.0 - utilisation)
}

/// Time in the system of M/D/1 with service of 1 µs: the waiting time is Erlang's sum (Tijms 2003, 9.2)
/// P(W <= x) = (1 - rho) sum_{k <= x} (rho (k - x))^k / k! exp(rho (x - k)), x in services.
fn md1(utilisation: f64, p: f64) -> f64 {
    let waits_at_most = |x: f64| {
        let term = |k: f64| {
            let z = utilisation * (k - x);
            (1..=k as u32).fold(1.0, |product, i| product * z / f64::from(i)) * (-z).exp()
        };
        (1.0 - utilisation) * (0..=x as u32).map(|k| term(f64::from(k))).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if waits_at_most(middle) < p { low = middle } else { high = middle }
    }
    1_000.0 * (1.0 + high)
}

#[test]
fn intervals_hold_the_truth_of_mm1_at_half_its_capacity() {
    let mean = covers(|seed| Queue { rounds: 20, ..Queue::mm1(0.5, 600, 100, seed) }, |p| mm1(0.5, p));
    assert!((mean / 2_000.0 - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn intervals_hold_the_truth_of_mm1_at_four_fifths() {
    let mean = covers(|seed| Queue { rounds: 20, ..Queue::mm1(0.8, 1_500, 150, seed) }, |p| mm1(0.8, p));
    assert!((mean / 5_000.0 - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn intervals_hold_the_truth_of_md1() {
    let mean = covers(|seed| Queue { rounds: 20, ..Queue::md1(0.5, 500, 100, seed) }, |p| md1(0.5, p));
    // 1 / mu + rho / (2 mu (1 - rho))
    assert!((mean / 1_500.0 - 1.0).abs() < 0.01, "{mean}");
    let mean = covers(|seed| Queue { rounds: 20, ..Queue::md1(0.8, 1_000, 100, seed) }, |p| md1(0.8, p));
    assert!((mean / 3_000.0 - 1.0).abs() < 0.01, "{mean}");
}

/// Without the times from the actual send, which nobody asks for here.
fn open(queue: Queue) -> OpenLoop {
    let mut rounds = queue.records(0);
    rounds.iter_mut().for_each(|round| round.service = SparseHistogram::default());
    open_loop(&queue.case(), &rounds.iter().collect::<Vec<_>>()).unwrap()
}

#[test]
fn an_overload_is_never_called_sustained_and_its_backlog_grows_as_it_must() {
    let mut covered = 0;
    for seed in 0..100 {
        let queue = Queue { rounds: 20, ..Queue::mm1(1.1, 600, 100, seed) };
        let open = open(queue);
        let growth = open.backlog_per_s.clone().unwrap();
        assert!(open.overloaded().unwrap().contains("the backlog grows by"), "{seed}: {growth:?}");
        assert!((growth.value / 1e5 - 1.0).abs() < 0.5, "{seed}: {growth:?}");
        covered += u32::from(growth.low.unwrap() <= 1e5 && 1e5 <= growth.high.unwrap());
    }
    assert!(covered >= 90, "{covered} of 100");
}

#[test]
fn short_rounds_find_an_overload_together() {
    for seed in 0..30 {
        assert_eq!(open(Queue::mm1(1.3, 60, 100, seed)).sustained, Some(false), "{seed}");
        let few = Queue { rounds: 3, ..Queue::mm1(1.3, 3_000, 100, seed) };
        assert_eq!(open(few).sustained, Some(false), "{seed}: few rounds");
    }
}

#[test]
fn nine_tenths_of_the_capacity_are_sustained() {
    let verdicts: Vec<Option<bool>> =
        (0..100).map(|seed| open(Queue { rounds: 20, ..Queue::mm1(0.9, 800, 100, seed) }).sustained).collect();
    let of = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    assert!(of(Some(true)) >= 95 && of(Some(false)) == 0, "{verdicts:?}");
}

#[test]
fn a_far_end_that_stops_for_a_second_is_seen_in_p99_and_in_a_closed_loop_by_time() {
    // 40 rounds of 1.5 s at 1,000/s, service 0.25 ms; one second of them the far end stands still.
    let queue = Queue {
        rate: 1_000.0,
        service_time: ServiceTime { mean_ns: 250_000, ..Queue::mm1(0.5, 0, 0, 0).service_time },
        stall: Some((17, 200_000_000, 1_000_000_000)),
        ..Queue::mm1(0.25, 1_500, 50, 8)
    };
    let summary = summarise(&run(&[queue]));
    let case = &summary.cases[0];
    assert_eq!(case.open.as_ref().unwrap().sustained, Some(true), "one stall is not an overload");
    // 1,000 messages wait 1 s down to 0.25 s, each behind those that came before it: 600 of 60,000 longer than 0.55 s.
    let p99 = &case.latency.quantiles[2];
    assert!((p99.ns.unwrap() as f64 / 0.55e9 - 1.0).abs() < 0.05, "{p99:?}");
    assert_eq!((p99.is_interval(), p99.bursts), (false, 1), "one episode is not a tail");
    let time_weighted = |summary: &Summary| summary.findings.iter().find(|finding| finding.code == "V08").cloned();
    assert!(time_weighted(&summary).is_none() && case.spread.time_share_over_10x.is_none());
    // The closed loop has one slow message in 240,000, and its p99 knows nothing.
    let summary = summarise(&queue.closed());
    let case = &summary.cases[0];
    assert!(
        case.messages > 200_000 && case.latency.quantiles[2].ns.unwrap() < 2_000_000,
        "{:?}",
        case.latency.quantiles[2]
    );
    let text = time_weighted(&summary).unwrap().text;
    assert!(
        text.starts_with("0.000") && text.contains(" took 1.7 % of the time. They lie in 1 of 40 rounds"),
        "{text}"
    );
    let calm = Queue { stall: None, rounds: 10, ..queue };
    assert!(time_weighted(&summarise(&calm.closed())).is_none());
}
