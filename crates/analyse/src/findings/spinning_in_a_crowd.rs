//! Of W28: a wait spins where CPUs are short.

use msgpath_core::doctor::CheckState;
use msgpath_core::schema::RoundRecord;

use super::conditions::{End, check, ends, machines};
use super::one_core::shared_cpus;
use super::spinning::spinning_crowds;
use super::wording::{list, measured, percent, warning};
use super::{Detector, Input, Sentence};
use crate::summary::CaseSummary;

pub(super) const DETECTOR: Detector = Detector { code: "W28", detect };

/// A thread that spins never sleeps, so it waits for a CPU only while another task has it.
const WAITING: f64 = 0.05;

/// The measured cases whose receiver spins, in the program or in the kernel.
pub(super) fn spinning<'a>(input: &Input<'a>) -> Vec<&'a CaseSummary> {
    let spins = |case: &&CaseSummary| case.case.traits.never_sleeps() && case.rounds > 0;
    measured(input).filter(spins).collect()
}

fn detect(input: &Input) -> Vec<Sentence> {
    let cases = spinning(input);
    // Where the run's own threads are too many, that is said, and explains the waiting.
    if cases.is_empty() || !spinning_crowds(input).is_empty() || shared_cpus(input).is_some() {
        return Vec::new();
    }
    let mut seen = Vec::new();
    for end in machines(input) {
        if let Some(check) = check(input, 8, &end, CheckState::Stop) {
            seen.push(format!("before the run doctor saw on {}: {}", end.name, check.what));
        }
    }
    let waited = ends(input)
        .iter()
        .filter(|end| receives(input, end))
        .filter_map(|end| waiting(input, end, &cases))
        .fold(f64::NAN, f64::max);
    if waited >= WAITING {
        seen.push(format!("the spinning threads waited {} % of their time for a CPU", percent(waited)));
    }
    if seen.is_empty() {
        return Vec::new();
    }
    let mut paths: Vec<String> = cases.iter().map(|case| case.case.path.to_string()).collect();
    paths.dedup();
    let spin = if paths.len() == 1 { "spins" } else { "spin" };
    vec![warning(
        "W28",
        format!("{} {spin} where CPUs are short: {}", list(&paths), seen.join("; ")),
        "a thread that spins uses up its slice and is then set aside for others, often for milliseconds: on a busy machine it is slower than one that sleeps",
        "a wait that sleeps (block, epoll, futex), or CPUs that nothing else uses (--cpu, isolcpus)",
        [("waiting_share", waited), ("paths", paths.len() as f64)],
    )]
}

/// Whether this end waits for messages.
fn receives(input: &Input, end: &End) -> bool {
    input.plan.workload.timed || (end.key == "near") == input.plan.reverse
}

/// Share of the time of an end's spinning threads that they were runnable and did not run. Busy polling sleeps between
/// its bursts, so its waiting proves nothing.
fn waiting(input: &Input, end: &End, cases: &[&CaseSummary]) -> Option<f64> {
    let spin = cases.iter().filter(|case| case.case.path.wait == "spin");
    let rounds: Vec<&RoundRecord> = spin.flat_map(|case| input.all[case.case.id as usize].iter().copied()).collect();
    let shares = rounds.iter().map(|round| end.seen(round).waiting_share()).collect::<Option<Vec<f64>>>()?;
    (!shares.is_empty()).then(|| msgpath_stats::describe::mean(&shares))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, doctor, sentences};
    use msgpath_core::doctor::CheckState;
    use msgpath_core::schema::{FAR, NEAR};

    fn run(path: &str, waited_ns: u64) -> msgpath_record::Run {
        let mut run = Build::echo(&[path], &[64]).run();
        for round in &mut run.rounds {
            (round.near_mut().run_delay_ns, round.far_mut().run_delay_ns) = (Some(0), Some(waited_ns));
        }
        run
    }

    #[test]
    fn speaks_of_waiting_threads_and_of_what_doctor_saw() {
        assert_eq!(
            sentences(&run("shm:ring/spin", 12_400_000), &super::DETECTOR),
            ["shm:ring/spin spins where CPUs are short: the spinning threads waited 31 % of their time for a CPU"]
        );
        let mut run = run("tcp:send/busy-poll", 0);
        run.header.doctor = Some(doctor(&[(8, "near", CheckState::Stop, "5 runnable tasks on 2 CPUs")]));
        assert_eq!(
            sentences(&run, &super::DETECTOR),
            [
                "tcp:send/busy-poll spins where CPUs are short: before the run doctor saw on this machine: 5 runnable tasks on 2 CPUs"
            ]
        );
    }

    #[test]
    fn is_silent_where_nobody_spins_or_nobody_is_in_the_way() {
        assert!(sentences(&run("tcp:send", 12_400_000), &super::DETECTOR).is_empty());
        assert!(sentences(&run("shm:ring/spin", 400_000), &super::DETECTOR).is_empty());
        let mut warned = run("shm:ring/spin", 0);
        warned.header.doctor = Some(doctor(&[(8, "near", CheckState::Warn, "load 1.2")]));
        assert!(sentences(&warned, &super::DETECTOR).is_empty());
    }

    #[test]
    fn the_runs_own_threads_are_left_to_w28() {
        let mut run = run("shm:ring/spin", 20_000_000);
        (run.header.host_mut(NEAR).cpus, run.header.host_mut(FAR).cpus) = (vec![0], vec![0]);
        assert!(sentences(&run, &super::DETECTOR).is_empty());
        assert_eq!(sentences(&run, &crate::findings::spinning::DETECTOR).len(), 1);
    }
}
