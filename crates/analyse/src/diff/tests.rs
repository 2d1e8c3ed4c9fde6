//! Pairs of runs whose truth is known.

use super::*;
use crate::testing::Build;
use msgpath_core::Histogram;
use msgpath_core::schema::NEAR;
use msgpath_stats::simulate::normal;

/// A run of 25 rounds whose level follows an AR(1) with this correlation and spread, on the log.
fn drifting(seed: u64, factor: f64, correlation: f64, spread: f64) -> Run {
    let mut run = Build::echo(&["tcp:send"], &[64]).messages(1).run();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut level = spread * normal(&mut random);
    let mut histogram = Histogram::new();
    for round in &mut run.rounds {
        level = correlation * level + (1.0 - correlation * correlation).sqrt() * spread * normal(&mut random);
        histogram.clear();
        let center = 20_000.0 * factor * level.exp();
        (0..100).for_each(|_| histogram.record((center * (0.2 * normal(&mut random)).exp()) as u64));
        round.latency = histogram.to_sparse();
    }
    run
}

fn gates(texts: &[&str]) -> Vec<Gate> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Pairs of drifting runs of which the gate fails.
fn failing(pairs: u64, factor: f64, correlation: f64, spread: f64, gate: &str) -> usize {
    let gates = gates(&[gate]);
    let fails = |seed: &u64| {
        let (a, b) =
            (drifting(2 * seed, 1.0, correlation, spread), drifting(2 * seed + 1, factor, correlation, spread));
        let watched = |run: &Run| {
            let case = &run.header.plan.cases[0];
            level(&run.header.plan, &rounds(run, case), gates[0].watched, *seed)
        };
        let (case_a, case_b) = (&a.header.plan.cases[0], &b.header.plan.cases[0]);
        judge(&[(case_a, case_b)], &gates, LEAST_MARGIN, |_, _, _| [watched(&a), watched(&b)])[0].state
            == GateState::Failed
    };
    (0..pairs).filter(fails).count()
}

#[test]
fn a_tail_gate_rarely_fails_on_equal_runs_that_drift() {
    for (correlation, spread) in [(0.8, 0.05), (0.9, 0.15)] {
        let failed = failing(25, 1.0, correlation, spread, "p99 > +5%");
        assert!(failed <= 1, "correlation {correlation}, spread {spread}: {failed} of 25");
    }
}

#[test]
fn a_tail_gate_finds_a_regression_of_30_percent() {
    let found = failing(20, 1.3, 0.8, 0.05, "p99 > +5%");
    assert!(found >= 18, "{found} of 20");
}

/// Two runs of 40 rounds; the second one's case `zerocopy` is slower by `factor`.
fn pair(factor: f64) -> (Run, Run) {
    let build = |factor: f64| {
        let build = Build::echo(&["tcp:send", "tcp:zerocopy"], &[64]).control(64);
        build.factor(move |case| if case.path.method == "zerocopy" { factor } else { 1.0 })
    };
    let (a, mut other) = (build(1.0).run(), build(factor));
    other.plan.seed = 8;
    (a, other.run())
}

#[test]
fn the_order_of_two_runs_is_that_of_their_beginnings() {
    let (a, mut b) = pair(1.0);
    b.header.started = "2026-11-21T10:05:00Z".into();
    assert!(identity(&a, &b).iter().all(|one| one.what != ORDER));
    assert!(identity(&b, &a).iter().any(|one| one.what == ORDER && one.refuses));
}

#[test]
fn a_change_is_found_where_it_is() {
    let (a, b) = pair(1.3);
    let diff = diff(&a, &b, &gates(&["p99 > +5%", "p50 > 40us", "p50 > 22us", "loss > 0.1%"]));
    assert_eq!((diff.status, diff.identity.len(), diff.unpaired.len()), (Status::Ok, 0, 0), "{:?}", diff.identity);
    assert!(diff.a.resolution.unwrap() < 0.02 && diff.margin == LEAST_MARGIN);
    let verdicts: Vec<_> =
        diff.rows.iter().filter(|row| row.metric != "cpu").map(|row| (row.metric.as_str(), row.verdict)).collect();
    assert_eq!(
        verdicts,
        [("p50", Verdict::Equivalent), ("p99", Verdict::Equivalent), ("p50", Verdict::Worse), ("p99", Verdict::Worse)]
    );
    let p50 = &diff.rows[3];
    assert!((p50.ratio.unwrap() - 1.3).abs() < 0.03 && p50.low.unwrap() > 1.25 && p50.holm, "{p50:?}");
    let states: Vec<_> = diff.gates.iter().map(|gate| gate.state).collect();
    use GateState::{Failed, Passed};
    assert_eq!(states, [Passed, Failed, Passed, Passed, Passed, Failed, Passed, Passed], "{:#?}", diff.gates);
    assert_eq!(diff.gates_that(Failed)[0].case, "tcp:zerocopy 64 B");
    let text = serde_json::to_string(&diff).unwrap();
    let read: Diff = serde_json::from_str(&text).unwrap();
    assert_eq!((read.gates.len(), &read.rows[3].case, read.a), (8, &p50.case, diff.a));
}

#[test]
fn what_was_not_counted_is_undecided_with_its_reason() {
    let (a, mut b) = pair(1.0);
    // No CPU time was counted; the second run was interrupted after three rounds.
    b.rounds.retain(|round| round.pass < 3);
    let diff = diff(&a, &b, &gates(&["p99 > +5%", "cpu > +5%"]));
    assert!(diff.rows.iter().all(|row| row.verdict == Verdict::Undecided && row.ratio.is_none()));
    assert!(
        diff.rows[1].why.as_ref().unwrap().starts_with("in the second run an interval needs"),
        "{:?}",
        diff.rows[1]
    );
    assert!(diff.gates.iter().all(|gate| gate.state == GateState::Undecided && gate.why.is_some()));
    let cpu = &super::diff(&a, &a, &[]).rows[2];
    assert!(cpu.why.as_ref().unwrap().starts_with("in both runs the CPU time"), "{cpu:?}");
}

#[test]
fn a_tail_that_was_not_observed_fails_no_gate() {
    let short = |seed| {
        let mut build = Build::echo(&["tcp:send"], &[64]).messages(5);
        build.plan.seed = seed;
        build
    };
    let diff = diff(&short(1).run(), &short(2).factor(|_| 9.0).run(), &gates(&["p99 > +5%"]));
    assert_eq!(diff.gates[0].state, GateState::Undecided);
    assert!(diff.gates[0].why.as_ref().unwrap().contains("p99 is not known yet: "), "{:?}", diff.gates[0]);
}

#[test]
fn losses_and_throughput_have_gates() {
    let (a, mut b) = pair(1.0);
    for round in b.rounds.iter_mut().filter(|round| round.case == 1) {
        round.near_mut().delivery.lost = 3 + u64::from(round.pass % 3);
    }
    let judged = diff(&a, &b, &gates(&["loss > 0.1%", "loss > 3%"])).gates;
    let states: Vec<_> = judged.iter().map(|gate| gate.state).collect();
    assert_eq!(states, [GateState::Passed, GateState::Failed, GateState::Passed, GateState::Passed], "{judged:#?}");
    let stream = |bits: f64| {
        let noisy = move |_, pass: u32| bits * (1.0 + 0.01 * f64::from(pass * 7 % 5));
        Build::stream(&["tcp:send"], &[1 << 20]).rates(noisy).run()
    };
    let judged = |now: f64| {
        let diff = diff(&stream(1e9), &stream(now), &gates(&["throughput < -3%", "throughput < 940M"]));
        assert_eq!((diff.rows[0].metric.as_str(), diff.rows[0].unit.as_str()), ("throughput", "bit/s"));
        (diff.rows[0].verdict, diff.gates.iter().map(|gate| gate.state).collect::<Vec<_>>())
    };
    assert_eq!(judged(0.9e9), (Verdict::Worse, vec![GateState::Failed, GateState::Failed]));
    assert_eq!(judged(1.2e9), (Verdict::Better, vec![GateState::Passed, GateState::Passed]));
}

#[test]
fn a_limit_below_the_resolution_is_no_regression() {
    let (a, b) = pair(1.012);
    let judged = diff(&a, &b, &gates(&["p50 > +0.1%"])).gates;
    assert_ne!(judged[1].state, GateState::Failed, "{judged:#?}");
    // An improvement that was demanded and did not come.
    let judged = diff(&a, &b, &gates(&["p50 > -20%"])).gates;
    assert_eq!(judged[0].state, GateState::Failed, "{judged:#?}");
}

#[test]
fn runs_of_other_machines_and_plans_are_told_apart() {
    let (a, b) = pair(1.0);
    assert!(diff(&a, &b, &[]).refusals().is_empty());
    let refused = |change: &dyn Fn(&mut Run)| {
        let mut other = b.clone();
        change(&mut other);
        let diff = diff(&a, &other, &[]);
        diff.refusals().iter().map(|difference| format!("{} {}", difference.end, difference.what)).collect::<Vec<_>>()
    };
    let fact = |run: &mut Run, name: &str, value: &str| {
        for end in &mut run.header.hosts {
            end.facts.insert(name.into(), value.into());
        }
    };
    assert_eq!(refused(&|run| run.header.host_mut(NEAR).kernel = "7.0".into()), ["near kernel"]);
    assert_eq!(refused(&|run| run.header.plan.options.nodelay = false), [" options.nodelay"]);
    assert_eq!(refused(&|run| run.header.plan.working_set = 1), [" working set"]);
    assert_eq!(refused(&|run| run.header.started = "2026-11-23T10:00:01Z".into()), [" day"]);
    let moved = |run: &mut Run| {
        for end in &mut run.header.hosts {
            (end.host, end.boot_id) = ("other".into(), "two".into());
        }
    };
    assert_eq!(refused(&moved), ["both host"]);
    // A container's new name on the same boot, another program and another moment refuse nothing.
    let free = |run: &mut Run| {
        run.header.host_mut(NEAR).host = "container".into();
        run.header.version = "0.2.0".into();
        fact(run, "binary", "abc");
        fact(run, "loadavg", "3.1");
    };
    assert!(refused(&free).is_empty());
    let mut first = a.clone();
    fact(&mut first, "tcp_rmem", "1 2 3");
    fact(&mut first, "binary", "abc");
    let mut second = b.clone();
    fact(&mut second, "tcp_rmem", "1 2 4");
    fact(&mut second, "binary", "def");
    let diff = diff(&first, &second, &[]);
    let seen: Vec<_> = diff.identity.iter().map(|one| (one.what.as_str(), one.end.as_str(), one.refuses)).collect();
    assert_eq!(seen, [("tcp_rmem", "both", true), ("binary", "both", false)]);
    assert_eq!(diff.b.binary.as_deref(), Some("def"));
}

#[test]
fn cases_without_a_counterpart_are_named() {
    let a = Build::echo(&["tcp:send"], &[64, 4096]).run();
    let b = Build::echo(&["tcp:send", "udp:send"], &[64]).run();
    let diff = diff(&a, &b, &[]);
    assert_eq!(diff.unpaired, ["tcp:send 4 KiB (only in brisk-otter)", "udp:send 64 B (only in brisk-otter)"]);
    assert_eq!(diff.rows.len(), 3);
}
