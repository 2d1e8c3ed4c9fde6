//! W41: an end could not run
//!
//! ## What it says
//!
//! * **The hypervisor** ran something else on the CPUs of this virtual machine: in how many rounds, for how long.
//! * **A CPU quota** of the control group, or of one above it, stopped an end: how often, for how long, in how many rounds, what the quota is and
//!   whose.
//! * **It did not run for a while** (the server, the client, or neither): for how long at the longest, in how many rounds, and how many messages
//!   were lost in them.
//!
//! Of hypervisor and quota also whether those rounds are the slow ones.
//!
//! ## What it is computed from
//!
//! Steal of `/proc/stat` before and after each round, in ticks of 10 ms, all CPUs together. A round counts from two ticks and 1 % of its time on,
//! where the kernel tells it CPU by CPU only those of the measuring threads; both ends of one machine are told once. `nr_throttled` and
//! `throttled_usec` of `cpu.stat` of the group of the ends and of every group above it, around each round, in cgroup version 1
//! (`throttled_time`) and 2; the quota is the least of these groups when the run began. A stop: the session of an end looks after its round at
//! least four times a second, beside the threads that measure, and `unattended_ns` of its report is the longest time between two looks; a second
//! or more is no delay of a scheduler. Pauses of both ends of one machine in the same rounds are one event.
//!
//! Whether these rounds are the slow ones: the median of each round against that of its case, and the share of its messages that are as slow as
//! the p99 of the case or slower, rounds under the condition against the others. It is stated where the rank correlation over rounds stands (p
//! below 0.01, with fewer rounds counted where neighbours resemble each other) and both halves of the run agree; else the sentence says that it is
//! not shown.
//!
//! ## When it stays silent
//!
//! Where fewer than one round in 20 lost time to the hypervisor, or the kernel does not count steal; where the group was never stopped, whatever
//! its limit, or the counters could not be read; where both ends looked in time; for programs of others at the far end (`--server`), after which
//! nobody looks so.
//!
//! ## What to do
//!
//! A machine with CPUs of its own. Stolen rounds stay in the result, beside the calm ones, whose numbers are the headline
//! ([principle 6](docs/principles.md)); paths compared in one run share the theft. Raise `cpu.max`, measure outside of the group, or use fewer
//! threads and waits that sleep: a thread that spins uses up the quota without sending anything. Find out who stopped an end (SIGSTOP, a
//! debugger, a frozen cgroup, a suspended machine), and measure again.

use msgpath_core::schema::RoundRecord;
use msgpath_core::units::Glyphs;

use super::conditions::{End, contrast, machines, measured_rounds, of_rounds, one_machine};
use super::wording::warning;
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W41", detect };

/// USER_HZ is 100 on Linux: a tick of `/proc/stat` is 10 ms.
const TICK_NS: f64 = 10e6;
/// Fewer flagged rounds than this share of all do not change what the numbers mean.
const ROUNDS: f64 = 0.05;

fn detect(input: &Input) -> Vec<Sentence> {
    machines(input).iter().filter_map(|end| say(input, end)).collect()
}

/// Ticks stolen from all CPUs of a machine while the round ran.
fn ticks(end: &End, round: &RoundRecord) -> Option<u64> {
    let counted = end.grew(round, "stat.steal");
    if end.key == "near" { round.steal_ticks.max(counted) } else { counted }
}

fn say(input: &Input, end: &End) -> Option<Sentence> {
    let rounds = measured_rounds(input);
    let stolen = |round: &RoundRecord| {
        let [near, far] = input.calm.disturbed(round);
        (near.stolen && end.key == "near") || (far.stolen && (end.key == "far" || one_machine(input)))
    };
    let flagged: Vec<&RoundRecord> = rounds.iter().copied().filter(|round| stolen(round)).collect();
    if flagged.is_empty() || (flagged.len() as f64) < ROUNDS * rounds.len() as f64 {
        return None;
    }
    let sum = |of: &dyn Fn(&RoundRecord) -> f64| flagged.iter().map(|round| of(round)).sum::<f64>();
    let time = sum(&|round| ticks(end, round).unwrap_or(0) as f64 * TICK_NS);
    let lasted = sum(&|round| end.watched_ns(round));
    let contrast = contrast(input, &rounds, |round| stolen(round));
    Some(warning(
        "W41",
        format!(
            "the hypervisor took CPU time from {} in {}: {} of all its CPUs together while these rounds lasted {}; {}",
            end.name,
            of_rounds(flagged.len(), rounds.len()),
            Glyphs::Unicode.time(time),
            Glyphs::Unicode.time(lasted),
            contrast.clause
        ),
        "stolen time looks like slow messages of the program; the rounds stay in the result",
        "a machine with CPUs of its own, or compare paths in one run: all of them share the theft",
        [
            ("stolen_rounds", flagged.len() as f64),
            ("rounds", rounds.len() as f64),
            ("stolen_ns", time),
            ("lasted_ns", lasted),
            ("level_ratio", contrast.level),
            ("slow_share_stolen", contrast.slow_with),
            ("slow_share_others", contrast.slow_without),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences, slow_down, stalls};
    use msgpath_core::schema::FAR;

    fn run(every: usize, ticks: u64) -> msgpath_record::Run {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        for (at, round) in run.rounds.iter_mut().enumerate() {
            round.steal_ticks = Some(if at % every == 0 { ticks } else { 0 });
        }
        run
    }

    #[test]
    fn speaks_of_stolen_time_and_of_slow_messages_in_it() {
        let mut run = run(4, 2);
        let texts = sentences(&run, &super::DETECTOR);
        assert_eq!(
            texts,
            [
                "the hypervisor took CPU time from this machine in 10 of 40 rounds: 200 ms of all its CPUs together while these rounds lasted 400 ms; that they are the slow ones is not shown"
            ]
        );
        run.rounds.iter_mut().step_by(4).for_each(|round| stalls(round, 8, 3_000_000));
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].contains("% of their messages are as slow as the p99 of their case or slower, 1 % in the other"),
            "{texts:?}"
        );
        assert!(!texts[0].contains("p50 is"), "{texts:?}");
        slow_down(&mut run, 1.2, |at| at % 4 == 0);
        assert!(sentences(&run, &super::DETECTOR)[0].contains("p50 is 2"), "{:?}", sentences(&run, &super::DETECTOR));
    }

    #[test]
    fn two_machines_are_told_apart() {
        let mut run = run(4, 0);
        run.header.host_mut(FAR).boot_id = "two".into();
        run.rounds.iter_mut().for_each(|round| {
            round.end_mut(FAR).kernel.0.insert("stat.steal".into(), 3);
        });
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts.len() == 1 && texts[0].contains("from the far end in 40 of 40 rounds: 1.20 s"), "{texts:?}");
        assert!(texts[0].ends_with("too few other rounds to say whether these are the slow ones"), "{texts:?}");
    }

    #[test]
    fn is_silent_without_steal_or_with_a_single_tick() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
        assert!(sentences(&run(4, 1), &super::DETECTOR).is_empty());
        assert!(sentences(&run(40, 2), &super::DETECTOR).is_empty());
    }
}
