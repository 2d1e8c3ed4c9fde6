//! W41: an end could not run
//!
//! * **The hypervisor** took the CPUs: in how many rounds, for how long.
//! * **A CPU quota** of the control group, or of one above, stopped an end: how often, how long, whose quota.
//! * **An end did not run for a while**: how long at most, in how many rounds, messages lost in them.
//!
//! Of the first two also whether those rounds are the slow ones.
//!
//! ## What it rests on
//!
//! * **Hypervisor**: steal in `/proc/stat` around each round, in ticks of 10 ms, of the measuring CPUs where the kernel
//!   tells them apart. A round counts from two ticks and 1 % of its time on; it speaks from 1 round in 20 on.
//! * **Quota**: `nr_throttled` and `throttled_usec` (version 1: `throttled_time`) of `cpu.stat` of the group and all
//!   above it.
//! * **Standing still**: `unattended_ns`, the longest time between two looks of an end's session, from 1 s on. Not for
//!   servers of others.
//! * **Slow rounds**: a rank correlation with the rounds' medians (p below 0.01), in both halves.
//!
//! ## What to do
//!
//! A machine with CPUs of its own; stolen rounds stay out of the headline ([principle 6](docs/principles.md)). Raise
//! `cpu.max`, use fewer threads, or waits that sleep: spinning uses up the quota. Find out who stopped an end: SIGSTOP,
//! a debugger, a frozen cgroup, a suspended machine.

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
