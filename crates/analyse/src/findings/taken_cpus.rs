//! W192: CPUs were taken away during the run
//!
//! Which CPUs an end might use at the begin and not later, in how many rounds, and whether threads were pinned to them.
//!
//! ## What it rests on
//!
//! sched_getaffinity of each end after every round, against that of its start (`taken.cpu1`).
//!
//! ## What to do
//!
//! See who narrows the control group (`cpuset.cpus`), runs `taskset -p` or takes a CPU offline, and measure again.

use std::collections::BTreeSet;

use msgpath_core::schema::RoundRecord;

use super::conditions::{End, ends, measured_rounds, of_rounds, one_machine};
use super::wording::{list, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W192", detect };

/// CPUs that an end could not use in a round.
fn taken(end: &End, round: &RoundRecord) -> BTreeSet<u32> {
    let names = end.seen(round).kernel.0.keys();
    names.filter_map(|name| name.strip_prefix("taken.cpu")?.parse().ok()).collect()
}

fn detect(input: &Input) -> Vec<Sentence> {
    let rounds = measured_rounds(input);
    let [near, far] = ends(input);
    let of_end = |end: &End| -> Vec<BTreeSet<u32>> { rounds.iter().map(|round| taken(end, round)).collect() };
    let (of_near, of_far) = (of_end(&near), of_end(&far));
    // What is taken from both at once is one event.
    if one_machine(input) && of_near == of_far {
        let pinned: Vec<u32> = [near.pinned, far.pinned].concat();
        return say("both ends", &pinned, &of_near).into_iter().collect();
    }
    let all = [(near, of_near), (far, of_far)];
    all.iter().filter_map(|(end, taken)| say(end.name, end.pinned, taken)).collect()
}

fn say(name: &str, pinned: &[u32], taken: &[BTreeSet<u32>]) -> Option<Sentence> {
    let cpus: BTreeSet<u32> = taken.iter().flatten().copied().collect();
    let rounds = taken.iter().filter(|cpus| !cpus.is_empty()).count();
    if cpus.is_empty() {
        return None;
    }
    let named: Vec<String> = cpus.iter().map(|cpu| format!("CPU {cpu}")).collect();
    let moved = cpus.iter().any(|cpu| pinned.contains(cpu));
    let moved_text = if moved { "; threads that were pinned there ran elsewhere" } else { "" };
    let rounds_text = of_rounds(rounds, taken.len());
    Some(warning(
        "W192",
        format!("{} could not be used by {name} any more, in {rounds_text}{moved_text}", list(&named)),
        "a cpuset was made narrower, or a CPU went offline: rounds before and after are of two machines",
        "see who changed cpuset.cpus or the CPUs, and measure again",
        [
            ("cpus", cpus.len() as f64),
            ("taken_rounds", rounds as f64),
            ("rounds", taken.len() as f64),
            ("moved", f64::from(u8::from(moved))),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::{FAR, NEAR};

    #[test]
    fn taken_cpus_and_moved_threads_are_named() {
        let mut run = Build::echo(&["tcp:send"], &[64]).run();
        run.header.plan.placement.set(FAR, vec![1]);
        let take = |run: &mut msgpath_record::Run, ends: &[usize]| {
            for round in run.rounds.iter_mut().skip(10) {
                for end in ends {
                    round.end_mut(*end).kernel.0.insert("taken.cpu1".into(), 1);
                }
            }
        };
        take(&mut run, &[FAR]);
        assert_eq!(
            sentences(&run, &super::DETECTOR),
            [
                "CPU 1 could not be used by the far end any more, in 30 of 40 rounds; threads that were pinned there ran elsewhere"
            ]
        );
        take(&mut run, &[NEAR]);
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts.len() == 1 && texts[0].contains("by both ends any more"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_all_cpus_stayed() {
        assert!(sentences(&Build::echo(&["tcp:send"], &[64]).run(), &super::DETECTOR).is_empty());
    }
}
