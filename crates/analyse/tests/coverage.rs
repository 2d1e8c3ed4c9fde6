//! A seeded part of `benches/coverage.md`: the intervals hold the truth as often as they say, and equal paths are rarely
//! called different. Bounds allow for the noise of few runs (about 3 standard errors below 95 %).

#[path = "../examples/coverage/beginnings.rs"]
mod beginnings;
#[path = "../examples/coverage/experiments.rs"]
mod experiments;
#[path = "../examples/coverage/processes.rs"]
mod processes;

use experiments::{
    Coverage, Curves, Jumping, Noise, Setup, crossing, false_alarms, jumping, next_run, paired_ratio, quantiles,
    stream, tail_ratio, three_percent,
};
use processes::Process;

const PAIR: Setup = Setup { paths: 2, sizes: 1, rounds: 40, noise: Noise::Normal, deviation: 0.05 };

#[track_caller]
fn holds(coverage: &Coverage, claimed: f64, share: f64) {
    let enough = f64::from(coverage.claimed) >= claimed * f64::from(coverage.runs);
    let text = format!("{} of {} in {} runs", coverage.covered, coverage.claimed, coverage.runs);
    assert!(enough && coverage.share() >= share, "{text}");
}

/// Six processes pooled: a single one would need more runs.
#[test]
fn quantiles_of_dependent_messages() {
    let mut sums = [(0, 0); 3];
    for process in Process::ALL {
        for ((claimed, covered), coverage) in sums.iter_mut().zip(quantiles(process, 10_000, 20)) {
            *claimed += coverage.claimed;
            *covered += coverage.covered;
            // 20 runs of a true 90 % are 14 at least, but for 1 in 400.
            let held = coverage.covered + (20 - coverage.claimed) >= 14;
            assert!(held, "{}: {} of {}", process.name(), coverage.covered, coverage.claimed);
        }
    }
    for ((claimed, covered), least) in sums.into_iter().zip([100, 50, 5]) {
        assert!(claimed >= least && f64::from(covered) >= 0.88 * f64::from(claimed), "{covered} of {claimed}");
    }
}

#[test]
fn paired_ratios() {
    let normal = paired_ratio(PAIR, 80);
    holds(&normal, 1.0, 0.88);
    // From 3.2 % of 2 t s / sqrt(40).
    assert!((normal.width().unwrap() - 1.032).abs() < 0.004, "{:?}", normal.width());
    assert_eq!(normal.open, 0);
    holds(&paired_ratio(Setup { noise: Noise::Heavy, rounds: 14, ..PAIR }, 80), 1.0, 0.88);
    holds(&paired_ratio(Setup { noise: Noise::Drifting(0.5), ..PAIR }, 60), 1.0, 0.8);
}

#[test]
fn tails() {
    let slower = tail_ratio(Setup { rounds: 20, ..PAIR }, Process::Rounds, 400, true, 40);
    holds(&slower.ratio, 0.9, 0.85);
    assert!(slower.decided > 0 && slower.decided <= slower.stands && slower.stands < 40, "{slower:?}");
    let same = tail_ratio(Setup { paths: 3, rounds: 20, ..PAIR }, Process::Rounds, 400, false, 20);
    assert!(same.ratio.claimed >= 18 && same.stands <= 4, "{same:?}");
}

#[test]
fn throughput() {
    holds(&stream(10, 0.1, false, 300), 1.0, 0.91);
    holds(&stream(40, 0.1, true, 300), 1.0, 0.91);
}

#[test]
fn crossings() {
    let straight = crossing(Curves::Straight, 14, 0.05, 20);
    holds(&straight.first, 0.9, 0.8);
    assert!(straight.wrong <= 2, "{straight:?}");
    let curved = crossing(Curves::FixedAndPerByte, 14, 0.1, 20);
    holds(&curved.second, 0.5, 0.8);
    // The second phase narrows what the first left wide.
    assert!(curved.second.width() < curved.first.width());
    // Curves that are almost parallel are not said to cross in the wrong direction.
    assert!(crossing(Curves::AlmostParallel, 14, 0.05, 10).wrong <= 1);
}

#[test]
fn rounds_speak_of_the_state_that_they_settle_in() {
    let found = beginnings::beginnings(100_000_000, 4);
    assert!((80.0..=250.0).contains(&found.found_ms) && found.rounds <= 40.0, "{}", found.found_ms);
    assert!((0.97..1.03).contains(&found.shift[0]) && found.settled.covered >= 2, "{:?}", found.shift);
    assert!(found.shift[1] < 0.95 && found.whole.covered == 0, "{:?}", found.shift);
    let late = beginnings::beginnings(500_000_000, 4);
    assert!((400.0..=1_000.0).contains(&late.found_ms) && late.settled.covered >= 2, "{}", late.found_ms);
}

#[test]
fn equal_paths_are_not_told_apart() {
    let alarms = false_alarms(Setup { paths: 3, sizes: 3, rounds: 12, ..PAIR }, 80);
    // 5 % of 80 and two standard errors.
    assert!(alarms.stands <= 8 && alarms.any <= 8 && alarms.control <= 8, "{alarms:?}");
    assert!(
        alarms.any >= alarms.ratios.max(alarms.winners).max(alarms.standings).max(alarms.crossings)
            && alarms.runs == 80
    );
}

#[test]
fn three_percent_is_found() {
    let found = three_percent(Setup { deviation: 0.03, ..PAIR }, 50);
    // 3 % is 6.3 standard errors.
    assert!(found.stands >= 47 && found.runs == 50, "{found:?}");
    assert!(found.wrong == 0 && found.worse_in_two >= found.worse, "{found:?}");
}

#[test]
fn ranges_span_the_levels_and_runs_predict_the_next() {
    let machine = Jumping { every: Some(5.0), levels: 0.2, runs: 0.0, messages: 100, heavy: false };
    let found = jumping(machine, 40);
    let holds: u32 = found.all().iter().map(|[all, _]| all.covered).sum();
    assert!(found.levels[0].claimed > 0 && holds >= 34, "{found:?}");
    let runs_differ = Jumping { every: None, levels: 0.0, runs: 0.15, messages: 50, heavy: false };
    let [own, between] = next_run(runs_differ, 5, 40);
    assert!(own.share() < 0.4 && between.share() >= 0.85, "{own:?} {between:?}");
}

/// Rounds that go together are worth fewer than they are: when they counted in full, 84 % of these intervals held the truth.
#[test]
fn intervals_of_rounds_that_go_together_are_wide_enough() {
    let machine = Jumping { every: Some(2.0), levels: 0.2, runs: 0.0, messages: 100, heavy: false };
    holds(&jumping(machine, 200).intervals[0], 0.4, 0.9);
    // Few and long levels: the range is that of the levels seen, whatever its name.
    let found = jumping(Jumping { every: Some(10.0), ..machine }, 60);
    let seen: u32 = found.all().iter().map(|[_, seen]| seen.covered).sum();
    assert!(seen >= 57 && found.intervals[0].claimed <= 6, "{found:?}");
    // Independent rounds are not widened: 1.006 with 200 messages.
    let steady = jumping(Jumping { every: None, levels: 0.0, ..machine }, 60);
    holds(&steady.intervals[0], 0.95, 0.88);
    assert!(steady.intervals[0].width().unwrap() < 1.012, "{steady:?}");
}
