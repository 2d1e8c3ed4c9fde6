//! W46: other work shared the CPUs of the run (method.md, trap 65).

use std::collections::BTreeMap;

use msgpath_core::doctor::CheckState;
use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;

use super::conditions::{End, check, contrast, ends, lasted_ns, machines, measured_rounds, of_rounds};
use super::one_core::shared_cpus;
use super::spinning::crowds;
use super::wording::{measured, percent, warning};
use super::{Detector, Input, Said};
use crate::stats::percentile;

pub(super) const DETECTOR: Detector = Detector { code: "W46", detect };

/// A pinned thread that nobody disturbs is taken off its CPU some ten times a second, by kernel threads.
const PREEMPTED_PER_S: f64 = 100.0;
/// A thread waits for its CPU after every wake-up, for as long as an idle CPU takes to get going. A wait of a scheduler's
/// slice is another matter.
const SLICE_NS: f64 = 200_000.0;
/// A share of its time that a thread may wait for a CPU, beyond that of the quiet rounds.
const WAITING: f64 = 0.1;
/// The same where `doctor` saw that CPUs were short before the run.
const WAITING_IN_A_CROWD: f64 = 0.05;
/// Fewer rounds than this share do not change what the numbers mean.
const ROUNDS: f64 = 0.1;
/// And fewer than this are an accident.
const FEWEST: usize = 3;

fn detect(input: &Input) -> Vec<Said> {
    // Where the run's own threads are in each other's way, there is another sentence for it.
    let threads = measured(input).map(|case| case.case.threads as usize).max().unwrap_or(0);
    if shared_cpus(input).is_some() || !crowds(input, threads, threads).is_empty() {
        return Vec::new();
    }
    say(input).into_iter().collect()
}

/// Share of the time of an end's threads that they were runnable and did not run.
fn waiting(input: &Input, end: &End, round: &RoundRecord) -> Option<f64> {
    let report = end.report(round);
    let time = report.elapsed_ns as f64 * f64::from(input.plan.cases[round.case as usize].threads);
    report.run_delay_ns.filter(|_| time > 0.0).map(|delay| delay as f64 / time)
}

/// What an end's threads wait in the quietest quarter of a case's rounds: wake-ups, not neighbours.
fn quiet(input: &Input, end: &End) -> BTreeMap<u32, f64> {
    let of = |own: &Vec<&RoundRecord>| {
        let mut shares: Vec<f64> = own.iter().filter_map(|round| waiting(input, end, round)).collect();
        (!shares.is_empty()).then(|| (own[0].case, percentile(&mut shares, 0.25)))
    };
    input.rounds.iter().filter_map(of).collect()
}

fn disturbed(input: &Input, end: &End, quiet: &BTreeMap<u32, f64>, crowd: bool, round: &RoundRecord) -> bool {
    let report = end.report(round);
    let threads = f64::from(input.plan.cases[round.case as usize].threads);
    let off = report.involuntary_switches as f64;
    // Threads that are not pinned may take the CPU from each other.
    let preempted =
        !end.pinned.is_empty() && off >= 2.0 && off > PREEMPTED_PER_S * threads * report.elapsed_ns as f64 / 1e9;
    let Some(share) = waiting(input, end, round) else { return preempted };
    let switches = (report.voluntary_switches + report.involuntary_switches).max(1) as f64;
    let slices = share >= WAITING && report.run_delay_ns.unwrap_or(0) as f64 / switches >= SLICE_NS;
    let usual = quiet.get(&round.case).copied().unwrap_or(0.0);
    let more = share >= usual + WAITING && share >= 3.0 * usual;
    preempted || slices || more || (crowd && share >= WAITING_IN_A_CROWD)
}

fn say(input: &Input) -> Option<Said> {
    let rounds = measured_rounds(input);
    let watched: Vec<_> = ends(input)
        .into_iter()
        .map(|end| (end, quiet(input, &end), check(input, 8, &end, CheckState::Warn).is_some()))
        .collect();
    let is =
        |round: &RoundRecord| watched.iter().any(|(end, quiet, crowd)| disturbed(input, end, quiet, *crowd, round));
    let some: Vec<&RoundRecord> = rounds.iter().copied().filter(|round| is(round)).collect();
    if some.len() < FEWEST || (some.len() as f64) < ROUNDS * rounds.len() as f64 {
        return None;
    }
    let mean_waiting = |end: &End| {
        let shares: Vec<f64> = some.iter().filter_map(|round| waiting(input, end, round)).collect();
        if shares.is_empty() { f64::NAN } else { crate::stats::mean(&shares) }
    };
    // NaN loses in `max`: an end whose wait is not known does not hide the other's.
    let waited = watched.iter().map(|(end, ..)| mean_waiting(end)).fold(f64::NAN, f64::max);
    let off: u64 = some.iter().map(|round| round.near.involuntary_switches + round.far.involuntary_switches).sum();
    let lasted: f64 = some.iter().map(|round| lasted_ns(round)).sum();
    let pressure = machines(input)
        .iter()
        .filter_map(|end| some.iter().map(|round| end.grew(round, "pressure.cpu.some_usec")).sum::<Option<u64>>())
        .map(|usec| usec as f64 * 1e3 / lasted)
        .fold(f64::NAN, f64::max);
    let mut parts = Vec::new();
    if waited >= 0.01 {
        parts.push(format!("waited {} % of their time for a CPU", percent(waited)));
    }
    if off > 0 {
        parts.push(format!("were taken off it {} times", Glyphs::Unicode.thousands(off)));
    }
    if parts.is_empty() {
        parts.push("waited for a CPU".into());
    }
    let mut text = format!(
        "other work shared the CPUs: in {} the measuring threads {}",
        of_rounds(some.len(), rounds.len()),
        parts.join(" and ")
    );
    if pressure >= 0.01 {
        text.push_str(&format!(" (pressure on the CPUs {} % of the time)", percent(pressure.min(1.0))));
    }
    let contrast = contrast(input, &rounds, is);
    Some(warning(
        "W46",
        format!("{text}; {}", contrast.clause),
        "the time that others run appears as this program's slow messages",
        "stop the other work, or take CPUs that nobody uses: --cpu (msgpath doctor says what is quiet)",
        [
            ("disturbed_rounds", some.len() as f64),
            ("rounds", rounds.len() as f64),
            ("waiting_share", waited),
            ("involuntary_switches", off as f64),
            ("cpu_pressure_share", pressure),
            ("level_ratio", contrast.level),
            ("slow_share_disturbed", contrast.slow_with),
            ("slow_share_others", contrast.slow_without),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, doctor, said, stalls};
    use msgpath_core::doctor::CheckState;
    use msgpath_core::schema::RoundRecord;

    /// Rounds of 40 ms with 200 wake-ups; each costs 5 µs of waiting (2.5 %).
    fn run(change: impl Fn(usize, &mut RoundRecord)) -> msgpath_record::Run {
        let mut build = Build::echo(&["tcp:send"], &[64]);
        (build.plan.placement.near, build.plan.placement.far) = (vec![0], vec![1]);
        let mut run = build.run();
        run.header.near_counters = vec!["pressure.cpu.some_usec".into()];
        for (at, round) in run.rounds.iter_mut().enumerate() {
            for end in [&mut round.near, &mut round.far] {
                (end.voluntary_switches, end.run_delay_ns) = (200, Some(1_000_000));
            }
            change(at, round);
        }
        run
    }

    #[test]
    fn speaks_of_waiting_and_of_what_it_did() {
        let run = run(|at, round| {
            if at % 4 == 0 {
                round.far.run_delay_ns = Some(9_000_000);
                round.far.involuntary_switches = 7;
                round.near_kernel.0.insert("pressure.cpu.some_usec".into(), 8_000);
                stalls(round, 4, 2_000_000);
            }
        });
        let texts = said(&run, "W46");
        assert!(
            texts[0].starts_with(
                "other work shared the CPUs: in 10 of 40 rounds the measuring threads waited 22 % of their time for a CPU and were taken off it 70 times (pressure on the CPUs 20 % of the time); "
            ),
            "{texts:?}"
        );
        assert!(texts[0].contains("% of their messages are as slow as the p99"), "{texts:?}");
    }

    #[test]
    fn speaks_where_every_round_is_disturbed() {
        let preempted = run(|_, round| round.near.involuntary_switches = 20);
        assert!(said(&preempted, "W46")[0].contains("in 40 of 40 rounds"), "{:?}", said(&preempted, "W46"));
        let mut crowd = run(|_, round| round.near.run_delay_ns = Some(3_000_000));
        assert!(said(&crowd, "W46").is_empty());
        crowd.header.doctor = Some(doctor(&[(8, "near", CheckState::Stop, "5 runnable tasks on 2 CPUs")]));
        assert_eq!(said(&crowd, "W46").len(), 1);
    }

    #[test]
    fn waking_up_is_not_a_neighbour() {
        assert!(said(&run(|_, _| ()), "W46").is_empty());
        // A virtual machine whose idle CPUs take long to get going, in every round.
        assert!(said(&run(|_, round| round.near.run_delay_ns = Some(12_000_000)), "W46").is_empty());
        // A kernel thread now and then.
        assert!(said(&run(|at, round| round.near.involuntary_switches = u64::from(at % 3 == 0) * 3), "W46").is_empty());
    }

    #[test]
    fn threads_of_the_run_itself_are_not_neighbours() {
        let mut run = run(|_, round| round.near.involuntary_switches = 100);
        run.header.plan.placement.far = vec![0];
        assert!(said(&run, "W46").is_empty());
    }
}
